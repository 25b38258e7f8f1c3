// array_facts: what the names of numpy's functions, of methods of arrays and of operators tell of a call with an array
// whose numbers nobody knows yet. The rows are in array_facts.def.
// Invariant: a name that stands for a function and a method means the same of both.
#ifndef FRAMEFUSE_SYMBOLIC_RULES_ARRAY_FACTS_H_
#define FRAMEFUSE_SYMBOLIC_RULES_ARRAY_FACTS_H_

#include <string_view>

namespace framefuse {

bool IsDecidedByValues(std::string_view name);
bool IsQuietArrayCall(std::string_view name);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_RULES_ARRAY_FACTS_H_
