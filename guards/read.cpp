#include "guards/read.h"

#include <structmember.h>

#include <string_view>
#include <utility>

#include "frame_eval/import_module.h"
#include "frame_eval/versions/context_tokens.h"
#include "frame_eval/versions/frame_ops.h"
#include "frame_eval/versions/lru_cache.h"
#include "frame_eval/versions/private_api.h"
#include "guards/leaf/object_members.h"
#include "guards/made_reads.h"

namespace framefuse {
namespace {

// Types and member offsets of standard modules written in C whose structs are not public.
struct StandardTypes {
  PyTypeObject* deque = nullptr;
  PyTypeObject* partial = nullptr;
  Py_ssize_t partial_function = 0, partial_arguments = 0, partial_keywords = 0;
};

PyTypeObject* ImportType(const char* module_name, const char* type_name) {
  Ref module = ImportModule(module_name);
  PyObject* type = module ? PyObject_GetAttrString(module, type_name) : nullptr;
  if (type == nullptr || !PyType_Check(type)) {
    PyErr_Clear();
    Py_XDECREF(type);
    return nullptr;
  }
  return reinterpret_cast<PyTypeObject*>(type);  // kept for ever, as the module is
}

Py_ssize_t MemberOffset(PyTypeObject* type, const char* name) {
  if (type == nullptr) return 0;
  PyObject* descriptor = PyDict_GetItemString(frame_ops::TypeDict(type), name);
  if (descriptor == nullptr || Py_TYPE(descriptor) != &PyMemberDescr_Type) return 0;
  return reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member->offset;
}

const StandardTypes& Standard() {
  static const StandardTypes types = [] {
    StandardTypes t;
    t.deque = ImportType("_collections", "deque");
    t.partial = ImportType("_functools", "partial");
    t.partial_function = MemberOffset(t.partial, "func");
    t.partial_arguments = MemberOffset(t.partial, "args");
    t.partial_keywords = MemberOffset(t.partial, "keywords");
    return t;
  }();
  return types;
}

PyObject* At(PyObject* object, Py_ssize_t offset) {
  return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset);
}

struct FieldName {
  std::string_view name;
  ObjectField field;
};
constexpr FieldName kFunctionFields[] = {
    {"__code__", ObjectField::kCode},
    {"__globals__", ObjectField::kGlobals},
    {"__builtins__", ObjectField::kBuiltins},
    {"__dict__", ObjectField::kDict},
    {"__name__", ObjectField::kName},
    {"__qualname__", ObjectField::kQualifiedName},
    {"__module__", ObjectField::kModule},
    {"__doc__", ObjectField::kDoc},
    {"__defaults__", ObjectField::kDefaults},
    {"__kwdefaults__", ObjectField::kKwDefaults},
    {"__closure__", ObjectField::kClosure},
    {"__annotations__", ObjectField::kAnnotations},
    {"__type_params__", ObjectField::kTypeParameters},
    {"__annotate__", ObjectField::kAnnotate},
};
constexpr FieldName kPartialFields[] = {
    {"func", ObjectField::kPartialFunction},
    {"args", ObjectField::kPartialArguments},
    {"keywords", ObjectField::kPartialKeywords},
};

template <std::size_t n>
ObjectField FindField(const FieldName (&fields)[n], BorrowedRef key) {
  if (!key || !PyUnicode_CheckExact(key.get())) return ObjectField::kNone;
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(key.get(), &size);
  if (text == nullptr) {
    PyErr_Clear();
    return ObjectField::kNone;
  }
  for (const FieldName& f : fields) {
    if (f.name == std::string_view(text, static_cast<std::size_t>(size))) return f.field;
  }
  return ObjectField::kNone;
}

PyObject* OrNone(PyObject* value) { return value != nullptr ? value : Py_None; }

// A class is given another name without its version tag being changed.
PyObject* ReadNameOfClass(PyTypeObject* type, ObjectField field) {
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) return nullptr;
  auto* heap = reinterpret_cast<PyHeapTypeObject*>(type);
  if (field == ObjectField::kName) return heap->ht_name;
  return field == ObjectField::kQualifiedName ? heap->ht_qualname : nullptr;
}

