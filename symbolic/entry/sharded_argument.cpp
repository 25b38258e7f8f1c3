#include "symbolic/entry/sharded_argument.h"

#include "frame_eval/hook.h"

namespace framefuse {

Ref Enter(BorrowedRef entrance, BorrowedRef sharded) {
  const HookScope native(HookMode::kOff);
  return Ref::Steal(PyObject_CallOneArg(entrance, sharded));
}

}  // namespace framefuse
