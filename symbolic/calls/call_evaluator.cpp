#include "symbolic/calls/call_evaluator.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "frame_eval/bytecode/liveness.h"
#include "frame_eval/compiled_function.h"
#include "frame_eval/versions/private_api.h"
#include "guards/read.h"
#include "symbolic/calls/class_statements.h"
#include "symbolic/calls/frame_entry.h"
#include "symbolic/calls/generator_calls.h"
#include "symbolic/calls/sized_substitutes.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/class_order.h"
#include "symbolic/journals/fakes.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/made_classes.h"
#include "symbolic/journals/made_in_backward.h"
#include "symbolic/journals/native_arguments.h"
#include "symbolic/journals/native_boundary.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/tracked.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/rules/builtin_types.h"
#include "symbolic/rules/call_arguments.h"
#include "symbolic/rules/call_rules.h"
#include "symbolic/rules/count_outcomes.h"
#include "symbolic/rules/disabled_function.h"
#include "symbolic/rules/random_methods.h"
#include "symbolic/rules/tensor_types.h"

namespace framefuse {

CallEvaluator::CallEvaluator(Journals& journals, ClassStatements& class_statements, FrameEntry& entry,
                             Protocols& meaning, AttributeReads& attributes, NativeProtocols& native,
                             TensorAttributes& tensor_attributes, AttributeWrites& attribute_writes,
                             Iteration& iteration, TextConversion& text)
    : breaks_(journals.breaks()),
      boundary_(journals.boundary()),
      reads_(journals.reads()),
      objects_(journals.objects()),
      arguments_(journals.arguments()),
      made_(journals.made()),
      class_statements_(class_statements),
      entry_(entry),
      sizes_(journals),
      natives_(journals),
      autograd_(journals, natives_),
      modules_(journals, meaning, attributes, *this),
      types_(journals, *this, natives_),
      cached_(journals, *this),
      instances_(journals, native, meaning, *this, natives_, cached_),
      methods_(journals, attributes, tensor_attributes, attribute_writes, *this, natives_),
      reprs_(journals, *this),
      builtins_(journals, meaning, class_statements, iteration, text, *this, natives_, autograd_),
      inlined_(journals.options().inlined) {}

Value CallEvaluator::Call(Activation& act, ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames) {
  return CallWith(act, callable, args, kwnames, Completion::kPush);
}

bool IsFrameOf(const Activation& act, BorrowedRef function) {
  return PyFunction_Check(function.get()) &&
         PyFunction_GET_CODE(function.get()) == reinterpret_cast<PyObject*>(frame_ops::Code(act.frame));
}

namespace {
// Sizes of what a list of the program's own holds are known once that was looked at. False: broke.
bool SeeItems(const ObjectTable& objects, NativeArguments& arguments, absl::Span<const ValueView> args) {
  return std::all_of(args.begin(), args.end(), [&](ValueView v) {
    const bool holds = PyList_CheckExact(v.object.get()) || PyTuple_CheckExact(v.object.get());
    return !holds || objects.Find(v.object) == nullptr || arguments.PrepareOuter(v);
  });
}
// type.__call__, which a metaclass's own asks for by super().
bool IsCallOfType(BorrowedRef wrapper) {
  static PyObject* const call = PyUnicode_InternFromString("__call__");
  return wrapper.get() == PyDict_GetItemWithError(frame_ops::TypeDict(&PyType_Type), call);
}
// As `type` has it, for a metaclass that asks its base.
Value CheckInstance(ReadJournal& reads, BreakController& breaks, ValueView callable, ValueView object) {
  auto* cls = reinterpret_cast<PyTypeObject*>(PyCFunction_GET_SELF(callable.object.get()));
  reads.GuardTypeOfLeaf(object);
  PyTypeObject* type = object.object.type();
  GuardClassOrder(reads, type);
  if (PyType_IsSubtype(type, cls) != 0) return Value{Ref::Create(Py_True), kNoSource};
  static PyObject* const plain = PyDict_GetItemString(frame_ops::TypeDict(&PyBaseObject_Type), "__class__");
  const bool says_its_type = reads.LookupInType(type, "__class__").get() == plain || IsFakeTensor(object.object);
  if (!says_its_type) return breaks.Break(GraphBreakKind::kUnlistedCallable, DescribeCallable(callable.object));
  return Value{Ref::Create(Py_False), kNoSource};
}

}  // namespace

Value CallEvaluator::CallWith(Activation& act, ValueView callable, absl::Span<const ValueView> args,
                              BorrowedRef kwnames, Completion completion) {
  if (!callable.object) return Value();
  reads_.Consume(callable);  // a leaf is not callable: the error names its type
  if (std::optional<Value> size = sizes_.Call(callable.object, args, kwnames)) return *std::move(size);
  GeneratorCalls on_generator{*this, boundary_, reads_, objects_, sizes_};
  if (std::optional<Value> done = on_generator.Call(act, callable, args, kwnames)) return *std::move(done);
  PyObject* o = callable.object;
  PyTypeObject* type = Py_TYPE(o);
  const KnownCallable* known = FindKnownCallable(callable.object);
  // A method's substitute stands for some of its cases only: see CallDescriptor.
  if (known != nullptr && known->substitute && type != &PyMethodDescr_Type && !IsFrameOf(act, known->substitute) &&
      (!known->of_torch_only || IsTorchCode(frame_ops::Code(act.frame)))) {
    return CallWith(act, ValueView(known->substitute, kNoSource), args, kwnames, completion);
  }
  if (std::optional<Value> made = natives_.TensorOfNumbers(act, callable.object, args, kwnames))
    return *std::move(made);
  if (HasSizedSubstitute(callable.object) && !SeeItems(objects_, arguments_, args)) return Value();
  const BorrowedRef sized = SizedSubstitute(sizes_, callable.object, args);
  if (sized && !IsFrameOf(act, sized)) return CallWith(act, ValueView(sized, kNoSource), args, kwnames, completion);
  if (IsCompiledFunctionObject(callable.object)) {  // a compiled function in captured code is its Python function
    const CallTarget* target = TargetOf(callable.object);
    if (target == nullptr || !target->is_captured())
      return breaks_.Break(GraphBreakKind::kDisabled, DescribeDisabled(callable.object));
    Ref wrapped = Ref::Create(WrappedCallable(callable.object));
    return CallWith(act, objects_.Adopt(wrapped, reads_.ConstantSource(wrapped)), args, kwnames, completion);
  }
  if (known != nullptr && known->rule) {
    Value result = CallByRule(act, *known->rule, callable, args, kwnames);
    if (PyType_Check(o)) MadeInBackward::Note(result.object);
    return result;
  }
  if (type == &PyFunction_Type) return CallFunction(act, callable, args, kwnames, completion);
  if (type == &PyMethod_Type) return CallBoundMethod(act, callable, args, kwnames, completion);
  if (PyType_Check(o)) return types_.CallType(act, callable, args, kwnames, completion);
  if (PyCFunction_Check(o)) return CallBuiltin(act, callable, args, kwnames);
  if (type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type || type == &PyClassMethodDescr_Type ||
      type == private_api::MethodWrapperType()) {
    if (type == &PyWrapperDescr_Type && IsCallOfType(callable.object) && !args.empty() &&
        PyType_Check(args[0].object.get())) {
      return types_.CallPastMetaclass(act, args[0], args.subspan(1), kwnames);
    }
    return methods_.CallDescriptor(act, callable, args, kwnames);
  }
  if (DrawsForNumpy(callable.object)) {
    return builtins_.CallSpecial(act, SpecialCall::kDraw, callable, args, kwnames);
  }
  return instances_.CallInstance(act, callable, args, kwnames, completion);
}

Value CallEvaluator::CallEx(Activation& act, ValueView callable, ValueView args, ValueView kwargs) {
  return instances_.CallEx(act, callable, args, kwargs);
}

Value CallEvaluator::MakeException(Activation& act, ValueView type) {
  return types_.CallType(act, type, {}, nullptr, Completion::kCallback);
}

Value CallEvaluator::IsInstance(Activation& act, ValueView object, ValueView type) {
  return builtins_.CallSpecial(act, SpecialCall::kIsInstance, type, {object, type}, nullptr);
}

Value CallEvaluator::CallByRule(Activation& act, const CallRule& rule, ValueView callable,
                                absl::Span<const ValueView> args, BorrowedRef kwnames) {
  const RuleCount count(rule, breaks_.control());
  switch (rule.kind) {
    case CallRule::Kind::kSpecial:
      return builtins_.CallSpecial(act, rule.special, callable, args, kwnames);
    case CallRule::Kind::kBreaks:
      return breaks_.Break(rule.break_kind, DescribeCallable(callable.object));
    case CallRule::Kind::kDeferred:
      return cached_.Defer(callable, args, kwnames);
    case CallRule::Kind::kTorch:
      return natives_.CallTorch(act, callable.object, args, kwnames);
    case CallRule::Kind::kNumpy:
      return natives_.CallNumpy(callable, args, kwnames);
    case CallRule::Kind::kMoves:
      return MoveInto(callable, args, kwnames);
    case CallRule::Kind::kPure:
      if (rule.calls_back) return methods_.CallThatCallsBack(act, callable, args, kwnames);
      [[fallthrough]];
    case CallRule::Kind::kPlain:
      if (!arguments_.PrepareAll(args, rule.kind == CallRule::Kind::kPure)) return Value();
      return natives_.CallNative(callable.object, args, kwnames);
  }
  return Value();
}

Value CallEvaluator::MoveInto(ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames) {
  for (const ValueView& v : args) {
    if (!arguments_.PrepareOuter(v)) return Value();
  }
  return natives_.CallNative(callable.object, args, kwnames);
}

Value CallEvaluator::CallBoundMethod(Activation& act, ValueView method, absl::Span<const ValueView> args,
                                     BorrowedRef kwnames, Completion completion) {
  Tracked* t = objects_.Find(method.object);
  Value function{Ref::Create(PyMethod_GET_FUNCTION(method.object.get())), kNoSource};
  Value self{Ref::Create(PyMethod_GET_SELF(method.object.get())), kNoSource};
  if (t != nullptr) {  // it existed before: its parts are read
    function =
        objects_.Adopt(function.object, reads_.sources().Intern(SourceKind::kMethodFunction, t->source, 0, nullptr));
    if (!function) return Value();
    self = objects_.Adopt(self.object, reads_.sources().Intern(SourceKind::kMethodSelf, t->source, 0, nullptr));
    if (!self) return Value();
  }
  ValueVector all;
  all.push_back(self);
  all.insert(all.end(), args.begin(), args.end());
  return CallWith(act, function, all, kwnames, completion);
}

Value CallEvaluator::CallDisabled(Activation& act, ValueView function, absl::Span<const ValueView> args,
                                  BorrowedRef kwnames, Completion completion) {
  if (!IsDisabledForDynamo(function.object)) {
    return breaks_.Break(GraphBreakKind::kDisabled, DescribeDisabled(function.object));
  }
  const Ref behind = Ref::Create(BehindTorchDisable(function.object));
  return CallWith(act, objects_.Adopt(behind, reads_.ConstantSource(behind)), args, kwnames, completion);
}

Value CallEvaluator::CallFunction(Activation& act, ValueView function, absl::Span<const ValueView> args,
                                  BorrowedRef kwnames, Completion completion, Ref pending) {
  if (!function.object) return Value();
  const bool has_frame = PyFunction_Check(function.object.get()) && FindCallRule(function.object) == nullptr;
  if (!has_frame) return CallWith(act, function, args, kwnames, completion);
  if (HowDisabledByTorch(function.object) != DisabledByTorch::kNo) {
    return CallDisabled(act, function, args, kwnames, completion);
  }
  const KnownFunction known = FindKnownFunction(function.object);
  const bool of_one = args.size() == 1 && !kwnames;
  if (known == KnownFunction::kHiddenFromDynamo) {
    const Ref behind = Ref::Steal(PyObject_GetAttrString(function.object, "__wrapped__"));
    if (behind) return CallWith(act, objects_.Adopt(behind, reads_.ConstantSource(behind)), args, kwnames, completion);
    PyErr_Clear();
  }
  if (known == KnownFunction::kModuleCall) {
    if (std::optional<Value> result = modules_.CallModule(act, args, kwnames, completion)) return *std::move(result);
  }
  if (known == KnownFunction::kDispatch && of_one) return cached_.CallDispatch(act, function, args);
  if (known == KnownFunction::kMakesClass) return class_statements_.Make(function, args, kwnames);
  if (known == KnownFunction::kProcessesClass && !args.empty() && made_.IsMade(args[0].object)) {
    return class_statements_.Process(function, args, kwnames);
  }
  if (objects_.has_history_from_outside() && known == KnownFunction::kGrad) {
    // The engine runs only what leads to the inputs asked for; one before the frame would look unused.
    return breaks_.Break(GraphBreakKind::kAutograd, "a backward pass that may go on before the frame");
  }
  if (std::optional<Value> done = CallKnown(act, known, function.object, args, kwnames)) return *std::move(done);
  if (known == KnownFunction::kRepr && of_one) return reprs_.Call(act, function, args[0]);
  if (IsTransformation(function.object, args)) {
    autograd_.ExchangeApplied(true);  // torch's code may apply Functions of its own, which is not seen here
    return builtins_.torch().transforms().CallTransformation(act, function.object, args, kwnames);
  }
  if (IsTorchLeafFunction(function.object) && !IsInlined(function.object) &&
      std::all_of(args.begin(), args.end(), [](const ValueView& v) { return IsPlainArgument(v.object); })) {
    return natives_.CallTorch(act, function.object, args, kwnames);
  }
  auto* code = reinterpret_cast<PyCodeObject*>(reinterpret_cast<PyFunctionObject*>(function.object.get())->func_code);
  const bool makes_memo = known == KnownFunction::kDeepCopy && of_one;
  if (makes_memo) completion = Completion::kCallback;  // its addresses mean nothing after a break
  const bool own_memo = makes_memo || (has_memo_ && IsCopyCode(frame_ops::Code(act.frame)));
  if (SeesMemo(act, code, args))
    return breaks_.Break(GraphBreakKind::kIdentityOfFresh, DescribeCallable(function.object));
  // Sources of leaves survive in positional slots only; everything else is guarded now.
  const std::size_t positional = PositionalCount(args, kwnames);
  for (std::size_t i = 0; i < args.size(); ++i) {
    const bool keeps_source = i < positional && i < static_cast<std::size_t>(code->co_argcount) &&
                              !objects_.IsFreshFunction(function.object) &&
                              (code->co_flags & (CO_GENERATOR | CO_COROUTINE)) == 0;
    if (!keeps_source) reads_.Move(args[i]);
  }
  entry_.Expect({function.object, completion, std::move(pending), args.subspan(0, positional)});
  const bool had_memo = std::exchange(has_memo_, known == KnownFunction::kDeepCopy ? own_memo : has_memo_);
  Ref result = Ref::Steal(boundary_.Run([&] { return Vectorcall(function.object, args, kwnames); }, function.object));
  has_memo_ = had_memo;
  entry_.Expect({});
  return boundary_.Wrap(std::move(result));
}

std::optional<Value> CallEvaluator::CallKnown(Activation& act, KnownFunction known, BorrowedRef function,
                                              absl::Span<const ValueView> args, BorrowedRef kwnames) {
  if (known == KnownFunction::kCheck && !kwnames) return builtins_.torch().branches().CallCheck(act, args);
  if (known == KnownFunction::kRegisterHook && args.size() == 2 && !kwnames) return cached_.DeferHook(function, args);
  if (known == KnownFunction::kFunctionUnderTransform) return autograd_.CallForTransform(act, function, args, kwnames);
  return std::nullopt;
}

bool CallEvaluator::IsInlined(BorrowedRef function) const {
  PyObject* code = PyFunction_GET_CODE(function.get());
  const auto is_code = [&](const auto& c) { return reinterpret_cast<PyObject*>(c.get()) == code; };
  return std::any_of(inlined_.begin(), inlined_.end(), is_code);
}

namespace {

// All keys of a memo are addresses; those of an object's state are names.
bool MayBeMemo(BorrowedRef object) {
  if (!PyDict_Check(object.get())) return false;
  PyObject *key = nullptr, *value = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(object.get(), &position, &key, &value) != 0) {
    if (!PyLong_CheckExact(key)) return false;
  }
  return true;
}
}  // namespace

