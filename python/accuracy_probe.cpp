#include "python/accuracy_probe.h"

#include <torch/csrc/autograd/python_variable.h>

#include <memory>
#include <utility>

#include "common/status.h"
#include "frame_eval/hook.h"
#include "python/gil.h"

namespace framefuse {
namespace {

Ref ToList(absl::Span<const at::Tensor> tensors) {
  Ref list = Ref::Steal(PyList_New(static_cast<Py_ssize_t>(tensors.size())));
  for (std::size_t i = 0; list && i < tensors.size(); ++i) {
    PyObject* item = tensors[i].defined() ? THPVariable_Wrap(tensors[i]) : Py_NewRef(Py_None);
    if (item == nullptr) return Ref();
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), item);
  }
  return list;
}

Ref ToList(absl::Span<const std::int64_t> numbers) {
  Ref list = Ref::Steal(PyList_New(static_cast<Py_ssize_t>(numbers.size())));
  for (std::size_t i = 0; list && i < numbers.size(); ++i) {
    PyObject* item = PyLong_FromLongLong(numbers[i]);
    if (item == nullptr) return Ref();
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), item);
  }
  return list;
}

// The program's own error, if one is set, is not the probe's.
class KeptError {
 public:
  KeptError() { PyErr_Fetch(&type_, &value_, &traceback_); }
  ~KeptError() {
    if (PyErr_Occurred() != nullptr) PyErr_WriteUnraisable(nullptr);
    PyErr_Restore(type_, value_, traceback_);
  }
  KeptError(const KeptError&) = delete;
  KeptError& operator=(const KeptError&) = delete;

 private:
  PyObject *type_ = nullptr, *value_ = nullptr, *traceback_ = nullptr;
};

// Let go of on any thread.
std::shared_ptr<const Ref> Shared(Ref object) {
  return {new Ref(std::move(object)), [](const Ref* ref) {
            if (!Py_IsInitialized()) return;
            const Gil gil;
            delete ref;
          }};
}

void End(const Ref& end, const absl::Status& status, absl::Span<const at::Tensor> outputs) {
  if (!Py_IsInitialized()) return;
  const Gil gil;
  const HookScope native(HookMode::kOff);
  const KeptError kept;
  const Ref list = ToList(outputs);
  const std::string message = status.ok() ? "" : MessageOf(status);
  if (!list) return;
  (void)Ref::Steal(PyObject_CallFunction(end.get(), "zO", status.ok() ? nullptr : message.c_str(), list.get()));
}

}  // namespace

AccuracyProbe MakeAccuracyProbe(Ref begin) {
  if (!begin || begin.get() == Py_None) return nullptr;
  return [shared = Shared(std::move(begin))](const ProbedPiece& piece, absl::Span<const at::Tensor> inputs,
                                             absl::Span<const std::int64_t> symbols) -> EndOfProbe {
    if (!Py_IsInitialized()) return nullptr;
    const Gil gil;
    const HookScope native(HookMode::kOff);
    const KeptError kept;
    const Ref tensors = ToList(inputs), numbers = ToList(symbols);
    if (!tensors || !numbers) return nullptr;
    Ref end = Ref::Steal(PyObject_CallFunction(shared->get(), "ssOOO", piece.text.c_str(), piece.description.c_str(),
                                               piece.whole ? Py_True : Py_False, tensors.get(), numbers.get()));
    if (!end || end.get() == Py_None) return nullptr;
    return [called = Shared(std::move(end))](const absl::Status& status, absl::Span<const at::Tensor> outputs) {
      End(*called, status, outputs);
    };
  };
}

}  // namespace framefuse