PyObject* ReadFunctionField(PyObject* base, ObjectField field) {
  if (PyType_Check(base)) return ReadNameOfClass(reinterpret_cast<PyTypeObject*>(base), field);
  if (!PyFunction_Check(base)) return nullptr;
  auto* f = reinterpret_cast<PyFunctionObject*>(base);
  switch (field) {
    case ObjectField::kCode:
      return f->func_code;
    case ObjectField::kGlobals:
      return f->func_globals;
    case ObjectField::kBuiltins:
      return f->func_builtins;
    case ObjectField::kDict:
      return f->func_dict;
    case ObjectField::kName:
      return f->func_name;
    case ObjectField::kQualifiedName:
      return f->func_qualname;
    case ObjectField::kModule:
      return OrNone(f->func_module);
    case ObjectField::kDoc:
      return OrNone(f->func_doc);
    case ObjectField::kDefaults:
      return OrNone(f->func_defaults);
    case ObjectField::kKwDefaults:
      return OrNone(f->func_kwdefaults);
    case ObjectField::kClosure:
      return OrNone(f->func_closure);
    // A tuple until someone asks for it; then a dict.
    case ObjectField::kAnnotations:
      return f->func_annotations;
    case ObjectField::kAnnotate: {
      PyObject** annotate = private_api::FunctionPart(base, private_api::kAnnotateFlag);
      return annotate != nullptr ? OrNone(*annotate) : nullptr;
    }
    case ObjectField::kTypeParameters:
      return private_api::TypeParameters(base);
    case ObjectField::kNone:
    case ObjectField::kPartialFunction:
    case ObjectField::kPartialArguments:
    case ObjectField::kPartialKeywords:
      break;
  }
  return nullptr;
}

PyObject* ReadPartialField(PyObject* base, ObjectField field) {
  const StandardTypes& types = Standard();
  if (types.partial == nullptr || !PyObject_TypeCheck(base, types.partial)) return nullptr;
  switch (field) {
    case ObjectField::kPartialFunction:
      return At(base, types.partial_function);
    case ObjectField::kPartialArguments:
      return At(base, types.partial_arguments);
    case ObjectField::kPartialKeywords:
      return At(base, types.partial_keywords);
    case ObjectField::kNone:
    case ObjectField::kCode:
    case ObjectField::kGlobals:
    case ObjectField::kBuiltins:
    case ObjectField::kDict:
    case ObjectField::kName:
    case ObjectField::kQualifiedName:
    case ObjectField::kModule:
    case ObjectField::kDoc:
    case ObjectField::kDefaults:
    case ObjectField::kKwDefaults:
    case ObjectField::kClosure:
    case ObjectField::kAnnotations:
    case ObjectField::kTypeParameters:
    case ObjectField::kAnnotate:
      break;
  }
  return nullptr;
}

PyObject* TupleItem(PyObject* tuple, Py_ssize_t index) {
  if (tuple == nullptr || !PyTuple_Check(tuple) || index < 0 || index >= PyTuple_GET_SIZE(tuple)) return nullptr;
  return PyTuple_GET_ITEM(tuple, index);
}

PyObject* DictValue(PyObject* dict, const Read& read) {
  PyObject* value = nullptr;
  if (dict == nullptr || !PyDict_Check(dict) || FindInDict(dict, *read.key, &value) != Lookup::kFound) return nullptr;
  return value;
}

PyObject* ReadItem(PyObject* base, const Read& read) {
  if (PyDict_Check(base)) return DictValue(base, read);
  if (!read.integer_key) return nullptr;
  Py_ssize_t index = read.index;
  if (PyTuple_Check(base) || PyList_Check(base)) {
    const Py_ssize_t size = Py_SIZE(base);
    if (index < 0) index += size;
    if (index < 0 || index >= size) return nullptr;
    return PyTuple_Check(base) ? PyTuple_GET_ITEM(base, index) : PyList_GET_ITEM(base, index);
  }
  PyTypeObject* deque = Standard().deque;
  if (deque == nullptr || !PyObject_TypeCheck(base, deque)) return nullptr;
  const Py_ssize_t size = deque->tp_as_sequence->sq_length(base);
  if (index < 0) index += size;
  if (index < 0 || index >= size) return nullptr;
  // The deque holds it: our reference may go at once.
  Ref item = Ref::Steal(deque->tp_as_sequence->sq_item(base, index));
  return item.get();
}

