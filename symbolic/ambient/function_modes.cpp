#include "symbolic/ambient/function_modes.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <torch/csrc/PyInterpreter.h>
#include <torch/csrc/autograd/forward_grad.h>

#include "frame_eval/ref.h"
#include "frame_eval/versions/frame_ops.h"
#include "guards/leaf/global_state.h"
#include "symbolic/rules/call_rules.h"
#include "symbolic/rules/descriptors.h"

namespace framefuse {

using Stack = at::impl::PythonTorchFunctionTLS;

FunctionModes::FunctionModes() : length_at_start_(Stack::stack_len()) {}

void FunctionModes::EnterInferenceMode(bool mode) {
  inference_.push_back(std::make_unique<c10::InferenceMode>(mode));
  NotePush();
}

void FunctionModes::LeaveInferenceMode() {
  inference_.pop_back();
  NotePop();
}

void FunctionModes::NoteDualLevel(std::uint64_t level) {
  dual_levels_.push_back(level);
  NotePush();
}

void FunctionModes::NoteDualLevelLeft() {
  dual_levels_.pop_back();
  NotePop();
}

void FunctionModes::Restore() {
  for (; !dual_levels_.empty(); dual_levels_.pop_back()) {
    torch::autograd::ForwardADLevel::release_idx(dual_levels_.back());
  }
  while (!inference_.empty()) inference_.pop_back();  // the last first
  while (Stack::stack_len() > length_at_start_) Stack::pop_stack();
  open_ = 0;
}

namespace {
bool IsOfTorch(BorrowedRef mode) {
  static PyObject* const name = PyUnicode_InternFromString("__torch_function__");
  const BorrowedRef handler = frame_ops::TypeLookup(mode.type(), name);
  return IsPythonFunction(handler) &&
         IsTorchCode(reinterpret_cast<PyCodeObject*>(reinterpret_cast<PyFunctionObject*>(handler.get())->func_code));
}
}  // namespace

const char* InterceptorAtStart() {
  if (const char* what = ActiveInterceptor()) return what;
  for (std::int64_t i = 0; i < Stack::stack_len(); ++i) {
    if (!IsOfTorch(Stack::get_stack_at(i)->ptr(getPyInterpreter()))) return "a torch function mode";
  }
  return nullptr;
}

}  // namespace framefuse
