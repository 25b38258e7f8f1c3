// ff_guards_testing: GuardSets built from Python descriptions, for the pytest files beside it.
// A source is (kind name, base number, index, key), numbered from 1 in order; a guard is (source, kind name, expected,
// aux, line) with absent parts None. Program.check(function, slots) resolves and checks as an entry would.
#include <Python.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "frame_eval/versions/frame_ops.h"
#include "guards/guard.h"
#include "guards/kinds.h"

namespace framefuse {
namespace {

constexpr std::array<std::string_view, 24> kSourceKinds = {
    "none",           "local",         "closure_cell",      "function",
    "globals",        "builtins",      "handled_exception", "abc_token",
    "constant",       "cell_contents", "instance_attr",     "instance_dict",
    "slot_attr",      "type",          "type_attr",         "item",
    "module_attr",    "default",       "kw_default",        "function_cell",
    "function_field", "method_self",   "method_function",   "tensor_grad"};
struct Program {
  PyObject_HEAD GuardProgram* program;
  PyObject* sources;
};

template <std::size_t n>
int FindName(const std::array<std::string_view, n>& names, const char* name) {
  for (std::size_t i = 0; i < n; ++i) {
    if (names[i] == name) return static_cast<int>(i);
  }
  return -1;
}

// The kind behind the last of the array.
int SourceKindOf(const char* name) {
  return std::string_view(name) == "partial_field" ? static_cast<int>(SourceKind::kPartialField)
                                                   : FindName(kSourceKinds, name);
}
int GuardKindOf(const char* name) {
  for (const GuardKindRow& row : GuardKinds()) {
    if (std::string_view(row.name) == name) return static_cast<int>(row.kind);
  }
  return -1;
}

BorrowedRef OrNull(PyObject* object) { return object == Py_None ? nullptr : object; }

// None as a key or expected object is spelled Ellipsis-free: absent is NotImplemented.
BorrowedRef Present(PyObject* object) { return object == Py_NotImplemented ? nullptr : object; }

FrameView MakeView(PyObject* function, PyObject* slots, std::vector<PyObject*>* storage) {
  FrameView view;
  view.function = reinterpret_cast<PyFunctionObject*>(function);
  view.code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
  view.globals = PyFunction_GET_GLOBALS(function);
  view.builtins = view.function->func_builtins;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(slots); ++i) {
    storage->push_back(OrNull(PyTuple_GET_ITEM(slots, i) == Py_NotImplemented ? Py_None : PyTuple_GET_ITEM(slots, i)));
    if (PyTuple_GET_ITEM(slots, i) == Py_None) storage->back() = Py_None;
  }
  view.slots = storage->data();
  view.slot_count = static_cast<int>(storage->size());
  return view;
}

bool AddSources(SourceTable* table, PyObject* list, std::vector<SourceId>* ids) {
  ids->assign(1, kNoSource);
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    const char* kind = nullptr;
    int base = 0, index = 0;
    PyObject* key = nullptr;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "siiO", &kind, &base, &index, &key)) return false;
    const int k = SourceKindOf(kind);
    if (k < 0) {
      PyErr_Format(PyExc_ValueError, "no source kind %s", kind);
      return false;
    }
    ids->push_back(
        table->Intern(static_cast<SourceKind>(k), ids->at(static_cast<std::size_t>(base)), index, Present(key)));
  }
  return true;
}

