#include "symbolic/calls/method_calls.h"

#include <torch/csrc/autograd/python_variable.h>

#include <optional>

#include "absl/strings/str_cat.h"
#include "frame_eval/versions/private_api.h"
#include "symbolic/calls/call_evaluator.h"
#include "symbolic/calls/native_calls.h"
#include "symbolic/journals/backward_phase.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/context_variables.h"
#include "symbolic/journals/elements.h"
#include "symbolic/journals/fakes.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/made_in_backward.h"
#include "symbolic/journals/native_arguments.h"
#include "symbolic/journals/native_boundary.h"
#include "symbolic/journals/object_contents.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/weak_targets.h"
#include "symbolic/journals/write_journal.h"
#include "symbolic/messages/code_text.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/protocols/attribute_reads.h"
#include "symbolic/protocols/attribute_writes.h"
#include "symbolic/protocols/tensor_attributes.h"
#include "symbolic/rules/builtin_types.h"
#include "symbolic/rules/call_arguments.h"
#include "symbolic/rules/native_items.h"
#include "symbolic/rules/number_arrays.h"
#include "symbolic/rules/tensor_types.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {
namespace {

Value None() { return Value{Ref::Create(Py_None), kNoSource}; }

// Its argument becomes an item, and nobody looks at it.
bool OnlyKeeps(PyTypeObject* owner, absl::string_view method) {
  return (owner == &PyList_Type && method == "append") ||
         (owner == DequeType() && (method == "append" || method == "appendleft"));
}

Ref NumbersOf(tracing::Tracer& tracer, BorrowedRef tensor, bool item, bool row_by_row);

// tolist() of each row, as lists in a list; null: the graph computes not all.
Ref RowsOf(tracing::Tracer& tracer, BorrowedRef tensor) {
  constexpr std::int64_t kMostNumbers = 64;
  const at::Tensor& t = THPVariable_Unpack(tensor.get());
  const std::optional<std::int64_t> rows = t.sym_size(0).maybe_as_int(), count = t.sym_numel().maybe_as_int();
  if (!rows || !count || *count > kMostNumbers) return Ref();
  Ref lists = Ref::Steal(PyList_New(0));
  for (std::int64_t i = 0; lists && i < *rows; ++i) {
    const Ref row = Ref::Steal(PyObject_CallMethod(tensor, "select", "iL", 0, static_cast<long long>(i)));
    const Ref list = row ? NumbersOf(tracer, row, false, true) : Ref();
    if (!list || PyList_Append(lists, list) < 0) {
      PyErr_Clear();  // a break is noted, whatever becomes of its error
      return Ref();
    }
  }
  return lists;
}

// What item() or tolist() gives, where the graph computes it; null: it cannot.
Ref NumbersOf(tracing::Tracer& tracer, BorrowedRef tensor, bool item, bool row_by_row) {
  const at::Tensor& t = THPVariable_Unpack(tensor.get());
  if (item && t.sym_numel().maybe_as_int() != 1) return Ref();  // of more it raises
  if (!item && t.dim() == 1 && t.sym_numel().maybe_as_int() == 0) return Ref::Steal(PyList_New(0));
  if (!item && t.dim() > 1) return row_by_row ? RowsOf(tracer, tensor) : Ref();
  Ref numbers = tracer.sizes().UnbackedNumbersOf(tensor);
  const bool first = item && numbers && PyList_CheckExact(numbers.get());
  return first ? Ref::Create(PyList_GET_ITEM(numbers.get(), 0)) : std::move(numbers);
}

ValueVector WithKey(absl::Span<const ValueView> args, const Ref& key) {
  ValueVector all(args.begin(), args.end());
  all[1] = ValueView(key, kNoSource);
  return all;
}

}  // namespace

