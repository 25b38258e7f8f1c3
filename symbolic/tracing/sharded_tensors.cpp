#include "symbolic/tracing/sharded_tensors.h"

#include <ATen/core/enum_tag.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/PyInterpreter.h>
#include <c10/core/impl/PyInterpreterHooks.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/python_variable.h>

#include <string>

#include "symbolic/tracing/autograd_bridge.h"
#include "symbolic/tracing/fake_tensor.h"
#include "symbolic/tracing/own_python.h"
#include "symbolic/tracing/sharded_dispatch.h"

namespace framefuse::tracing {
namespace {

PyTypeObject* sharded_type = nullptr;

class Gil {
 public:
  Gil() : state_(PyGILState_Ensure()) {}
  ~Gil() { PyGILState_Release(state_); }
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;

 private:
  PyGILState_STATE state_;
};

bool IsOfPython(const c10::IValue& v) {
  return v.isTensor() && v.toTensor().defined() && v.toTensor().key_set().has(c10::DispatchKey::Python);
}

// Those that Python code dispatches.
std::vector<at::Tensor> TensorsOfPython(c10::ArrayRef<c10::IValue> args) {
  std::vector<at::Tensor> found;
  for (const c10::IValue& v : args) {
    if (IsOfPython(v)) found.push_back(v.toTensor());
    if (!v.isList()) continue;
    for (const c10::IValue& e : v.toListRef()) {
      if (IsOfPython(e)) found.push_back(e.toTensor());
    }
  }
  return found;
}

// As torch's own fallback for Python has them off, so that local tensors come to the recorder.
c10::DispatchKeySet KeysOff() {
  using c10::DispatchKey;
  using c10::DispatchKeySet;
  const DispatchKeySet below(DispatchKeySet::FULL_AFTER, DispatchKey::Python);
  DispatchKeySet above = DispatchKeySet(DispatchKeySet::FULL) - below - DispatchKeySet(DispatchKey::Python);
  for (DispatchKey k : {DispatchKey::Fake, DispatchKey::ZeroTensor, DispatchKey::Conjugate, DispatchKey::Negative}) {
    above = above.remove(k);
  }
  return above;
}

void CheckSharded(Recorder& recorder, const OpTraits& traits, const std::vector<at::Tensor>& tensors) {
  const Gil gil;
  for (const at::Tensor& t : tensors) {
    const Ref object = Ref::Steal(THPVariable_Wrap(t));
    if (!IsSharded(object)) {
      recorder.Break(BreakKind::kUnsupportedTensor, traits,
                     std::string("the tensor subclass ") + Py_TYPE(object.get())->tp_name + " is not traced");
    }
    const Ref local = LocalOf(object);
    const FakeImpl* fake = local ? AsFake(THPVariable_Unpack(local.get())) : nullptr;
    if (fake == nullptr) recorder.Break(BreakKind::kRealTensor, traits, "a DTensor that is no input of the graph");
    if (fake->recording() != recorder.id()) {
      recorder.Break(BreakKind::kStaleTensor, traits, "a DTensor of another, finished capture is used");
    }
  }
}

}  // namespace

void SetShardedType(PyTypeObject* type) { sharded_type = type; }

bool IsSharded(BorrowedRef object) { return sharded_type != nullptr && object && object.type() == sharded_type; }

Ref LocalOf(BorrowedRef sharded) {
  static PyObject* const name = PyUnicode_InternFromString("_local_tensor");
  Ref local = Ref::Steal(PyObject_GetAttr(sharded, name));  // a slot: no code runs
  if (!local) PyErr_Clear();
  return local && THPVariable_Check(local.get()) ? local : Ref();
}

bool IsShardedFake(BorrowedRef object) {
  if (!IsSharded(object)) return false;
  const Ref local = LocalOf(object);
  return local && AsFake(THPVariable_Unpack(local.get())) != nullptr;
}

std::vector<std::uintptr_t> StateOfSharded(BorrowedRef sharded) {
  const at::Tensor& t = THPVariable_Unpack(sharded.get());
  const auto address = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p); };
  const Ref spec = Ref::Steal(PyObject_GetAttrString(sharded, "_spec"));
  if (!spec) PyErr_Clear();
  const Ref local = LocalOf(sharded);
  return {address(spec.get()),
          address(local ? THPVariable_Unpack(local.get()).unsafeGetTensorImpl() : nullptr),
          address(GradientFunction(t)),
          address(t.unsafeGetTensorImpl()->grad().defined() ? t.unsafeGetTensorImpl()->grad().unsafeGetTensorImpl()
                                                            : nullptr),
          static_cast<std::uintptr_t>(t.requires_grad()),
          static_cast<std::uintptr_t>(t.retains_grad()),
          static_cast<std::uintptr_t>(HasGradientHooks(t)),
          static_cast<std::uintptr_t>(t.is_inference() ? 0 : t._version())};
}

bool RunSharded(Recorder& recorder, const c10::OperatorHandle& handle, torch::jit::Stack* stack) {
  const std::size_t count = handle.schema().arguments().size();
  const std::vector<at::Tensor> tensors =
      TensorsOfPython(c10::ArrayRef<c10::IValue>(stack->data() + (stack->size() - count), count));
  if (tensors.empty()) return false;
  const OpTraits& traits = TraitsOf(handle);
  CheckSharded(recorder, traits, tensors);
  if (handle.schema().is_mutable()) recorder.Break(BreakKind::kMutation, traits, "a DTensor is written");
  if (handle.hasTag(at::Tag::nondeterministic_seeded))
    recorder.Break(BreakKind::kHiddenState, traits, "a DTensor of random numbers");
  if (c10::impl::TorchDispatchModeTLS::any_modes_set()) {
    recorder.Break(BreakKind::kHiddenState, traits, "a DTensor under a dispatch mode");
  }
  const c10::impl::ExcludeDispatchKeyGuard off(KeysOff());
  const OwnPythonScope own;
  (*c10::impl::getGlobalPyInterpreter())->dispatch(handle, stack);
  return true;
}

}  // namespace framefuse::tracing