bool AddGuards(GuardSet* set, PyObject* list, const std::vector<SourceId>& ids, PyObject* code) {
  std::vector<SourceId> overlap_sources;
  std::vector<BorrowedRef> overlap_tensors;
  DistinctObjects distinct;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    const char* kind = nullptr;
    int source = 0, line = 0;
    long long aux = 0;
    PyObject* expected = nullptr;
    if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "isOLi", &source, &kind, &expected, &aux, &line)) return false;
    const int k = GuardKindOf(kind);
    if (k < 0) {
      PyErr_Format(PyExc_ValueError, "no guard kind %s", kind);
      return false;
    }
    UserLocation where;
    if (line > 0) {
      where.code = RefOf<PyCodeObject>::Create(reinterpret_cast<PyCodeObject*>(code));
      where.line = line;
    }
    const SourceId id = ids.at(static_cast<std::size_t>(source));
    switch (static_cast<GuardKind>(k)) {
      case GuardKind::kTensor:
        // False as well where the source has a tensor guard already.
        if (!set->AddTensor(id, expected, where) && PyObject_HasAttrString(expected, "requires_grad") == 0) {
          PyErr_SetString(PyExc_ValueError, "not a tensor");
          return false;
        }
        if (aux == 1) set->AddLeaf(id, expected);
        break;
      case GuardKind::kGlobalState:
        set->AddGlobalState();
        break;
      case GuardKind::kOverlap:
        overlap_sources.push_back(id);
        overlap_tensors.push_back(expected);
        break;
      case GuardKind::kDistinct:
        // aux: 1 written, 2 its attributes
        ((aux & 1) != 0 ? distinct.written : distinct.others).push_back({id, (aux & 2) != 0});
        break;
      case GuardKind::kLength:
        set->AddLength(id, aux, where);
        break;
      case GuardKind::kSameAs:
      case GuardKind::kDistinctFrom:
        set->Add(id, static_cast<GuardKind>(k), nullptr, where, ids.at(static_cast<std::size_t>(aux)));
        break;
      default:
        set->Add(id, static_cast<GuardKind>(k), Present(expected), where, aux);
    }
  }
  set->AddOverlap(overlap_sources, overlap_tensors);
  set->AddDistinct(std::move(distinct));
  return true;
}

PyTypeObject* program_type = nullptr;

PyObject* Build(PyObject*, PyObject* args) {
  PyObject *sources = nullptr, *guards = nullptr, *resolve = nullptr, *names = nullptr, *code = nullptr;
  if (!PyArg_ParseTuple(args, "O!O!O!O!O", &PyList_Type, &sources, &PyList_Type, &guards, &PyList_Type, &resolve,
                        &PyList_Type, &names, &code)) {
    return nullptr;
  }
  SourceTable table;
  GuardSet set(&table);
  std::vector<SourceId> ids, also;
  if (!AddSources(&table, sources, &ids) || !AddGuards(&set, guards, ids, code)) return nullptr;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(resolve); ++i) {
    also.push_back(ids.at(static_cast<std::size_t>(PyLong_AsLong(PyList_GET_ITEM(resolve, i)))));
  }
  std::vector<std::string> slot_names;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names); ++i)
    slot_names.push_back(PyUnicode_AsUTF8(PyList_GET_ITEM(names, i)));
  auto program = set.Compile(also, slot_names);
  if (!program.ok()) {
    PyErr_SetString(PyExc_ValueError, std::string(program.status().message()).c_str());
    return nullptr;
  }
  auto* self = PyObject_New(Program, program_type);
  if (self == nullptr) return nullptr;
  self->program = program->release();
  self->sources = PyList_New(0);
  for (SourceId id : ids) {
    Ref number = Ref::Steal(PyLong_FromLong(id));
    PyList_Append(self->sources, number);
  }
  return reinterpret_cast<PyObject*>(self);
}

void Dealloc(PyObject* self) {
  auto* p = reinterpret_cast<Program*>(self);
  PyTypeObject* type = Py_TYPE(self);
  delete p->program;
  Py_XDECREF(p->sources);
  PyObject_Free(self);
  Py_DECREF(type);
}

// check(function, slots) -> (holds, [value of each source described, or NotImplemented])
PyObject* Check(PyObject* self, PyObject* args) {
  auto* p = reinterpret_cast<Program*>(self);
  PyObject *function = nullptr, *slots = nullptr;
  if (!PyArg_ParseTuple(args, "O!O!", &PyFunction_Type, &function, &PyTuple_Type, &slots)) return nullptr;
  std::vector<PyObject*> storage;
  const FrameView view = MakeView(function, slots, &storage);
  ResolvedSources resolved;
  const bool holds = p->program->Check(view, &resolved);
  if (PyErr_Occurred()) return nullptr;
  Ref values = Ref::Steal(PyList_New(0));
  for (Py_ssize_t i = 1; holds && i < PyList_GET_SIZE(p->sources); ++i) {
    PyObject* value = resolved.objects[PyLong_AsLong(PyList_GET_ITEM(p->sources, i))];
    PyList_Append(values, value != nullptr ? value : Py_NotImplemented);
  }
  return Py_BuildValue("(OO)", holds ? Py_True : Py_False, values.get());
}

