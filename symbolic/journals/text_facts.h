// text_facts: what a program asks about a string argument that is not what it compares it with: only that is guarded,
// so that one capture serves all other strings.
// Invariant: the argument is an exact str in each call that the guard holds for.
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_TEXT_FACTS_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_TEXT_FACTS_H_

#include "symbolic/evaluator/value.h"

namespace framefuse {

class ReadJournal;

// Whether `leaf` is a string argument of the frame other than `text`, which is guarded then.
[[nodiscard]] bool IsOtherText(ReadJournal& reads, ValueView leaf, ValueView text);
// The same of all strings in a tuple or frozenset.
[[nodiscard]] bool IsNoneOfTexts(ReadJournal& reads, ValueView leaf, ValueView texts);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_TEXT_FACTS_H_
