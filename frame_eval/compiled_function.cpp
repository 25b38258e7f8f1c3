#include "frame_eval/compiled_function.h"

#include <structmember.h>

#include <cstddef>
#include <utility>

namespace framefuse {
namespace {

struct CompiledFunction {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* wrapped;
  PyObject* dict;
  PyObject* weak_references;
  PyObject* remake;    // or null
  CallTarget* target;  // owned
};

// The package's functions of SetCopying.
PyObject* deep_copy = nullptr;
PyObject* reduce = nullptr;

CompiledFunction* Self(PyObject* object) { return reinterpret_cast<CompiledFunction*>(object); }

PyObject* VectorCall(PyObject* self, PyObject* const* args, std::size_t nargsf, PyObject* kwnames) {
  CallTarget* target = Self(self)->target;
  if (target == nullptr) {
    PyErr_SetString(PyExc_ReferenceError, "the compiled function was cleared by the garbage collector");
    return nullptr;
  }
  const Ref keep_alive = Ref::Create(self);  // the call may drop the last other reference
  return target->Call(keep_alive, args, nargsf, kwnames).release();
}

int Traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(Self(self)->wrapped);
  Py_VISIT(Self(self)->dict);
  Py_VISIT(Self(self)->remake);
  return Self(self)->target != nullptr ? Self(self)->target->Traverse(visit, arg) : 0;
}

int Clear(PyObject* self) {
  Py_CLEAR(Self(self)->wrapped);
  Py_CLEAR(Self(self)->dict);
  Py_CLEAR(Self(self)->remake);
  if (Self(self)->target != nullptr) Self(self)->target->Clear();
  return 0;
}

void Dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (Self(self)->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  Py_CLEAR(Self(self)->wrapped);
  Py_CLEAR(Self(self)->dict);
  Py_CLEAR(Self(self)->remake);
  delete std::exchange(Self(self)->target, nullptr);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* Bind(PyObject* self, PyObject* instance, PyObject*) {
  if (instance == nullptr || instance == Py_None) return Py_NewRef(self);
  return PyMethod_New(self, instance);
}

char name_name[] = "__name__", qualname_name[] = "__qualname__", doc_name[] = "__doc__", module_name[] = "__module__";

// __name__ and its like would be found on the type: they are the wrapped callable's unless set on this object.
PyObject* GetForwarded(PyObject* self, void* name) {
  Ref key = Ref::Steal(PyUnicode_InternFromString(static_cast<const char*>(name)));
  if (!key) return nullptr;
  if (Self(self)->dict != nullptr) {
    PyObject* own = PyDict_GetItemWithError(Self(self)->dict, key);
    if (own != nullptr) return Py_NewRef(own);
    if (PyErr_Occurred() != nullptr) return nullptr;
  }
  if (Self(self)->wrapped == nullptr) return Py_NewRef(Py_None);
  return PyObject_GetAttr(Self(self)->wrapped, key);
}

bool Named(PyObject* name, const char* text) {
  return PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, text) == 0;
}

// Own attributes first; then the wrapped callable's, so that __code__, __defaults__, __signature__ … are there.
PyObject* GetAttribute(PyObject* self, PyObject* name) {
  // The type has these two as plain strings, which instances must not show.
  if (Named(name, "__module__")) return GetForwarded(self, module_name);
  if (Named(name, "__doc__")) return GetForwarded(self, doc_name);
  PyObject* value = PyObject_GenericGetAttr(self, name);
  if (value != nullptr || Self(self)->wrapped == nullptr || !PyErr_ExceptionMatches(PyExc_AttributeError)) return value;
  PyErr_Clear();
  return PyObject_GetAttr(Self(self)->wrapped, name);
}

int SetForwarded(PyObject* self, PyObject* value, void* name) {
  if (Self(self)->dict == nullptr && (Self(self)->dict = PyDict_New()) == nullptr) return -1;
  const char* key = static_cast<const char*>(name);
  if (value != nullptr) return PyDict_SetItemString(Self(self)->dict, key, value);
  if (PyDict_DelItemString(Self(self)->dict, key) == 0) return 0;
  PyErr_SetString(PyExc_AttributeError, key);
  return -1;
}

PyObject* Repr(PyObject* self) {
  Ref name = Ref::Steal(PyObject_GetAttrString(self, "__qualname__"));
  if (name) return PyUnicode_FromFormat("<compiled function %S at %p>", name.get(), self);
  PyErr_Clear();
  PyObject* wrapped = Self(self)->wrapped;
  return PyUnicode_FromFormat("<compiled function of %R at %p>", wrapped != nullptr ? wrapped : Py_None, self);
}

PyObject* CallPackage(PyObject* function, PyObject* self, PyObject* argument) {
  if (function != nullptr) return PyObject_CallFunctionObjArgs(function, self, argument, nullptr);
  PyErr_SetString(PyExc_SystemError, "framefuse is not initialised");
  return nullptr;
}

// As a function's: copy() gives the same one.
PyObject* Copy(PyObject* self, PyObject*) { return Py_NewRef(self); }
PyObject* DeepCopy(PyObject* self, PyObject* memo) { return CallPackage(deep_copy, self, memo); }
PyObject* ReduceEx(PyObject* self, PyObject* protocol) { return CallPackage(reduce, self, protocol); }
PyObject* Wrapped(PyObject* self, PyObject*) {
  return Py_NewRef(Self(self)->wrapped != nullptr ? Self(self)->wrapped : Py_None);
}

PyMethodDef methods[] = {{"__copy__", Copy, METH_NOARGS, nullptr},
                         {"__deepcopy__", DeepCopy, METH_O, nullptr},
                         {"__reduce_ex__", ReduceEx, METH_O, nullptr},
                         // torch.jit.script asks for what it is to look at.
                         {"__prepare_scriptable__", Wrapped, METH_NOARGS, nullptr},
                         {nullptr, nullptr, 0, nullptr}};
PyGetSetDef attributes[] = {{name_name, GetForwarded, SetForwarded, nullptr, name_name},
                            {qualname_name, GetForwarded, SetForwarded, nullptr, qualname_name},
                            {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
                            {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMemberDef members[] = {
    {"__wrapped__", T_OBJECT, offsetof(CompiledFunction, wrapped), READONLY, nullptr},
    {"_framefuse_remake", T_OBJECT, offsetof(CompiledFunction, remake), READONLY, nullptr},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(CompiledFunction, vectorcall), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(CompiledFunction, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(CompiledFunction, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                       {Py_tp_traverse, reinterpret_cast<void*>(Traverse)},
                       {Py_tp_clear, reinterpret_cast<void*>(Clear)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(Dealloc)},
                       {Py_tp_descr_get, reinterpret_cast<void*>(Bind)},
                       {Py_tp_getattro, reinterpret_cast<void*>(GetAttribute)},
                       {Py_tp_repr, reinterpret_cast<void*>(Repr)},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, attributes},
                       {Py_tp_members, members},
                       {0, nullptr}};
PyType_Spec spec = {"framefuse._C.CompiledFunction", sizeof(CompiledFunction), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                        Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
                    slots};

// functools.wraps copies the wrapped function's __dict__; attributes set later on either stay apart.
bool CopyDict(PyObject* wrapped, CompiledFunction* self) {
  if (!PyFunction_Check(wrapped)) return true;
  PyObject* dict = reinterpret_cast<PyFunctionObject*>(wrapped)->func_dict;
  if (dict == nullptr) return true;
  self->dict = PyDict_Copy(dict);
  return self->dict != nullptr;
}

}  // namespace

BorrowedRefOf<PyTypeObject> CompiledFunctionType() {
  static PyTypeObject* type = nullptr;
  if (type == nullptr) type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  return type;
}

bool IsCompiledFunctionObject(BorrowedRef object) {
  return object && CompiledFunctionType() && object.type() == CompiledFunctionType().get();
}

void SetCopying(Ref deep_copy_function, Ref reduce_function) {
  Py_XSETREF(deep_copy, deep_copy_function.release());
  Py_XSETREF(reduce, reduce_function.release());
}

Ref CallTarget::Resume(BorrowedRef callable, PyObject* const* args, std::size_t count) {
  return Ref::Steal(PyObject_Vectorcall(callable, args, count, nullptr));
}

Ref NewCompiledFunction(BorrowedRef wrapped, std::unique_ptr<CallTarget> target, BorrowedRef remake) {
  PyTypeObject* type = CompiledFunctionType();
  if (type == nullptr) return {};
  auto* self = PyObject_GC_New(CompiledFunction, type);
  if (self == nullptr) return {};
  self->vectorcall = VectorCall;
  self->wrapped = Py_NewRef(wrapped.get());
  self->dict = nullptr;
  self->weak_references = nullptr;
  self->remake = Py_XNewRef(remake.get());
  self->target = target.release();
  Ref result = Ref::Steal(reinterpret_cast<PyObject*>(self));
  const bool copied = CopyDict(wrapped.get(), self);
  PyObject_GC_Track(self);
  return copied ? result : Ref();
}

BorrowedRef WrappedCallable(BorrowedRef object) {
  return IsCompiledFunctionObject(object) ? Self(object)->wrapped : nullptr;
}

CallTarget* TargetOf(BorrowedRef object) { return IsCompiledFunctionObject(object) ? Self(object)->target : nullptr; }

}  // namespace framefuse
