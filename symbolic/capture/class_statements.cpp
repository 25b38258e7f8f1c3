#include "symbolic/capture/class_statements.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "frame_eval/versions/private_api.h"
#include "symbolic/capture/call_arguments.h"
#include "symbolic/capture/capture.h"
#include "symbolic/capture/code_text.h"
#include "symbolic/capture/descriptors.h"
#include "symbolic/capture/known_metaclass.h"

namespace framefuse {

// Stands first in the namespace of a body, so that its __set_name__ is the first code to get the new class.
struct FirstName {
  PyObject ob_base;
  ClassStatements* owner;  // null once the statement is over

  static PyObject* SetName(PyObject* self, PyObject* const* args, Py_ssize_t count);
};

namespace {

std::int64_t leaked = 0;

PyObject* Interned(const char* text) { return PyUnicode_InternFromString(text); }

// No name of a program's.
PyObject* FirstKey() {
  static PyObject* const key = Interned("<first name>");
  return key;
}

PyTypeObject* FirstNameType() {
  static PyTypeObject* const type = [] {
    static PyMethodDef methods[] = {
        {"__set_name__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(FirstName::SetName)), METH_FASTCALL,
         nullptr},
        {nullptr, nullptr, 0, nullptr}};
    static PyType_Slot slots[] = {{Py_tp_methods, methods}, {0, nullptr}};
    static PyType_Spec spec = {"framefuse.FirstName", sizeof(FirstName), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    return reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  }();
  return type;
}

Ref FunctionIn(BorrowedRef wrapper, const char* name) {
  Ref function = Ref::Steal(PyObject_GetAttrString(wrapper, name));
  if (!function) PyErr_Clear();
  return function;
}

bool IsLibraryFunction(BorrowedRef function) {
  return IsPythonFunction(function) &&
         IsSkippedCode(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function.get())));
}

std::vector<PyObject*> Objects(absl::Span<const ValueView> args) {
  std::vector<PyObject*> objects;
  for (const ValueView& v : args) objects.push_back(v.object);
  return objects;
}

// A builtin type's __set_name__ (a property's) tells the object its name.
bool IsHarmlessAgain(BorrowedRef set_name) { return Py_IS_TYPE(set_name.get(), &PyMethodDescr_Type); }

bool Holds(PyTypeObject* type, BorrowedRef object) {
  PyObject *key, *value;
  for (Py_ssize_t position = 0; PyDict_Next(frame_ops::TypeDict(type), &position, &key, &value) != 0;) {
    if (value == object.get()) return true;
  }
  return false;
}

}  // namespace

PyObject* FirstName::SetName(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  ClassStatements* owner = reinterpret_cast<FirstName*>(self)->owner;
  if (owner != nullptr && count == 2 && PyType_Check(args[0])) owner->NoteClass(args[0]);
  Py_RETURN_NONE;
}

ClassStatements::~ClassStatements() {
  for (const Ref& weak : weak_) {
    if (private_api::Referent(weak.get()) != Py_None) ++leaked;
  }
}

std::int64_t ClassStatements::Leaked() { return leaked; }

BorrowedRef ClassStatements::NearestKnown(BorrowedRef type) const {
  PyObject* mro = reinterpret_cast<PyTypeObject*>(type.get())->tp_mro;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
    if (!IsMade(PyTuple_GET_ITEM(mro, i))) return PyTuple_GET_ITEM(mro, i);
  }
  return reinterpret_cast<PyObject*>(&PyBaseObject_Type);
}

// ---------------------------------------------------------------- making

// Its own code runs as it is; frames of the program's that it calls are evaluated.
Ref ClassStatements::CallLibrary(BorrowedRef callable, absl::Span<PyObject* const> args, std::size_t positional,
                                 BorrowedRef kwnames) {
  Ref result = Ref::Steal(capture_.boundary().RunAsLeaf(
      true, [&] { return PyObject_Vectorcall(callable, args.data(), positional, kwnames); }));
  return capture_.boundary().Check() ? std::move(result) : Ref();
}

