#include "symbolic/rules/builtin_types.h"

#include "common/check.h"
#include "frame_eval/import_module.h"
#include "frame_eval/ref.h"
#include "guards/immutable.h"

namespace framefuse {
namespace {

PyTypeObject* NamedType(const char* module, const char* name) {
  Ref m = ImportModule(module);
  FF_CHECK(m);
  return reinterpret_cast<PyTypeObject*>(PyObject_GetAttrString(m, name));
}

}  // namespace

PyTypeObject* DequeType() {
  static PyTypeObject* type = NamedType("collections", "deque");
  return type;
}
PyTypeObject* DefaultDictType() {
  static PyTypeObject* type = NamedType("collections", "defaultdict");
  return type;
}
bool IsDefaultDict(BorrowedRef object) { return PyObject_TypeCheck(object.get(), DefaultDictType()) != 0; }
PyObject* FactorySlot() {
  static PyObject* const slot =
      PyObject_GetAttrString(reinterpret_cast<PyObject*>(DefaultDictType()), "default_factory");
  return slot;
}
PyTypeObject* PartialType() {
  static PyTypeObject* type = NamedType("functools", "partial");
  return type;
}
PyTypeObject* LruCacheType() {
  static PyTypeObject* type = NamedType("functools", "_lru_cache_wrapper");
  return type;
}
PyTypeObject* TupleGetterType() {
  static PyTypeObject* type = NamedType("_collections", "_tuplegetter");
  return type;
}
PyTypeObject* SimpleNamespaceType() {
  static PyTypeObject* type = NamedType("types", "SimpleNamespace");
  return type;
}
PyTypeObject* AttrGetterType() {
  static PyTypeObject* type = NamedType("_operator", "attrgetter");
  return type;
}
PyTypeObject* KeyWrapperType() {
  static PyTypeObject* type = [] {
    const Ref module = ImportModule("_functools");
    const Ref made = module ? Ref::Steal(PyObject_CallMethod(module, "cmp_to_key", "O", Py_None)) : Ref();
    PyErr_Clear();
    return made ? Py_TYPE(made.get()) : nullptr;  // kept for ever, as the module is
  }();
  return type;
}
PyTypeObject* ItemGetterType() {
  static PyTypeObject* type = NamedType("_operator", "itemgetter");
  return type;
}
bool IsUnion(BorrowedRef object) {
  static PyTypeObject* const type = NamedType("types", "UnionType");
  return object.type() == type;
}
PyTypeObject* EnumType() {
  static PyTypeObject* type = NamedType("enum", "Enum");
  return type;
}
PyTypeObject* MethodCallerType() {
  static PyTypeObject* type = NamedType("_operator", "methodcaller");
  return type;
}
BorrowedRef FunctionOf(StandIn which) {
  static PyObject* const* const functions = [] {
    auto* made = new PyObject*[3];
    int i = 0;
    for (const char* name : {"attributes", "method", "dispatched"}) {
      made[i++] = reinterpret_cast<PyObject*>(NamedType("framefuse._stand_ins", name));
    }
    return made;
  }();
  return functions[static_cast<std::size_t>(which)];
}
bool IsRegularExpression(BorrowedRef object) {
  static PyTypeObject* const type = NamedType("re", "Pattern");
  if (object.type() != type) return false;
  constexpr long kLocale = 4;  // re.LOCALE
  const Ref flags = Ref::Steal(PyObject_GetAttrString(object, "flags"));
  return flags && (PyLong_AsLong(flags) & kLocale) == 0;
}
PyTypeObject* AutogradEngineType() {
  static PyTypeObject* type = NamedType("torch._C", "_ImperativeEngine");
  return type;
}
PyTypeObject* TorchFunctionsType() {
  static PyTypeObject* type = NamedType("torch._C", "_VariableFunctionsClass");
  return type;
}

bool IsPythonClass(PyTypeObject* type) {
  // Classes made by type() have CPython's own deallocator, which C modules cannot name.
  static const destructor class_deallocator = NamedType("collections.abc", "Sized")->tp_dealloc;
  return ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 && type->tp_dealloc == class_deallocator) || IsGeneric(type);
}

// A class statement in 3.11, the same class without state in C from 3.12 on.
bool IsGeneric(PyTypeObject* type) {
  static const PyTypeObject* const generic = NamedType("typing", "Generic");
  return type == generic;
}

PyTypeObject* NativeBase(PyTypeObject* type) {
  while (IsPythonClass(type)) type = type->tp_base;
  return type;
}

bool IsHashedByIdentity(PyTypeObject* type) {
  const bool instance =
      type->tp_hash == PyBaseObject_Type.tp_hash && type->tp_richcompare == PyBaseObject_Type.tp_richcompare;
  return instance || type == &PyFunction_Type || type == &PyType_Type;
}

bool IsNumberOrTextClass(PyTypeObject* type) {
  PyTypeObject* base = NativeBase(type);
  return base != type && (base == &PyLong_Type || base == &PyUnicode_Type || base == &PyFloat_Type);
}

bool IsRangeOrSlice(BorrowedRef object) {
  return PyRange_Check(object.get()) || (PySlice_Check(object.get()) && IsImmutable(object));
}

namespace {
struct TemplateTypes {
  PyTypeObject* whole = nullptr;
  PyTypeObject* part = nullptr;
  PyTypeObject* iterator = nullptr;
};

// No object has the type null of a Python without template strings.
const TemplateTypes& OfTemplates() {
  static const TemplateTypes types = [] {
    TemplateTypes t;
    const Ref module = ImportModule("string.templatelib");
    if (module) {
      t.whole = NamedType("string.templatelib", "Template");
      t.part = NamedType("string.templatelib", "Interpolation");
      const Ref empty = Ref::Steal(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(t.whole)));
      const Ref iterator = empty ? Ref::Steal(PyObject_GetIter(empty)) : Ref();
      t.iterator = iterator ? Py_TYPE(iterator.get()) : nullptr;
    }
    PyErr_Clear();
    return t;
  }();
  return types;
}
}  // namespace

bool IsTemplate(BorrowedRef object) { return object.type() == OfTemplates().whole; }
bool IsInterpolation(BorrowedRef object) { return object.type() == OfTemplates().part; }
bool IsTemplateIterator(BorrowedRef object) { return object.type() == OfTemplates().iterator; }

bool IsStructSequenceType(PyTypeObject* type) {
  return PyType_IsSubtype(type, &PyTuple_Type) && type != &PyTuple_Type &&
         PyObject_HasAttrString(reinterpret_cast<PyObject*>(type), "n_sequence_fields") != 0;
}

Ref CallMethodWith(BorrowedRef object, const char* name, BorrowedRef argument) {
  Ref key = Ref::Steal(PyUnicode_InternFromString(name));
  return Ref::Steal(PyObject_CallMethodOneArg(object, key, argument));
}

void LoadBuiltinTypes() {
  DequeType();
  DefaultDictType();
  PartialType();
  LruCacheType();
  ItemGetterType();
  AttrGetterType();
  KeyWrapperType();
  TupleGetterType();
  SimpleNamespaceType();
  TorchFunctionsType();
  AutogradEngineType();
  MethodCallerType();
  IsUnion(Py_None);
  IsTemplate(Py_None);
  FunctionOf(StandIn::kMethod);
  EnumType();
  IsPythonClass(&PyList_Type);
}

}  // namespace framefuse