PyObject* Explain(PyObject* self, PyObject* args) {
  PyObject *function = nullptr, *slots = nullptr;
  if (!PyArg_ParseTuple(args, "O!O!", &PyFunction_Type, &function, &PyTuple_Type, &slots)) return nullptr;
  std::vector<PyObject*> storage;
  const FrameView view = MakeView(function, slots, &storage);
  return PyUnicode_FromString(reinterpret_cast<Program*>(self)->program->Explain(view).c_str());
}

PyObject* Text(PyObject* self, PyObject* name) {
  return PyUnicode_FromString(reinterpret_cast<Program*>(self)->program->PythonText(PyUnicode_AsUTF8(name)).c_str());
}

// nanoseconds(function, slots, count, touched) -> the best of `count` samples, in ns a check. A sample is 16 checks;
// where `touched` is a dict it is one check, before which a value of that dict is replaced, so that the process-wide
// epoch moves.
PyObject* Nanoseconds(PyObject* self, PyObject* args) {
  auto* p = reinterpret_cast<Program*>(self);
  PyObject *function = nullptr, *slots = nullptr, *touched = nullptr;
  int count = 0;
  if (!PyArg_ParseTuple(args, "O!O!iO", &PyFunction_Type, &function, &PyTuple_Type, &slots, &count, &touched))
    return nullptr;
  std::vector<PyObject*> storage;
  const FrameView view = MakeView(function, slots, &storage);
  ResolvedSources resolved;
  Ref key = Ref::Steal(PyUnicode_FromString("touched"));
  const int batch = PyDict_Check(touched) ? 1 : 16;
  double best = 1e18;
  for (int i = 0; i < count; ++i) {
    if (batch == 1) PyDict_SetItem(touched, key, i % 2 ? Py_True : Py_False);
    const auto start = std::chrono::steady_clock::now();
    for (int k = 0; k < batch; ++k) {
      if (!p->program->Check(view, &resolved)) {
        PyErr_SetString(PyExc_ValueError, "a guard fails");
        return nullptr;
      }
    }
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
    best = std::min(best, time.count() / batch);
  }
  return PyFloat_FromDouble(best);
}

PyObject* GuardCount(PyObject* self, PyObject*) {
  return PyLong_FromSize_t(reinterpret_cast<Program*>(self)->program->guard_count());
}

PyObject* TypeVersion(PyObject*, PyObject* type) {
  return PyLong_FromUnsignedLong(frame_ops::TypeVersion(reinterpret_cast<PyTypeObject*>(type)));
}

PyMethodDef program_methods[] = {{"check", Check, METH_VARARGS, nullptr},
                                 {"explain", Explain, METH_VARARGS, nullptr},
                                 {"text", Text, METH_O, nullptr},
                                 {"nanoseconds", Nanoseconds, METH_VARARGS, nullptr},
                                 {"guard_count", GuardCount, METH_NOARGS, nullptr},
                                 {nullptr, nullptr, 0, nullptr}};
PyType_Slot program_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(Dealloc)}, {Py_tp_methods, program_methods}, {0, nullptr}};
PyType_Spec program_spec = {"ff_guards_testing.Program", sizeof(Program), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, program_slots};
PyMethodDef module_methods[] = {{"build", Build, METH_VARARGS, nullptr},
                                {"type_version", TypeVersion, METH_O, nullptr},
                                {nullptr, nullptr, 0, nullptr}};
PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT, "ff_guards_testing", nullptr, -1, module_methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace framefuse

PyMODINIT_FUNC PyInit_ff_guards_testing() {
  using namespace framefuse;
  program_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&program_spec));
  return program_type != nullptr ? PyModule_Create(&module_definition) : nullptr;
}
