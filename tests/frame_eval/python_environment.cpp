#include "tests/frame_eval/python_environment.h"

#include <gtest/gtest.h>

#ifdef __SANITIZE_ADDRESS__
// The interpreter keeps objects to the end; read by the sanitizer as it starts.
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options() {  // NOLINT
  return "detect_leaks=0";
}
#endif

namespace framefuse::testing {
namespace {

PyObject* names = nullptr;

Ref Interpret(const std::string& text, int start) {
  Ref result = Ref::Steal(PyRun_String(text.c_str(), start, names, names));
  if (!result) {
    PyErr_Print();
    ADD_FAILURE() << "Python error in: " << text;
  }
  return result;
}

}  // namespace

void StartPython() {
  PyConfig config;
  PyConfig_InitPythonConfig(&config);
  PyConfig_SetBytesString(&config, &config.program_name, FF_PYTHON_EXECUTABLE);
  const PyStatus status = Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  if (PyStatus_Exception(status)) Py_ExitStatusException(status);
  names = PyDict_New();
  PyDict_SetItemString(names, "__builtins__", PyEval_GetBuiltins());
  Execute("import gc, weakref, sys, threading");
}

BorrowedRef Namespace() { return names; }
void Execute(const std::string& statements) { Interpret(statements, Py_file_input); }
Ref Eval(const std::string& expression) { return Interpret(expression, Py_eval_input); }
bool IsTrue(const std::string& expression) {
  const Ref value = Eval(expression);
  return value && PyObject_IsTrue(value) == 1;
}
void Set(const char* name, BorrowedRef value) { PyDict_SetItemString(names, name, value.get()); }

}  // namespace framefuse::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  framefuse::testing::StartPython();
  return RUN_ALL_TESTS();
}
