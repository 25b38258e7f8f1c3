// NativeArguments: makes values safe to be read by C code: their contents are representatives, and whatever C code may
// look at has a guard. Objects that C code would act on past capture break the graph.
// Invariant: after true C code may read the value to any depth (after PrepareOuter: move its items and look at none).
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_NATIVE_ARGUMENTS_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_NATIVE_ARGUMENTS_H_

#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "symbolic/evaluator/value.h"
#include "symbolic/journals/tracked.h"

namespace framefuse {

class BreakController;
class ObjectContents;
class ObjectTable;
class ReadJournal;

class NativeArguments {
 public:
  NativeArguments(BreakController& breaks, ReadJournal& reads, ObjectTable& objects, ObjectContents& contents)
      : breaks_(breaks), reads_(reads), objects_(objects), contents_(contents) {}

  // False: an error is set.
  [[nodiscard]] bool PrepareNative(BorrowedRef object, bool allow_instances);
  [[nodiscard]] bool PrepareNative(ValueView v, bool allow_instances = true);
  [[nodiscard]] bool PrepareOuter(ValueView v);
  // PrepareOuter, where each item, and each key of a dict, is looked at for itself.
  [[nodiscard]] bool PrepareWalked(ValueView v);
  // PrepareOuter, where it matters no more than what a set holds: not the order.
  [[nodiscard]] bool PrepareMembership(ValueView v);
  [[nodiscard]] bool PrepareAll(absl::Span<const ValueView> values, bool allow_instances = true);
  // For torch, which takes symbolic sizes for what they are: they are not pinned.
  [[nodiscard]] bool PrepareForTorch(absl::Span<const ValueView> values);
  // Of a tensor: as for torch, which reads an array of numpy here.
  [[nodiscard]] bool PrepareSubscript(ValueView v);
  // After they are prepared: C code makes a text of what these are given.
  [[nodiscard]] bool HaveTextOfTheirOwn(absl::Span<const ValueView> values);

 private:
  [[nodiscard]] bool PrepareCallable(BorrowedRef object, bool allow_instances);
  [[nodiscard]] bool PrepareTracked(Tracked& t, BorrowedRef object, bool allow_instances);
  [[nodiscard]] bool PrepareContainerOfClass(Tracked& t, bool allow_instances);
  [[nodiscard]] bool PrepareContents(BorrowedRef object, bool tracked, bool allow_instances);

  BreakController& breaks_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  ObjectContents& contents_;
  bool for_torch_ = false;
  bool keeps_numbers_ = false;                // that are symbolic
  absl::flat_hash_set<PyObject*> preparing_;  // containers that are being prepared
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_NATIVE_ARGUMENTS_H_
