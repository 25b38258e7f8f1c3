#include "symbolic/rules/call_rules.h"

#include <initializer_list>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "frame_eval/import_module.h"
#include "frame_eval/versions/frame_ops.h"
#include "symbolic/rules/builtin_types.h"
#include "symbolic/rules/known_metaclass.h"
#include "symbolic/rules/number_arrays.h"

namespace framefuse {
namespace {

struct Row {
  const char* path;
  CallRule rule;
};

CallRule Special(SpecialCall which) { return CallRule{CallRule::Kind::kSpecial, which, {}}; }
CallRule Breaks(GraphBreakKind kind) { return CallRule{CallRule::Kind::kBreaks, {}, kind}; }

const Row kRows[] = {
#define FF_PURE(path) {path, {CallRule::Kind::kPure, {}, {}}},
#define FF_CALLS(path) {path, {CallRule::Kind::kPure, {}, {}, false, true}},
#define FF_MOVES(path) {path, {CallRule::Kind::kMoves, {}, {}}},
#define FF_PLAIN(path) {path, {CallRule::Kind::kPlain, {}, {}}},
#define FF_NUMPY(path) {path, {CallRule::Kind::kNumpy, {}, {}}},
#define FF_TORCH(path) {path, {CallRule::Kind::kTorch, {}, {}}},
#define FF_TORCH_STATE(path) {path, {CallRule::Kind::kTorch, {}, {}, true}},
#define FF_SPECIAL(path, which) {path, Special(SpecialCall::which)},
#define FF_BREAKS(path, kind) {path, Breaks(GraphBreakKind::kind)},
#include "symbolic/rules/call_rules.def"
};

// Resolves "module.attr" among modules that are imported already; null if it is not there.
Ref ResolvePath(const std::string& path) {
  const std::size_t dot = path.rfind('.');
  PyObject* modules = PyImport_GetModuleDict();
  Ref module = Ref::Create(PyDict_GetItemString(modules, path.substr(0, dot).c_str()));
  if (!module) module = ImportModule(path.substr(0, dot).c_str());
  if (!module && path.rfind('.', dot - 1) != std::string::npos) {  // an attribute of a class
    PyErr_Clear();
    module = ResolvePath(path.substr(0, dot));
  }
  Ref found;
  if (module) found = Ref::Steal(PyObject_GetAttrString(module, path.substr(dot + 1).c_str()));
  if (!found) PyErr_Clear();
  // pybind11's own metaclass gives a method as it stands in the class, a metaclass of torch's the function in it.
  if (found && PyInstanceMethod_Check(found.get())) found = Ref::Create(PyInstanceMethod_GET_FUNCTION(found.get()));
  return found;
}

using Table = absl::flat_hash_map<PyObject*, KnownCallable>;

// Where torch is built without a device, a class that raises an error stands in for what it has not.
bool StandsInForMissing(const CallRule& rule, BorrowedRef callable) {
  return rule.kind == CallRule::Kind::kTorch && PyType_Check(callable.get()) &&
         IsPythonClass(reinterpret_cast<PyTypeObject*>(callable.get()));
}

Table* MakeTable() {
  auto* table = new Table();
  for (const Row& row : kRows) {
    Ref callable = ResolvePath(row.path);
    if (!callable || StandsInForMissing(row.rule, callable)) continue;
    (*table)[callable.release()].rule = row.rule;  // kept alive for ever: identity is the key
  }
  return table;
}

Table& Rules() {
  static Table* table = MakeTable();
  return *table;
}

enum class ItemUse : std::uint8_t { kUses, kMoves };

struct BuiltinMethod {
  MethodEffect effect;
  ItemUse items;
};

// Methods of the containers that have any that write, and of tuples.
struct BuiltinMethods {
  bool any_writes = false;
  absl::flat_hash_map<std::string_view, BuiltinMethod> named;
};

const BuiltinMethods* MethodsOf(PyTypeObject* type) {
  static const auto* table = [] {
    auto* made = new absl::flat_hash_map<PyTypeObject*, BuiltinMethods>();
    const auto add = [&](PyTypeObject* of, BuiltinMethod method, std::initializer_list<std::string_view> names) {
      BuiltinMethods& methods = (*made)[of];
      methods.any_writes = methods.any_writes || method.effect == MethodEffect::kWrites;
      for (std::string_view name : names) methods.named.emplace(name, method);
    };
#define FF_METHODS(type, effect, items, ...) add(type, {MethodEffect::effect, ItemUse::items}, {__VA_ARGS__});
#include "symbolic/rules/builtin_methods.def"
#undef FF_METHODS
    return made;
  }();
  const auto found = table->find(type);
  return found == table->end() ? nullptr : &found->second;
}

const absl::flat_hash_set<PyTypeObject*>& ReadOnlyTypes() {
  static const auto* types = [] {
    auto* set = new absl::flat_hash_set<PyTypeObject*>{
        &PyLong_Type,       &PyFloat_Type,      &PyBool_Type,      &PyUnicode_Type,   &PyBytes_Type,
        &PyComplex_Type,    &PyTuple_Type,      &PyFrozenSet_Type, &PyRange_Type,     &PySlice_Type,
        &PyDictKeys_Type,   &PyDictValues_Type, &PyDictItems_Type, &PyODictKeys_Type, &PyODictValues_Type,
        &PyODictItems_Type, &PyMemoryView_Type, &PyGen_Type,       &PyDictProxy_Type, &PyProperty_Type,
        Py_TYPE(Py_None)};
    for (const char* path :
         {"torch.Size", "torch.device", "torch.dtype", "torch.finfo", "torch.iinfo", "re.Pattern", "re.Match",
          // What these write is the object itself, which was made in the frame: no method of one from outside runs.
          "datetime.timedelta", "array.array", "_io.StringIO", "_io.BytesIO", "_hashlib.HASH", "_blake2.blake2b"}) {
      Ref type = ResolvePath(path);
      if (type) set->insert(reinterpret_cast<PyTypeObject*>(type.release()));
    }
    return set;
  }();
  return *types;
}

std::string_view FileOf(PyCodeObject* code) {
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(code->co_filename, &size);
  if (text == nullptr) {
    PyErr_Clear();
    return {};
  }
  return {text, static_cast<std::size_t>(size)};
}

// Folder of a module's __file__, with the trailing separator; empty if it has none.
std::string FolderOf(const char* module_name) {
  Ref module = ImportModule(module_name);
  Ref file = module ? Ref::Steal(PyObject_GetAttrString(module, "__file__")) : Ref();
  const char* text = file && PyUnicode_Check(file) ? PyUnicode_AsUTF8(file) : nullptr;
  PyErr_Clear();
  if (text == nullptr) return {};
  const std::string path = text;
  return path.substr(0, path.rfind('/') + 1);
}

bool StartsWith(std::string_view text, std::string_view prefix) {
  return !prefix.empty() && text.substr(0, prefix.size()) == prefix;
}

}  // namespace

const KnownCallable* FindKnownCallable(BorrowedRef callable) {
  const Table& rules = Rules();
  const auto it = rules.find(callable.get());
  return it == rules.end() ? nullptr : &it->second;
}

const CallRule* FindCallRule(BorrowedRef callable) {
  const KnownCallable* known = FindKnownCallable(callable);
  return known != nullptr && known->rule ? &*known->rule : nullptr;
}

namespace {
KnownCallable& KnowFromNowOn(BorrowedRef callable) {
  const auto [it, added] = Rules().try_emplace(callable.get());
  if (added) Py_INCREF(callable.get());
  return it->second;
}
}  // namespace

void AddCallRule(BorrowedRef callable, CallRule rule) { KnowFromNowOn(callable).rule = rule; }

void AddSubstitute(BorrowedRef callable, BorrowedRef replacement, bool of_torch_only) {
  KnownCallable& known = KnowFromNowOn(callable);
  known.substitute = Ref::Create(replacement);
  known.of_torch_only = of_torch_only;
}

BorrowedRef FindSubstitute(BorrowedRef callable) {
  const KnownCallable* known = FindKnownCallable(callable);
  return known == nullptr ? BorrowedRef() : BorrowedRef(known->substitute);
}

MethodEffect BuiltinMethodEffect(PyTypeObject* type, std::string_view name) {
  const BuiltinMethods* methods = MethodsOf(type);
  if (methods != nullptr && methods->any_writes) {
    const auto found = methods->named.find(name);
    return found == methods->named.end() ? MethodEffect::kReads : found->second.effect;
  }
  if (name == "__reduce__" || name == "__reduce_ex__") return MethodEffect::kUnlisted;
  if (IsArrayType(type)) return IsReadMethod(name) ? MethodEffect::kReads : MethodEffect::kUnlisted;
  return ReadOnlyTypes().contains(type) ? MethodEffect::kReads : MethodEffect::kUnlisted;
}

bool MovesItemsOnly(PyTypeObject* type, std::string_view name) {
  const BuiltinMethods* methods = MethodsOf(type);
  if (methods == nullptr) return false;
  const auto found = methods->named.find(name);
  return found != methods->named.end() && found->second.items == ItemUse::kMoves;
}

MethodFacts FactsOf(PyDescrObject* descriptor) {
  static auto* const known = new absl::flat_hash_map<PyDescrObject*, MethodFacts>();
  if (const auto found = known->find(descriptor); found != known->end()) return found->second;
  MethodFacts facts;
  Py_ssize_t size = 0;
  if (const char* text = PyUnicode_AsUTF8AndSize(descriptor->d_name, &size)) {
    facts.name = {text, static_cast<std::size_t>(size)};
  } else {
    PyErr_Clear();
  }
  const std::string_view name(facts.name.data(), facts.name.size());
  facts.effect = BuiltinMethodEffect(descriptor->d_type, name);
  facts.moves_items_only = MovesItemsOnly(descriptor->d_type, name);
  // A static type never ends, and neither do its descriptors.
  if ((descriptor->d_type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) {
    Py_INCREF(reinterpret_cast<PyObject*>(descriptor));
    known->emplace(descriptor, facts);
  }
  return facts;
}

namespace {
// `__reduce_ex__`, `__new__` and their like, which a module has from its type: their definitions are those of every
// object's, or type's.
bool IsMethodOfAnyObject(BorrowedRef owner, PyObject* name, BorrowedRef member) {
  PyObject* found = frame_ops::TypeLookup(owner.type(), name);
  if (found != nullptr && PyCFunction_Check(found)) {
    return reinterpret_cast<PyCFunctionObject*>(found)->m_ml ==
           reinterpret_cast<PyCFunctionObject*>(member.get())->m_ml;
  }
  return found != nullptr && Py_TYPE(found) == &PyMethodDescr_Type &&
         reinterpret_cast<PyMethodDescrObject*>(found)->d_method ==
             reinterpret_cast<PyCFunctionObject*>(member.get())->m_ml;
}
}  // namespace

bool IsDispatcherFunction(BorrowedRef builtin) {
  if (!PyCFunction_Check(builtin.get())) return false;
  // The functions of torch._C._VariableFunctions are static methods without a self: known by their definitions.
  static const auto* definitions = [] {
    auto* set = new absl::flat_hash_set<const PyMethodDef*>();
    for (const char* path :
         {"torch._C._VariableFunctions", "torch._C._nn", "torch._C._linalg", "torch._C._fft", "torch._C._special"}) {
      Ref owner = ResolvePath(path);
      Ref names = owner ? Ref::Steal(PyObject_Dir(owner)) : Ref();
      for (Py_ssize_t i = 0; names && i < PyList_GET_SIZE(names.get()); ++i) {
        PyObject* name = PyList_GET_ITEM(names.get(), i);
        Ref member = Ref::Steal(PyObject_GetAttr(owner, name));
        if (member && PyCFunction_Check(member.get()) && !IsMethodOfAnyObject(owner, name, member)) {
          set->insert(reinterpret_cast<PyCFunctionObject*>(member.get())->m_ml);
        }
      }
      PyErr_Clear();
    }
    return set;
  }();
  return definitions->contains(reinterpret_cast<PyCFunctionObject*>(builtin.get())->m_ml);
}

namespace {

PyCodeObject* CodeIn(PyCodeObject* code, const char* name) {
  PyObject* constants = code->co_consts;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants); ++i) {
    auto* inner = reinterpret_cast<PyCodeObject*>(PyTuple_GET_ITEM(constants, i));
    if (PyCode_Check(inner) && PyUnicode_CompareWithASCIIString(inner->co_name, name) == 0) return inner;
  }
  return nullptr;
}

// The code of the function at `path`, whose last parts may be functions made inside the one before them.
PyCodeObject* CodeAt(const std::string& path) {
  const Ref function = ResolvePath(path);
  if (function) {
    const bool python = PyFunction_Check(function.get());
    return python ? reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function.get())) : nullptr;
  }
  const std::size_t dot = path.rfind('.');
  if (dot == std::string::npos) return nullptr;
  const char* const name = path.c_str() + dot + 1;
  Ref outer = ResolvePath(path.substr(0, dot));
  if (!outer) {
    PyCodeObject* code = CodeAt(path.substr(0, dot));
    return code != nullptr ? CodeIn(code, name) : nullptr;
  }
  PyCodeObject* found = nullptr;
  while (found == nullptr && outer && PyFunction_Check(outer.get())) {
    found = CodeIn(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(outer.get())), name);
    outer = Ref::Steal(PyObject_GetAttrString(outer, "__wrapped__"));  // it may stand in what a decorator wraps
  }
  PyErr_Clear();
  return found;
}