MethodCalls::MethodCalls(Journals& journals, AttributeReads& attributes, TensorAttributes& tensor_attributes,
                         AttributeWrites& attribute_writes, CallEvaluator& calls, NativeCalls& natives)
    : tracer_(journals.tracer()),
      frames_(journals.frames()),
      breaks_(journals.breaks()),
      backward_(journals.backward()),
      boundary_(journals.boundary()),
      reads_(journals.reads()),
      objects_(journals.objects()),
      writes_(journals.writes()),
      contents_(journals.contents()),
      contexts_(journals.contexts()),
      arguments_(journals.arguments()),
      attributes_(attributes),
      tensor_attributes_(tensor_attributes),
      attribute_writes_(attribute_writes),
      calls_(calls),
      natives_(natives),
      reductions_(journals, attributes, calls),
      getters_(journals, calls),
      keys_(journals),
      arrays_(journals, natives) {}

Value MethodCalls::CallDescriptor(Activation& act, ValueView callable, absl::Span<const ValueView> args,
                                  BorrowedRef kwnames) {
  PyObject* o = callable.object;
  if (Py_TYPE(o) == private_api::MethodWrapperType()) return CallMethodWrapper(act, callable, args, kwnames);
  if (args.empty()) return natives_.CallNative(callable.object, args, kwnames);  // raises the TypeError
  auto* descriptor = reinterpret_cast<PyDescrObject*>(o);
  const MethodFacts method = FactsOf(descriptor);
  const absl::string_view name = method.name;
  const ValueView self = args[0];
  if (IsFakeTensor(self.object) || IsTensorType(reinterpret_cast<PyObject*>(descriptor->d_type))) {
    if (args.size() == 1 && !kwnames && IsFakeTensor(self.object)) {
      if (std::optional<Value> told = CallThatTells(callable, name, self)) return *std::move(told);
    }
    if (BorrowedRef replacement = FindSubstitute(callable.object); replacement && !IsFrameOf(act, replacement)) {
      return calls_.CallWith(act, ValueView(replacement, kNoSource), args, kwnames, Completion::kPush);
    }
    return natives_.CallTorch(act, callable.object, args, kwnames);
  }
  if (descriptor->d_type == WeakrefType() && name == "__call__" && args.size() == 1 && !kwnames) {
    return WeakTargets(frames_, breaks_, reads_, writes_, objects_).Of(self);
  }
  if (descriptor->d_type == &PyBaseObject_Type) return CallMethodOfObject(act, callable, name, args, kwnames);
  if (Tracked* variable = objects_.Find(self.object); variable != nullptr && descriptor->d_type == &PyContextVar_Type) {
    if (std::optional<Value> done = contexts_.Call(*variable, name, args.subspan(1))) return *std::move(done);
    return natives_.CallNative(callable.object, args, kwnames);  // raises the TypeError
  }
  if (descriptor->d_type == &PyModule_Type && name == "__getattribute__" && args.size() == 2 && !kwnames &&
      PyModule_CheckExact(self.object.get()) && PyUnicode_Check(args[1].object.get())) {
    reads_.Consume(args[1]);
    return attributes_.LoadAttr(act, self, args[1].object);
  }
  // Of an object a method of it; of none, and of a class by itself, the function.
  if (descriptor->d_type == &PyFunction_Type && name == "__get__" && PyFunction_Check(self.object.get()) && !kwnames &&
      args.size() > 1 && args.size() < 4) {
    if (args[1].object.get() == Py_None) {
      const bool of_class = args.size() == 3 && args[2].object.get() != Py_None;
      return of_class ? Value{Ref::Create(self.object), self.source}
                      : natives_.CallNative(callable.object, args, kwnames);  // raises
    }
    reads_.Consume(args[1]);
    return Value{Ref::Steal(PyMethod_New(self.object, args[1].object)), kNoSource};
  }
  if (descriptor->d_type == &PyDict_Type && name == "get" && args.size() > 1 && !kwnames) {
    if (const std::optional<Ref> plain = keys_.PlainKey(self, args[1], true)) {
      return *plain ? CallDescriptor(act, callable, WithKey(args, *plain), kwnames) : Value();
    }
  }
  Tracked* t = objects_.Find(self.object);
  if (t != nullptr && (t->kind == TrackedKind::kInstanceDict || t->kind == TrackedKind::kDict) && !kwnames) {
    if (std::optional<Value> done = CallMethodOfTrackedDict(*t, method, args)) return *std::move(done);
  }
  if (t != nullptr && name == "append" && args.size() == 2 && !kwnames && writes_.AppendsUnread(*t)) {
    reads_.Move(args[1]);
    return writes_.AppendUnread(*t, args[1].object) ? None() : Value();
  }
  if (descriptor->d_type == &PyList_Type && name == "sort") {
    Getters::Replaced replaced;
    return getters_.Replace(act, args, &replaced) ? CallMethodOfBuiltin(callable, method, replaced.args, kwnames)
                                                  : Value();
  }
  return CallMethodOfBuiltin(callable, method, args, kwnames);
}

