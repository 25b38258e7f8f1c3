// scripted_functions: torch.jit.script's functions, which are called like torch's own: their operators are recorded.
// Invariant: only those that compute and nothing else.
#ifndef FRAMEFUSE_SYMBOLIC_RULES_SCRIPTED_FUNCTIONS_H_
#define FRAMEFUSE_SYMBOLIC_RULES_SCRIPTED_FUNCTIONS_H_

#include <vector>

#include "frame_eval/ref.h"
#include "symbolic/rules/call_arguments.h"

namespace framefuse {

bool IsScriptFunction(PyTypeObject* type);
// Whether its code, with all that it calls, has operators, branches, loops, tuples and lists only: nothing is printed,
// no Python is called, no state is set.
bool OnlyComputes(BorrowedRef script_function);
// Another function of the same code, which torch has not run and so not optimised: what it optimises has gradients of
// its own making. It knows no defaults. Null with an error: torch refused.
[[nodiscard]] Ref CopyAsWritten(BorrowedRef script_function);

struct ScriptedCall {
  ValueVector args;
  Ref kwnames;
  std::vector<Ref> defaults;
  // Passes the defaults of what is not given, by name; false with an error.
  [[nodiscard]] bool AddDefaults(BorrowedRef script_function);
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_RULES_SCRIPTED_FUNCTIONS_H_
