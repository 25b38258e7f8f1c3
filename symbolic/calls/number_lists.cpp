#include "symbolic/calls/number_lists.h"

#include <torch/csrc/Dtype.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>

#include "frame_eval/import_module.h"
#include "guards/leaf/number_list.h"
#include "symbolic/calls/native_calls.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/symbols.h"
#include "symbolic/journals/tracked.h"
#include "symbolic/rules/call_arguments.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {
namespace {

bool IsMaker(BorrowedRef callable) {
  static PyObject* const* const makers = [] {
    static PyObject* found[2] = {};
    const Ref torch = ImportModule("torch");
    if (torch) found[0] = PyObject_GetAttrString(torch, "tensor");
    if (torch) found[1] = PyObject_GetAttrString(torch, "as_tensor");
    return found;
  }();
  return callable.get() == makers[0] || callable.get() == makers[1];
}

bool IsSequence(PyObject* o) { return PyList_CheckExact(o) || PyTuple_CheckExact(o); }

// How its source says what type it is made of; nothing: the call names more than a type and a device.
std::optional<std::int32_t> IndexOf(absl::Span<const ValueView> args, BorrowedRef kwnames, ValueView* device) {
  std::int32_t index = kOfNumbers;
  for (std::size_t i = 1; i < args.size(); ++i) {
    PyObject *name = PyTuple_GET_ITEM(kwnames.get(), static_cast<Py_ssize_t>(i - 1)), *given = args[i].object;
    const bool is_device = PyUnicode_CompareWithASCIIString(name, "device") == 0;
    if (!is_device && PyUnicode_CompareWithASCIIString(name, "dtype") != 0) return std::nullopt;
    if (given == Py_None) continue;
    if (is_device) *device = args[i];
    if (!is_device && !THPDtype_Check(given)) return std::nullopt;
    if (!is_device) index = IndexOfType(static_cast<int>(reinterpret_cast<THPDtype*>(given)->scalar_type));
  }
  return index;
}

}  // namespace

NumberLists::NumberLists(Journals& journals, NativeCalls& natives)
    : reads_(journals.reads()), objects_(journals.objects()), symbols_(journals.symbols()), natives_(natives) {}

bool NumberLists::IsUntouched(BorrowedRef list) const {
  PyObject* o = list;
  if (!IsSequence(o)) return true;
  const Tracked* t = objects_.FindByOriginal(list);
  if (t != nullptr && t->mutated()) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
    if (!IsUntouched(PySequence_Fast_GET_ITEM(o, i))) return false;
  }
  return true;
}

Value NumberLists::InputFor(BorrowedRef tensor, SourceId source) {
  const auto& inputs = objects_.tensor_inputs();
  const auto found =
      std::find_if(inputs.begin(), inputs.end(), [&](const TensorInput& in) { return in.source == source; });
  return found == inputs.end() ? objects_.Adopt(tensor, source) : Value{found->fake, source};
}

std::optional<Value> NumberLists::TensorOf(Activation& act, BorrowedRef callable, absl::Span<const ValueView> args,
                                           BorrowedRef kwnames) {
  if (args.empty() || !IsSequence(args[0].object.get()) || !IsMaker(callable)) return std::nullopt;
  const Tracked* t = objects_.Find(args[0].object);
  if (t == nullptr || t->source == kNoSource || PositionalCount(args, kwnames) != 1) return std::nullopt;
  if (!reads_.MayRead(t->source)) return std::nullopt;
  ValueView device;
  const std::optional<std::int32_t> index = IndexOf(args, kwnames, &device);
  if (!index) return std::nullopt;
  Ref made = [&] {
    const tracing::Tracer::Suspended suspended;
    return TensorOfNumbers(t->original, *index);
  }();
  // A list that holds itself is none of numbers.
  if (!made || !symbols_.TakesList(t->original, t->source) || !IsUntouched(t->original)) return std::nullopt;
  const Value input = InputFor(made, reads_.sources().Intern(SourceKind::kTensorOfArray, t->source, *index, nullptr));
  if (!input) return Value();
  // Each call of the program makes a tensor of its own.
  const auto method = [](const char* name) {
    return Ref::Steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(THPVariableClass), name));
  };
  Value own = natives_.CallTorch(act, method("clone"), {input}, BorrowedRef());
  if (!own || !device.object) return own;
  return natives_.CallTorch(act, method("to"), {own, device}, BorrowedRef());
}

}  // namespace framefuse
