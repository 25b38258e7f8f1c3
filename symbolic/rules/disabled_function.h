// Functions that torch.compiler.disable made or marked: known by the attributes that torch leaves on them. Nothing of
// torch._dynamo is imported. Stateless; asked at each call, since a mark may be set at any time.
#ifndef FRAMEFUSE_SYMBOLIC_RULES_DISABLED_FUNCTION_H_
#define FRAMEFUSE_SYMBOLIC_RULES_DISABLED_FUNCTION_H_

#include <cstdint>
#include <string>

#include "frame_eval/ref.h"

namespace framefuse {

enum class DisabledByTorch : std::uint8_t { kNo, kAlone, kWithWhatItCalls };

DisabledByTorch HowDisabledByTorch(BorrowedRef function);
// The user's function behind torch's wrapper; the function itself where there is no wrapper. Borrowed.
BorrowedRef BehindTorchDisable(BorrowedRef function);

// How a message names a function that is disabled: with the reason that disable() was given. Runs no user code.
// Of a function that torch disabled. Dynamo cannot trace some of torch.optim and disables that for the whole process as
// soon as anything is compiled with it: nobody asked for it here.
bool IsDisabledForDynamo(BorrowedRef function);

std::string DescribeDisabled(BorrowedRef function);

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_RULES_DISABLED_FUNCTION_H_