std::optional<Value> MethodCalls::CallThatTells(ValueView callable, absl::string_view name, ValueView tensor) {
  if (name == "numpy") return arrays_.ArrayOf(tensor.object);
  if (name != "item" && name != "tolist") return std::nullopt;
  if (const Ref known = tracer_.KnownValueOf(tensor.object)) {
    const tracing::Tracer::Suspended off;
    return boundary_.Wrap(Ref::Steal(PyObject_CallOneArg(callable.object, known)));
  }
  Ref numbers = NumbersOf(tracer_, tensor.object, name == "item", !natives_.is_for_fx());
  return numbers ? std::optional(Value{std::move(numbers), kNoSource}) : std::nullopt;
}

Value MethodCalls::CallThatCallsBack(Activation& act, ValueView callable, absl::Span<const ValueView> args,
                                     BorrowedRef kwnames) {
  Getters::Replaced replaced;
  if (!getters_.Replace(act, args, &replaced) || !arguments_.PrepareAll(replaced.args, true)) return Value();
  return natives_.CallNative(callable.object, replaced.args, kwnames);
}

// obj.__add__ and the like: unwrapped to the slot wrapper.
Value MethodCalls::CallMethodWrapper(Activation& act, ValueView callable, absl::Span<const ValueView> args,
                                     BorrowedRef kwnames) {
  if (objects_.Find(callable.object) != nullptr) {
    return breaks_.Break(GraphBreakKind::kOpaqueObject, "a method wrapper from outside");
  }
  const Ref self = Ref::Steal(PyObject_GetAttrString(callable.object, "__self__"));
  const Ref name = Ref::Steal(PyObject_GetAttrString(callable.object, "__name__"));
  const Ref owner = Ref::Steal(PyObject_GetAttrString(callable.object, "__objclass__"));
  // What a torch function mode is given for a read of an attribute of a tensor.
  if (self && self.type() == &PyGetSetDescr_Type && !args.empty() && IsFakeTensor(args[0].object) &&
      PyUnicode_CompareWithASCIIString(name, "__get__") == 0) {
    return tensor_attributes_.TensorGetAttr(act, args[0], reinterpret_cast<PyDescrObject*>(self.get())->d_name);
  }
  const BorrowedRef wrapper =
      owner ? frame_ops::TypeLookup(reinterpret_cast<PyTypeObject*>(owner.get()), name) : nullptr;
  if (!wrapper || wrapper.type() != &PyWrapperDescr_Type) {
    return breaks_.Break(GraphBreakKind::kUnlistedCallable, DescribeCallable(callable.object));
  }
  ValueVector all;
  all.push_back(ValueView(self, kNoSource));
  all.insert(all.end(), args.begin(), args.end());
  return calls_.CallWith(act, ValueView(wrapper, kNoSource), all, kwnames, Completion::kCallback);
}

