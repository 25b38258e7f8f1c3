#include "python/graph_plan.h"

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <utility>
#include <vector>

#include "backends/graph/equal_sizes.h"
#include "backends/graph/sized_plan.h"
#include "common/status.h"

namespace framefuse {

bool TakeTensors(BorrowedRef list, std::vector<at::Tensor>* tensors) {
  const Py_ssize_t count = PyList_Size(list.get());
  if (count < 0) return false;
  tensors->reserve(static_cast<std::size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    const BorrowedRef item(PyList_GET_ITEM(list.get(), i));
    if (!THPVariable_Check(item.get())) {
      PyErr_Format(PyExc_TypeError, "tensor %zd of a list is none", i);
      return false;
    }
    tensors->push_back(THPVariable_Unpack(item.get()));
  }
  return true;
}

Ref ListOf(const std::vector<at::Tensor>& tensors) {
  Ref list = Ref::Steal(PyList_New(static_cast<Py_ssize_t>(tensors.size())));
  for (std::size_t i = 0; list && i < tensors.size(); ++i) {
    Ref item = tensors[i].defined() ? Ref::Steal(THPVariable_Wrap(tensors[i])) : Ref::Create(Py_None);
    if (!item) return Ref();
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), item.release());
  }
  return list;
}

namespace {

absl::StatusOr<std::vector<at::Tensor>> RunWithoutGil(const Plan& plan, const std::vector<at::Tensor>& inputs,
                                                      std::vector<std::int64_t>& symbols) {
  PyThreadState* state = PyEval_SaveThread();
  absl::StatusOr<std::vector<at::Tensor>> outputs = plan.Run(inputs, absl::MakeSpan(symbols));
  PyEval_RestoreThread(state);
  return outputs;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Plan>> CompileGraphText(const std::string& text, const std::string& backend,
                                                       const BackendOptions& options, bool verify) {
  FF_ASSIGN_OR_RETURN(ir::Graph graph, ir::Parse(text));
  if (verify) FF_RETURN_IF_ERROR(ir::VerifyMetadata(graph));  // somebody wrote it
  Backend* found = FindBackend(backend);
  if (found == nullptr) return absl::InvalidArgumentError("no backend " + backend);
  ir::JoinEqualSizes(graph, {});  // in normal form
  return SizedPlan::Compile(*found, std::move(graph), options);
}

Ref RunPlan(const Plan& plan, BorrowedRef inputs, std::vector<std::int64_t> symbols) {
  try {
    std::vector<at::Tensor> tensors;
    if (!TakeTensors(inputs, &tensors)) return Ref();
    absl::StatusOr<std::vector<at::Tensor>> outputs = RunWithoutGil(plan, tensors, symbols);
    if (outputs.ok()) return ListOf(*outputs);
    if (std::exception_ptr exception = TorchErrorOf(outputs.status())) std::rethrow_exception(exception);
    PyErr_SetString(PyExc_RuntimeError, MessageOf(outputs.status()).c_str());
  } catch (...) {
    torch::translate_exception_to_python(std::current_exception());
  }
  return Ref();
}

Ref RunPackage(const LoadedPackage& package, BorrowedRef arguments) {
  try {
    std::vector<at::Tensor> tensors;
    if (!TakeTensors(arguments, &tensors)) return Ref();
    PyThreadState* state = PyEval_SaveThread();
    absl::StatusOr<std::vector<at::Tensor>> results = package.Run(tensors);
    PyEval_RestoreThread(state);
    if (results.ok()) return ListOf(*results);
    if (std::exception_ptr exception = TorchErrorOf(results.status())) std::rethrow_exception(exception);
    PyObject* type = absl::IsOutOfRange(results.status()) ? PyExc_ValueError : PyExc_RuntimeError;
    PyErr_SetString(type, MessageOf(results.status()).c_str());
  } catch (...) {
    torch::translate_exception_to_python(std::current_exception());
  }
  return Ref();
}

}  // namespace framefuse
