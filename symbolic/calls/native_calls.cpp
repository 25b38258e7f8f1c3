#include "symbolic/calls/native_calls.h"

#include <c10/core/DefaultDtype.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/autograd/python_variable.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "frame_eval/hook.h"
#include "symbolic/ambient/shown_warnings.h"
#include "symbolic/calls/each_element.h"
#include "symbolic/calls/number_lists.h"
#include "symbolic/calls/own_generators.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/fakes.h"
#include "symbolic/journals/fx_journal.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/native_arguments.h"
#include "symbolic/journals/native_boundary.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/sharded_values.h"
#include "symbolic/journals/size_operations.h"
#include "symbolic/journals/sized_call.h"
#include "symbolic/journals/write_journal.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/rules/call_arguments.h"
#include "symbolic/rules/call_rules.h"
#include "symbolic/rules/moving_code.h"
#include "symbolic/rules/number_arrays.h"
#include "symbolic/rules/tensor_types.h"
#include "symbolic/tracing/own_python.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {
namespace {

// `seen`: lists that were looked at; one may hold itself.
bool HoldsFake(BorrowedRef list, absl::flat_hash_set<PyObject*>* seen) {
  if (!PyList_CheckExact(list.get())) return IsFakeTensor(list);
  if (!seen->insert(list.get()).second) return false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i) {
    if (HoldsFake(PyList_GET_ITEM(list.get(), i), seen)) return true;
  }
  return false;
}
bool HoldsFake(BorrowedRef list) {
  absl::flat_hash_set<PyObject*> seen;
  return HoldsFake(list, &seen);
}

// (query, key, value, attn_mask, …)
std::size_t IndexOfMask(absl::Span<const ValueView> args, BorrowedRef kwnames) {
  constexpr std::size_t kPosition = 3;
  const std::size_t named = kwnames ? static_cast<std::size_t>(PyTuple_GET_SIZE(kwnames.get())) : 0;
  const std::size_t positional = args.size() - named;
  for (std::size_t i = 0; i < named; ++i) {
    PyObject* name = PyTuple_GET_ITEM(kwnames.get(), static_cast<Py_ssize_t>(i));
    if (PyUnicode_CompareWithASCIIString(name, "attn_mask") == 0) return positional + i;
  }
  return positional > kPosition ? kPosition : args.size();
}

bool HasSpreadRows(const at::Tensor& mask) {
  if (!mask.is_cuda() || mask.dim() == 0) return false;
  const std::optional<std::int64_t> stride = mask.sym_stride(-1).maybe_as_int(),
                                    size = mask.sym_size(-1).maybe_as_int();
  return stride && *stride != 1 && size != 1;
}

// Factors of torch's functions: numbers in each of them.
bool IsFactor(PyObject* name, std::string_view callable) {
  const auto is = [&](const char* text) { return PyUnicode_CompareWithASCIIString(name, text) == 0; };
  return is("alpha") || is("beta") || (is("value") && callable.starts_with("addc"));
}

// Torch takes a tensor without dimensions for a number, and reads it: the graph computes that number.
class Factors {
 public:
  Factors(tracing::Tracer& tracer, BorrowedRef callable, absl::Span<const ValueView> args, BorrowedRef kwnames)
      : args_(args.begin(), args.end()) {
    const std::size_t named = kwnames ? static_cast<std::size_t>(PyTuple_GET_SIZE(kwnames.get())) : 0;
    for (std::size_t i = 0; i < named; ++i) {
      ValueView& value = args_[args.size() - named + i];
      if (!IsFakeTensor(value.object)) continue;
      PyObject* name = PyTuple_GET_ITEM(kwnames.get(), static_cast<Py_ssize_t>(i));
      if (!IsFactor(name, NameOfCallable(callable))) continue;
      if (Ref number = NumberOf(tracer, value.object)) {
        value = ValueView(number, kNoSource);
        numbers_.push_back(std::move(number));
      }
    }
  }
  absl::Span<const ValueView> args() const { return args_; }

 private:
  static Ref NumberOf(tracing::Tracer& tracer, BorrowedRef tensor) {
    const at::Tensor& t = THPVariable_Unpack(tensor.get());
    if (t.dim() != 0 || t.requires_grad()) return Ref();
    const Ref known = tracer.KnownValueOf(tensor);  // torch reads it
    if (known) return Ref();
    const Ref numbers = tracer.sizes().UnbackedNumbersOf(tensor);
    return numbers && PyList_CheckExact(numbers.get()) ? Ref::Create(PyList_GET_ITEM(numbers.get(), 0)) : numbers;
  }

