#include "backends/fusion/operands.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/Allocator.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>

namespace framefuse::fusion {
namespace {

using ir::Dim;
using ir::ValueId;
using kernel_ir::LaunchShape;

std::vector<std::int64_t> Values(const CallState& call, const std::vector<Dim>& dims) {
  std::vector<std::int64_t> out;
  for (const Dim& d : dims) out.push_back(call.Value(d));
  return out;
}

// Strides of dimensions of size 1 mean nothing.
bool SameLayout(const at::Tensor& t, at::IntArrayRef sizes, at::IntArrayRef strides) {
  if (t.sizes() != sizes) return false;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] > 1 && t.strides()[d] != strides[d]) return false;
  }
  return true;
}

template <typename F>
LaunchShape ShapeOf(const LoweredKernel& k, F value) {
  LaunchShape shape;
  shape.inner = value(k.inner);
  shape.segments = value(k.segments);
  for (const Dim& d : k.extents) shape.extents.push_back(value(d));
  for (std::size_t b = 0; b < k.buffers.size(); ++b) {
    const std::int64_t size = ElementSize(k.kernel.buffers[b].dtype);
    kernel_ir::BufferStrides strides;
    for (const Dim& d : k.buffers[b].outer) strides.outer.push_back(value(d) * size);
    strides.segment = value(k.buffers[b].segment) * size;
    strides.inner = value(k.buffers[b].inner) * size;
    shape.buffers.push_back(std::move(strides));
  }
  for (const Dim& d : k.params) shape.params.push_back(static_cast<std::uint64_t>(value(d)));
  shape.split_total = k.split_total;
  return shape;
}

}  // namespace

StepOperands::StepOperands(const ir::Graph& graph, const LoweredGroup& lowered, c10::Device device) : device_(device) {
  for (ValueId v : lowered.inputs) inputs_.push_back(LayoutOf(graph, v));
  for (ValueId v : lowered.outputs) outputs_.push_back(LayoutOf(graph, v));
  for (const auto& [v, place] : lowered.places) {
    const auto is_it = [v = v](const Layout& l) { return l.value == v; };
    Layout& layout = *std::find_if(outputs_.begin(), outputs_.end(), is_it);
    layout.whole = place.whole;
    layout.offset = place.offset;
    layout.whole_sizes = LayoutOf(graph, place.whole).fixed_sizes;
  }
  for (const Temporary& t : lowered.temporaries) {
    temporary_offsets_.push_back(temporary_bytes_);
    temporary_bytes_ += (t.elements * ElementSize(t.dtype) + 63) / 64 * 64;
  }
  for (const auto* layouts : {&inputs_, &outputs_}) {
    for (const Layout& l : *layouts) {
      std::int64_t bytes = static_cast<std::int64_t>(c10::elementSize(l.dtype));
      for (const Dim& d : l.sizes) bytes *= graph.exprs.Hint(d);
      bytes_ += bytes;
    }
  }
}

StepOperands::Layout StepOperands::LayoutOf(const ir::Graph& g, ValueId v) {
  const ir::Value& value = g.value(v);
  Layout layout;
  layout.value = v;
  layout.dtype = value.dtype;
  layout.sizes = value.sizes;
  layout.strides = value.strides;
  for (const auto* dims : {&value.sizes, &value.strides}) {
    for (const Dim& d : *dims) layout.fixed = layout.fixed && d.is_constant();
  }
  if (!layout.fixed) return layout;
  for (const Dim& d : value.sizes) layout.fixed_sizes.push_back(d.constant());
  for (const Dim& d : value.strides) layout.fixed_strides.push_back(d.constant());
  return layout;
}

at::Tensor StepOperands::Allocate(at::IntArrayRef sizes, at::IntArrayRef strides, c10::ScalarType dtype) const {
  if (device_.is_cpu()) return at::detail::empty_strided_cpu(sizes, strides, dtype);
  // A step has hundreds of results: torch's operator takes three times as long as its allocator.
  at::globalContext().lazyInitDevice(device_.type());
  const c10::DeviceGuard guard(device_);
  const c10::DispatchKeySet keys(c10::computeDispatchKey(std::nullopt, at::kStrided, device_));
  return at::detail::empty_strided_generic(sizes, strides, c10::GetAllocator(device_.type()), keys, dtype);
}

at::Tensor StepOperands::PartOfWhole(const CallState& call, const Layout& l) const {
  at::Tensor& whole = call.slots[l.whole];
  if (!whole.defined()) whole = Allocate(l.whole_sizes, l.fixed_strides, l.dtype);
  return whole.as_strided(l.fixed_sizes, l.fixed_strides, l.offset);
}

bool StepOperands::IsLaidOut(const CallState& call, const Layout& l, const at::Tensor& t) {
  if (t.scalar_type() != l.dtype) return false;
  return l.fixed ? SameLayout(t, l.fixed_sizes, l.fixed_strides)
                 : SameLayout(t, Values(call, l.sizes), Values(call, l.strides));
}

bool StepOperands::WriteOver(ValueId result, ValueId input) {
  const auto by = [](ValueId v) { return [v](const Layout& l) { return l.value == v; }; };
  const auto from = std::find_if(inputs_.begin(), inputs_.end(), by(input));
  const auto to = std::find_if(outputs_.begin(), outputs_.end(), by(result));
  if (to == outputs_.end()) return false;
  if (from != inputs_.end() && (from->dtype != to->dtype || from->sizes != to->sizes || from->strides != to->strides)) {
    return false;
  }
  to->over = input;
  return true;
}

