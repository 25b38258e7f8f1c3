// CachedKeys: the keys under which functools.lru_cache keeps what calls made, as captured code finds them. An argument
// whose class hashes or compares in Python is hashed and compared by captured code, so that what that reads is guarded.
// Invariant: no Python code of the program runs but captured code, and none of it may write: the entry's own call of
// the cache hashes once more.
#ifndef FRAMEFUSE_SYMBOLIC_CALLS_CACHED_KEYS_H_
#define FRAMEFUSE_SYMBOLIC_CALLS_CACHED_KEYS_H_

#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "frame_eval/ref.h"
#include "symbolic/evaluator/protocols.h"
#include "symbolic/journals/write_journal.h"

namespace framefuse {

class BreakController;
class CallEvaluator;
class Journals;
class NativeArguments;
class ObjectTable;
class ReadJournal;

// Whether there is nothing but leaves in the tuple, and in those in it.
bool AllLeaves(PyObject* tuple);

class CachedKeys {
 public:
  CachedKeys(Journals& journals, CallEvaluator& calls);

  // One that this attempt made: no key of the cache has it.
  bool IsNewTensor(ValueView arg) const;
  // Sets the arguments and the key of `call`. False: broke.
  [[nodiscard]] bool Collect(Activation& act, absl::Span<const ValueView> args, BorrowedRef kwnames, CachedCall* call);
  // Gives the call the key that an earlier one of this attempt has, where Python code says that they are equal. False:
  // broke.
  [[nodiscard]] bool FindAmong(Activation& act, const std::vector<CachedCall>& calls, CachedCall* call);
  // The same for a key that the cache has.
  [[nodiscard]] bool FindInCache(Activation& act, CachedCall* call);
  // After FindAmong.
  static bool AreSame(BorrowedRef a, BorrowedRef b);

 private:
  BorrowedRef PartOf(Activation& act, ValueView arg);
  BorrowedRef PartWithHash(Activation& act, ValueView arg);
  // The key of parts of which some have a hash of their own.
  Ref Hashed(BorrowedRef key) const;
  // Whether captured code finds `known` equal to `other`; nothing: broke.
  std::optional<bool> IsEqual(Activation& act, BorrowedRef known, bool from_outside, BorrowedRef other);
  // What captured code of the program gives; null: broke, or it wrote.
  Value Ask(Activation& act, const char* builtin, absl::Span<const ValueView> args);

  BreakController& breaks_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  WriteJournal& writes_;
  NativeArguments& arguments_;
  CallEvaluator& calls_;
  // What stands for tensors of this attempt in keys, as a tensor's hash is its identity: its comparison is not.
  absl::flat_hash_map<PyObject*, std::pair<Ref, Ref>> stand_ins_;
  // Of parts with a hash of their own: what has the same hash.
  absl::flat_hash_map<PyObject*, std::pair<Ref, Ref>> hashes_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_CALLS_CACHED_KEYS_H_