// Of nn.Module.__getattr__, by the names and texts that its code mentions, in order.
bool LooksInThreeDicts(PyCodeObject* code) {
  const Ref names = Ref::Steal(Py_BuildValue("(ssss)", "__dict__", "AttributeError", "type", "__name__"));
  if (PyObject_RichCompareBool(code->co_names, names, Py_EQ) != 1 || code->co_argcount != 2) return false;
  std::string texts;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_consts); ++i) {
    PyObject* constant = PyTuple_GET_ITEM(code->co_consts, i);
    if (PyUnicode_Check(constant)) texts += PyUnicode_AsUTF8(constant);
  }
  return texts == "_parameters_buffers_modules'' object has no attribute '";
}

// Of nn.Module's calls, by the names that their code mentions first, in order.
bool MentionsFirst(PyCodeObject* code, std::initializer_list<const char*> names) {
  Py_ssize_t i = 0;
  for (const char* name : names) {
    if (i >= PyTuple_GET_SIZE(code->co_names)) return false;
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(code->co_names, i++), name) != 0) return false;
  }
  return code->co_argcount == 1 && code->co_kwonlyargcount == 0 && (code->co_flags & CO_VARARGS) != 0 &&
         (code->co_flags & CO_VARKEYWORDS) != 0;
}

