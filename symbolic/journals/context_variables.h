// ContextVariables: get(), set() and reset() of context variables that existed before. What the program sets is set in
// a context of the attempt's own, which gives its tokens; the overlay has the value. An entry sets the variable when it
// runs, unless it was reset in the same piece. By a token from before the entry resets it, before it sets any.
// Invariant: the real context is not written. Code in C reads variables of its own modules only, whose values are
// capsules: setting one breaks.
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_CONTEXT_VARIABLES_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_CONTEXT_VARIABLES_H_

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "symbolic/evaluator/value.h"
#include "symbolic/journals/tracked.h"

namespace framefuse {

class BackwardPhase;
class BreakController;
class ObjectTable;
class ReadJournal;
class WriteJournal;

class ContextVariables {
 public:
  // One that no reset took back. With a null value: the token is one from before, which the variable was reset by.
  struct Setting {
    Tracked* variable;
    Ref token;
    Ref value;
  };

  ContextVariables(BreakController& breaks, BackwardPhase& backward, ReadJournal& reads, ObjectTable& objects,
                   WriteJournal& writes)
      : breaks_(breaks), backward_(backward), reads_(reads), objects_(objects), writes_(writes) {}

  // A method of the variable. Nothing: called as C code has it, it raises a TypeError.
  std::optional<Value> Call(Tracked& variable, absl::string_view method, absl::Span<const ValueView> args);
  // Of the token's variable, in order; the last is the token's own. Empty: it is used, or was lost, or the entry could
  // not make it, since it resets the variable later.
  std::vector<Setting> SettingsUpTo(BorrowedRef token) const;

 private:
  Value Get(Tracked& variable, absl::Span<const ValueView> args);
  Value Set(Tracked& variable, ValueView value);
  Value Reset(Tracked& variable, BorrowedRef token);
  Value ResetByEarlier(Tracked& variable, BorrowedRef token);
  const Setting* ResetBy(const Tracked& variable) const;  // the last token from before; null: none
  // Without what this piece has set; absent: it is not set.
  std::pair<Ref, SourceId> Before(const Tracked& variable);
  // What it is before the frame, into the context of the attempt; false: broke.
  [[nodiscard]] bool Copy(Tracked& variable);

  BreakController& breaks_;
  BackwardPhase& backward_;
  ReadJournal& reads_;
  ObjectTable& objects_;
  WriteJournal& writes_;
  Ref context_;  // the attempt's own
  std::vector<Tracked*> copied_;
  std::vector<Setting> settings_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_CONTEXT_VARIABLES_H_
