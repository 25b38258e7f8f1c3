// Steps of kernels on the CPU. See step.h. Owner: backends/fusion.
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_strided.h>

#include <optional>
#include <set>

#include "backends/cpu_runtime/launch.h"
#include "backends/fusion/step.h"
#include "common/status.h"

namespace framefuse::fusion {
namespace {

using cpu::CpuKernel;
using cpu::Launch;
using cpu::LaunchShape;
using ir::Dim;
using ir::ValueId;

// A value's layout; the numbers are filled in at once where they are constants.
struct Layout {
  ValueId value = ir::kNoValue;
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::vector<Dim> sizes, strides;
  std::vector<std::int64_t> fixed_sizes, fixed_strides;
  bool fixed = true;
};

Layout LayoutOf(const ir::Graph& g, ValueId v) {
  const ir::Value& value = g.value(v);
  Layout layout{v, value.dtype, value.sizes, value.strides, {}, {}, true};
  for (const auto* dims : {&value.sizes, &value.strides}) {
    for (const Dim& d : *dims) layout.fixed = layout.fixed && d.is_constant();
  }
  for (const Dim& d : value.sizes) layout.fixed_sizes.push_back(d.value);
  for (const Dim& d : value.strides) layout.fixed_strides.push_back(d.value);
  return layout;
}

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

struct OneKernel {
  LoweredKernel lowered;
  std::shared_ptr<const CpuKernel> kernel;
  std::optional<Launch> launch;  // where all sizes are constants
};

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

template <typename F>
LaunchShape ShapeOf(const LoweredKernel& k, F value) {
  LaunchShape shape;
  shape.inner = value(k.inner);
  shape.segments = value(k.segments);
  for (const Dim& d : k.extents) shape.extents.push_back(value(d));
  for (std::size_t b = 0; b < k.buffers.size(); ++b) {
    const std::int64_t size = ElementSize(k.kernel.buffers[b].dtype);
    cpu::BufferStrides strides;
    for (const Dim& d : k.buffers[b].outer) strides.outer.push_back(value(d) * size);
    strides.segment = value(k.buffers[b].segment) * size;
    strides.inner = value(k.buffers[b].inner) * size;
    shape.buffers.push_back(std::move(strides));
  }
  for (const Dim& d : k.params) shape.params.push_back(static_cast<std::uint64_t>(value(d)));
  shape.split_total = k.split_total;
  return shape;
}

class CpuStep final : public Step {
 public:
  CpuStep(const ir::Graph& graph, std::string description, LoweredGroup lowered, std::int64_t nodes)
      : description_(std::move(description)), nodes_(nodes) {
    for (ValueId v : lowered.inputs) inputs_.push_back(LayoutOf(graph, v));
    for (ValueId v : lowered.outputs) outputs_.push_back(LayoutOf(graph, v));
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
    for (LoweredKernel& k : lowered.kernels) kernels_.push_back({std::move(k), nullptr, std::nullopt});
  }

  absl::Status Compile() {
    for (OneKernel& k : kernels_) {
      auto made = CpuKernel::Get(k.lowered.kernel);
      if (!made.ok()) return made.status();
      k.kernel = *std::move(made);
      if (IsFixed(k.lowered)) k.launch.emplace(k.kernel, ShapeOf(k.lowered, [](const Dim& d) { return d.value; }));
    }
    return absl::OkStatus();
  }

  absl::Status Run(CallState& call) const override {
    std::vector<at::Tensor> keep;
    Prepare(call, &keep);
    at::Tensor temporaries;
    if (temporary_bytes_ > 0) temporaries = at::detail::empty_cpu({temporary_bytes_}, c10::ScalarType::Byte);
    for (const OneKernel& k : kernels_) {
      std::array<void*, 80> buffers;
      for (std::size_t b = 0; b < k.lowered.buffers.size(); ++b) {
        const KernelBuffer& buffer = k.lowered.buffers[b];
        buffers[b] = buffer.temporary >= 0 ? static_cast<char*>(temporaries.data_ptr()) +
                                                 temporary_offsets_[static_cast<std::size_t>(buffer.temporary)]
                                           : call.slots[static_cast<std::size_t>(buffer.value)].data_ptr();
      }
      if (k.launch) {
        k.launch->Run(buffers.data());
      } else {
        Launch(k.kernel, ShapeOf(k.lowered, [&](const Dim& d) { return call.Value(d); })).Run(buffers.data());
      }
    }
    for (std::size_t i = 0; i < keep.size(); ++i) {
      if (keep[i].defined()) call.slots[static_cast<std::size_t>(inputs_[i].value)] = std::move(keep[i]);
    }
    return absl::OkStatus();
  }

  // Inputs in the recorded layout, outputs allocated. `before`: inputs that were replaced by copies.
  void Prepare(CallState& call, std::vector<at::Tensor>* before) const {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const Layout& l = inputs_[i];
      at::Tensor& t = call.slots[static_cast<std::size_t>(l.value)];
      const bool same = l.fixed ? SameLayout(t, l.fixed_sizes, l.fixed_strides)
                                : SameLayout(t, Values(call, l.sizes), Values(call, l.strides));
      if (same) continue;
      at::Tensor copy = at::empty_strided(Values(call, l.sizes), Values(call, l.strides), t.options());
      copy.copy_(t);
      before->resize(inputs_.size());
      (*before)[i] = std::exchange(t, std::move(copy));
    }
    for (const Layout& l : outputs_) {
      call.slots[static_cast<std::size_t>(l.value)] =
          l.fixed ? at::detail::empty_strided_cpu(l.fixed_sizes, l.fixed_strides, l.dtype)
                  : at::detail::empty_strided_cpu(Values(call, l.sizes), Values(call, l.strides), l.dtype);
    }
  }