bool StepOperands::AnyEmpty(const CallState& call) const {
  return std::any_of(inputs_.begin(), inputs_.end(), [&](const Layout& l) { return call.slots[l.value].numel() == 0; });
}

void StepOperands::Prepare(CallState& call, std::vector<std::pair<ValueId, at::Tensor>>* replaced) const {
  for (const Layout& l : inputs_) {
    at::Tensor& t = call.slots[l.value];
    if (IsLaidOut(call, l, t)) continue;
    const auto sizes = Values(call, l.sizes);
    TORCH_CHECK(t.sizes() == at::IntArrayRef(sizes), "an operator's result has sizes ", t.sizes(),
                " where the graph says ", at::IntArrayRef(sizes));
    at::Tensor copy = at::empty_strided(sizes, Values(call, l.strides), t.options().dtype(l.dtype));
    copy.copy_(t);
    replaced->emplace_back(l.value, std::exchange(t, std::move(copy)));
  }
  for (const Layout& l : outputs_) {
    if (l.whole != ir::kNoValue) {
      call.slots[l.value] = PartOfWhole(call, l);
      continue;
    }
    if (l.over != ir::kNoValue && call.MayTake(l.over)) {
      const at::Tensor& input = call.slots[l.over];
      const bool copied =
          std::any_of(replaced->begin(), replaced->end(), [&](const auto& r) { return r.first == l.over; });
      if (!copied && input.defined() && IsLaidOut(call, l, input) && input.is_non_overlapping_and_dense() &&
          !input.is_inference()) {
        call.slots[l.value] = input;
        continue;
      }
    }
    call.slots[l.value] = l.fixed ? Allocate(l.fixed_sizes, l.fixed_strides, l.dtype)
                                  : Allocate(Values(call, l.sizes), Values(call, l.strides), l.dtype);
  }
}

void StepOperands::Restore(CallState& call, std::vector<std::pair<ValueId, at::Tensor>> replaced) {
  for (auto& [v, tensor] : replaced) call.slots[v] = std::move(tensor);
}

at::Tensor StepOperands::AllocateTemporaries() const {
  if (temporary_bytes_ == 0) return {};
  return Allocate({temporary_bytes_}, {1}, c10::ScalarType::Byte);
}

void StepOperands::FillPointers(const CallState& call, const LoweredKernel& kernel, const at::Tensor& temporaries,
                                void** buffers) const {
  for (std::size_t b = 0; b < kernel.buffers.size(); ++b) {
    const KernelBuffer& buffer = kernel.buffers[b];
    buffers[b] = buffer.temporary >= 0 ? static_cast<char*>(temporaries.data_ptr()) +
                                             temporary_offsets_[static_cast<std::size_t>(buffer.temporary)]
                                       : call.slots[buffer.value].data_ptr();
  }
}

std::vector<ValueId> StepOperands::Reads() const {
  std::vector<ValueId> out;
  for (const Layout& l : inputs_) out.push_back(l.value);
  return out;
}

std::vector<ValueId> StepOperands::Writes() const {
  std::vector<ValueId> out;
  for (const Layout& l : outputs_) out.push_back(l.value);
  return out;
}

bool ReadsBeforeItWrites(const LoweredKernel& k, ValueId result, ValueId input) {
  using kernel_ir::Op;
  if (k.kernel.skeleton != kernel_ir::Skeleton::kPointwise || k.kernel.blocks.size() != 1) return false;
  const auto is = [&](const kernel_ir::Inst& inst, ValueId v) {
    return k.buffers[static_cast<std::size_t>(inst.slot)].value == v;
  };
  const KernelBuffer* target = nullptr;
  for (const KernelBuffer& b : k.buffers) {
    if (b.value == result) target = &b;
  }
  if (target == nullptr) return false;
  bool written = false;
  for (kernel_ir::ValueId id : k.kernel.blocks[0].code) {
    const kernel_ir::Inst& inst = k.kernel[id];
    if (inst.op == Op::kStore && is(inst, result)) written = true;
    const bool elsewhere = inst.op == Op::kLoadAt || inst.op == Op::kLoadFrom;
    if ((inst.op != Op::kLoad && !elsewhere) || !is(inst, input)) continue;
    const KernelBuffer& source = k.buffers[static_cast<std::size_t>(inst.slot)];
    const bool same =
        source.outer == target->outer && source.segment == target->segment && source.inner == target->inner;
    if (written || !same || elsewhere) return false;
  }
  return true;
}

bool IsFixed(const LoweredKernel& k) {
  bool fixed = k.inner.is_constant() && k.segments.is_constant() && k.params.empty();
  const auto all = [&](const std::vector<Dim>& dims) {
    for (const Dim& d : dims) fixed = fixed && d.is_constant();
  };
  all(k.extents);
  for (const KernelBuffer& b : k.buffers) {
    all(b.outer);
    fixed = fixed && b.segment.is_constant() && b.inner.is_constant();
  }
  return fixed;
}

LaunchShape FixedShape(const LoweredKernel& k) {
  return ShapeOf(k, [](const Dim& d) { return d.constant(); });
}
LaunchShape ShapeAt(const LoweredKernel& k, const CallState& call) {
  return ShapeOf(k, [&](const Dim& d) { return call.Value(d); });
}
LaunchShape HintedShape(const LoweredKernel& k, const ir::ExprTable& exprs) {
  return ShapeOf(k, [&](const Dim& d) { return exprs.Hint(d); });
}

}  // namespace framefuse::fusion
