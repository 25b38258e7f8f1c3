#include "symbolic/tracing/break.h"

#include <Python.h>
#include <torch/csrc/Exceptions.h>

#include <utility>

#include "symbolic/tracing/recorder.h"

namespace framefuse::tracing {
namespace {

// Derives from BaseException, so that `except Exception` in the program does not run its handler; the pending
// break would unwind it anyway.
PyObject* BreakType() {
  static PyObject* type = PyErr_NewException("framefuse.TracingBreak", PyExc_BaseException, nullptr);
  return type;
}

struct BreakError : torch::PyTorchError {
  using PyTorchError::PyTorchError;
  PyObject* python_type() override { return BreakType(); }
};

}  // namespace

std::string_view BreakKindName(BreakKind kind) {
  switch (kind) {
    case BreakKind::kDataDependent:
      return "data-dependent operator";
    case BreakKind::kRealTensor:
      return "untraced tensor";
    case BreakKind::kUnsupportedTensor:
      return "unsupported tensor";
    case BreakKind::kMetadataMutation:
      return "metadata mutation";
    case BreakKind::kHiddenState:
      return "hidden state";
    case BreakKind::kNoShapeRule:
      return "operator without a shape rule";
    case BreakKind::kStaleTensor:
      return "stale tensor";
    case BreakKind::kMutation:
      return "mutation";
    case BreakKind::kSetting:
      return "another setting";
    case BreakKind::kWarning:
      return "warning";
  }
  return "unknown";
}

void ThrowBreak(BreakKind kind, std::string context, std::string explanation, std::string hint) {
  ThrowBreak({kind, std::move(context), std::move(explanation), std::move(hint)});
}

void ThrowBreak(TensorBreak what) {
  std::string message = what.context + ": " + what.explanation;
  if (Recorder* recorder = Recorder::Current()) recorder->SetPendingBreak(std::move(what));
  throw BreakError(std::move(message));
}

}  // namespace framefuse::tracing
