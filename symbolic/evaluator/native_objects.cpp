// NativeProtocols: operators, calls, iteration, `with`, functions.
#include "absl/container/inlined_vector.h"
#include "frame_eval/versions/frame_ops.h"
#include "frame_eval/versions/private_api.h"
#include "symbolic/evaluator/native_errors.h"
#include "symbolic/evaluator/native_protocols.h"

namespace framefuse {
namespace {

Value Fresh(PyObject* owned) { return {Ref::Steal(owned), kNoSource}; }
Value Lent(PyObject* borrowed) { return {Ref::Create(borrowed), kNoSource}; }
Truth TruthOf(int c_result) { return static_cast<Truth>(c_result < 0 ? -1 : c_result != 0); }

PyObject* Power(PyObject* a, PyObject* b) { return PyNumber_Power(a, b, Py_None); }
PyObject* InPlacePower(PyObject* a, PyObject* b) { return PyNumber_InPlacePower(a, b, Py_None); }

// By NB_* number.
constexpr binaryfunc kBinaryFunctions[] = {
    PyNumber_Add,
    PyNumber_And,
    PyNumber_FloorDivide,
    PyNumber_Lshift,
    PyNumber_MatrixMultiply,
    PyNumber_Multiply,
    PyNumber_Remainder,
    PyNumber_Or,
    Power,
    PyNumber_Rshift,
    PyNumber_Subtract,
    PyNumber_TrueDivide,
    PyNumber_Xor,
    PyNumber_InPlaceAdd,
    PyNumber_InPlaceAnd,
    PyNumber_InPlaceFloorDivide,
    PyNumber_InPlaceLshift,
    PyNumber_InPlaceMatrixMultiply,
    PyNumber_InPlaceMultiply,
    PyNumber_InPlaceRemainder,
    PyNumber_InPlaceOr,
    InPlacePower,
    PyNumber_InPlaceRshift,
    PyNumber_InPlaceSubtract,
    PyNumber_InPlaceTrueDivide,
    PyNumber_InPlaceXor,
};

}  // namespace

Value NativeProtocols::Unary(Activation&, UnaryOp op, ValueView v) {
  switch (op) {
    case UnaryOp::kPositive:
      return Fresh(PyNumber_Positive(v.object));
    case UnaryOp::kNegative:
      return Fresh(PyNumber_Negative(v.object));
    case UnaryOp::kInvert:
      return Fresh(PyNumber_Invert(v.object));
    case UnaryOp::kNot: {
      const int truth = PyObject_IsTrue(v.object);
      return truth < 0 ? Value() : Lent(truth != 0 ? Py_False : Py_True);
    }
  }
  return {};
}

Value NativeProtocols::Binary(Activation&, int nb_op, ValueView left, ValueView right) {
  return Fresh(kBinaryFunctions[nb_op](left.object, right.object));
}

Value NativeProtocols::Compare(Activation&, int py_op, ValueView left, ValueView right) {
  return Fresh(PyObject_RichCompare(left.object, right.object, py_op));
}

Truth NativeProtocols::Is(Activation&, ValueView left, ValueView right) { return TruthOf(left.object == right.object); }

Truth NativeProtocols::Contains(Activation&, ValueView item, ValueView container) {
  return TruthOf(PySequence_Contains(container.object, item.object));
}

Truth NativeProtocols::IsTrue(Activation&, ValueView v) {
  PyObject* object = v.object;
  if (object == Py_True) return Truth::kTrue;
  if (object == Py_False || object == Py_None) return Truth::kFalse;
  return TruthOf(PyObject_IsTrue(object));
}

Truth NativeProtocols::IsNone(Activation&, ValueView v) { return TruthOf(v.object.get() == Py_None); }

Value NativeProtocols::GetItem(Activation&, ValueView container, ValueView key) {
  return Fresh(PyObject_GetItem(container.object, key.object));
}

bool NativeProtocols::SetItem(Activation&, ValueView container, ValueView key, ValueView value) {
  return PyObject_SetItem(container.object, key.object, value.object) == 0;
}

bool NativeProtocols::DeleteItem(Activation&, ValueView container, ValueView key) {
  return PyObject_DelItem(container.object, key.object) == 0;
}

Value NativeProtocols::Call(Activation&, ValueView callable, absl::Span<const ValueView> args, BorrowedRef kwnames) {
  // One spare place before the arguments lets a bound method put its self there.
  absl::InlinedVector<PyObject*, 8> objects(args.size() + 1);
  for (std::size_t i = 0; i < args.size(); ++i) objects[i + 1] = args[i].object;
  const std::size_t keywords = kwnames ? static_cast<std::size_t>(PyTuple_GET_SIZE(kwnames.get())) : 0;
  return Fresh(PyObject_Vectorcall(callable.object, objects.data() + 1,
                                   (args.size() - keywords) | PY_VECTORCALL_ARGUMENTS_OFFSET, kwnames));
}

Value NativeProtocols::CallEx(Activation&, ValueView callable, ValueView args, ValueView kwargs) {
  Ref tuple = Ref::Create(args.object);
  if (!PyTuple_CheckExact(args.object.get())) {
    if (args.object.type()->tp_iter == nullptr && !PySequence_Check(args.object)) {
      // The text calls Python code, which must not see an error.
      PyErr_Clear();
      if (const Ref text = private_api::CallableText(callable.object)) {
        PyErr_Format(PyExc_TypeError, "%U argument after * must be an iterable, not %.200s", text.get(),
                     args.object.type()->tp_name);
      }
      return {};
    }
    tuple = Ref::Steal(PySequence_Tuple(args.object));
    if (!tuple) return {};
  }
  return Fresh(PyObject_Call(callable.object, tuple, kwargs.object));
}

Value NativeProtocols::GetIter(Activation&, ValueView v) { return Fresh(PyObject_GetIter(v.object)); }

Value NativeProtocols::GetYieldFromIter(Activation& act, ValueView v) {
  if (PyCoro_CheckExact(v.object.get())) {
    if ((frame_ops::Code(act.frame)->co_flags & (CO_COROUTINE | CO_ITERABLE_COROUTINE)) == 0) {
      PyErr_SetString(PyExc_TypeError, "cannot 'yield from' a coroutine object in a non-coroutine generator");
      return {};
    }
    return {Ref::Create(v.object), v.source};
  }
  if (PyGen_CheckExact(v.object.get())) return {Ref::Create(v.object), v.source};
  return Fresh(PyObject_GetIter(v.object));
}

ForIterOutcome NativeProtocols::ForIter(Activation&, ValueView iterator, Value* item) {
  const iternextfunc next = iterator.object.type()->tp_iternext;
  if (next == nullptr) {  // put there through f_locals
    PyErr_Format(PyExc_TypeError, "'%.200s' object is not an iterator", iterator.object.type()->tp_name);
    return ForIterOutcome::kError;
  }
  item->object = Ref::Steal(next(iterator.object));
  if (item->object) return ForIterOutcome::kItem;
  if (PyErr_Occurred() != nullptr) {
    if (!PyErr_ExceptionMatches(PyExc_StopIteration)) return ForIterOutcome::kError;
    PyErr_Clear();
  }
  return ForIterOutcome::kExhausted;
}

SendOutcome NativeProtocols::Send(Activation&, ValueView receiver, ValueView sent, Value* result) {
  PyObject* object = nullptr;
  const PySendResult outcome = PyIter_Send(receiver.object, sent.object, &object);
  result->object = Ref::Steal(object);
  return outcome == PYGEN_NEXT     ? SendOutcome::kYielded
         : outcome == PYGEN_RETURN ? SendOutcome::kReturned
                                   : SendOutcome::kError;
}

Value NativeProtocols::MakeFunction(Activation& act, BorrowedRef code, ValueView defaults, ValueView kwdefaults,
                                    ValueView annotations, ValueView closure) {
  Ref object = Ref::Steal(PyFunction_New(code, frame_ops::Globals(act.frame)));
  if (!object) return {};
  auto* function = reinterpret_cast<PyFunctionObject*>(object.get());
  const auto set = [](PyObject*& field, ValueView v) {
    if (v.object) Py_XSETREF(field, Py_NewRef(v.object.get()));
  };
  set(function->func_closure, closure);
  set(function->func_annotations, annotations);
  set(function->func_kwdefaults, kwdefaults);
  set(function->func_defaults, defaults);
  return {std::move(object), kNoSource};
}

bool NativeProtocols::SetFunctionAttribute(Activation&, BorrowedRef function, int flag, ValueView part) {
  return private_api::SetFunctionPart(function, flag, part.object);
}

bool NativeProtocols::BeforeWith(Activation&, ValueView manager, Value* exit, Value* entered) {
  static PyObject* const enter_name = PyUnicode_InternFromString("__enter__");
  static PyObject* const exit_name = PyUnicode_InternFromString("__exit__");
  const char* type_name = manager.object.type()->tp_name;
  const Ref enter = frame_ops::LookupSpecial(manager.object, enter_name);
  if (!enter) {
    if (PyErr_Occurred() == nullptr) {
      PyErr_Format(PyExc_TypeError, "'%.200s' object does not support the context manager protocol", type_name);
    }
    return false;
  }
  exit->object = frame_ops::LookupSpecial(manager.object, exit_name);
  if (!exit->object) {
    if (PyErr_Occurred() == nullptr) {
      PyErr_Format(PyExc_TypeError,
                   "'%.200s' object does not support the context manager protocol (missed __exit__ method)", type_name);
    }
    return false;
  }
  entered->object = Ref::Steal(PyObject_CallNoArgs(enter));
  return static_cast<bool>(entered->object);
}

Value NativeProtocols::LoadSpecial(Activation&, ValueView owner, frame_ops::SpecialMethod which) {
  return {frame_ops::LoadSpecialMethod(owner.object, which), kNoSource};
}

Value NativeProtocols::CallExit(Activation&, ValueView exit, ValueView self, BorrowedRef type, BorrowedRef exception,
                                BorrowedRef traceback) {
  PyObject* args[] = {nullptr, self.object, type, exception, traceback};
  const std::size_t first = self.object ? 1 : 2;
  return Fresh(PyObject_Vectorcall(exit.object, args + first, (5 - first) | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
}

Value NativeProtocols::Intrinsic1(Activation& act, int which, ValueView v) {
  if (which != kIntrinsicPrint) {
    PyObject* const inputs[] = {v.object};
    return {frame_ops::RunIntrinsic(act.frame, which, inputs, 1), kNoSource};
  }
  PyObject* hook = PySys_GetObject("displayhook");
  if (hook == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "lost sys.displayhook");
    return {};
  }
  const Ref held = Ref::Create(hook);
  return Fresh(PyObject_CallOneArg(held, v.object));
}

Value NativeProtocols::Intrinsic2(Activation& act, int which, ValueView a, ValueView b) {
  PyObject* const inputs[] = {a.object, b.object};
  return {frame_ops::RunIntrinsic(act.frame, which, inputs, 2), kNoSource};
}

bool NativeProtocols::Unsupported(Activation&, const char*) { return true; }

}  // namespace framefuse