// What is done instead of a function's instructions follows the code that torch has had so far.
bool IsAsKnown(KnownFunction which, PyCodeObject* code) {
  switch (which) {
    case KnownFunction::kModuleGetAttr:
      return LooksInThreeDicts(code);
    case KnownFunction::kModuleCall:
      return PyTuple_GET_SIZE(code->co_names) == 2 && MentionsFirst(code, {"_compiled_call_impl", "_call_impl"});
    case KnownFunction::kModuleCallImpl:
      return MentionsFirst(code,
                           {"torch", "_C", "_get_tracing_state", "_slow_forward", "forward", "_backward_hooks",
                            "_backward_pre_hooks", "_forward_hooks", "_forward_pre_hooks", "_global_backward_pre_hooks",
                            "_global_backward_hooks", "_global_forward_hooks", "_global_forward_pre_hooks", "set"});
    case KnownFunction::kNone:
    case KnownFunction::kGrad:
    case KnownFunction::kEngine:
    case KnownFunction::kHiddenFromDynamo:
    case KnownFunction::kDeepCopy:
    case KnownFunction::kDispatch:
    case KnownFunction::kMakesClass:
    case KnownFunction::kProcessesClass:
    case KnownFunction::kRepr:
    case KnownFunction::kCheck:
    case KnownFunction::kRegisterHook:
    case KnownFunction::kTransform:
    case KnownFunction::kFunctionApply:
    case KnownFunction::kFunctionUnderTransform:
      return true;
  }
  return true;
}

}  // namespace