Value ClassStatements::Run(Statement statement, BorrowedRef callable, absl::Span<PyObject* const> args,
                           std::size_t positional, BorrowedRef kwnames) {
  const Ref first = statement.first_name;
  const Ref function = Ref::Create(statement.body);
  open_.push_back(std::move(statement));
  capture_.Expect({function, Completion::kCallback, Ref(), {}});
  const Ref made = CallLibrary(callable, args, positional, kwnames);
  capture_.Expect({});
  reinterpret_cast<FirstName*>(first.get())->owner = nullptr;
  const bool rebuildable = open_.back().rebuildable;
  open_.pop_back();
  if (!made || !PyType_Check(made.get())) return Value{made, kNoSource};
  NoteClass(made);  // with what the metaclass has added
  if (!rebuildable) closed_.insert(made.get());
  return Value{made, kNoSource};
}

Value ClassStatements::Build(Activation&, ValueView build_class, absl::Span<const ValueView> args,
                             BorrowedRef kwnames) {
  Statement statement;
  if (!MayBuild(args, kwnames, &statement)) return Value();
  const std::vector<PyObject*> objects = Objects(args);
  return Run(std::move(statement), build_class.object, objects, PositionalCount(args, kwnames), kwnames);
}

Value ClassStatements::BuildByType(Activation& act, ValueView type, absl::Span<const ValueView> args) {
  const bool plain = args.size() == 3 && PyUnicode_CheckExact(args[0].object.get()) &&
                     PyTuple_CheckExact(args[1].object.get()) && PyDict_CheckExact(args[2].object.get());
  if (!plain) return capture_.breaks().Break(GraphBreakKind::kClassDefinition, "type() with other arguments");
  if (!capture_.arguments().PrepareAll(args)) return Value();
  PyObject** bases = &PyTuple_GET_ITEM(args[1].object.get(), 0);
  const auto count = static_cast<std::size_t>(PyTuple_GET_SIZE(args[1].object.get()));
  Statement statement;
  statement.begun = true;
  statement.rebuildable = false;  // its functions may be any other class's
  if (!MayBuildFrom(&PyType_Type, absl::MakeSpan(bases, count), &statement)) return Value();
  const Ref names = Ref::Steal(PyDict_New());
  if (!names || PyDict_SetItem(names, FirstKey(), statement.first_name) < 0) return Value();
  PyObject *key, *value;
  for (Py_ssize_t position = 0; PyDict_Next(args[2].object, &position, &key, &value) != 0;) {
    if (!ReadMember(act, ValueView(value, kNoSource), statement.abstract)) return Value();
    if (PyDict_SetItem(names, key, value) < 0) return Value();
  }
  PyObject* const objects[] = {args[0].object, args[1].object, names};
  return Run(std::move(statement), type.object, objects, 3, nullptr);
}

Value ClassStatements::Process(ValueView function, absl::Span<const ValueView> args, BorrowedRef kwnames) {
  constexpr std::size_t kSlots = 9;  // makes a class of the class
  for (const ValueView& v : args) capture_.reads().Consume(v);
  if (args.size() > kSlots && args[kSlots].object.get() != Py_False) {
    return capture_.breaks().Break(GraphBreakKind::kClassDefinition, "a dataclass with slots");
  }
  auto* type = reinterpret_cast<PyTypeObject*>(args[0].object.get());
  closed_.insert(args[0].object.get());
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    for (const char* name : {"__dataclass_fields__", "__dataclass_params__"}) capture_.reads().LookupInType(base, name);
  }
  PyObject* annotations = PyDict_GetItemString(frame_ops::TypeDict(type), "__annotations__");
  PyObject *key, *value;
  for (Py_ssize_t position = 0; annotations != nullptr && PyDict_Next(annotations, &position, &key, &value) != 0;) {
    if (PyUnicode_CheckExact(key)) Lookup(type, key);  // its default
  }
  Ref result = CallLibrary(function.object, Objects(args), PositionalCount(args, kwnames), kwnames);
  if (result) NoteContents(args[0].object);
  return Value{std::move(result), kNoSource};
}

Value ClassStatements::Make(ValueView function, absl::Span<const ValueView> args, BorrowedRef kwnames) {
  for (const ValueView& v : args) capture_.reads().Consume(v);
  if (!capture_.arguments().PrepareAll(args)) return Value();
  Ref made = CallLibrary(function.object, Objects(args), PositionalCount(args, kwnames), kwnames);
  if (made && PyType_Check(made.get())) {
    NoteClass(made);
    closed_.insert(made.get());
  }
  return Value{std::move(made), kNoSource};
}

