#include "frame_eval/versions/run_opcode.h"

#if PY_VERSION_HEX < 0x030D0000

#include <opcode.h>

#include <map>
#include <string>
#include <tuple>

#include "frame_eval/versions/frame_ops.h"

namespace framefuse::frame_ops {
namespace {

// The code object of `lambda a, b: (a, b)`, whose bytecode is then replaced. Compiled only, since executing Python
// code here could lead back to us.
Ref TwoArgumentCode() {
  const Ref module = Ref::Steal(Py_CompileString("lambda a, b: (a, b)", "<framefuse>", Py_eval_input));
  if (!module) return nullptr;
  PyObject* constants = reinterpret_cast<PyCodeObject*>(module.get())->co_consts;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants); ++i) {
    if (PyCode_Check(PyTuple_GET_ITEM(constants, i))) return Ref::Create(PyTuple_GET_ITEM(constants, i));
  }
  PyErr_SetString(PyExc_SystemError, "framefuse: a lambda without a code object");
  return nullptr;
}

Ref MakeCode(int opcode, int arg, int input_count) {
  static PyObject* original = nullptr;
  if (original == nullptr) original = TwoArgumentCode().release();
  if (original == nullptr) return nullptr;
  std::string bytes;
  const auto add = [&bytes](int op, int oparg) {
    bytes.push_back(static_cast<char>(op));
    bytes.push_back(static_cast<char>(oparg));
  };
  add(RESUME, 0);
  for (int i = 0; i < input_count; ++i) add(LOAD_FAST, i);
  add(opcode, arg);
  add(RETURN_VALUE, 0);
  const Ref replace = Ref::Steal(PyObject_GetAttrString(original, "replace"));
  const Ref bytecode = Ref::Steal(PyBytes_FromStringAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size())));
  const Ref no_args = Ref::Steal(PyTuple_New(0));
  const Ref kwargs = Ref::Steal(PyDict_New());
  if (!replace || !bytecode || !no_args || !kwargs) return nullptr;
  if (PyDict_SetItemString(kwargs, "co_code", bytecode) != 0) return nullptr;
  return Ref::Steal(PyObject_Call(replace, no_args, kwargs));
}

// Made once each and kept.
Ref CodeFor(int opcode, int arg, int input_count) {
  static auto* const codes = new std::map<std::tuple<int, int, int>, Ref>();
  Ref& code = (*codes)[{opcode, arg, input_count}];
  if (!code) code = MakeCode(opcode, arg, input_count);
  return code;
}

}  // namespace

Ref RunOpcode(PyThreadState* thread, PyObject* globals, int opcode, int arg, PyObject* const* inputs, int input_count) {
  const Ref code = CodeFor(opcode, arg, input_count);
  if (!code) return nullptr;
  const Ref function = Ref::Steal(PyFunction_New(code, globals));
  if (!function) return nullptr;
  Frame* frame = NewFrame(thread, reinterpret_cast<PyFunctionObject*>(function.get()), nullptr);
  if (frame == nullptr) return nullptr;
  for (int i = 0; i < input_count; ++i) Slots(frame)[i] = Py_NewRef(inputs[i]);
  return Ref::Steal(EvalAndFree(thread, frame, 0));
}

}  // namespace framefuse::frame_ops

#endif