PyObject* ReadInstanceAttr(PyObject* base, const Read& read) {
  if (PyObject* dict = frame_ops::RawInstanceDict(base)) return DictValue(dict, read);
  // Inline values have str keys only, all interned.
  return frame_ops::RawInstanceAttr(base, read.key->key.get());
}

PyObject* ReadSlot(PyObject* base, const Read& read) {
  auto* owner = reinterpret_cast<PyTypeObject*>(read.constant.get().get());
  return owner != nullptr && PyObject_TypeCheck(base, owner) ? At(base, read.offset) : nullptr;
}

PyObject* ReadMethod(PyObject* base, bool self) {
  if (PyMethod_Check(base)) return self ? PyMethod_GET_SELF(base) : PyMethod_GET_FUNCTION(base);
  if (!PyCFunction_Check(base)) return nullptr;
  return self ? PyCFunction_GET_SELF(base) : DescriptorOfBoundMethod(base);
}

PyObject* HandledExceptionOfThread() {
  const Ref handled = Ref::Steal(PyErr_GetHandledException());
  return handled.get();  // the thread keeps it
}

PyObject* ReadFrame(const Read& read, const FrameView& frame) {
  switch (read.kind) {
    case SourceKind::kLocal:
      return read.index < frame.slot_count ? frame.slots[read.index] : nullptr;
    case SourceKind::kClosureCell:
      return frame.function != nullptr ? TupleItem(frame.function->func_closure, read.index) : nullptr;
    case SourceKind::kFunction:
      return reinterpret_cast<PyObject*>(frame.function);
    case SourceKind::kGlobals:
      return frame.globals;
    case SourceKind::kBuiltins:
      return frame.builtins;
    case SourceKind::kConstant:
      return read.constant.get().get();
    case SourceKind::kAbcToken:
      return ReadAbcToken();
    case SourceKind::kHandledException:
      return HandledExceptionOfThread();
    case SourceKind::kNone:
    case SourceKind::kCellContents:
    case SourceKind::kInstanceAttr:
    case SourceKind::kInstanceDict:
    case SourceKind::kSlotAttr:
    case SourceKind::kType:
    case SourceKind::kTypeAttr:
    case SourceKind::kItem:
    case SourceKind::kModuleAttr:
    case SourceKind::kDefault:
    case SourceKind::kKwDefault:
    case SourceKind::kFunctionCell:
    case SourceKind::kFunctionField:
    case SourceKind::kMethodSelf:
    case SourceKind::kMethodFunction:
    case SourceKind::kTensorGrad:
    case SourceKind::kWeakrefTarget:
    case SourceKind::kContextValue:
    case SourceKind::kContextDefault:
    case SourceKind::kCachedResult:
    case SourceKind::kMaxlen:
    case SourceKind::kLength:
    case SourceKind::kViewed:
    case SourceKind::kTensorOfArray:
    case SourceKind::kThreadDict:
    case SourceKind::kPartialField:
      break;  // has a base, which is absent
  }
  return nullptr;
}

PyObject* Keep(Ref made, std::vector<Ref>* owned) {
  PyObject* value = made.get();
  if (value != nullptr) owned->push_back(std::move(made));
  return value;
}

PyObject* FunctionPart(PyObject* base, const Read& read) {
  if (!PyFunction_Check(base)) return nullptr;
  auto* f = reinterpret_cast<PyFunctionObject*>(base);
  if (read.kind == SourceKind::kDefault) return TupleItem(f->func_defaults, read.index);
  if (read.kind == SourceKind::kFunctionCell) return TupleItem(f->func_closure, read.index);
  return DictValue(f->func_kwdefaults, read);
}

absl::Status Malformed(const char* what) { return absl::InvalidArgumentError(what); }

