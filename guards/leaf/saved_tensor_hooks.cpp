#include "guards/leaf/saved_tensor_hooks.h"

#include <ATen/SavedTensorHooks.h>
#include <torch/csrc/PyInterpreter.h>

#include <string_view>

#include "frame_eval/ref.h"

namespace framefuse {
namespace {

using Hooks = at::SavedTensorDefaultHooks;

// torch.compiler.disable wraps one of them.
BorrowedRef BehindWrapper(BorrowedRef function) {
  static PyObject* const name = PyUnicode_InternFromString("_torchdynamo_orig_callable");
  PyObject* const attributes = reinterpret_cast<PyFunctionObject*>(function.get())->func_dict;
  PyObject* const inner = attributes == nullptr ? nullptr : PyDict_GetItemWithError(attributes, name);
  return inner != nullptr && PyFunction_Check(inner) ? BorrowedRef(inner) : function;
}

// Not a function that only says so.
bool IsDefinedIn(BorrowedRef function, const char* module) {
  PyObject* const imported = PyDict_GetItemString(PyImport_GetModuleDict(), module);
  return imported != nullptr && PyModule_Check(imported) &&
         reinterpret_cast<PyFunctionObject*>(function.get())->func_globals == PyModule_GetDict(imported);
}

bool Keeps(BorrowedRef pack) {
  if (!PyFunction_Check(pack.get())) return false;
  const BorrowedRef hook = BehindWrapper(pack);
  if (IsDefinedIn(hook, "torch.utils.checkpoint")) return true;
  const char* const name = PyUnicode_AsUTF8(reinterpret_cast<PyFunctionObject*>(hook.get())->func_qualname);
  return name != nullptr && std::string_view(name).starts_with("save_on_cpu.") &&
         IsDefinedIn(hook, "torch.autograd.graph");
}

}  // namespace

SavedTensorHooks SavedTensorHooksNow() noexcept {
  const auto& stack = Hooks::get_tls_state().stack;
  if (stack.empty()) return SavedTensorHooks::kNone;
  return Keeps(stack.top().first.ptr(getPyInterpreter())) ? SavedTensorHooks::kKeep : SavedTensorHooks::kOfUser;
}

SavedTensorHooksUncalled::SavedTensorHooksUncalled() : before_(Hooks::set_tracing(true)) {}
SavedTensorHooksUncalled::~SavedTensorHooksUncalled() { Hooks::set_tracing(before_); }

}  // namespace framefuse