Value MethodCalls::CallMethodOfObject(Activation& act, ValueView callable, absl::string_view name,
                                      absl::Span<const ValueView> args, BorrowedRef kwnames) {
  const ValueView self = args[0];
  const bool tracked = objects_.Find(self.object) != nullptr;
  if (name == "__setattr__" && args.size() == 3 && (tracked || PyUnicode_Check(args[1].object.get()))) {
    reads_.Consume(args[1]);
    return attribute_writes_.GenericSetAttr(act, self, args[1].object, args[2]) ? None() : Value();
  }
  if (name == "__delattr__" && args.size() == 2) {
    reads_.Consume(args[1]);
    return attribute_writes_.GenericSetAttr(act, self, args[1].object, ValueView()) ? None() : Value();
  }
  if (name == "__getattribute__" && args.size() == 2) {
    reads_.Consume(args[1]);
    return attributes_.GenericGetAttr(act, self, args[1].object, true);
  }
  if (name == "__init__" || name == "__init_subclass__" || name == "__format__" || name == "__eq__" ||
      name == "__ne__" || name == "__subclasshook__" || name == "__str__") {
    if (name == "__init__" && !tracked) return natives_.CallNative(callable.object, args, kwnames);
    const bool text = name == "__format__" || name == "__str__";
    if (!arguments_.PrepareAll(args) || (text && !arguments_.HaveTextOfTheirOwn(args.first(1)))) return Value();
    return natives_.CallNative(callable.object, args, kwnames);
  }
  if ((name == "__reduce_ex__" || name == "__getstate__") && !kwnames) {
    if (std::optional<Value> done = reductions_.Call(act, callable, args)) return *std::move(done);
  }
  if (name == "__hash__" || name == "__repr__")
    return breaks_.Break(GraphBreakKind::kIdentityOfFresh, absl::StrCat("object.", name));
  return breaks_.Break(GraphBreakKind::kUnlistedCallable, DescribeCallable(callable.object));
}

// On a __dict__, or on one key of a dict: only that key is read. Nothing: a method like any other.
std::optional<Value> MethodCalls::CallMethodOfTrackedDict(Tracked& t, const MethodFacts& method,
                                                          absl::Span<const ValueView> args) {
  const absl::string_view name = method.name;
  const bool of_instance = t.kind == TrackedKind::kInstanceDict;
  const bool by_key = args.size() >= 2 && IsKeyOfItsOwn(args[1].object) && (of_instance || !t.realised);
  if (by_key && (name == "get" || name == "__getitem__" || name == "__contains__") && args.size() <= 3 &&
      (name != "__getitem__" || args[0].object.type() == &PyDict_Type)) {
    const std::optional<Value> found = contents_.DictItem(t, args[1]);
    if (found && !*found) return Value();
    if (name == "__contains__") return Value{Ref::Create(found ? Py_True : Py_False), kNoSource};
    if (found) return found;
    if (name == "get") return args.size() == 3 ? Value{Ref::Create(args[2].object), args[2].source} : None();
    PyErr_SetObject(PyExc_KeyError, args[1].object);
    return Value();
  }
  if (name == "get" && args.size() > 1 && args.size() < 4 && IsFakeTensor(args[1].object)) {
    if (std::optional<Value> found = contents_.ItemOfTensor(t, args[1].object)) return found;
  }
  if (by_key && name == "__setitem__" && args.size() == 3) {
    return contents_.WriteDictItem(t, args[1], args[2]) ? None() : Value();
  }
  if (!of_instance || method.effect == MethodEffect::kReads) return std::nullopt;
  if (name == "pop" && by_key && args.size() <= 3) return PopFromInstanceDict(t, args);
  return breaks_.Break(GraphBreakKind::kOpaqueObject, absl::StrCat("dict.", name, " on the __dict__ of an object"));
}

Value MethodCalls::PopFromInstanceDict(Tracked& t, absl::Span<const ValueView> args) {
  std::optional<Value> found = contents_.DictItem(t, args[1]);
  if (found) {
    if (!*found || !writes_.Write(*t.owner, args[1].object, nullptr)) return Value();
    return *std::move(found);
  }
  if (args.size() == 3) return Value{Ref::Create(args[2].object), args[2].source};
  PyErr_SetObject(PyExc_KeyError, args[1].object);
  return Value();
}

bool MethodCalls::NoteWrite(Tracked& t, absl::string_view method, absl::Span<const ValueView> args) {
  const bool one_element =
      t.kind == TrackedKind::kSet && args.size() == 2 && (method == "add" || method == "discard" || method == "remove");
  return one_element ? writes_.AddOrDiscard(t, args[1].object, method == "add") : writes_.Replace(t);
}

