#include "symbolic/calls/class_statements.h"

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "symbolic/calls/frame_entry.h"
#include "symbolic/journals/break_controller.h"
#include "symbolic/journals/fakes.h"
#include "symbolic/journals/journals.h"
#include "symbolic/journals/made_classes.h"
#include "symbolic/journals/native_arguments.h"
#include "symbolic/journals/native_boundary.h"
#include "symbolic/journals/object_table.h"
#include "symbolic/journals/read_journal.h"
#include "symbolic/journals/tracked.h"
#include "symbolic/journals/write_journal.h"
#include "symbolic/messages/graph_break.h"
#include "symbolic/rules/builtin_types.h"
#include "symbolic/rules/call_arguments.h"
#include "symbolic/rules/call_rules.h"
#include "symbolic/rules/descriptors.h"
#include "symbolic/rules/known_metaclass.h"

namespace framefuse {

// Stands first in the namespace of a body, so that its __set_name__ is the first code to get the new class.
struct FirstName {
  PyObject ob_base;
  MadeClasses* owner;  // null once the statement is over
  PyObject* names;     // the namespace, where a hook is to get it without this name; else null

  static PyObject* SetName(PyObject* self, PyObject* const* args, Py_ssize_t count);
};

namespace {

PyObject* Interned(const char* text) { return PyUnicode_InternFromString(text); }

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

// dataclasses.Field hands the class on to its default; null: it does not.
Ref HandedTheClass(BorrowedRef set_name, BorrowedRef member) {
  if (!IsLibraryFunction(set_name)) return Ref();
  Ref inner = Ref::Steal(PyObject_GetAttrString(member, "default"));
  if (!inner) PyErr_Clear();
  return inner;
}

// Written in Python, down to type: what it does when a class is made is captured.
bool IsOfProgram(PyTypeObject* metaclass) {
  if (Py_TYPE(metaclass) != &PyType_Type || !IsPythonClass(metaclass)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(metaclass->tp_mro); ++i) {
    PyObject* base = PyTuple_GET_ITEM(metaclass->tp_mro, i);
    const bool builtin =
        base == reinterpret_cast<PyObject*>(&PyType_Type) || base == reinterpret_cast<PyObject*>(&PyBaseObject_Type);
    if (!builtin && FindKnownMetaclass(base) != KnownMetaclass::kNone) return false;
    if (!builtin && !IsPythonClass(reinterpret_cast<PyTypeObject*>(base))) return false;
  }
  return true;
}

// A builtin type's __set_name__ (a property's) tells the object its name.
bool IsHarmlessAgain(BorrowedRef set_name) { return Py_IS_TYPE(set_name.get(), &PyMethodDescr_Type); }

}  // namespace

PyObject* FirstName::SetName(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  MadeClasses* owner = reinterpret_cast<FirstName*>(self)->owner;
  if (PyObject* names = std::exchange(reinterpret_cast<FirstName*>(self)->names, nullptr)) {
    if (PyDict_DelItem(names, MadeClasses::FirstKey()) < 0) PyErr_Clear();
  }
  if (owner != nullptr && count == 2 && PyType_Check(args[0])) owner->NoteClass(args[0]);
  Py_RETURN_NONE;
}

ClassStatements::ClassStatements(Journals& journals, Protocols& meaning, FrameEntry& entry)
    : breaks_(journals.breaks()),
      boundary_(journals.boundary()),
      reads_(journals.reads()),
      objects_(journals.objects()),
      writes_(journals.writes()),
      arguments_(journals.arguments()),
      made_(journals.made()),
      meaning_(meaning),
      entry_(entry) {}

// Its own code runs as it is; frames of the program's that it calls are evaluated.
Ref ClassStatements::CallLibrary(BorrowedRef callable, absl::Span<PyObject* const> args, std::size_t positional,
                                 BorrowedRef kwnames) {
  if (writes_.has_class_writes()) {
    return breaks_.Break(GraphBreakKind::kClassDefinition, "a class is made after one was written").object;
  }
  Ref result = Ref::Steal(
      boundary_.RunAsLeaf(true, [&] { return PyObject_Vectorcall(callable, args.data(), positional, kwnames); }));
  return boundary_.Check() ? std::move(result) : Ref();
}

Value ClassStatements::Run(Statement statement, BorrowedRef callable, absl::Span<PyObject* const> args,
                           std::size_t positional, BorrowedRef kwnames) {
  const Ref first = statement.first_name;
  const Ref function = Ref::Create(statement.body);
  open_.push_back(std::move(statement));
  entry_.Expect({function, Completion::kCallback, Ref(), {}});
  const Ref made = CallLibrary(callable, args, positional, kwnames);
  entry_.Expect({});
  reinterpret_cast<FirstName*>(first.get())->owner = nullptr;
  const bool rebuildable = open_.back().rebuildable;
  const bool by_program = open_.back().by_program;
  open_.pop_back();
  if (made && by_program && !made_.IsMade(made)) {
    return breaks_.Break(GraphBreakKind::kClassDefinition, "its metaclass gives another object");
  }
  if (!made || !PyType_Check(made.get())) return Value{made, kNoSource};
  made_.NoteClass(made);  // with what the metaclass has added
  if (!rebuildable) made_.Close(made);
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
  if (!plain) return breaks_.Break(GraphBreakKind::kClassDefinition, "type() with other arguments");
  if (!arguments_.PrepareAll(args)) return Value();
  if (PyDict_GetItemString(args[2].object.get(), "__classcell__") != nullptr) {
    return breaks_.Break(GraphBreakKind::kClassDefinition, "type() writes the cell of an earlier class statement");
  }
  PyObject** bases = &PyTuple_GET_ITEM(args[1].object.get(), 0);
  const auto count = static_cast<std::size_t>(PyTuple_GET_SIZE(args[1].object.get()));
  Statement statement;
  if (!MayBuildFrom(&PyType_Type, absl::MakeSpan(bases, count), &statement)) return Value();
  if (statement.by_program) {
    return breaks_.Break(GraphBreakKind::kClassDefinition, "type() with a base of another metaclass");
  }
  return MakeOf(act, std::move(statement), type, args, nullptr);
}

std::optional<Value> ClassStatements::NewByType(Activation& act, ValueView make, absl::Span<const ValueView> args,
                                                BorrowedRef kwnames) {
  if (open_.empty() || !open_.back().by_program || open_.back().made) return std::nullopt;
  const bool plain = PositionalCount(args, kwnames) == 4 && PyType_Check(args[0].object.get()) &&
                     PyUnicode_CheckExact(args[1].object.get()) && PyTuple_CheckExact(args[2].object.get()) &&
                     PyDict_CheckExact(args[3].object.get());
  if (!plain) return std::nullopt;
  open_.back().made = true;
  for (const ValueView& v : args) reads_.Consume(v);
  if (!arguments_.PrepareAll(args)) return Value();
  auto* metaclass = reinterpret_cast<PyTypeObject*>(args[0].object.get());
  PyObject** bases = &PyTuple_GET_ITEM(args[2].object.get(), 0);
  const auto count = static_cast<std::size_t>(PyTuple_GET_SIZE(args[2].object.get()));
  if (WinningMetaclass(metaclass, bases, count) != metaclass) return std::nullopt;  // another one's __new__ is called
  Statement statement;
  if (!MayBuildFrom(metaclass, absl::MakeSpan(bases, count), &statement)) return Value();
  statement.made = true;
  return MakeOf(act, std::move(statement), make, args, kwnames);
}

// By a call of which the last argument by position is the namespace.
Value ClassStatements::MakeOf(Activation& act, Statement statement, ValueView make, absl::Span<const ValueView> args,
                              BorrowedRef kwnames) {
  statement.begun = true;
  statement.rebuildable = false;  // its functions may be any other class's
  const std::size_t positional = PositionalCount(args, kwnames);
  const Ref names = Ref::Steal(PyDict_New());
  if (!names || PyDict_SetItem(names, MadeClasses::FirstKey(), statement.first_name) < 0) return Value();
  PyObject *key, *value;
  for (Py_ssize_t position = 0; PyDict_Next(args[positional - 1].object, &position, &key, &value) != 0;) {
    if (!ReadMember(act, ValueView(value, kNoSource), statement.abstract)) return Value();
    if (PyDict_SetItem(names, key, value) < 0) return Value();
  }
  std::vector<PyObject*> objects = Objects(args);
  objects[positional - 1] = names;
  return Run(std::move(statement), make.object, absl::MakeSpan(objects), positional, kwnames);
}

Value ClassStatements::Process(ValueView function, absl::Span<const ValueView> args, BorrowedRef kwnames) {
  constexpr std::size_t kSlots = 9;  // makes a class of the class
  for (const ValueView& v : args) reads_.Consume(v);
  if (args.size() > kSlots && args[kSlots].object.get() != Py_False) {
    return breaks_.Break(GraphBreakKind::kClassDefinition, "a dataclass with slots");
  }
  auto* type = reinterpret_cast<PyTypeObject*>(args[0].object.get());
  made_.Close(args[0].object);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(type->tp_mro, i));
    for (const char* name : {"__dataclass_fields__", "__dataclass_params__"}) reads_.LookupInType(base, name);
  }
  PyObject* annotations = PyDict_GetItemString(frame_ops::TypeDict(type), "__annotations__");
  PyObject *key, *value;
  for (Py_ssize_t position = 0; annotations != nullptr && PyDict_Next(annotations, &position, &key, &value) != 0;) {
    if (PyUnicode_CheckExact(key)) made_.Lookup(type, key);  // its default
  }
  Ref result = CallLibrary(function.object, Objects(args), PositionalCount(args, kwnames), kwnames);
  if (result) made_.NoteContents(args[0].object);
  return Value{std::move(result), kNoSource};
}