absl::Status ReadKey(const Source& source, Read* read) {
  PyObject* key = source.key;
  switch (source.kind) {
    case SourceKind::kInstanceAttr:
    case SourceKind::kModuleAttr:
    case SourceKind::kTypeAttr:
    case SourceKind::kKwDefault:
      if (key == nullptr || !PyUnicode_CheckExact(key)) return Malformed("an attribute source needs a str key");
      break;
    case SourceKind::kItem:
      if (key == nullptr) return Malformed("an item source needs a key");
      if (PyLong_Check(key)) {
        int overflow = 0;
        const long long index = PyLong_AsLongLongAndOverflow(key, &overflow);
        read->integer_key = overflow == 0 && index == static_cast<std::int32_t>(index);
        read->index = read->integer_key ? static_cast<std::int32_t>(index) : 0;
      }
      break;
    default:
      return absl::OkStatus();
  }
  read->key.emplace(source.key);
  return absl::OkStatus();
}

}  // namespace

PyObject* ReadAbcToken() {
  static PyObject* const module = ImportModule("_abc").release();
  static PyObject* const function = module != nullptr ? PyObject_GetAttrString(module, "get_cache_token") : nullptr;
  static auto* const latest = new Ref();
  Ref now = function != nullptr ? Ref::Steal(PyObject_CallNoArgs(function)) : Ref();
  if (!now) PyErr_Clear();
  if (!now || !*latest || PyObject_RichCompareBool(now, *latest, Py_EQ) != 1) *latest = std::move(now);
  return latest->get();
}

Ref ValueInContext(BorrowedRef variable) {
  if (PyContextToken_CheckExact(variable.get())) {
    const Ref own = DefaultInContext(variable);
    return own ? Ref::Create(frame_ops::OldValueOfToken(variable)) : Ref();
  }
  if (!PyContextVar_CheckExact(variable.get())) return Ref();
  static PyObject* const unset = PyList_New(0);
  PyObject* value = nullptr;
  if (PyContextVar_Get(variable, unset, &value) < 0) PyErr_Clear();
  Ref held = Ref::Steal(value);
  return held.get() == unset ? Ref() : std::move(held);
}

Ref DefaultInContext(BorrowedRef variable) {
  if (PyContextToken_CheckExact(variable.get())) {
    PyObject* own = frame_ops::VariableOfToken(variable);
    if (own == nullptr || frame_ops::OldValueOfToken(variable) != nullptr) return Ref::Create(own);
    const Ref now = ValueInContext(own);
    return now ? Ref::Create(own) : Ref();  // what is not set cannot be unset
  }
  if (!PyContextVar_CheckExact(variable.get())) return Ref();
  return Ref::Create(frame_ops::DefaultOfContextVariable(variable));
}

absl::Status MakeRead(const Source& source, Read* read) {
  read->kind = source.kind;
  read->base = source.base;
  read->index = source.index;
  if (absl::Status status = ReadKey(source, read); !status.ok()) return status;
  switch (source.kind) {
    case SourceKind::kConstant:
      if (!source.key) return Malformed("a constant source needs its object");
      read->constant = Held::OfConstant(source.key, source.index != 0);
      break;
    case SourceKind::kCachedResult:
      read->constant = Held::ForUse(source.key);
      break;
    case SourceKind::kSlotAttr: {
      const std::optional<ObjectMember> member = ObjectMemberOf(source.key);
      if (!member) return Malformed("a slot source needs the descriptor of an object member");
      read->constant = Held::ForUse(reinterpret_cast<PyObject*>(PyDescr_TYPE(source.key.get())));
      read->offset = member->offset;
      break;
    }
    case SourceKind::kFunctionField:
      read->field = FindField(kFunctionFields, source.key);
      break;
    case SourceKind::kPartialField:
      read->field = FindField(kPartialFields, source.key);
      break;
    default:
      break;
  }
  const bool needs_field = source.kind == SourceKind::kFunctionField || source.kind == SourceKind::kPartialField;
  if (needs_field && read->field == ObjectField::kNone) return Malformed("no such field of a function or partial");
  return absl::OkStatus();
}