namespace {
// What it gives is looked at item by item, or by C code that prepares it.
bool IsWalk(BorrowedRef object, absl::string_view name) {
  if (!PyDict_Check(object.get())) return false;
  return name == "items" || name == "keys" || name == "values" || name == "__iter__";
}

bool PrepareValues(NativeArguments& arguments, BorrowedRef dict) {
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value) != 0;) {
    if (!arguments.PrepareNative(BorrowedRef(value), true)) return false;
  }
  return true;
}
}  // namespace

// As the list of methods says what it reads and writes.
Value MethodCalls::CallMethodOfBuiltin(ValueView callable, const MethodFacts& method, absl::Span<const ValueView> args,
                                       BorrowedRef kwnames) {
  const absl::string_view name = method.name;
  PyTypeObject* owner = reinterpret_cast<PyDescrObject*>(callable.object.get())->d_type;
  const ValueView self = args[0];
  if (IsArrayType(owner) && method.effect == MethodEffect::kReads) return natives_.CallNumpy(callable, args, kwnames);
  Tracked* t = objects_.Find(self.object);
  if (method.effect == MethodEffect::kUnlisted) {
    const bool fresh_iterator = t == nullptr && owner->tp_iternext != nullptr && name != "__reduce__";
    const bool exception = PyType_IsSubtype(owner, reinterpret_cast<PyTypeObject*>(PyExc_BaseException)) != 0;
    const bool namespace_like = t == nullptr && (name == "__init__" || name == "__setattr__");
    if (!fresh_iterator && !exception && !namespace_like) {
      return breaks_.Break(GraphBreakKind::kUnlistedCallable, DescribeCallable(callable.object));
    }
  }
  const bool by_value =
      IsRangeOrSlice(self.object) || (IsNumberOrTextClass(self.object.type()) && method.effect == MethodEffect::kReads);
  if (t != nullptr && (t->kind == TrackedKind::kOpaque || t->kind == TrackedKind::kInstance) && !by_value) {
    const bool writes = method.effect == MethodEffect::kWrites;
    return breaks_.Break(writes ? GraphBreakKind::kUnsupportedWrite : GraphBreakKind::kOpaqueObject,
                         absl::StrCat(name, " of an object of type ", self.object.type()->tp_name));
  }
  const bool writes = method.effect == MethodEffect::kWrites;
  if (writes && owner == &PyDict_Type && PyODict_Check(self.object.get())) {
    return breaks_.Break(GraphBreakKind::kUnsupportedWrite, absl::StrCat("dict.", name, " of an OrderedDict"));
  }
  // What becomes of a table that shares its keys, as sys.getsizeof tells, depends on the method.
  if (t != nullptr && writes && t->kind == TrackedKind::kDict && frame_ops::SharesKeys(t->original)) {
    return breaks_.Break(GraphBreakKind::kUnsupportedWrite, absl::StrCat("dict.", name, " of an object's attributes"));
  }
  if (writes && !MadeInBackward::Has(self.object) && !backward_.MayWrite()) return Value();
  const bool walks = IsWalk(self.object, name);
  const bool prepared = walks                     ? arguments_.PrepareWalked(self)
                        : method.moves_items_only ? arguments_.PrepareMembership(self)
                                                  : arguments_.PrepareNative(self);
  if (!prepared || (walks && !method.moves_items_only && !PrepareValues(arguments_, self.object))) return Value();
  if (writes && OnlyKeeps(owner, name) && args.size() == 2 && !kwnames) {
    reads_.Move(args[1]);
  } else if (!arguments_.PrepareAll(args.subspan(1))) {
    return Value();
  }
  const bool formats = owner == &PyUnicode_Type || owner == &PyBytes_Type;
  if (formats && !arguments_.HaveTextOfTheirOwn(args.subspan(1))) return Value();
  if (t != nullptr && writes && !NoteWrite(*t, name, args)) return Value();
  Value done = natives_.CallNative(callable.object, args, kwnames);
  const bool gave_factory = done && t != nullptr && owner == DefaultDictType() && name == "__init__";
  if (gave_factory &&
      !writes_.Write(t->holder_of_attributes(), FactorySlot(), Ref::Create(RawFactoryOf(self.object)))) {
    return Value();
  }
  return done;
}

}  // namespace framefuse