// Whether a deep copy that made its memo, where objects are known by their addresses, gives it to the program.
bool CallEvaluator::SeesMemo(Activation& act, PyCodeObject* code, absl::Span<const ValueView> args) const {
  if (!has_memo_ || IsSkippedCode(code) || !IsCopyCode(frame_ops::Code(act.frame))) return false;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const bool is_read = i >= static_cast<std::size_t>(code->co_argcount) || (code->co_flags & CO_VARARGS) != 0 ||
                         LivenessOf(code).IsLive(0, static_cast<int>(i)) || IsCellSlot(code, static_cast<int>(i));
    if (MayBeMemo(args[i].object) && is_read) return true;
  }
  return false;
}

// A classmethod or the __new__ of a builtin type.
Value CallEvaluator::CallBuiltinOfType(Activation& act, ValueView callable, absl::Span<const ValueView> args,
                                       BorrowedRef kwnames) {
  PyObject* self = PyCFunction_GET_SELF(callable.object.get());
  auto* type = reinterpret_cast<PyTypeObject*>(self);
  const std::string_view name = reinterpret_cast<PyCFunctionObject*>(callable.object.get())->m_ml->ml_name;
  if (name == "apply" && IsAutogradFunction(self))
    return autograd_.ApplyAutogradFunction(act, callable.object, type, args, kwnames);
  if (name == "__instancecheck__" && args.size() == 1 && !kwnames)
    return CheckInstance(reads_, breaks_, callable, args[0]);
  const CallRule* rule = FindCallRule(self);
  const bool listed = rule != nullptr && (rule->kind == CallRule::Kind::kPure || rule->kind == CallRule::Kind::kMoves ||
                                          rule->kind == CallRule::Kind::kTorch);
  if (name == "__new__" && PyType_IsSubtype(type, &PyType_Type)) {
    if (std::optional<Value> made = class_statements_.NewByType(act, callable, args, kwnames)) return *std::move(made);
    return breaks_.Break(GraphBreakKind::kClassDefinition, "type.__new__");
  }
  if (name == "__new__" && !args.empty() && PyType_Check(args[0].object.get())) {
    auto* made = reinterpret_cast<PyTypeObject*>(args[0].object.get());
    // Those of an attempt end with it.
    if (IsPythonClass(made) && reads_.LookupInType(made, "__del__")) {
      return breaks_.Break(GraphBreakKind::kFinaliser, made->tp_name);
    }
    // Of a namedtuple, say: the items move into it, and none is looked at.
    if (type == &PyTuple_Type) return MoveInto(callable, args, kwnames);
  }
  if (name == "__new__" || listed || BuiltinMethodEffect(type, name) == MethodEffect::kReads ||
      PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_BaseException))) {
    if (!arguments_.PrepareAll(args)) return Value();
    Value result = natives_.CallNative(callable.object, args, kwnames);
    if (name == "__new__") MadeInBackward::Note(result.object);
    return result;
  }
  if (IsTensorType(self)) return natives_.CallTorch(act, callable.object, args, kwnames);
  return breaks_.Break(GraphBreakKind::kUnlistedCallable, DescribeCallable(callable.object));
}

