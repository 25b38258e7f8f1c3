// dict_lookup: reading a dict's entry the way Python would, without ever running __hash__ or __eq__ of a user type.
// A dict whose keys are all str is probed by hash; any other is scanned, comparing immutables by value and the rest
// by identity.
// Invariant: kFound and kAbsent are what dict.__getitem__ would find; where that depends on user code: kUnknown.
#ifndef FRAMEFUSE_GUARDS_DICT_LOOKUP_H_
#define FRAMEFUSE_GUARDS_DICT_LOOKUP_H_

#include <cstdint>

#include "guards/held.h"

namespace framefuse {

enum class Lookup : std::uint8_t { kFound, kAbsent, kUnknown };

struct DictKey {
  enum class Mode : std::uint8_t {
    kString,     // exact str
    kImmutable,  // found by value
    kIdentity,   // found by identity; its hash and equality are object's
    kOpaque,     // found by identity; its absence cannot be told
  };
  Held key;
  Py_hash_t hash = -1;
  Mode mode = Mode::kOpaque;
  mutable Py_ssize_t hint = 0;  // where a scan found it last

  DictKey() = default;
  explicit DictKey(BorrowedRef object);
};

// `dict` is a dict or an instance of a subclass, whose own storage is read. Sets no error.
Lookup FindInDict(BorrowedRef dict, const DictKey& key, PyObject** value);

}  // namespace framefuse

#endif  // FRAMEFUSE_GUARDS_DICT_LOOKUP_H_