KnownFunction FindKnownFunction(BorrowedRef function) {
  static const auto* codes = [] {
    auto* table = new absl::flat_hash_map<PyObject*, KnownFunction>();
    const auto add = [&](const char* path, KnownFunction which) {
      PyCodeObject* code = CodeAt(path);
      if (code != nullptr && IsAsKnown(which, code))
        table->emplace(Py_NewRef(reinterpret_cast<PyObject*>(code)), which);
    };
#define FF_KNOWN(path, which) add(path, KnownFunction::which);
#include "symbolic/rules/call_rules.def"
    return table;
  }();
  if (!function || !PyFunction_Check(function.get())) return KnownFunction::kNone;
  const auto found = codes->find(PyFunction_GET_CODE(function.get()));
  return found == codes->end() ? KnownFunction::kNone : found->second;
}

Py_ssize_t IndexInClosure(PyFunctionObject* function, const char* name) {
  if (function->func_closure == nullptr) return -1;
  const Ref names = Ref::Steal(PyCode_GetFreevars(reinterpret_cast<PyCodeObject*>(function->func_code)));
  if (!names) PyErr_Clear();
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names.get()); ++i) {
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names.get(), i), name) == 0) return i;
  }
  return -1;
}

bool IsTorchLeafFunction(BorrowedRef function) {
  static const auto* modules = new absl::flat_hash_set<std::string>{
      "torch.functional", "torch.nn.functional", "torch._tensor", "torch._jit_internal",
      "torch.special",    "torch._lowrank",      "torch.linalg",  "torch.fft"};
  auto* f = reinterpret_cast<PyFunctionObject*>(function.get());
  const char* module =
      f->func_module != nullptr && PyUnicode_Check(f->func_module) ? PyUnicode_AsUTF8(f->func_module) : nullptr;
  if (module == nullptr) {
    PyErr_Clear();
    return false;
  }
  return modules->contains(module) && IsTorchCode(reinterpret_cast<PyCodeObject*>(f->func_code));
}

