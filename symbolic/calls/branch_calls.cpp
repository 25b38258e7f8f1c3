#include "symbolic/calls/branch_calls.h"

#include <torch/csrc/autograd/python_variable.h>

#include <cmath>
#include <functional>
#include <string>

#include "frame_eval/import_module.h"
#include "symbolic/ambient/torch_state.h"
#include "symbolic/calls/autograd_calls.h"
#include "symbolic/calls/call_evaluator.h"
#include "symbolic/calls/native_calls.h"
#include "symbolic/calls/reachable_state.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/expected_truths.h"
#include "symbolic/journals/fakes.h"
#include "symbolic/journals/fx_journal.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/made_classes.h"
#include "symbolic/journals/native_arguments.h"
#include "symbolic/journals/native_boundary.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/tracked.h"
#include "symbolic/journals/write_journal.h"
#include "symbolic/rules/call_arguments.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {
namespace {

constexpr int kMaxDepth = 32;

// The tensors of a result, in order.
struct Flat {
  std::vector<BorrowedRef> tensors;
  bool supported = true;
};

void Flatten(BorrowedRef object, Flat* flat, int depth = 0) {
  PyObject* o = object.get();
  if (tracing::Tracer::IsFake(object)) {
    flat->tensors.push_back(object);
  } else if (depth < kMaxDepth && (PyTuple_CheckExact(o) || PyList_CheckExact(o))) {
    for (Py_ssize_t i = 0; i < Py_SIZE(o); ++i) Flatten(PySequence_Fast_GET_ITEM(o, i), flat, depth + 1);
  } else if (depth < kMaxDepth && PyDict_CheckExact(o)) {
    PyObject *key, *part;
    Py_ssize_t position = 0;
    while (PyDict_Next(o, &position, &key, &part)) {
      flat->supported = flat->supported && PyUnicode_CheckExact(key);
      Flatten(part, flat, depth + 1);
    }
  } else {
    flat->supported = flat->supported && IsLeaf(object);
  }
}

// `like` with other tensors, taken from `next` on; null: `other` is not of its structure.
Ref Rebuild(BorrowedRef like, BorrowedRef other, PyObject*** next) {
  PyObject* o = like.get();
  if (tracing::Tracer::IsFake(like)) return tracing::Tracer::IsFake(other) ? Ref::Create(*(*next)++) : Ref();
  if (like.type() != other.type()) return Ref();
  if (PyTuple_CheckExact(o) || PyList_CheckExact(o)) {
    if (Py_SIZE(o) != Py_SIZE(other.get())) return Ref();
    Ref list = Ref::Steal(PyList_New(0));
    for (Py_ssize_t i = 0; i < Py_SIZE(o); ++i) {
      const Ref part = Rebuild(PySequence_Fast_GET_ITEM(o, i), PySequence_Fast_GET_ITEM(other.get(), i), next);
      if (!part) return Ref();
      PyList_Append(list.get(), part);
    }
    return PyTuple_CheckExact(o) ? Ref::Steal(PyList_AsTuple(list.get())) : list;
  }
  if (PyDict_CheckExact(o)) {
    if (PyDict_GET_SIZE(o) != PyDict_GET_SIZE(other.get())) return Ref();
    Ref dict = Ref::Steal(PyDict_New());
    PyObject *key, *part, *other_key, *other_part;
    Py_ssize_t position = 0, other_position = 0;
    while (PyDict_Next(o, &position, &key, &part)) {
      // In one order: the tensors of the branches are matched by it.
      if (!PyDict_Next(other.get(), &other_position, &other_key, &other_part) ||
          PyUnicode_Compare(key, other_key) != 0) {
        return Ref();
      }
      const Ref made = Rebuild(part, other_part, next);
      if (!made) return Ref();
      PyDict_SetItem(dict.get(), key, made);
    }
    return dict;
  }
  if (PyFloat_Check(o) && std::signbit(PyFloat_AS_DOUBLE(o)) != std::signbit(PyFloat_AS_DOUBLE(other.get())))
    return Ref();
  const int equal = PyComplex_Check(o) ? 0 : PyObject_RichCompareBool(o, other.get(), Py_EQ);
  PyErr_Clear();
  return equal == 1 || o == other.get() ? Ref::Create(o) : Ref();
}

}  // namespace