void ClassStatements::NoteCode(Activation& act, BorrowedRef code) {
  auto* function = reinterpret_cast<PyObject*>(frame_ops::Function(act.frame));
  if (!open_.empty() && open_.back().body.get() == function) return;
  if (!PyCode_Check(code.get()) || !code_.insert(code.get()).second) return;
  values_.push_back(Ref::Create(code));
  PyObject* constants = reinterpret_cast<PyCodeObject*>(code.get())->co_consts;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants); ++i) NoteCode(act, PyTuple_GET_ITEM(constants, i));
}

bool ClassStatements::MayBuild(absl::Span<const ValueView> args, BorrowedRef kwnames, Statement* statement) {
  const auto refuse = [&](std::string_view why) {
    return capture_.breaks().BreakFalse(GraphBreakKind::kClassDefinition, why);
  };
  const std::size_t positional = PositionalCount(args, kwnames);
  if (positional < 2 || !capture_.objects().IsFreshFunction(args[0].object) ||
      !PyUnicode_CheckExact(args[1].object.get())) {
    return refuse("__build_class__ is called by the program");
  }
  for (const ValueView& v : args) capture_.reads().Consume(v);
  statement->body = args[0].object;
  std::vector<PyObject*> bases;
  for (std::size_t i = 2; i < positional; ++i) bases.push_back(args[i].object);
  PyTypeObject* metaclass = &PyType_Type;
  for (std::size_t i = positional; i < args.size(); ++i) {
    PyObject* name = PyTuple_GET_ITEM(kwnames.get(), static_cast<Py_ssize_t>(i - positional));
    if (PyUnicode_CompareWithASCIIString(name, "metaclass") != 0) {
      statement->rebuildable = false;
      continue;
    }
    if (!PyType_Check(args[i].object.get())) return refuse("its metaclass is no class");
    metaclass = reinterpret_cast<PyTypeObject*>(args[i].object.get());
  }
  return MayBuildFrom(metaclass, bases, statement);
}

bool ClassStatements::MayBuildFrom(PyTypeObject* metaclass, absl::Span<PyObject* const> bases, Statement* statement) {
  const auto refuse = [&](std::string_view why) {
    return capture_.breaks().BreakFalse(GraphBreakKind::kClassDefinition, why);
  };
  std::vector<PyObject*> classes;
  for (PyObject* base : bases) {
    if (PyObject* stands_for = ClassOfBase(base)) {
      classes.push_back(stands_for);
      continue;
    }
    if (!PyType_Check(base)) return refuse(absl::StrCat("a base of type ", Py_TYPE(base)->tp_name));
    classes.push_back(base);
  }
  metaclass = WinningMetaclass(metaclass, classes.data(), classes.size());
  if (metaclass == nullptr) return refuse("the metaclasses of its bases conflict");
  const KnownMetaclass known = FindKnownMetaclass(reinterpret_cast<PyObject*>(metaclass));
  if (known == KnownMetaclass::kNone) return refuse(absl::StrCat("its metaclass is ", metaclass->tp_name));
  for (const char* name : {"__prepare__", "__new__", "__init__"}) capture_.reads().LookupInType(metaclass, name);
  statement->abstract = known == KnownMetaclass::kAbstract;
  if (known == KnownMetaclass::kNamedTuple || known == KnownMetaclass::kEnum) statement->rebuildable = false;
  for (PyObject* base : classes) {
    if (!ReadBase(base, statement)) return false;
  }
  statement->first_name = Ref::Steal(FirstNameType()->tp_alloc(FirstNameType(), 0));
  if (statement->first_name) reinterpret_cast<FirstName*>(statement->first_name.get())->owner = this;
  return static_cast<bool>(statement->first_name);
}

