#include "symbolic/rules/random_methods.h"

#include <cstring>

#include "absl/container/flat_hash_set.h"
#include "frame_eval/versions/frame_ops.h"

namespace framefuse {
namespace {

// Of a module that is imported already; kept for ever.
class ImportedType {
 public:
  ImportedType(const char* module, const char* name) : module_(module), name_(name) {}
  PyTypeObject* Get() {
    if (found_ != nullptr) return found_;
    PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), module_);
    PyObject* type = module != nullptr ? PyObject_GetAttrString(module, name_) : nullptr;
    if (type == nullptr) PyErr_Clear();
    if (type != nullptr && PyType_Check(type)) found_ = reinterpret_cast<PyTypeObject*>(type);
    return found_;
  }

 private:
  const char* module_;
  const char* name_;
  PyTypeObject* found_ = nullptr;
};

PyTypeObject* PythonType() {
  static ImportedType type("random", "Random");
  return type.Get();
}
PyTypeObject* NumpyStateType() {
  static ImportedType type("numpy.random.mtrand", "RandomState");
  return type.Get();
}
PyTypeObject* NumpyType() {
  static ImportedType type("numpy.random._generator", "Generator");
  return type.Get();
}

using Methods = absl::flat_hash_set<PyObject*>;

void AddMethods(PyTypeObject* type, Methods* methods) {
  static constexpr const char* kNames[] = {"rand",          "randn",          "random",
                                           "random_sample", "randint",        "uniform",
                                           "normal",        "beta",           "gamma",
                                           "exponential",   "standard_gamma", "standard_normal",
                                           "binomial",      "poisson",        "laplace",
                                           "logistic",      "lognormal",      "triangular",
                                           "geometric",     "chisquare",      "standard_exponential",
                                           "integers",      "permutation",    "choice"};
  for (const char* name : kNames) {
    PyObject* method = PyDict_GetItemString(frame_ops::TypeDict(type), name);
    if (method != nullptr) methods->insert(Py_NewRef(method));
  }
}

PyObject* Maker() {
  static PyObject* const maker = [] {
    PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy.random._generator");
    PyObject* found = module != nullptr ? PyObject_GetAttrString(module, "default_rng") : nullptr;
    if (found == nullptr) PyErr_Clear();
    return found;
  }();
  return maker;
}

}  // namespace

GeneratorKind KindOfGenerator(PyTypeObject* type) {
  if (type == PythonType()) return GeneratorKind::kPython;
  if (std::strncmp(type->tp_name, "numpy.random.", 13) != 0) return GeneratorKind::kNone;
  if (type == NumpyStateType()) return GeneratorKind::kNumpyState;
  return type == NumpyType() ? GeneratorKind::kNumpy : GeneratorKind::kNone;
}

bool MakesGenerator(BorrowedRef callable) {
  return std::strstr(callable.type()->tp_name, "cython_function") != nullptr && callable.get() == Maker();
}

bool DrawsForNumpy(BorrowedRef method) {
  static Methods* methods = nullptr;
  if (std::strstr(method.type()->tp_name, "cython_function") == nullptr) return false;
  if (methods == nullptr) {
    PyTypeObject *state = NumpyStateType(), *generator = NumpyType();
    if (state == nullptr || generator == nullptr) return false;
    methods = new Methods();
    AddMethods(state, methods);
    AddMethods(generator, methods);
    if (Maker() != nullptr) methods->insert(Maker());
  }
  return methods->contains(method.get());
}

}  // namespace framefuse