Value ClassStatements::Make(ValueView function, absl::Span<const ValueView> args, BorrowedRef kwnames) {
  for (const ValueView& v : args) reads_.Consume(v);
  if (!arguments_.PrepareAll(args)) return Value();
  Ref made = CallLibrary(function.object, Objects(args), PositionalCount(args, kwnames), kwnames);
  if (made && PyType_Check(made.get())) {
    made_.NoteClass(made);
    made_.Close(made);
  }
  return Value{std::move(made), kNoSource};
}

void ClassStatements::NoteCode(Activation& act, BorrowedRef code) {
  auto* function = reinterpret_cast<PyObject*>(frame_ops::Function(act.frame));
  if (open_.empty() || open_.back().body.get() != function) made_.NoteCode(code);
}

bool ClassStatements::MayBuild(absl::Span<const ValueView> args, BorrowedRef kwnames, Statement* statement) {
  const auto refuse = [&](std::string_view why) { return breaks_.BreakFalse(GraphBreakKind::kClassDefinition, why); };
  const std::size_t positional = PositionalCount(args, kwnames);
  if (positional < 2 || !objects_.IsFreshFunction(args[0].object) || !PyUnicode_CheckExact(args[1].object.get())) {
    return refuse("__build_class__ is called by the program");
  }
  for (const ValueView& v : args) reads_.Consume(v);
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
  const auto refuse = [&](std::string_view why) { return breaks_.BreakFalse(GraphBreakKind::kClassDefinition, why); };
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
  if (IsOfProgram(metaclass) && !ReadMetaclass(metaclass, statement)) return false;
  if (known == KnownMetaclass::kNone && !statement->by_program) {
    return refuse(absl::StrCat("its metaclass is ", metaclass->tp_name));
  }
  for (const char* name : {"__prepare__", "__new__", "__init__"}) reads_.LookupInType(metaclass, name);
  statement->abstract = known == KnownMetaclass::kAbstract;
  const bool has_hooks = known == KnownMetaclass::kNamedTuple || known == KnownMetaclass::kEnum;
  if (has_hooks || statement->by_program) statement->rebuildable = false;
  for (PyObject* base : classes) {
    if (!ReadBase(base, statement)) return false;
  }
  statement->first_name = Ref::Steal(FirstNameType()->tp_alloc(FirstNameType(), 0));
  if (statement->first_name) reinterpret_cast<FirstName*>(statement->first_name.get())->owner = &made_;
  return static_cast<bool>(statement->first_name);
}