bool IsTorchCode(PyCodeObject* code) {
  static const std::string* folder = new std::string(FolderOf("torch"));
  return StartsWith(FileOf(code), *folder);
}

bool IsCodeOfMembers(PyCodeObject* code) {
  static const PyCodeObject* const members = CodeAt("torch.nn.modules.module.Module._named_members");
  return code == members;
}

bool IsCopyCode(PyCodeObject* code) {
  static const std::string* file = [] {
    PyCodeObject* deepcopy = CodeAt("copy.deepcopy");
    return new std::string(deepcopy != nullptr ? FileOf(deepcopy) : std::string_view());
  }();
  return !file->empty() && FileOf(code) == *file;
}

bool IsWarningsCode(PyCodeObject* code) {
  static const std::string* file = [] {
    PyCodeObject* show = CodeAt("warnings._showwarnmsg");
    return new std::string(show != nullptr ? FileOf(show) : std::string_view());
  }();
  return !file->empty() && FileOf(code) == *file;
}

bool IsTypingCode(PyCodeObject* code) {
  const std::string_view file = FileOf(code);
  return file.ends_with("/typing_extensions.py") || (file.ends_with("/typing.py") && IsSkippedCode(code));
}

bool IsOwnCode(PyCodeObject* code) {
  static const std::string* own = new std::string(FolderOf("framefuse"));
  return StartsWith(FileOf(code), *own);
}

bool IsImportCode(PyCodeObject* code) { return StartsWith(FileOf(code), "<frozen importlib"); }

bool IsSkippedCode(PyCodeObject* code) {
  static const std::string* stdlib = new std::string(FolderOf("os"));
  const std::string_view file = FileOf(code);
  if (StartsWith(file, "<frozen") || IsOwnCode(code) || IsTorchCode(code)) return true;
  return StartsWith(file, *stdlib) && file.find("site-packages") == std::string_view::npos &&
         file.find("dist-packages") == std::string_view::npos;
}

void LoadCallRules() {
  Rules();
  BuiltinMethodEffect(&PyTuple_Type, "");
  Ref any = ResolvePath("math.sqrt");
  IsDispatcherFunction(any);
  Ref function = ResolvePath("functools.wraps");
  FindKnownFunction(function);
  FindKnownMetaclass(function);
  ClassOfBase(function);
  auto* code = reinterpret_cast<PyCodeObject*>(reinterpret_cast<PyFunctionObject*>(function.get())->func_code);
  IsTorchCode(code);
  IsCopyCode(code);
  IsWarningsCode(code);
  IsSkippedCode(code);
}

SpecialFamily FamilyOf(SpecialCall which) {
  static constexpr SpecialFamily kFamilies[] = {
#define FF_SPECIAL_CALL(which, family) SpecialFamily::family,
#include "symbolic/rules/special_calls.def"
#undef FF_SPECIAL_CALL
  };
  return kFamilies[static_cast<std::size_t>(which)];
}

}  // namespace framefuse