BranchCalls::BranchCalls(Journals& journals, CallEvaluator& calls, NativeCalls& natives, AutogradCalls& autograd)
    : tracer_(journals.tracer()),
      fx_(journals.fx()),
      breaks_(journals.breaks()),
      symbols_(journals.symbols()),
      boundary_(journals.boundary()),
      reads_(journals.reads()),
      objects_(journals.objects()),
      writes_(journals.writes()),
      expected_(journals.expected()),
      arguments_(journals.arguments()),
      made_(journals.made()),
      calls_(calls),
      natives_(natives),
      autograd_(autograd) {}

std::optional<Value> BranchCalls::CallCheck(Activation& act, absl::Span<const ValueView> args) {
  const bool plain = args.size() > 1 && args.size() < 4 && IsFakeTensor(args[1].object) &&
                     THPVariable_Unpack(args[1].object.get()).scalar_type() == c10::ScalarType::Bool;
  if (!plain) return std::nullopt;
  static PyObject* const method = PyObject_GetAttrString(THPVariableClass, "_is_all_true");
  const ValueView self[] = {args[1]};
  const Value all = natives_.CallTorch(act, method, self, nullptr);
  if (!all) return Value();
  const Ref known = tracer_.KnownValueOf(all.object);
  if (known || !expected_.ExpectCheck(act, all.object)) return std::nullopt;
  return Value{Ref::Create(Py_None), kNoSource};
}

// `roots`: what the branches are given; what else they can come to by names is added.
void BranchCalls::BeginConditional(std::vector<Ref>* roots) {
  for (const auto& [globals, writes] : writes_.globals()) {
    for (const OverlayWrite& w : writes) {
      if (w.value) roots->push_back(w.value);
    }
  }
  tracer_.BeginConditional(ReachableState(*roots, objects_.tracked(), made_).Tensors());
}

// Evaluates one branch; null: broke.
Value BranchCalls::CallBranch(Activation& act, GraphBreakKind kind, ValueView branch,
                              absl::Span<const ValueView> operands, const std::vector<Ref>& roots) {
  const ReachableState before(roots, objects_.tracked(), made_);
  if (!before.unknown().empty()) {
    return breaks_.Break(kind, "it can reach a " + before.unknown());
  }
  const WriteJournal::Counts effects = writes_.CountEffects();
  const std::function<bool()> inputs_unchanged = tracer_.StateOfInputs();
  const TorchState state = TorchState::Current();
  const bool applied = autograd_.ExchangeApplied(false);
  tracer_.BeginBranch();
  Value result =
      boundary_.Catching([&] { return calls_.CallWith(act, branch, operands, nullptr, Completion::kCallback); });
  if (!result) return breaks_.Break(kind, "it raises an exception");
  if (autograd_.applied()) return breaks_.Break(kind, "it applies an autograd.Function");
  autograd_.ExchangeApplied(applied);
  if (!(effects == writes_.CountEffects()) || state != TorchState::Current() || !before.IsUnchanged() ||
      !inputs_unchanged()) {
    return breaks_.Break(kind, "it changes what is outside of it");
  }
  reads_.Consume(result);
  if (!arguments_.PrepareNative(result.object, true)) return Value();
  Flat flat;
  Flatten(result.object, &flat);
  if (!flat.supported) {
    return breaks_.Break(kind, "it returns more than tensors and constants");
  }
  if (absl::Status s = tracer_.EndBranch(flat.tensors); !s.ok()) {
    if (!boundary_.Check()) return Value();
    return breaks_.Break(kind, std::string(s.message()));
  }
  return result;
}

