#include "symbolic/rules/annotations.h"

#include "frame_eval/bytecode/decode.h"
#include "frame_eval/versions/frame_ops.h"
#include "frame_eval/versions/private_api.h"

namespace framefuse {
namespace {

constexpr int kAnnotations = 4;  // SET_FUNCTION_ATTRIBUTE's flag of what is computed

// Null: there are none, or they are there.
BorrowedRef WhatComputes(BorrowedRef object) {
  if (PyFunction_Check(object.get())) {
    PyObject** annotate = private_api::FunctionPart(object, private_api::kAnnotateFlag);
    const bool known = *private_api::FunctionPart(object, kAnnotations) != nullptr;
    return annotate == nullptr || known || *annotate == Py_None ? nullptr : *annotate;
  }
  if (!PyType_Check(object.get())) return nullptr;
  PyObject* names = frame_ops::TypeDict(reinterpret_cast<PyTypeObject*>(object.get()));
  for (const char* known : {"__annotations__", "__annotations_cache__"}) {
    if (PyDict_GetItemString(names, known) != nullptr) return nullptr;
  }
  PyObject* annotate = PyDict_GetItemString(names, "__annotate_func__");
  if (annotate == nullptr) annotate = PyDict_GetItemString(names, "__annotate__");
  return annotate == Py_None ? nullptr : annotate;
}

// Follows one function that computes annotations; `value_` is what it loaded last, where that is known.
class Reading {
 public:
  explicit Reading(PyFunctionObject* function)
      : function_(function), code_(reinterpret_cast<PyCodeObject*>(function->func_code)) {}

  bool OnlyLooksUpNames() {
    const Bytecode* bytecode = BytecodeOf(code_);
    if (bytecode == nullptr) {
      PyErr_Clear();
      return false;
    }
    for (const Instruction& in : bytecode->instructions()) {
      if (!IsQuiet(in)) return false;
    }
    return true;
  }

 private:
  bool IsQuiet(const Instruction& in) {
    switch (in.opcode) {
      case Opcode::kLoadGlobal:
        value_ = GlobalNamed(Name(in.arg >> 1));
        return true;
      case Opcode::kLoadAttr:
        return IsOfModule(Name(in.arg));
      case Opcode::kLoadFromDictOrGlobals:
      case Opcode::kLoadFromDictOrDeref:
        value_ = nullptr;
        return HasPlainClassNames();
      case Opcode::kLoadDeref:
      case Opcode::kLoadConst:
        value_ = nullptr;
        return true;
      case Opcode::kResume:
      case Opcode::kNop:
      case Opcode::kMakeCell:
      case Opcode::kCopyFreeVars:
      case Opcode::kLoadFast:
      case Opcode::kLoadFastLoadFast:
      case Opcode::kLoadSmallInt:
      case Opcode::kCompareOp:
      case Opcode::kCompareOpToBool:
      case Opcode::kPopJumpIfFalse:
      case Opcode::kPopJumpIfTrue:
      case Opcode::kLoadCommonConstant:
      case Opcode::kRaiseVarargs:
      case Opcode::kBuildMap:
      case Opcode::kCopy:
      case Opcode::kSwap:
      case Opcode::kStoreSubscr:
      case Opcode::kReturnValue:
        return true;
      default:
        return false;
    }
  }

  PyObject* Name(int index) const { return PyTuple_GET_ITEM(code_->co_names, index); }

  PyObject* GlobalNamed(PyObject* name) const {
    PyObject* found = PyDict_GetItemWithError(function_->func_globals, name);
    return found != nullptr ? found : PyDict_GetItemWithError(function_->func_builtins, name);
  }

  bool IsOfModule(PyObject* name) {
    const bool is_module = value_ != nullptr && PyModule_CheckExact(value_);
    value_ = is_module ? PyDict_GetItemWithError(PyModule_GetDict(value_), name) : nullptr;
    return value_ != nullptr;
  }

  // The namespace of a class's body may be any mapping.
  bool HasPlainClassNames() const {
    PyObject* cells = function_->func_closure;
    for (Py_ssize_t i = 0; cells != nullptr && i < PyTuple_GET_SIZE(cells); ++i) {
      PyObject* name = PyTuple_GET_ITEM(code_->co_localsplusnames, code_->co_nlocalsplus - code_->co_nfreevars + i);
      if (PyUnicode_CompareWithASCIIString(name, "__classdict__") != 0) continue;
      PyObject* names = PyCell_GET(PyTuple_GET_ITEM(cells, i));
      return names != nullptr && PyDict_CheckExact(names);
    }
    return false;
  }

  PyFunctionObject* function_;
  PyCodeObject* code_;
  PyObject* value_ = nullptr;
};

}  // namespace

bool MayAskForAnnotations(BorrowedRef object) {
  const BorrowedRef annotate = WhatComputes(object);
  if (!annotate) return true;
  return PyFunction_Check(annotate.get()) &&
         Reading(reinterpret_cast<PyFunctionObject*>(annotate.get())).OnlyLooksUpNames();
}

}  // namespace framefuse
