#include "guards/leaf/distinct.h"

#include <bit>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "frame_eval/versions/frame_ops.h"

namespace framefuse {
namespace {

PyObject* Resolve(const DistinctObject& object, PyObject* const* values) {
  PyObject* value = values[object.source];
  return value != nullptr && object.attributes ? frame_ops::RawInstanceDict(value) : value;
}

std::uint64_t Hash(PyObject* object) {
  return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(object)) * 0x9e3779b97f4a7c15u;
}

}  // namespace

bool DistinctChecker::Check(const DistinctObjects& group, PyObject* const* values) {
  const std::size_t slots = std::bit_ceil(2 * group.written.size() + 1);
  const int shift = 64 - std::countr_zero(slots);
  table_.assign(slots, nullptr);
  // Nearly every object that is only read differs in these bits from all that are written: most look no further.
  std::uint64_t seen = 0;
  const auto place_of = [&](PyObject* object, std::uint64_t hash) {
    std::size_t place = hash >> shift;
    while (table_[place] != nullptr && table_[place] != object) place = (place + 1) & (slots - 1);
    return place;
  };
  for (const DistinctObject& written : group.written) {
    PyObject* const object = Resolve(written, values);
    if (object == nullptr) continue;
    const std::uint64_t hash = Hash(object);
    PyObject*& place = table_[place_of(object, hash)];
    if (place == object) return false;
    place = object;
    seen |= std::uint64_t{1} << (hash & 63);
  }
  for (const DistinctObject& other : group.others) {
    PyObject* const object = Resolve(other, values);
    const std::uint64_t hash = Hash(object);
    if ((seen >> (hash & 63) & 1) != 0 && object != nullptr && table_[place_of(object, hash)] == object) return false;
  }
  return true;
}

std::optional<std::pair<DistinctObject, DistinctObject>> DistinctChecker::FindCoinciding(const DistinctObjects& group,
                                                                                         PyObject* const* values) {
  absl::flat_hash_map<PyObject*, DistinctObject> written;
  for (const DistinctObject& object : group.written) {
    PyObject* const value = Resolve(object, values);
    if (value == nullptr) continue;
    const auto [known, added] = written.try_emplace(value, object);
    if (!added) return std::make_pair(object, known->second);
  }
  for (const DistinctObject& object : group.others) {
    const auto known = written.find(Resolve(object, values));
    if (known != written.end()) return std::make_pair(object, known->second);
  }
  return std::nullopt;
}

}  // namespace framefuse
