#include "symbolic/tracing/sharded_tensors.h"

#include <torch/csrc/autograd/python_variable.h>

#include "symbolic/tracing/autograd_bridge.h"
#include "symbolic/tracing/fake_tensor.h"

namespace framefuse::tracing {
namespace {

PyTypeObject* sharded_type = nullptr;

}  // namespace

void SetShardedType(PyTypeObject* type) { sharded_type = type; }

bool IsSharded(BorrowedRef object) { return sharded_type != nullptr && object && object.type() == sharded_type; }

Ref LocalOf(BorrowedRef sharded) {
  static PyObject* const name = PyUnicode_InternFromString("_local_tensor");
  Ref local = Ref::Steal(PyObject_GetAttr(sharded, name));  // a slot: no code runs
  if (!local) PyErr_Clear();
  const bool is_tensor = local && PyObject_TypeCheck(local.get(), reinterpret_cast<PyTypeObject*>(THPVariableClass));
  return is_tensor ? local : Ref();
}

bool IsShardedFake(BorrowedRef object) {
  if (!IsSharded(object)) return false;
  const Ref local = LocalOf(object);
  return local && AsFake(THPVariable_Unpack(local.get())) != nullptr;
}

bool IsWithoutHistory(BorrowedRef sharded) {
  const at::Tensor& t = THPVariable_Unpack(sharded.get());
  return !t.requires_grad() && !t.is_view() && !t.is_inference() && !HasGradientHooks(t);
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

}  // namespace framefuse::tracing