  ValueVector args_;
  std::vector<Ref> numbers_;
};

}  // namespace

NativeCalls::NativeCalls(Journals& journals)
    : journals_(journals),
      tracer_(journals.tracer()),
      fx_(journals.fx()),
      breaks_(journals.breaks()),
      boundary_(journals.boundary()),
      objects_(journals.objects()),
      writes_(journals.writes()),
      arguments_(journals.arguments()),
      of_arrays_(journals) {}

bool NativeCalls::is_for_fx() const { return fx_.keep_values(); }

Value NativeCalls::CallNative(BorrowedRef callable, absl::Span<const ValueView> args, BorrowedRef kwnames) {
  constexpr Py_ssize_t kDigitsOfAnySetting = 640;  // sys.set_int_max_str_digits takes no less
  const bool reads_number = callable.get() == reinterpret_cast<PyObject*>(&PyLong_Type) && !args.empty();
  if (reads_number && (PyUnicode_Check(args[0].object.get()) || PyBytes_Check(args[0].object.get())) &&
      PyObject_Size(args[0].object.get()) > kDigitsOfAnySetting) {
    return breaks_.Break(GraphBreakKind::kOpaqueObject, "int() of a text of more than 640 digits");
  }
  FxCall call(fx_, args);
  Ref result =
      Ref::Steal(boundary_.Run([&] { return Vectorcall(callable, args, kwnames); }, KeptItems(callable, args)));
  if (boundary_.Check() && result && !breaks_.Journalled(call.RecordCall(callable, args, kwnames, result, false)))
    return Value();
  if (result && !writes_.ReplaceGrown()) return Value();
  return boundary_.Wrap(std::move(result));
}

Value NativeCalls::CallNumpy(ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames) {
  if (std::optional<Value> made = of_arrays_.Call(callable.object, args, kwnames)) return *std::move(made);
  if (!arguments_.PrepareAll(args)) return Value();
  for (const ValueView& v : args) {
    if (!IsForNumpy(v.object))
      return breaks_.Break(GraphBreakKind::kUnlistedCallable, DescribeCallable(callable.object));
  }
  if (MayWriteArray(callable.object, args, kwnames))
    return breaks_.Break(GraphBreakKind::kUnsupportedWrite, "an array of numpy");
  if (WarnsOfTooFew(callable.object, args, kwnames))
    return breaks_.Break(GraphBreakKind::kSideEffectCall, "numpy's warning of too few numbers");
  boundary_.RaiseNumpyErrors();
  const HookScope own(HookMode::kOff);  // its frames are not the program's
  Ref result = Ref::Steal(Vectorcall(callable.object, args, kwnames));
  if (result && !IsForNumpy(result)) {
    return breaks_.Break(GraphBreakKind::kUnlistedCallable, DescribeCallable(callable.object));
  }
  return boundary_.Wrap(std::move(result));
}

namespace {
// A function of a C module, called without arguments: what it raises, as where there is no device, it raises in eager.
bool KnowsOfNoTensor(BorrowedRef callable, absl::Span<const ValueView> args) {
  if (!args.empty() || !PyCFunction_CheckExact(callable.get())) return false;
  PyObject* const self = PyCFunction_GET_SELF(callable.get());
  return self == nullptr || PyModule_Check(self);
}
}  // namespace

