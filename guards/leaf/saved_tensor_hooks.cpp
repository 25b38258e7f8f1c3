#include "guards/leaf/saved_tensor_hooks.h"

#include <ATen/SavedTensorHooks.h>
#include <torch/csrc/PyInterpreter.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "frame_eval/versions/private_api.h"

namespace framefuse {
namespace {

using Hooks = at::SavedTensorDefaultHooks;

thread_local BorrowedRef pack_of_call;

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

bool IsOfSaveOnCpu(BorrowedRef hook) {
  const char* const name = PyUnicode_AsUTF8(reinterpret_cast<PyFunctionObject*>(hook.get())->func_qualname);
  return name != nullptr && std::string_view(name).starts_with("save_on_cpu.") &&
         IsDefinedIn(hook, "torch.autograd.graph");
}

// What a function's variable of an enclosing one holds; null: it has none of that name.
Ref Enclosed(BorrowedRef function, const char* name) {
  auto* const f = reinterpret_cast<PyFunctionObject*>(function.get());
  const Ref names = Ref::Steal(PyCode_GetFreevars(reinterpret_cast<PyCodeObject*>(f->func_code)));
  if (!names || f->func_closure == nullptr) {
    PyErr_Clear();
    return {};
  }
  const Py_ssize_t count = std::min(PyTuple_GET_SIZE(names.get()), PyTuple_GET_SIZE(f->func_closure));
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names.get(), i), name) != 0) continue;
    return Ref::Steal(PyCell_Get(PyTuple_GET_ITEM(f->func_closure, i)));
  }
  return {};
}

std::optional<CheckpointHooks> CheckpointOf(BorrowedRef pack) {
  const BorrowedRef hook = BehindWrapper(pack);
  if (!IsOfCheckpoint(hook)) return std::nullopt;
  if (Ref frame = Enclosed(hook, "frame")) return CheckpointHooks{std::move(frame), {}};
  const Ref reference = Enclosed(hook, "target_frame_ref");
  if (!reference || !PyWeakref_Check(reference.get())) return std::nullopt;
  Ref frame = Ref::Create(private_api::Referent(reference.get()));
  return CheckpointHooks{std::move(frame), pack};
}

bool Keeps(BorrowedRef pack) {
  return PyFunction_Check(pack.get()) && (IsOfSaveOnCpu(BehindWrapper(pack)) || CheckpointOf(pack).has_value());
}

BorrowedRef TopPack() {
  const auto& stack = Hooks::get_tls_state().stack;
  return stack.empty() ? BorrowedRef() : BorrowedRef(stack.top().first.ptr(getPyInterpreter()));
}

}  // namespace

bool CheckpointHooks::HasAllSaved() const {
  if (!second_pack) return false;
  const Ref pass = Enclosed(BehindWrapper(second_pack), "gid");
  const Ref counts = Ref::Steal(PyObject_GetAttrString(frame, "recomp_counter"));
  const Ref holders = Ref::Steal(PyObject_GetAttrString(frame, "weak_holders"));
  const Ref count = pass && counts ? Ref::Steal(PyObject_GetItem(counts, pass)) : Ref();
  const bool known = count && holders && PyLong_Check(count.get()) && PyList_Check(holders.get());
  const bool all = known && PyLong_AsSsize_t(count) >= PyList_GET_SIZE(holders.get());
  PyErr_Clear();
  return all;
}

bool IsOfCheckpoint(BorrowedRef function) {
  return PyFunction_Check(function.get()) && IsDefinedIn(function, "torch.utils.checkpoint");
}

bool HasSavedTensorHooks() noexcept { return !Hooks::get_tls_state().stack.empty(); }

SavedTensorHooks SavedTensorHooksNow() noexcept {
  const BorrowedRef pack = TopPack();
  if (!pack) return SavedTensorHooks::kNone;
  return pack == pack_of_call && Keeps(pack) ? SavedTensorHooks::kKeep : SavedTensorHooks::kOfUser;
}

std::optional<CheckpointHooks> CheckpointHooksNow() {
  const BorrowedRef pack = TopPack();
  if (!pack || pack != pack_of_call || !PyFunction_Check(pack.get())) return std::nullopt;
  return CheckpointOf(pack);
}

bool IsSecondRun() {
  const std::optional<CheckpointHooks> hooks = CheckpointHooksNow();
  return hooks && hooks->second_pack;
}

SavedTensorHooksOfCall::SavedTensorHooksOfCall() : outer_(std::exchange(pack_of_call, TopPack())) {}
SavedTensorHooksOfCall::~SavedTensorHooksOfCall() { pack_of_call = outer_; }

SavedTensorHooksUncalled::SavedTensorHooksUncalled() : before_(Hooks::set_tracing(true)) {}
SavedTensorHooksUncalled::~SavedTensorHooksUncalled() { Hooks::set_tracing(before_); }

}  // namespace framefuse
