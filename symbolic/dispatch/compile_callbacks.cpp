#include "symbolic/dispatch/compile_callbacks.h"

#include <utility>

#include "common/compile_id.h"
#include "frame_eval/hook.h"
#include "frame_eval/versions/frame_ops.h"

namespace framefuse {
namespace {

struct Callbacks {
  Ref before;
  Ref after;
};

Callbacks& Given() {
  static auto* callbacks = new Callbacks;
  return *callbacks;
}

bool Tell(const Ref& callback) {
  if (!callback) return true;
  const HookScope native(HookMode::kOff);
  const Ref id = Ref::Steal(PyUnicode_FromString(CurrentCompileId().Text().c_str()));
  if (!id) return false;
  const Ref result = Ref::Steal(PyObject_CallOneArg(callback, id));
  return static_cast<bool>(result);
}

}  // namespace

void SetCompileCallbacks(Ref before, Ref after) { Given() = {std::move(before), std::move(after)}; }

bool TellCompileBegins() { return Tell(Given().before); }

// What the compilation itself raised goes on, unless the function raises.
bool TellCompileEnds() {
  if (!Given().after || PyErr_Occurred() == nullptr) return Tell(Given().after);
  PyThreadState* thread = PyThreadState_Get();
  Ref error = frame_ops::FetchRaised(thread);
  const bool done = Tell(Given().after);
  if (done) frame_ops::RestoreRaised(thread, std::move(error));
  return done;
}

}  // namespace framefuse