Value NativeCalls::CallTorch(Activation& act, BorrowedRef callable, absl::Span<const ValueView> args,
                             BorrowedRef kwnames) {
  OwnGenerators generators(journals_, *this);
  if (std::optional<Value> drawn = generators.Draw(callable, args, kwnames)) return *std::move(drawn);
  if (!arguments_.PrepareForTorch(args)) return Value();
  const bool outermost = boundary_.depth().leaf == 0;
  const bool sharding = IsShardingFunction(callable);
  if (sharding && !objects_.MayTakeSharded()) return Value();
  if (!fx_.keep_values()) {
    const std::optional<EachElement> each = SplitForeach(tracer_.numbers(), callable, args, kwnames);
    if (each) return CallEach(act, args[0].object, *each);
  }
  if (LeavesDecide(NameOfCallable(callable))) tracer_.AskLeaves();
  FxCall call(fx_, args);
  const bool has_factors = kwnames && !fx_.keep_values() && !PyFunction_Check(callable.get());
  const Factors factors(tracer_, callable, args, has_factors ? kwnames : BorrowedRef());
  const TorchArguments sized(tracer_.numbers(), callable, factors.args(), kwnames);
  if (outermost) tracer_.ForgetError();
  Ref result = Ref::Steal(boundary_.RunAsLeaf(true, [&] {
    const AllWarningsShown shown;
    std::optional<tracing::OwnPythonScope> own;
    if (sharding) own.emplace();
    return CallSized(tracer_.numbers(), callable, factors.args(), sized, kwnames);
  }));
  if (result) result = tracer_.numbers().FromTorch(std::move(result));
  const bool is_about_fakes = outermost && !KnowsOfNoTensor(callable, args);
  if (!boundary_.Check() || (!result && is_about_fakes && !boundary_.ConfirmTorchError(callable))) {
    const bool looked = breaks_.record() && breaks_.record()->reason.kind == GraphBreakKind::kTensorToPython;
    if (looked && outermost && PyFunction_Check(callable.get())) {
      breaks_.NoteLeaf(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(callable.get())));
    }
    return Value();
  }
  if (result && outermost) {
    const ValueView r[] = {ValueView(result, kNoSource)};
    const CallRule* rule = fx_.keep_values() ? FindCallRule(callable) : nullptr;
    const bool in_any_case =
        fx_.keep_values() ? rule != nullptr && rule->sets_torch_state : AnyFake(args) || AnyFake(r);
    if (!breaks_.Journalled(call.RecordCall(callable, args, kwnames, result, in_any_case))) return Value();
  }
  return Value{std::move(result), kNoSource};
}

Value NativeCalls::CallEach(Activation& act, BorrowedRef list, const EachElement& each) {
  const Ref results = Ref::Steal(PyTuple_New(static_cast<Py_ssize_t>(each.calls.size())));
  for (std::size_t i = 0; i < each.calls.size(); ++i) {
    Value one = CallTorch(act, each.method, each.calls[i], each.kwnames);
    if (!one) return Value();
    PyTuple_SET_ITEM(results.get(), static_cast<Py_ssize_t>(i), one.object.release());
  }
  return each.in_place ? Value{Ref::Create(list), kNoSource} : Value{Ref::Create(results), kNoSource};
}

std::optional<Value> NativeCalls::TensorOfNumber(Activation& act, absl::Span<const ValueView> args,
                                                 BorrowedRef kwnames) {
  if (PositionalCount(args, kwnames) != 1 || fx_.keep_values() || !tracer_.numbers().IsSymbolic(args[0].object))
    return std::nullopt;
  const bool is_float = PyFloat_CheckExact(args[0].object.get());
  if (!is_float && !PyLong_CheckExact(args[0].object.get())) return std::nullopt;  // numpy's: of its type
  c10::ScalarType type = is_float ? c10::get_default_dtype_as_scalartype() : c10::ScalarType::Long;
  ValueView device;
  for (std::size_t i = 1; i < args.size(); ++i) {
    PyObject *name = PyTuple_GET_ITEM(kwnames.get(), static_cast<Py_ssize_t>(i - 1)), *given = args[i].object;
    const bool is_device = PyUnicode_CompareWithASCIIString(name, "device") == 0;
    if (!is_device && PyUnicode_CompareWithASCIIString(name, "dtype") != 0) return std::nullopt;
    if (given == Py_None) continue;
    if (is_device) device = args[i];
    if (!is_device && !THPDtype_Check(given)) return std::nullopt;
    if (!is_device) type = reinterpret_cast<THPDtype*>(given)->scalar_type;
  }
  // Of other types torch checks the number, or rounds it in another way.
  if (is_float ? !c10::isFloatingType(type) || type > c10::ScalarType::BFloat16 : type != c10::ScalarType::Long)
    return std::nullopt;
  const Ref number = tracer_.numbers().TensorFor(args[0].object);
  const Ref to = Ref::Steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(THPVariableClass), "to"));
  const Ref dtype = Ref::Create(reinterpret_cast<PyObject*>(torch::getTHPDtype(type)));
  const Ref yes = Ref::Create(Py_True);
  const Ref names = Ref::Steal(device.object ? Py_BuildValue("(sss)", "dtype", "copy", "device")
                                             : Py_BuildValue("(ss)", "dtype", "copy"));
  if (!number || !to || !names) return Value();
  ValueVector all = {ValueView(number, kNoSource), ValueView(dtype, kNoSource), ValueView(yes, kNoSource)};
  if (device.object) all.push_back(device);
  return CallTorch(act, to, all, names);
}