Value CallEvaluator::CallBuiltin(Activation& act, ValueView callable, absl::Span<const ValueView> args,
                                 BorrowedRef kwnames) {
  Ref seen = Ref::Create(PyCFunction_GET_SELF(callable.object.get()));
  const Tracked* bound = objects_.Find(callable.object);
  if (bound != nullptr && seen && !PyModule_Check(seen.get()) && !PyType_Check(seen.get())) {
    // It existed before, so its self did: to be seen through its representative.
    const bool by_parts = DescriptorOfBoundMethod(callable.object) != nullptr;
    Value adopted =
        objects_.Adopt(seen, by_parts ? reads_.sources().Intern(SourceKind::kMethodSelf, bound->source, 0, nullptr)
                                      : reads_.ConstantSource(seen));
    if (!adopted) return Value();
    reads_.Consume(adopted);
    seen = std::move(adopted.object);
  }
  PyObject* self = seen;
  const char* name = reinterpret_cast<PyCFunctionObject*>(callable.object.get())->m_ml->ml_name;
  if (IsDispatcherFunction(callable.object)) return natives_.CallTorch(act, callable.object, args, kwnames);
  if (self == nullptr || PyModule_Check(self)) {
    return breaks_.Break(GraphBreakKind::kUnlistedCallable, DescribeCallable(callable.object));
  }
  if (IsFakeTensor(self)) {
    BorrowedRef descriptor = reads_.LookupInType(Py_TYPE(self), name);
    ValueVector all;
    all.push_back(ValueView(self, kNoSource));
    all.insert(all.end(), args.begin(), args.end());
    if (descriptor && descriptor.type() == &PyMethodDescr_Type) {
      return CallWith(act, ValueView(descriptor, kNoSource), all, kwnames, Completion::kPush);
    }
    return natives_.CallTorch(act, callable.object, args, kwnames);
  }
  Tracked* t = objects_.Find(self);
  if (t != nullptr && t->kind == TrackedKind::kInstanceDict) {
    ValueVector all;
    all.push_back(ValueView(self, kNoSource));
    all.insert(all.end(), args.begin(), args.end());
    BorrowedRef descriptor = reads_.LookupInType(&PyDict_Type, name);
    return methods_.CallDescriptor(act, ValueView(descriptor, kNoSource), all, kwnames);
  }
  if (PyType_Check(self)) return CallBuiltinOfType(act, callable, args, kwnames);
  ValueVector all;
  all.push_back(ValueView(self, kNoSource));
  all.insert(all.end(), args.begin(), args.end());
  BorrowedRef descriptor = DescriptorOfBoundMethod(callable.object);
  if (!descriptor) {
    descriptor = frame_ops::TypeLookup(Py_TYPE(self), Ref::Steal(PyUnicode_InternFromString(name)).get());
  }
  if (descriptor && descriptor.type() == &PyMethodDescr_Type) {
    const ValueView method(descriptor, kNoSource);
    const bool known = FindCallRule(descriptor) != nullptr || HasSizedSubstitute(descriptor);
    return known ? CallWith(act, method, all, kwnames, Completion::kPush)
                 : methods_.CallDescriptor(act, method, all, kwnames);
  }
  return breaks_.Break(GraphBreakKind::kUnlistedCallable, DescribeCallable(callable.object));
}

}  // namespace framefuse
