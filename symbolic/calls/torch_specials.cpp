#include "symbolic/calls/torch_specials.h"

#include <optional>
#include <utility>

#include "common/check.h"
#include "symbolic/calls/native_calls.h"
#include "symbolic/frames/installed_code.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/capture_position.h"
#include "symbolic/journals/fakes.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/native_arguments.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/rules/call_arguments.h"
#include "symbolic/rules/number_arrays.h"
#include "symbolic/rules/torch_generators.h"
#include "symbolic/tracing/node_histories.h"

namespace framefuse {
namespace {

Value Constant(PyObject* object) { return Value{Ref::Create(object), kNoSource}; }

// torch.asarray gives a tensor over the memory of whatever has some.
bool MayShareMemory(BorrowedRef callable, absl::Span<const ValueView> args) {
  if (NameOfCallable(callable) != "asarray") return false;
  if (args.empty()) return true;
  PyObject* o = args[0].object.get();
  return !PyFloat_CheckExact(o) && !PyLong_Check(o) && !PyComplex_CheckExact(o) && !PyList_CheckExact(o) &&
         !PyTuple_CheckExact(o);
}

// Libraries' ways for compiled code are made for another compiler. Torch's own are part of how its operators are
// called.
bool IsTold(PyCodeObject* asking) { return IsTorchCode(asking) || !IsInstalled(asking); }

}  // namespace

TorchSpecials::TorchSpecials(Journals& journals, CallEvaluator& calls, NativeCalls& natives, AutogradCalls& autograd)
    : breaks_(journals.breaks()),
      objects_(journals.objects()),
      arguments_(journals.arguments()),
      options_(journals.options()),
      natives_(natives),
      own_generators_(journals, natives),
      arrays_(journals, natives),
      branches_(journals, calls, natives, autograd),
      transforms_(journals, natives),
      copies_(journals),
      settings_(journals, natives) {}

Value TorchSpecials::Call(Activation& act, SpecialCall which, ValueView callable, absl::Span<const ValueView> args,
                          BorrowedRef kwnames) {
  switch (which) {
    case SpecialCall::kFromNumpy:
      if (args.size() == 1 && !kwnames && IsArray(args[0].object)) return arrays_.TensorOf(act, args[0]);
      return breaks_.Break(GraphBreakKind::kOpaqueObject, "torch.from_numpy");
    case SpecialCall::kAsTensor:
      if (!args.empty() && IsArray(args[0].object)) return TensorOfArray(act, callable, args, kwnames);
      if (MayShareMemory(callable.object, args)) return breaks_.Break(GraphBreakKind::kOpaqueObject, "torch.asarray");
      if (!args.empty() && IsFakeTensor(args[0].object)) return natives_.CallTorch(act, callable.object, args, kwnames);
      [[fallthrough]];
    case SpecialCall::kTorchTensor:
      if (std::optional<Value> made = natives_.TensorOfNumber(act, args, kwnames)) return *std::move(made);
      if (!arguments_.PrepareAll(args)) return Value();
      return natives_.MakeTensor(callable.object, args, kwnames);
    case SpecialCall::kAttention:
      return natives_.CallAttention(act, callable.object, args, kwnames);
    case SpecialCall::kTorchPlain:
    case SpecialCall::kAllowInGraph:
      return natives_.CallTorch(act, callable.object, args, kwnames);
    case SpecialCall::kGraphBreak:
      if (IsTorchCode(frame_ops::Code(act.frame))) return Constant(Py_None);  // torch's own, meant for Dynamo
      return breaks_.Break(GraphBreakKind::kExplicit, "");
    case SpecialCall::kIsCompiling:
      return Constant(options_.tell_libraries || IsTold(frame_ops::Code(act.frame)) ? Py_True : Py_False);
    case SpecialCall::kReadsSetting:
      return settings_.Read(act, callable, args, kwnames);
    case SpecialCall::kSets:
      return settings_.Set(act, callable, args, kwnames);
    case SpecialCall::kSetsAgain:
      return settings_.SetAgain(callable, args, kwnames);
    case SpecialCall::kOfOwnTensors:
      return CallOfOwnTensor(act, callable, args, kwnames);
    case SpecialCall::kInferenceMode:
      return transforms_.CallOfInferenceMode(args);
    case SpecialCall::kDeepCopyOfTensor:
      return copies_.Check(args);
    case SpecialCall::kPushFunctionMode:
    case SpecialCall::kPopFunctionMode:
      return transforms_.CallOfFunctionModes(which, callable, args, kwnames);
    case SpecialCall::kEnterDualLevel:
    case SpecialCall::kExitDualLevel:
      return transforms_.CallOfDualLevels(which, callable, args, kwnames);
    case SpecialCall::kCheckpoint:
      return branches_.CallCheckpoint(act, args);
    case SpecialCall::kCond:
      return branches_.CallCond(act, args);
#define FF_FAMILY kTorch
#include "symbolic/calls/other_families.def"
      break;
  }
  FF_CHECK(false) << "special call " << static_cast<int>(which) << " came to torch's family";
  return Value();
}

Value TorchSpecials::CallOfOwnTensor(Activation& act, ValueView callable, absl::Span<const ValueView> args,
                                     BorrowedRef kwnames) {
  if (IsOfGenerators(callable.object)) return own_generators_.Call(callable.object, args, kwnames);
  if (!args.empty() && objects_.Find(args[0].object) != nullptr) {
    return breaks_.Break(GraphBreakKind::kTensorFact, DescribeCallable(callable.object));
  }
  Value result = natives_.CallTorch(act, callable.object, args, kwnames);
  // The one that gives the tensor back detaches it.
  const bool detaches = result && !args.empty() && result.object.get() == args[0].object.get();
  if (detaches && IsFakeTensor(result.object)) tracing::NoteDetachedInPlace(result.object);
  return result;
}

// torch.as_tensor and torch.asarray: the tensor over the array's memory, or one made of that.
Value TorchSpecials::TensorOfArray(Activation& act, ValueView callable, absl::Span<const ValueView> args,
                                   BorrowedRef kwnames) {
  const Value tensor = arrays_.TensorOf(act, args[0]);
  if (!tensor || args.size() == 1) return tensor;
  if (NameOfCallable(callable.object) != "as_tensor") {
    return breaks_.Break(GraphBreakKind::kOpaqueObject, DescribeCallable(callable.object));
  }
  ValueVector all(args.begin(), args.end());
  all[0] = tensor;
  return natives_.CallTorch(act, callable.object, all, kwnames);
}

}  // namespace framefuse
