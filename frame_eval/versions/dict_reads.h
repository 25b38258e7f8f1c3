// dict_reads: the facts about dicts that guards ask on every call, besides what frame_ops offers.
// Kept inline (version, where an instance has its dict) or to one call (key kinds) because a guard check reads hundreds
// of dicts in microseconds. Invariant: version tags are unique over all dicts and all times of an interpreter; equal
// tags mean equal contents.
#ifndef FRAMEFUSE_FRAME_EVAL_VERSIONS_DICT_READS_H_
#define FRAMEFUSE_FRAME_EVAL_VERSIONS_DICT_READS_H_

#include <Python.h>

#include <cstdint>

namespace framefuse::frame_ops {

// 0: it has no version that tells its changes. From 3.14 on dicts have none.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // 3.12 deprecates the field, and still keeps it right
#if PY_VERSION_HEX >= 0x030D0000
// A dict may share the values that lie in its object. A store to an attribute then goes past the dict: neither does its
// version change nor do watchers hear of it (3.13.0).
inline constexpr int kEmbeddedValuesFlag = 2;
inline bool SharesItsObjectsValues(PyObject* dict) {
  const PyDictValues* values = reinterpret_cast<PyDictObject*>(dict)->ma_values;
  return values != nullptr && reinterpret_cast<const std::uint8_t*>(values)[kEmbeddedValuesFlag] != 0;
}
#endif
// Any change of a dict draws a new version from one counter.
inline constexpr bool kVersionsTellAllChanges = PY_VERSION_HEX < 0x030D0000;
inline constexpr bool kDictsHaveVersions = PY_VERSION_HEX < 0x030E0000;
#if PY_VERSION_HEX >= 0x030E0000
inline std::uint64_t InlineDictVersion(PyObject*) { return 0; }
#else
inline std::uint64_t InlineDictVersion(PyObject* dict) {
#if PY_VERSION_HEX >= 0x030D0000
  constexpr std::uint64_t kOtherUses = 0xFFF;  // the lowest bits tell who watches the dict, and count changes
  if (SharesItsObjectsValues(dict)) return 0;
#elif PY_VERSION_HEX >= 0x030C0000
  constexpr std::uint64_t kOtherUses = 0xFF;
#else
  constexpr std::uint64_t kOtherUses = 0;
#endif
  return reinterpret_cast<PyDictObject*>(dict)->ma_version_tag & ~kOtherUses;
}
#endif
#pragma GCC diagnostic pop

// The __dict__ of an instance whose type has Py_TPFLAGS_MANAGED_DICT; null where it is not materialised.
inline PyObject* InlineManagedDict(PyObject* object) {
  PyObject* const dict = reinterpret_cast<PyObject**>(object)[-3];
#if PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < 0x030D0000
  if ((reinterpret_cast<std::uintptr_t>(dict) & 1) != 0) return nullptr;  // inline values
#endif
  return dict;
}

// Every key is an exact str: a look-up of an exact str cannot call __eq__ of a user's type.
bool HasOnlyStringKeys(PyObject* dict);

}  // namespace framefuse::frame_ops

#endif  // FRAMEFUSE_FRAME_EVAL_VERSIONS_DICT_READS_H_
