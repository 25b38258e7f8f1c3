// Symbolic integers that are keys of a dict and not pinned (symbolic/protocols/symbolic_keys.h): a guard tells each
// from the other keys. Invariant: whatever looks for another key, or puts one there, pins those that are there first.
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_KEPT_KEYS_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_KEPT_KEYS_H_

#include "frame_eval/ref.h"
#include "symbolic/journals/read_journal.h"

namespace framefuse {

inline constexpr Py_ssize_t kMostKeptKeys = 16;

inline void PinKeys(ReadJournal& reads, BorrowedRef dict) {
  PyObject *key, *value;
  if (!PyDict_Check(dict.get()) || PyDict_GET_SIZE(dict.get()) > kMostKeptKeys + 1) return;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value) != 0;) {
    if (PyLong_CheckExact(key)) reads.PinNumber(key);
  }
}

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_KEPT_KEYS_H_
