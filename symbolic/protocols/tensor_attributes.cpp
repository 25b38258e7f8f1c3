#include "symbolic/protocols/tensor_attributes.h"

#include <Python.h>

#include <string>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "symbolic/ambient/function_modes.h"
#include "symbolic/ambient/shown_warnings.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/fakes.h"
#include "symbolic/journals/fx_journal.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/native_boundary.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/sharded_values.h"
#include "symbolic/journals/write_journal.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/protocols/attribute_reads.h"
#include "symbolic/rules/descriptors.h"
#include "symbolic/rules/tensor_types.h"
#include "symbolic/tracing/numbers.h"
#include "symbolic/tracing/sharded_tensors.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {

TensorAttributes::TensorAttributes(Journals& journals, AttributeReads& attributes)
    : modes_(journals.modes()),
      tracer_(journals.tracer()),
      fx_(journals.fx()),
      breaks_(journals.breaks()),
      boundary_(journals.boundary()),
      reads_(journals.reads()),
      objects_(journals.objects()),
      writes_(journals.writes()),
      attributes_(attributes) {}

// Whether an input has a gradient is a fact of its own, also where the gradient takes part in no operator.
void TensorAttributes::GuardGradient(const Tracked& tensor, BorrowedRef seen) {
  const SourceId source = reads_.sources().Intern(SourceKind::kTensorGrad, tensor.source, 0, nullptr);
  const Ref own = ReadGrad(tensor.original);
  if (!own || tensor.source == kNoSource) return;
  if (own.get() != Py_None) {
    reads_.AddTensor(source, own);
    reads_.guards().AddLeaf(source, own);
  } else if (seen.get() == Py_None) {
    reads_.AddGuard(source, GuardKind::kIdentity, Py_None);
  }
}

// What a program notes on a tensor: of one from outside in the overlay, else on the fake, whose recipe has it then.
bool TensorAttributes::SetOwn(ValueView owner, BorrowedRef name, ValueView value) {
  const BorrowedRef setter = reads_.LookupInType(owner.object.type(), value.object ? "__setattr__" : "__delattr__");
  const bool plain = setter && Py_IS_TYPE(setter.get(), &PyWrapperDescr_Type);
  if (!plain || absl::StartsWith(Utf8(name), "__")) {
    return breaks_.BreakFalse(GraphBreakKind::kTensorAttribute, Utf8(name));
  }
  Tracked* t = objects_.Find(owner.object);
  const std::optional<Value> deleted = t == nullptr || value.object ? std::nullopt : OwnOf(*t, name);
  if (deleted && !*deleted) return false;
  if (t == nullptr || (!value.object && !deleted))
    return PyObject_GenericSetAttr(owner.object, name, value.object) == 0;  // or it raises
  return writes_.Write(*t, name, Ref::Create(value.object));
}

// Nothing: nobody has set one.
std::optional<Value> TensorAttributes::OwnOf(Tracked& tensor, BorrowedRef name) {
  if (const OverlayWrite* w = tensor.FindWrite(name)) {
    return w->value ? std::optional(Value{w->value, kNoSource}) : std::nullopt;
  }
  PyObject* own = frame_ops::RawInstanceAttr(tensor.original, name);
  if (own != nullptr) return objects_.Adopt(own, reads_.sources().InstanceAttr(tensor.source, name));
  reads_.AddGuard(tensor.source, GuardKind::kLacksAttr, name);
  return std::nullopt;
}

// An attribute of its class is read of an input: its own come first.
void TensorAttributes::GuardShown(Tracked& tensor, BorrowedRef name) {
  if (tensor.shows_class || tensor.source == kNoSource) return;
  if (HidesClass(tensor.original)) return reads_.AddGuard(tensor.source, GuardKind::kLacksAttr, name);
  tensor.shows_class = true;
  reads_.guards().AddShownClass(tensor.source, tensor.original);
}

Value TensorAttributes::TensorGetAttr(Activation& act, ValueView owner, BorrowedRef name) {
  BorrowedRef descriptor = reads_.LookupInType(owner.object.type(), name);
  Tracked* t = objects_.Find(owner.object);
  if (!IsDataDescriptor(descriptor)) {
    const bool set = t == nullptr || !descriptor || frame_ops::RawInstanceAttr(t->original, name) != nullptr ||
                     t->FindWrite(name) != nullptr;
    PyObject* const of_fresh = t == nullptr ? frame_ops::RawInstanceAttr(owner.object, name) : nullptr;
    if (of_fresh != nullptr) return Value{Ref::Create(of_fresh), kNoSource};
    std::optional<Value> own = t != nullptr && set ? OwnOf(*t, name) : std::nullopt;
    if (own) return *std::move(own);
    if (!set) GuardShown(*t, name);
  }
  if (PyUnicode_CompareWithASCIIString(name, "__class__") == 0 && descriptor.type() == &PyGetSetDescr_Type) {
    auto* type = reinterpret_cast<PyObject*>(owner.object.type());  // the tensor's guard compares it
    return objects_.Adopt(type, reads_.ConstantSource(type));
  }
  if (IsPythonFunction(descriptor))
    return attributes_.BindDescriptor(act, descriptor, reads_.ConstantSource(descriptor), owner, owner.object.type());
  const char* utf8 = PyUnicode_AsUTF8(name);  // null for a name with lone surrogates
  if (utf8 == nullptr) PyErr_Clear();
  const std::string_view text = utf8 == nullptr ? "" : utf8;
  const auto from_outside = [&] {
    return breaks_.Break(GraphBreakKind::kTensorFact,
                         absl::StrCat(std::string(text), " of a tensor from outside the captured code"));
  };
  if (t != nullptr && tracing::IsSharded(owner.object)) {
    if (text == "requires_grad") return Value{Ref::Steal(PyObject_GetAttr(t->original, name)), kNoSource};
    if (!IsSharedAttribute(text)) return from_outside();
  }
  const bool own_attribute = t != nullptr && descriptor && descriptor.type() == &PyGetSetDescr_Type;
  const GuardedAttribute guarded = own_attribute ? GuardedTensorAttribute(text) : GuardedAttribute::kYes;
  if (guarded == GuardedAttribute::kNo && PyUnicode_CompareWithASCIIString(name, "__dict__") != 0)
    return from_outside();
  if (LeavesDecide(text)) tracer_.AskLeaves();
  // The fake's own: what the user set stands on the real tensor.
  if (PyUnicode_CompareWithASCIIString(name, "__dict__") == 0)
    return breaks_.Break(GraphBreakKind::kTensorAttribute, "__dict__");
  FxCall call(fx_, {owner.object});
  // Torch's own code runs as it is: that of modes, and that which makes SymInts.
  const bool leaf = modes_.open() > 0 || !tracer_.sizes().symbols().empty();
  Ref result = Ref::Steal(boundary_.RunAsLeaf(leaf, [&] {
    const AllWarningsShown shown;
    return PyObject_GetAttr(owner.object, name);
  }));
  if (!boundary_.Check() || !result) return Value();
  if (guarded == GuardedAttribute::kIfNone && result.get() != Py_None) return from_outside();
  if (t != nullptr && (text == "grad" || text == "_grad")) GuardGradient(*t, result);
  // Whether an input is a view of something else is not known, and so not which of the two is the base of its views.
  if (text == "_base" && objects_.Find(result) != nullptr) return from_outside();
  result = tracer_.numbers().FromTorch(std::move(result));
  if (!result) return Value();
  if (IsFakeTensor(result) && !breaks_.Journalled(call.RecordAttribute(owner.object, name, result))) return Value();
  return Value{std::move(result), kNoSource};
}

}  // namespace framefuse