// Before type.__new__ has made the class, a hook of the program's may look at the namespace.
bool ClassStatements::ReadMetaclass(PyTypeObject* metaclass, Statement* statement) {
  const BorrowedRef make = reads_.LookupInType(metaclass, "__new__");
  const BorrowedRef prepare = reads_.LookupInType(metaclass, "__prepare__");
  for (const char* name : {"__prepare__", "__new__", "__init__"}) {
    const BorrowedRef hook = reads_.LookupInType(metaclass, name);
    if (!IsLibraryFunction(hook) && !IsLibraryFunction(FunctionIn(hook, "__func__"))) continue;
    return breaks_.BreakFalse(GraphBreakKind::kClassDefinition, absl::StrCat("its metaclass is ", metaclass->tp_name));
  }
  if (IsPythonFunction(reads_.LookupInType(metaclass, "mro"))) {
    return breaks_.BreakFalse(GraphBreakKind::kClassDefinition, "its metaclass orders the bases");
  }
  statement->by_program = true;
  statement->sees_names = !PyCFunction_Check(make.get());
  statement->made = !statement->sees_names;
  if (statement->sees_names || Py_IS_TYPE(prepare.get(), &PyClassMethodDescr_Type)) return true;
  return breaks_.BreakFalse(GraphBreakKind::kClassDefinition,
                            "its metaclass prepares the namespace and makes no class");
}

// What makes the class reads of its base.
bool ClassStatements::ReadBase(BorrowedRef base, Statement* statement) {
  auto* type = reinterpret_cast<PyTypeObject*>(base.get());
  for (const char* name : {"__abstractmethods__", "_member_map_"}) reads_.LookupInType(type, name);
  const BorrowedRef hook = reads_.LookupInType(type, "__init_subclass__");
  if (!hook || !Py_IS_TYPE(hook.get(), &PyClassMethod_Type)) return true;
  statement->rebuildable = false;  // its effects are those of the statement
  const Ref function = FunctionIn(hook, "__func__");
  if (!IsLibraryFunction(function)) return true;
  // That of Generic writes nothing but the class.
  if (IsTypingCode(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function.get())))) return true;
  return breaks_.BreakFalse(GraphBreakKind::kClassDefinition,
                            absl::StrCat("the library's __init_subclass__ of ", type->tp_name));
}

