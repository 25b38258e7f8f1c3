#include "symbolic/calls/hook_calls.h"

#include <torch/csrc/autograd/python_variable.h>

#include <memory>
#include <type_traits>
#include <utility>

#include "frame_eval/import_module.h"
#include "symbolic/journals/fakes.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/write_journal.h"
#include "symbolic/tracing/fake_tensor.h"

namespace framefuse {
namespace {

Ref EmptyHandle() {
  static PyObject* const type = [] {
    const Ref module = ImportModule("torch.utils.hooks");
    return module ? PyObject_GetAttrString(module, "RemovableHandle") : nullptr;
  }();
  const Ref nothing = type != nullptr ? Ref::Steal(PyTuple_New(0)) : Ref();
  return nothing ? Ref::Steal(PyBaseObject_Type.tp_new(reinterpret_cast<PyTypeObject*>(type), nothing, nullptr))
                 : Ref();
}

}  // namespace

std::optional<Value> DeferHook(ObjectTable& objects, ReadJournal& reads, WriteJournal& writes, BorrowedRef function,
                               absl::Span<const ValueView> args) {
  PyObject* tensor = args[0].object.get();
  if (!IsFakeTensor(args[0].object) || objects.Find(args[0].object) != nullptr ||
      Py_TYPE(tensor) != reinterpret_cast<PyTypeObject*>(THPVariableClass)) {
    return std::nullopt;
  }
  const at::Tensor& t = THPVariable_Unpack(tensor);
  if (tracing::AsFake(t) == nullptr || !t.requires_grad() || t.is_leaf() || t.is_view()) return std::nullopt;
  Ref handle = EmptyHandle();
  CachedCall call;
  call.wrapper = Ref::Create(function.get());
  call.args = Ref::Steal(PyTuple_Pack(2, tensor, args[1].object.get()));
  if (!handle || !call.args) return Value();
  reads.Move(args[1]);
  call.deferred = true;
  call.always = true;
  // Torch's own pointer to a node is of another type in each version.
  const auto node = t.grad_fn();
  call.history = std::shared_ptr<const void>(std::make_shared<std::remove_const_t<decltype(node)>>(node), node.get());
  call.result = Value{handle, kNoSource};
  writes.AddCall(std::move(call));
  objects.NoteUnknown(handle);
  return Value{std::move(handle), kNoSource};
}

}  // namespace framefuse
