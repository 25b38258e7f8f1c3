#include "backends/package/safetensors.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/json_reader.h"
#include "common/json_text.h"
#include "common/status.h"

namespace framefuse {
namespace {

constexpr std::pair<c10::ScalarType, const char*> kDtypes[] = {
    {c10::ScalarType::Double, "F64"},
    {c10::ScalarType::Float, "F32"},
    {c10::ScalarType::Half, "F16"},
    {c10::ScalarType::BFloat16, "BF16"},
    {c10::ScalarType::Long, "I64"},
    {c10::ScalarType::Int, "I32"},
    {c10::ScalarType::Short, "I16"},
    {c10::ScalarType::Char, "I8"},
    {c10::ScalarType::Byte, "U8"},
    {c10::ScalarType::UInt16, "U16"},
    {c10::ScalarType::UInt32, "U32"},
    {c10::ScalarType::UInt64, "U64"},
    {c10::ScalarType::Bool, "BOOL"},
    {c10::ScalarType::ComplexFloat, "C64"},
    {c10::ScalarType::Float8_e4m3fn, "F8_E4M3"},
    {c10::ScalarType::Float8_e5m2, "F8_E5M2"},
};

const char* NameOf(c10::ScalarType dtype) {
  for (const auto& [type, name] : kDtypes) {
    if (type == dtype) return name;
  }
  return nullptr;
}

absl::Status Bad(std::string_view name, std::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("tensor ", std::string(name), " ", std::string(what)));
}

absl::StatusOr<std::vector<std::int64_t>> Numbers(const JsonValue* list, std::string_view name) {
  std::vector<std::int64_t> numbers;
  if (list == nullptr || list->kind != JsonValue::Kind::kList) return Bad(name, "lacks a list of numbers");
  for (const JsonValue& item : list->items) {
    if (item.kind != JsonValue::Kind::kInteger || item.number < 0) return Bad(name, "has a size that is none");
    numbers.push_back(item.number);
  }
  return numbers;
}

absl::StatusOr<StoredTensor> ReadTensor(const std::string& name, const JsonValue& value) {
  StoredTensor tensor;
  tensor.name = name;
  const JsonValue* dtype = value.Find("dtype");
  const auto* known = std::find_if(std::begin(kDtypes), std::end(kDtypes),
                                   [&](const auto& row) { return dtype != nullptr && dtype->text == row.second; });
  if (known == std::end(kDtypes)) return Bad(name, "has an unknown dtype");
  tensor.dtype = known->first;
  FF_ASSIGN_OR_RETURN(tensor.sizes, Numbers(value.Find("shape"), name));
  FF_ASSIGN_OR_RETURN(const std::vector<std::int64_t> place, Numbers(value.Find("data_offsets"), name));
  if (place.size() != 2) return Bad(name, "has no place");
  tensor.begin = static_cast<std::uint64_t>(place[0]);
  tensor.end = static_cast<std::uint64_t>(place[1]);
  std::int64_t bytes = static_cast<std::int64_t>(c10::elementSize(tensor.dtype));
  for (const std::int64_t size : tensor.sizes) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) return Bad(name, "is too large");
  }
  if (tensor.end < tensor.begin || tensor.end - tensor.begin != static_cast<std::uint64_t>(bytes)) {
    return Bad(name, "has a place that does not fit its sizes");
  }
  return tensor;
}

}  // namespace

bool HasSafetensorsForm(c10::ScalarType dtype) { return NameOf(dtype) != nullptr; }

std::string PrintHeader(const SafetensorsHeader& header) {
  JsonObject texts;
  for (const auto& [name, text] : header.texts) texts.Text(name, text);
  JsonObject all;
  all.Json("__metadata__", texts.Done());
  for (const StoredTensor& tensor : header.tensors) {
    std::vector<std::string> sizes;
    for (const std::int64_t size : tensor.sizes) sizes.push_back(absl::StrCat(size));
    JsonObject facts;
    facts.Text("dtype", NameOf(tensor.dtype))
        .Json("shape", JsonList(sizes))
        .Json("data_offsets", JsonList({absl::StrCat(tensor.begin), absl::StrCat(tensor.end)}));
    all.Json(tensor.name, facts.Done());
  }
  return all.Done();
}

absl::StatusOr<SafetensorsHeader> ReadHeader(std::string_view json, std::uint64_t data_bytes) {
  FF_ASSIGN_OR_RETURN(const JsonValue all, ReadJson(json));
  SafetensorsHeader header;
  for (const auto& [name, value] : all.members) {
    if (name == "__metadata__") {
      for (const auto& [key, text] : value.members) header.texts.emplace_back(key, text.text);
      continue;
    }
    FF_ASSIGN_OR_RETURN(StoredTensor tensor, ReadTensor(name, value));
    header.tensors.push_back(std::move(tensor));
  }
  std::stable_sort(header.tensors.begin(), header.tensors.end(),
                   [](const StoredTensor& a, const StoredTensor& b) { return a.begin < b.begin; });
  std::uint64_t at = 0;
  for (const StoredTensor& tensor : header.tensors) {
    if (tensor.begin != at) return Bad(tensor.name, "does not begin where the one before it ends");
    at = tensor.end;
  }
  if (at != data_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("the tensors take ", at, " bytes of ", data_bytes));
  }
  return header;
}

}  // namespace framefuse
