// Functions of the module operator, by number or name, for the torch-level journal.
#ifndef FRAMEFUSE_SYMBOLIC_RULES_OPERATOR_FUNCTIONS_H_
#define FRAMEFUSE_SYMBOLIC_RULES_OPERATOR_FUNCTIONS_H_

#include <string_view>

#include "frame_eval/ref.h"

namespace framefuse {

BorrowedRef OperatorFunction(int nb_op);  // by NB_* number: in-place forms stand 13 later
BorrowedRef NamedOperator(const char* name);
int OperatorNumber(std::string_view name);  // the NB_* number

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_RULES_OPERATOR_FUNCTIONS_H_