// args: condition, what to do if it holds and if not, and the operands of both.
Value BranchCalls::CallCond(Activation& act, absl::Span<const ValueView> args) {
  if (!symbols_.none()) return breaks_.NeedStaticSizes();  // the operator has its branches as text
  const bool plain = args.size() == 4 && IsFakeTensor(args[0].object) &&
                     (PyTuple_CheckExact(args[3].object.get()) || PyList_CheckExact(args[3].object.get()));
  if (!plain) return breaks_.Break(GraphBreakKind::kCondBranch, "the arguments of cond()");
  if (!arguments_.PrepareNative(args[3], true)) return Value();
  tracer_.AskLeaves();
  ValueVector operands;
  std::vector<Ref> roots = {Ref::Create(args[1].object), Ref::Create(args[2].object)};
  for (Py_ssize_t i = 0; i < Py_SIZE(args[3].object.get()); ++i) {
    roots.push_back(Ref::Create(PySequence_Fast_GET_ITEM(args[3].object.get(), i)));
    operands.push_back(ValueView(roots.back(), kNoSource));
  }
  BeginConditional(&roots);
  const std::size_t journalled = fx_.nodes().size();
  const Value yes = CallBranch(act, GraphBreakKind::kCondBranch, args[1], operands, roots);
  if (!yes) return Value();
  const Value no = CallBranch(act, GraphBreakKind::kCondBranch, args[2], operands, roots);
  if (!no) return Value();
  fx_.Truncate(journalled);
  return CallJoined(act, GraphBreakKind::kCondBranch, args[0], yes, no);
}

// The operator of the branches that were evaluated last; its results in the structure of theirs.
Value BranchCalls::CallJoined(Activation& act, GraphBreakKind kind, ValueView condition, ValueView yes, ValueView no) {
  const bool same = kind == GraphBreakKind::kCheckpoint;
  absl::StatusOr<tracing::Tracer::CondCall> call = same ? tracer_.JoinOneBranch() : tracer_.JoinBranches();
  if (!boundary_.Check()) return Value();
  if (!call.ok()) return breaks_.Break(kind, std::string(call.status().message()));
  if (call->replays && fx_.keep_values()) {  // torch's own tools cannot describe the generators' states
    return breaks_.Break(kind, "it draws random numbers and has a gradient, in a graph for an FX backend");
  }
  ValueVector all = {condition};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(call->args.get()); ++i) {
    all.push_back(ValueView(PyTuple_GET_ITEM(call->args.get(), i), kNoSource));
  }
  const Ref names = Ref::Steal(PySequence_Tuple(call->kwargs.get()));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names.get()); ++i) {
    all.push_back(ValueView(PyDict_GetItem(call->kwargs.get(), PyTuple_GET_ITEM(names.get(), i)), kNoSource));
  }
  const Value results = natives_.CallTorch(act, call->op, all, PyTuple_GET_SIZE(names.get()) == 0 ? Ref() : names);
  if (!results) return Value();
  if (!PyList_CheckExact(results.object.get())) return breaks_.Break(kind, "the results of the operator");
  PyObject** next = PySequence_Fast_ITEMS(results.object.get());
  Ref made = Rebuild(yes.object, no.object, &next);
  if (!made) return breaks_.Break(kind, "the branches return different structures");
  return Value{std::move(made), kNoSource};
}

// args: a function without arguments; None: a checkpoint that is not taken into graphs.
Value BranchCalls::CallCheckpoint(Activation& act, absl::Span<const ValueView> args) {
  if (!symbols_.none()) return breaks_.NeedStaticSizes();  // the operator has its branches as text
  constexpr GraphBreakKind kKind = GraphBreakKind::kCheckpoint;
  if (args.size() != 1 || args[0].object.get() == Py_None) return breaks_.Break(kKind, "its arguments");
  const Ref torch = ImportModule("torch");
  const Ref make = torch ? Ref::Steal(PyObject_GetAttrString(torch, "tensor")) : Ref();
  if (!make) return Value();
  const ValueView holds[] = {ValueView(Py_True, kNoSource)};
  const Value condition = natives_.MakeHostTensor(make, holds, nullptr);
  if (!condition) return Value();
  std::vector<Ref> roots = {Ref::Create(args[0].object)};
  BeginConditional(&roots);
  const std::size_t journalled = fx_.nodes().size();
  const Value result = CallBranch(act, kKind, args[0], {}, roots);
  if (!result) return Value();
  fx_.Truncate(journalled);
  return CallJoined(act, kKind, condition, result, result);
}

}  // namespace framefuse