PyObject* ReadSource(const Read& read, PyObject* base, const FrameView& frame, std::vector<Ref>* owned) {
  if (read.base == kNoSource) return ReadFrame(read, frame);
  if (base == nullptr) return nullptr;
  switch (read.kind) {
    case SourceKind::kCellContents:
      return PyCell_Check(base) ? PyCell_GET(base) : nullptr;
    case SourceKind::kInstanceAttr:
      return ReadInstanceAttr(base, read);
    case SourceKind::kInstanceDict:
      return frame_ops::RawInstanceDict(base);
    case SourceKind::kSlotAttr:
      return ReadSlot(base, read);
    case SourceKind::kType:
      return reinterpret_cast<PyObject*>(Py_TYPE(base));
    case SourceKind::kTypeAttr:
      return PyType_Check(base) ? frame_ops::TypeLookup(reinterpret_cast<PyTypeObject*>(base), read.key->key.get())
                                : nullptr;
    case SourceKind::kItem:
      return ReadItem(base, read);
    case SourceKind::kModuleAttr:
      return PyModule_Check(base) ? DictValue(PyModule_GetDict(base), read) : nullptr;
    case SourceKind::kDefault:
    case SourceKind::kKwDefault:
    case SourceKind::kFunctionCell:
      return FunctionPart(base, read);
    case SourceKind::kFunctionField:
      return ReadFunctionField(base, read.field);
    case SourceKind::kMethodSelf:
      return ReadMethod(base, true);
    case SourceKind::kMethodFunction:
      return ReadMethod(base, false);
    case SourceKind::kCachedResult:
      return frame_ops::CanReadLruCache(base) ? frame_ops::LruCachedResult(base, read.constant.get()) : nullptr;
    case SourceKind::kWeakrefTarget:
      return PyWeakref_Check(base) ? private_api::Referent(base) : nullptr;
    case SourceKind::kTensorGrad:
    case SourceKind::kMaxlen:
    case SourceKind::kLength:
    case SourceKind::kTensorOfArray:
    case SourceKind::kThreadDict:
    case SourceKind::kContextValue:
    case SourceKind::kContextDefault:
      return Keep(MakeRead(read.kind, base, read.index), owned);
    case SourceKind::kPartialField:
      return ReadPartialField(base, read.field);
    case SourceKind::kViewed:
      return private_api::IsView(base) ? private_api::ViewedBy(base).get() : nullptr;
    case SourceKind::kNone:
    case SourceKind::kLocal:
    case SourceKind::kClosureCell:
    case SourceKind::kFunction:
    case SourceKind::kGlobals:
    case SourceKind::kBuiltins:
    case SourceKind::kHandledException:
    case SourceKind::kAbcToken:
    case SourceKind::kConstant:
      break;  // has no base
  }
  return nullptr;
}

PyObject* DescriptorOfBoundMethod(PyObject* builtin) {
  PyObject* self = PyCFunction_GET_SELF(builtin);
  if (self == nullptr || PyType_Check(self) || PyModule_Check(self)) return nullptr;
  const PyMethodDef* definition = reinterpret_cast<PyCFunctionObject*>(builtin)->m_ml;
  for (PyTypeObject* type = Py_TYPE(self); type != nullptr; type = type->tp_base) {
    PyObject* found = PyDict_GetItemString(frame_ops::TypeDict(type), definition->ml_name);
    if (found == nullptr) continue;
    // super() binds one that a class further down has another in place of.
    const bool same =
        Py_IS_TYPE(found, &PyMethodDescr_Type) && reinterpret_cast<PyMethodDescrObject*>(found)->d_method == definition;
    if (same) return found;
  }
  return nullptr;
}

PyObject* InstanceDictOf(PyObject* object) {
  PyObject* dict = frame_ops::RawInstanceDict(object);
  return dict != nullptr && PyDict_Check(dict) ? dict : nullptr;
}

Py_ssize_t RawLength(BorrowedRef object) {
  PyObject* o = object.get();
  if (PyTuple_Check(o) || PyList_Check(o)) return Py_SIZE(o);
  if (PyDict_Check(o)) return PyDict_GET_SIZE(o);
  if (PyAnySet_Check(o)) return PySet_GET_SIZE(o);
  if (PyUnicode_Check(o)) return PyUnicode_GET_LENGTH(o);
  if (PyBytes_Check(o)) return PyBytes_GET_SIZE(o);
  PyTypeObject* deque = Standard().deque;
  if (deque != nullptr && PyObject_TypeCheck(o, deque)) return deque->tp_as_sequence->sq_length(o);
  return -1;
}

bool IsOrderedDict(BorrowedRef object) { return PyODict_Check(object.get()); }

}  // namespace framefuse
