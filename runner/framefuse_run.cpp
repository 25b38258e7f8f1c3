#include "runner/framefuse_run.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>

#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/package/loaded_package.h"
#include "common/status.h"

struct framefuse_package {
  std::shared_ptr<const framefuse::LoadedPackage> loaded;
  std::string signature;
};

struct framefuse_results {
  std::vector<at::Tensor> tensors;
  std::vector<framefuse_tensor> shown;
};

namespace {

constexpr std::pair<framefuse_dtype, c10::ScalarType> kDtypes[] = {
    {FRAMEFUSE_F32, c10::ScalarType::Float},        {FRAMEFUSE_F64, c10::ScalarType::Double},
    {FRAMEFUSE_F16, c10::ScalarType::Half},         {FRAMEFUSE_BF16, c10::ScalarType::BFloat16},
    {FRAMEFUSE_I64, c10::ScalarType::Long},         {FRAMEFUSE_I32, c10::ScalarType::Int},
    {FRAMEFUSE_I16, c10::ScalarType::Short},        {FRAMEFUSE_I8, c10::ScalarType::Char},
    {FRAMEFUSE_U8, c10::ScalarType::Byte},          {FRAMEFUSE_BOOL, c10::ScalarType::Bool},
    {FRAMEFUSE_C64, c10::ScalarType::ComplexFloat},
};

std::string& LastError() {
  thread_local std::string text;
  return text;
}

std::nullptr_t Fail(std::string why) {
  LastError() = std::move(why);
  return nullptr;
}

// What `body` returns; null with the error set where it throws.
template <typename F>
auto Guarded(F&& body) noexcept -> decltype(body()) {
  try {
    return body();
  } catch (const std::exception& e) {
    return Fail(e.what());
  } catch (...) {
    return Fail("an exception of unknown type");
  }
}

framefuse_dtype NameOf(c10::ScalarType type) {
  for (const auto& [name, own] : kDtypes) {
    if (own == type) return name;
  }
  return FRAMEFUSE_OTHER;
}

absl::StatusOr<at::Tensor> TensorOf(const framefuse_tensor& given, const std::string& name) {
  const auto bad = [&](const char* what) { return absl::InvalidArgumentError(absl::StrCat(name, ": ", what)); };
  const auto* known =
      std::find_if(std::begin(kDtypes), std::end(kDtypes), [&](const auto& row) { return row.first == given.dtype; });
  if (known == std::end(kDtypes)) return bad("its dtype is none that can be given");
  if (given.rank < 0 || (given.rank > 0 && given.sizes == nullptr)) return bad("it has no sizes");
  const at::IntArrayRef sizes(given.sizes, static_cast<std::size_t>(given.rank));
  bool empty = false;
  for (const std::int64_t size : sizes) {
    if (size < 0) return bad("a size is negative");
    empty = empty || size == 0;
  }
  if (given.data == nullptr && !empty) return bad("it has no memory");
  const c10::Device device =
      given.gpu < 0 ? c10::Device(c10::kCPU) : c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(given.gpu));
  const at::TensorOptions options = at::TensorOptions().dtype(known->second).device(device);
  if (given.strides == nullptr) return at::from_blob(given.data, sizes, options);
  const at::IntArrayRef strides(given.strides, static_cast<std::size_t>(given.rank));
  for (const std::int64_t stride : strides) {
    if (stride < 0) return bad("a stride is negative");
  }
  return at::from_blob(given.data, sizes, strides, options);
}

framefuse_tensor Shown(const at::Tensor& t) {
  framefuse_tensor shown{};
  shown.data = const_cast<void*>(t.const_data_ptr());
  shown.dtype = NameOf(t.scalar_type());
  shown.rank = static_cast<std::int32_t>(t.dim());
  shown.sizes = t.sizes().data();
  shown.strides = t.strides().data();
  shown.gpu = t.is_cuda() ? t.device().index() : -1;
  return shown;
}

framefuse_results* Run(const framefuse::LoadedPackage& package, const framefuse_tensor* arguments, std::size_t count) {
  if (count != package.argument_count()) {
    return Fail(absl::StrCat("the package takes ", package.argument_count(), " tensors, ", count, " were given"));
  }
  std::vector<at::Tensor> tensors;
  for (std::size_t i = 0; i < count; ++i) {
    absl::StatusOr<at::Tensor> tensor = TensorOf(arguments[i], package.argument_name(i));
    if (!tensor.ok()) return Fail(framefuse::MessageOf(tensor.status()));
    tensors.push_back(*std::move(tensor));
  }
  absl::StatusOr<std::vector<at::Tensor>> made = package.Run(tensors);
  if (!made.ok()) return Fail(framefuse::MessageOf(made.status()));
  auto results = std::make_unique<framefuse_results>();
  for (at::Tensor& t : *made) {
    // Views of another element (a conjugate) become elements.
    results->tensors.push_back(t.resolve_conj().resolve_neg());
    results->shown.push_back(Shown(results->tensors.back()));
  }
  return results.release();
}

}  // namespace

framefuse_package* framefuse_load(const char* path, const char* sha256) {
  return Guarded([&]() -> framefuse_package* {
    if (path == nullptr) return Fail("no path was given");
    auto loaded = framefuse::LoadedPackage::Load(path, sha256 == nullptr ? "" : sha256);
    if (!loaded.ok()) return Fail(framefuse::MessageOf(loaded.status()));
    return new framefuse_package{*loaded, (*loaded)->Signature()};
  });
}

void framefuse_free(framefuse_package* package) { delete package; }

int32_t framefuse_argument_count(const framefuse_package* package) {
  return static_cast<int32_t>(package->loaded->argument_count());
}

int32_t framefuse_result_count(const framefuse_package* package) {
  return static_cast<int32_t>(package->loaded->result_count());
}

const char* framefuse_argument_name(const framefuse_package* package, int32_t argument) {
  const auto i = static_cast<std::size_t>(argument);
  if (argument < 0 || i >= package->loaded->argument_count()) return Fail("there is no such argument");
  return package->loaded->argument_name(i).c_str();
}

const char* framefuse_signature(const framefuse_package* package) { return package->signature.c_str(); }

framefuse_results* framefuse_run(const framefuse_package* package, const framefuse_tensor* arguments,
                                 int32_t argument_count) {
  return Guarded([&]() -> framefuse_results* {
    if (package == nullptr || argument_count < 0) return Fail("no package was given");
    return Run(*package->loaded, arguments, static_cast<std::size_t>(argument_count));
  });
}

const framefuse_tensor* framefuse_result(const framefuse_results* results, int32_t result) {
  const auto i = static_cast<std::size_t>(result);
  if (results == nullptr || result < 0 || i >= results->shown.size()) return Fail("there is no such result");
  return &results->shown[i];
}

void framefuse_free_results(framefuse_results* results) { delete results; }

const char* framefuse_last_error() { return LastError().c_str(); }