bool ClassStatements::StoreName(Activation& act, BorrowedRef name, ValueView value) {
  PyObject* locals = frame_ops::Locals(act.frame);
  if (locals == nullptr || !PyDict_Check(locals) || act.completion == Completion::kRoot) {
    return breaks_.BreakFalse(GraphBreakKind::kUnsupportedOpcode, "STORE_NAME");
  }
  reads_.Consume(value);
  auto* function = reinterpret_cast<PyObject*>(frame_ops::Function(act.frame));
  if (!open_.empty() && open_.back().body.get() == function) {
    Statement& statement = open_.back();
    if (statement.by_program && (!PyDict_CheckExact(locals) || objects_.Find(locals) != nullptr)) {
      return breaks_.BreakFalse(GraphBreakKind::kClassDefinition,
                                "its metaclass prepares a namespace that is no new dict");
    }
    if (!std::exchange(statement.begun, true) && !statement.sees_names) {
      if (PyDict_SetItem(locals, MadeClasses::FirstKey(), statement.first_name) < 0) return false;
      if (statement.by_program) reinterpret_cast<FirstName*>(statement.first_name.get())->names = locals;
    }
    const bool abstract = statement.abstract;
    if (!ReadMember(act, value, abstract)) return false;
  }
  if (PyDict_CheckExact(locals)) return PyDict_SetItem(locals, name, value.object) == 0;
  const int failed = boundary_.RunAsLeaf(true, [&] {
    return PyObject_SetItem(locals, name, value.object);
  });  // an enumeration's namespace is the library's
  return boundary_.Check() && failed == 0;
}

// What makes the class reads of what stands in its body.
bool ClassStatements::ReadMember(Activation& act, ValueView value, bool abstract) {
  if (IsLeaf(value.object)) return true;
  PyTypeObject* type = value.object.type();
  const bool from_outside = objects_.Find(value.object) != nullptr;
  const BorrowedRef set_name = reads_.LookupInType(type, "__set_name__");
  if (set_name && !open_.empty() && !IsHarmlessAgain(set_name)) open_.back().rebuildable = false;
  if (set_name && from_outside && !(IsPythonFunction(set_name) && !IsLibraryFunction(set_name))) {
    return breaks_.BreakFalse(GraphBreakKind::kClassDefinition,
                              absl::StrCat("the library's __set_name__ of an object of type ", type->tp_name));
  }
  if (const Ref inner = set_name ? HandedTheClass(set_name, value.object) : Ref()) {
    const BorrowedRef hook = reads_.LookupInType(inner.type(), "__set_name__");
    if (hook && !IsHarmlessAgain(hook) && !(IsPythonFunction(hook) && !IsLibraryFunction(hook))) {
      return breaks_.BreakFalse(
          GraphBreakKind::kClassDefinition,
          absl::StrCat("the library's __set_name__ of an object of type ", inner.type()->tp_name));
    }
  }
  if (!abstract || !from_outside || PyType_Check(value.object.get()) || IsFakeTensor(value.object)) return true;
  static PyObject* const name = Interned("__isabstractmethod__");
  const Value is = boundary_.Catching([&] { return meaning_.LoadAttr(act, value, name); });
  if (is) reads_.Consume(is);
  if (is) return true;
  if (PyErr_ExceptionMatches(PyExc_Exception) == 0) {
    return breaks_.BreakFalse(GraphBreakKind::kClassDefinition, "an __isabstractmethod__ that raises");
  }
  PyErr_Clear();  // the library asks again, and raises it
  return true;
}

bool ClassStatements::SetAttr(ValueView cls, BorrowedRef name, ValueView value) {
  const BorrowedRef setter = reads_.LookupInType(cls.object.type(), value.object ? "__setattr__" : "__delattr__");
  if (IsPythonFunction(setter)) {
    return breaks_.BreakFalse(GraphBreakKind::kUnsupportedWrite, "an attribute of a class whose metaclass sets it");
  }
  if (value.object) {
    reads_.Consume(value);
    made_.NoteValue(value.object);
    // A namespace that has it would call this.
    const BorrowedRef set_name = reads_.LookupInType(value.object.type(), "__set_name__");
    if (set_name && !IsHarmlessAgain(set_name)) made_.Close(cls.object);
  }
  return PyType_Type.tp_setattro(cls.object, name, value.object) == 0;
}

}  // namespace framefuse