std::optional<Value> NativeCalls::TensorOfNumbers(Activation& act, BorrowedRef callable,
                                                  absl::Span<const ValueView> args, BorrowedRef kwnames) {
  return NumberLists(journals_, *this).TensorOf(act, callable, args, kwnames);
}

Value NativeCalls::CallAttention(Activation& act, BorrowedRef callable, absl::Span<const ValueView> args,
                                 BorrowedRef kwnames) {
  const std::size_t index = IndexOfMask(args, kwnames);
  const bool given = index < args.size() && IsFakeTensor(args[index].object) && !fx_.keep_values();
  if (!given || !HasSpreadRows(THPVariable_Unpack(args[index].object.get()))) {
    return CallTorch(act, callable, args, kwnames);
  }
  const Ref contiguous =
      Ref::Steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(THPVariableClass), "contiguous"));
  const Value mask = CallTorch(act, contiguous, {args[index]}, BorrowedRef());
  if (!mask) return Value();
  ValueVector all(args.begin(), args.end());
  all[index] = mask;
  return CallTorch(act, callable, all, kwnames);
}

// torch.tensor and its like. Of tensors in a list it takes the numbers, if they are known.
Value NativeCalls::MakeTensor(BorrowedRef callable, absl::Span<const ValueView> args, BorrowedRef kwnames) {
  if (!args.empty() && IsArray(args[0].object) && NameOfCallable(callable) != "tensor")
    return breaks_.Break(GraphBreakKind::kOpaqueObject, "an array that a tensor shares its memory with");
  const bool of_numbers = args.empty() || !HoldsFake(args[0].object);
  if (of_numbers && !AnyFake(args)) return MakeHostTensor(callable, args, kwnames);
  const Ref numbers = of_numbers ? Ref() : NumbersIn(args[0].object);
  if (!numbers) return breaks_.Break(GraphBreakKind::kTensorToPython, "torch.tensor of a tensor");
  ValueVector all(args.begin(), args.end());
  all[0] = ValueView(numbers, kNoSource);
  return MakeHostTensor(callable, all, kwnames);
}

// The list with numbers instead of tensors of one element; null: not all are known.
Ref NativeCalls::NumbersIn(BorrowedRef list) {
  if (!PyList_CheckExact(list.get())) return Ref();
  Ref numbers = Ref::Steal(PyList_New(0));
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i) {
    Ref item = Ref::Create(PyList_GET_ITEM(list.get(), i));
    if (PyList_CheckExact(item.get())) {
      item = NumbersIn(item);
    } else if (IsFakeTensor(item)) {
      const Ref known = tracer_.KnownValueOf(item);
      const tracing::Tracer::Suspended off;
      item = known ? Ref::Steal(PyObject_CallMethod(known, "item", nullptr)) : Ref();
      PyErr_Clear();  // of more than one element: torch's own error is for the break's rest
    }
    if (!item || PyList_Append(numbers, item) < 0) return Ref();
  }
  return numbers;
}

Value NativeCalls::MakeHostTensor(BorrowedRef callable, absl::Span<const ValueView> args, BorrowedRef kwnames) {
  FxCall call(fx_, args);
  Value real;
  {
    tracing::Tracer::Suspended suspended;
    real = CallNative(callable, args, kwnames);
  }
  if (!real) return Value();
  absl::StatusOr<Ref> fake = tracer_.RegisterConstant(real.object, /*copy=*/true);
  if (!fake.ok()) return breaks_.Break(GraphBreakKind::kUnsupportedTensor, std::string(fake.status().message()));
  // Each call of the program makes a tensor of its own.
  Ref fresh = Ref::Steal(PyObject_CallMethod(*fake, "clone", nullptr));
  if (!boundary_.Check() || !fresh) return Value();
  Ref requires_grad = Ref::Steal(PyObject_GetAttrString(real.object, "requires_grad"));
  if (requires_grad.get() == Py_True)
    return breaks_.Break(GraphBreakKind::kAutograd, "torch.tensor(requires_grad=True)");
  if (!breaks_.Journalled(call.RecordHostTensor(callable, args, kwnames, fresh))) return Value();
  return Value{std::move(fresh), kNoSource};
}

}  // namespace framefuse