// What makes the class reads of its base.
bool ClassStatements::ReadBase(BorrowedRef base, Statement* statement) {
  auto* type = reinterpret_cast<PyTypeObject*>(base.get());
  for (const char* name : {"__abstractmethods__", "_member_map_"}) capture_.reads().LookupInType(type, name);
  const BorrowedRef hook = capture_.reads().LookupInType(type, "__init_subclass__");
  if (!hook || !Py_IS_TYPE(hook.get(), &PyClassMethod_Type)) return true;
  statement->rebuildable = false;  // its effects are those of the statement
  const Ref function = FunctionIn(hook, "__func__");
  if (!IsLibraryFunction(function)) return true;
  // That of Generic writes nothing but the class.
  if (IsTypingCode(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function.get())))) return true;
  return capture_.breaks().BreakFalse(GraphBreakKind::kClassDefinition,
                                      absl::StrCat("the library's __init_subclass__ of ", type->tp_name));
}

bool ClassStatements::StoreName(Activation& act, BorrowedRef name, ValueView value) {
  PyObject* locals = frame_ops::Locals(act.frame);
  if (locals == nullptr || !PyDict_Check(locals) || act.completion == Completion::kRoot) {
    return capture_.Unsupported(act, "STORE_NAME");
  }
  capture_.reads().Consume(value);
  auto* function = reinterpret_cast<PyObject*>(frame_ops::Function(act.frame));
  if (!open_.empty() && open_.back().body.get() == function) {
    Statement& statement = open_.back();
    if (!std::exchange(statement.begun, true) && PyDict_SetItem(locals, FirstKey(), statement.first_name) < 0) {
      return false;
    }
    const bool abstract = statement.abstract;
    if (!ReadMember(act, value, abstract)) return false;
  }
  if (PyDict_CheckExact(locals)) return PyDict_SetItem(locals, name, value.object) == 0;
  const int failed = capture_.boundary().RunAsLeaf(true, [&] {
    return PyObject_SetItem(locals, name, value.object);
  });  // an enumeration's namespace is the library's
  return capture_.boundary().Check() && failed == 0;
}

// What makes the class reads of what stands in its body.
bool ClassStatements::ReadMember(Activation& act, ValueView value, bool abstract) {
  if (IsLeaf(value.object)) return true;
  PyTypeObject* type = value.object.type();
  const bool from_outside = capture_.objects().Find(value.object) != nullptr;
  const BorrowedRef set_name = capture_.reads().LookupInType(type, "__set_name__");
  if (set_name && !open_.empty() && !IsHarmlessAgain(set_name)) open_.back().rebuildable = false;
  if (set_name && from_outside && !(IsPythonFunction(set_name) && !IsLibraryFunction(set_name))) {
    return capture_.breaks().BreakFalse(
        GraphBreakKind::kClassDefinition,
        absl::StrCat("the library's __set_name__ of an object of type ", type->tp_name));
  }
  if (!abstract || !from_outside || PyType_Check(value.object.get()) || IsFakeTensor(value.object)) return true;
  static PyObject* const name = Interned("__isabstractmethod__");
  const Value is = capture_.boundary().Catching([&] { return capture_.LoadAttr(act, value, name); });
  if (!is && !capture_.breaks().unwinding()) PyErr_Clear();
  if (is) capture_.reads().Consume(is);
  return !capture_.breaks().unwinding();
}

void ClassStatements::NoteClass(BorrowedRef cls) {
  if (made_.insert(cls.get()).second) {
    classes_.push_back(Ref::Create(cls));
    if (Ref weak = Ref::Steal(PyWeakref_NewRef(cls, nullptr))) weak_.push_back(std::move(weak));
    PyObject* dict = frame_ops::TypeDict(reinterpret_cast<PyTypeObject*>(cls.get()));
    if (PyDict_Contains(dict, FirstKey()) > 0) PyType_Type.tp_setattro(cls, FirstKey(), nullptr);
    PyErr_Clear();
  }
  NoteContents(cls);
}

void ClassStatements::NoteContents(BorrowedRef cls) {
  const Ref values = Ref::Steal(PyDict_Values(frame_ops::TypeDict(reinterpret_cast<PyTypeObject*>(cls.get()))));
  for (Py_ssize_t i = 0; values && i < PyList_GET_SIZE(values.get()); ++i) {
    PyObject* value = PyList_GET_ITEM(values.get(), i);
    NoteValue(value);
    // Only what was made since can refer to the class: the one that FunctionMeta makes beside it.
    const bool second = PyType_Check(value) && !IsMade(value) && Holds(reinterpret_cast<PyTypeObject*>(value), cls);
    if (!second) continue;
    closed_.insert(value);
    NoteClass(value);
  }
}

