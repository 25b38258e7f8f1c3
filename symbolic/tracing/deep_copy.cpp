// Deep copies. Torch's copies the whole storage, once for all tensors in it: where a tensor is all that is in its
// storage, and no other one of the copy is there, the result is a copy of its values. Which inputs share memory is
// guarded where several are copied (plan_inputs.cpp).
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <string>

#include "symbolic/tracing/state.h"

namespace framefuse::tracing {
namespace {

std::string WhyNotPlain(const at::Tensor& t) {
  if (t.layout() != c10::kStrided || t.is_quantized() || t.is_conj() || t.is_neg() || t.is_inference()) {
    return "a kind of tensor that is copied in another way";
  }
  if (t.requires_grad() || t.unsafeGetTensorImpl()->grad().defined()) return "a tensor with a gradient";
  if (t.unsafeGetTensorImpl()->has_symbolic_sizes_strides()) return "a tensor of symbolic sizes";
  if (t.storage_offset() != 0 || !t.is_non_overlapping_and_dense()) return "a tensor that is a part of its storage";
  return {};
}

// The first value of a storage is what it was allocated for.
bool IsWholeStorage(const ir::Graph& graph, ir::ValueId v) {
  const ir::Value& value = graph.value(v);
  const auto first = std::find_if(graph.values.begin(), graph.values.end(),
                                  [&](const ir::Value& other) { return other.storage == value.storage; });
  return first->dtype == value.dtype && first->sizes == value.sizes && first->strides == value.strides;
}

}  // namespace

std::string Tracer::WhyNoDeepCopy(BorrowedRef fake) {
  if (reinterpret_cast<PyObject*>(fake.type()) != THPVariableClass) return "a tensor of another class";
  const at::Tensor& t = THPVariable_Unpack(fake.get());
  const FakeImpl* impl = AsFake(t);
  const ir::Graph& graph = state_->recorder->graph();
  if (impl == nullptr || impl->recording() != state_->recorder->id()) return "a tensor that is not traced";
  if (std::string why = WhyNotPlain(t); !why.empty()) return why;
  if (!IsWholeStorage(graph, impl->value())) return "a tensor that is a part of its storage";
  const ir::StorageId storage = graph.value(impl->value()).storage;
  if (state_->deep_copied.try_emplace(storage, impl).first->second != impl) return "two tensors in one storage";
  InputRecord* input = nullptr;
  for (InputRecord& r : state_->inputs) {
    if (graph.value(r.value).storage != storage) continue;
    if (input != nullptr) return "a tensor in the memory of another one";
    input = &r;
  }
  if (input == nullptr) {
    const std::vector<ir::NodeIndex> definitions = graph.Definitions();
    return definitions[static_cast<std::size_t>(impl->value())] == ir::kNoNode ? "a constant" : "";
  }
  const at::Tensor& real = input->real;
  if (input->input_index < 0 || real.storage_offset() != 0 ||
      real.storage().nbytes() != static_cast<std::size_t>(real.numel()) * real.itemsize()) {
    return "a tensor that is a part of its storage";
  }
  input->storage_read = true;
  return {};
}

}  // namespace framefuse::tracing