  std::vector<ValueId> Reads() const override {
    std::vector<ValueId> out;
    for (const Layout& l : inputs_) out.push_back(l.value);
    return out;
  }
  std::vector<ValueId> Writes() const {
    std::vector<ValueId> out;
    for (const Layout& l : outputs_) out.push_back(l.value);
    return out;
  }

  std::vector<PlanGroup> Explain() const override {
    PlanGroup group{description_, "", nodes_, bytes_};
    for (const OneKernel& k : kernels_) {
      group.code += Print(k.lowered.kernel);
      group.code += k.kernel->is_machine_code()
                        ? "# " + std::to_string(k.kernel->code_bytes()) + " bytes of machine code\n"
                        : "# interpreted: " + k.kernel->reason() + "\n";
    }
    return {std::move(group)};
  }

  // The kernel, if this step is one flat kernel of constant size.
  const OneKernel* Flat() const {
    const bool flat = kernels_.size() == 1 && kernels_[0].launch && kernels_[0].lowered.kernel.outer_rank == 0 &&
                      kernels_[0].lowered.kernel.skeleton == kernel_ir::Skeleton::kPointwise;
    return flat ? &kernels_[0] : nullptr;
  }

 private:
  std::string description_;
  std::int64_t nodes_, bytes_ = 0;
  std::vector<Layout> inputs_, outputs_;
  std::vector<OneKernel> kernels_;
  std::vector<std::int64_t> temporary_offsets_;
  std::int64_t temporary_bytes_ = 0;
};

// One kernel over many tensors.
class HorizontalStep final : public Step {
 public:
  explicit HorizontalStep(std::vector<std::unique_ptr<CpuStep>> parts) : parts_(std::move(parts)) {
    for (const auto& p : parts_) counts_.push_back(p->Flat()->launch->shape().inner);
  }

  absl::Status Run(CallState& call) const override {
    std::vector<std::vector<void*>> tables;
    std::vector<std::vector<at::Tensor>> keep(parts_.size());
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      parts_[p]->Prepare(call, &keep[p]);
      std::vector<void*>& row = tables.emplace_back();
      for (const KernelBuffer& b : parts_[p]->Flat()->lowered.buffers) {
        row.push_back(call.slots[static_cast<std::size_t>(b.value)].data_ptr());
      }
    }
    parts_[0]->Flat()->launch->RunTable(tables, counts_);
    return absl::OkStatus();
  }
  std::vector<ValueId> Reads() const override {
    std::vector<ValueId> out;
    for (const auto& p : parts_) {
      for (ValueId v : p->Reads()) out.push_back(v);
    }
    return out;
  }
  std::vector<PlanGroup> Explain() const override {
    PlanGroup group = parts_[0]->Explain()[0];
    group.description = "horizontal × " + std::to_string(parts_.size()) + ", " + group.description;
    for (std::size_t p = 1; p < parts_.size(); ++p) {
      const PlanGroup other = parts_[p]->Explain()[0];
      group.nodes += other.nodes;
      group.bytes += other.bytes;
    }
    return {std::move(group)};
  }

 private:
  std::vector<std::unique_ptr<CpuStep>> parts_;
  std::vector<std::int64_t> counts_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Step>> MakeCpuStep(const ir::Graph& graph, const Group& group, LoweredGroup lowered) {
  auto step = std::make_unique<CpuStep>(graph, Describe(graph, group), std::move(lowered),
                                        static_cast<std::int64_t>(group.nodes.size()));
  FF_RETURN_IF_ERROR(step->Compile());
  return step;
}

void MergeHorizontally(std::vector<std::unique_ptr<Step>>* steps) {
  std::vector<std::unique_ptr<Step>> out;
  std::size_t i = 0;
  while (i < steps->size()) {
    std::size_t end = i + 1;
    const auto* first = dynamic_cast<CpuStep*>((*steps)[i].get());
    if (first != nullptr && first->Flat() != nullptr) {
      std::set<ValueId> written;
      const auto independent = [&](const CpuStep& s) {
        for (ValueId v : s.Reads()) {
          if (written.contains(v)) return false;
        }
        return true;
      };
      const auto add = [&](const CpuStep& s) {
        for (ValueId v : s.Writes()) written.insert(v);
      };
      add(*first);
      for (; end < steps->size(); ++end) {
        const auto* next = dynamic_cast<CpuStep*>((*steps)[end].get());
        if (next == nullptr || next->Flat() == nullptr || next->Flat()->kernel != first->Flat()->kernel) break;
        if (!independent(*next)) break;
        add(*next);
      }
    }
    if (end - i == 1) {
      out.push_back(std::move((*steps)[i]));
    } else {
      std::vector<std::unique_ptr<CpuStep>> parts;
      for (std::size_t k = i; k < end; ++k) parts.emplace_back(static_cast<CpuStep*>((*steps)[k].release()));
      out.push_back(std::make_unique<HorizontalStep>(std::move(parts)));
    }
    i = end;
  }
  *steps = std::move(out);
}

}  // namespace framefuse::fusion