void ClassStatements::NoteValue(BorrowedRef value) {
  PyObject* v = value.get();
  if (v == nullptr || IsLeaf(value) || PyType_Check(v) || capture_.objects().Find(value) != nullptr) return;
  if (IsFakeTensor(value) || !contents_.insert(v).second) return;
  values_.push_back(Ref::Create(value));
  if (Py_IS_TYPE(v, &PyProperty_Type)) {
    for (const char* part : {"fget", "fset", "fdel"}) NoteValue(FunctionIn(value, part));
  } else if (Py_IS_TYPE(v, &PyStaticMethod_Type) || Py_IS_TYPE(v, &PyClassMethod_Type)) {
    NoteValue(FunctionIn(value, "__func__"));
  }
}

bool ClassStatements::SetAttr(ValueView cls, BorrowedRef name, ValueView value) {
  const BorrowedRef setter =
      capture_.reads().LookupInType(cls.object.type(), value.object ? "__setattr__" : "__delattr__");
  if (IsPythonFunction(setter)) {
    return capture_.breaks().BreakFalse(GraphBreakKind::kUnsupportedWrite,
                                        "an attribute of a class whose metaclass sets it");
  }
  if (value.object) {
    capture_.reads().Consume(value);
    NoteValue(value.object);
    // A namespace that has it would call this.
    const BorrowedRef set_name = capture_.reads().LookupInType(value.object.type(), "__set_name__");
    if (set_name && !IsHarmlessAgain(set_name)) closed_.insert(cls.object.get());
  }
  return PyType_Type.tp_setattro(cls.object, name, value.object) == 0;
}

// ---------------------------------------------------------------- reading

BorrowedRef ClassStatements::Definer(PyTypeObject* type, BorrowedRef name) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    PyObject* cls = PyTuple_GET_ITEM(type->tp_mro, i);
    if (PyDict_GetItemWithError(frame_ops::TypeDict(reinterpret_cast<PyTypeObject*>(cls)), name) != nullptr) return cls;
  }
  return nullptr;
}

BorrowedRef ClassStatements::Lookup(PyTypeObject* type, BorrowedRef name) {
  PyTypeObject* without = nullptr;  // neither it nor a base of its has the name
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* cls = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    PyObject* own = PyDict_GetItemWithError(frame_ops::TypeDict(cls), name);
    if (!IsMade(cls) && (without == nullptr || PyType_IsSubtype(without, cls) == 0)) {
      if (!capture_.reads().LookupInType(cls, name)) without = cls;
    }
    if (own != nullptr) return own;
  }
  return nullptr;
}

bool ClassStatements::IsOfThisAttempt(BorrowedRef object) const {
  return made_.contains(object.get()) || contents_.contains(object.get()) || capture_.objects().IsFreshFunction(object);
}

std::optional<SourceId> ClassStatements::Rebase(SourceId source) const {
  SourceTable& sources = capture_.reads().sources();
  const Source s = sources[source];
  if (s.base == kNoSource) {
    if (s.kind == SourceKind::kConstant && IsOfThisAttempt(s.key)) return std::nullopt;
    return source;
  }
  const Source& base = sources[s.base];
  if (s.kind == SourceKind::kTypeAttr && base.kind == SourceKind::kConstant && IsMade(base.key)) {
    const BorrowedRef definer = Definer(reinterpret_cast<PyTypeObject*>(base.key.get()), s.key);
    if (!definer || IsMade(definer)) return std::nullopt;
    return sources.Intern(s.kind, capture_.reads().ConstantSource(definer), s.index, s.key);
  }
  const std::optional<SourceId> rebased = Rebase(s.base);
  if (!rebased || *rebased == s.base) return rebased ? std::optional<SourceId>(source) : std::nullopt;
  return sources.Intern(s.kind, *rebased, s.index, s.key);
}

// ---------------------------------------------------------------- ending

void ClassStatements::TakeApart() {
  for (std::size_t i = classes_.size(); i-- > 0;) PyType_Type.tp_clear(classes_[i]);
  classes_.clear();
  closed_.clear();
  values_.clear();
  made_.clear();
  contents_.clear();
  code_.clear();
  open_.clear();
  PyErr_Clear();
}

}  // namespace framefuse
