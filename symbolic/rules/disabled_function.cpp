#include "symbolic/rules/disabled_function.h"

#include "absl/strings/str_cat.h"
#include "symbolic/messages/code_text.h"

namespace framefuse {
namespace {

PyObject* const* Names() {
  static PyObject* const names[] = {PyUnicode_InternFromString("_torchdynamo_disable"),
                                    PyUnicode_InternFromString("_torchdynamo_disable_recursive"),
                                    PyUnicode_InternFromString("_torchdynamo_orig_callable")};
  return names;
}

PyObject* Attribute(BorrowedRef function, PyObject* name) {
  PyObject* attributes = reinterpret_cast<PyFunctionObject*>(function.get())->func_dict;
  return attributes == nullptr ? nullptr : PyDict_GetItemWithError(attributes, name);
}

}  // namespace

DisabledByTorch HowDisabledByTorch(BorrowedRef function) {
  if (!PyFunction_Check(function.get()) || Attribute(function, Names()[0]) != Py_True) return DisabledByTorch::kNo;
  PyObject* recursive = Attribute(function, Names()[1]);
  // Older releases do not say: what they wrap is disabled with what it calls, what they only mark is not.
  if (recursive == nullptr) recursive = Attribute(function, Names()[2]) != nullptr ? Py_True : Py_False;
  return recursive == Py_True ? DisabledByTorch::kWithWhatItCalls : DisabledByTorch::kAlone;
}

BorrowedRef BehindTorchDisable(BorrowedRef function) {
  PyObject* found = Attribute(function, Names()[2]);
  return found != nullptr ? BorrowedRef(found) : function;
}

bool IsDisabledForDynamo(BorrowedRef function) {
  const BorrowedRef behind = BehindTorchDisable(function);
  if (behind.get() == function.get() || !PyFunction_Check(behind.get())) return false;
  PyObject* module = reinterpret_cast<PyFunctionObject*>(behind.get())->func_module;
  return module != nullptr && PyUnicode_Check(module) && Utf8(module).starts_with("torch.optim");
}

std::string DescribeDisabled(BorrowedRef function) {
  static PyObject* const reason_name = PyUnicode_InternFromString("_torchdynamo_disable_msg");
  static PyObject* const wrapped_name = PyUnicode_InternFromString("__wrapped__");
  // The object's own attributes alone: what it forwards may be the user's __getattr__.
  const Ref reason = Ref::Steal(PyObject_GenericGetAttr(function, reason_name));
  PyErr_Clear();
  Ref wrapped = PyFunction_Check(function.get()) ? Ref::Create(BehindTorchDisable(function))
                                                 : Ref::Steal(PyObject_GenericGetAttr(function, wrapped_name));
  PyErr_Clear();
  const std::string name = DescribeCallable(wrapped ? wrapped.get() : function.get());
  const std::string text = reason ? Utf8(reason) : "";
  return text.empty() ? name : absl::StrCat(name, " (", text, ")");
}

}  // namespace framefuse
