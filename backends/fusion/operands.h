// StepOperands: what a step of kernels reads and writes, on any device: inputs brought into the layout that the kernels
// were made for, outputs and temporaries allocated; and launch shapes from symbolic sizes.
#ifndef FRAMEFUSE_BACKENDS_FUSION_OPERANDS_H_
#define FRAMEFUSE_BACKENDS_FUSION_OPERANDS_H_

#include <utility>
#include <vector>

#include "backends/fusion/step.h"
#include "backends/kernel_ir/launch_shape.h"

namespace framefuse::fusion {

class StepOperands {
 public:
  StepOperands(const ir::Graph& graph, const LoweredGroup& lowered, c10::Device device);

  // Inputs in the recorded layout, outputs allocated. Where an input was copied, the original goes to `replaced`.
  void Prepare(CallState& call, std::vector<std::pair<ir::ValueId, at::Tensor>>* replaced) const;
  // Prepare gives `result` the memory of `input`, where that is laid out as `result` is. False: their layouts differ.
  bool WriteOver(ir::ValueId result, ir::ValueId input);
  // Puts the originals back.
  static void Restore(CallState& call, std::vector<std::pair<ir::ValueId, at::Tensor>> replaced);
  at::Tensor AllocateTemporaries() const;  // undefined if there are none
  // Whether an input has no elements, and so no memory.
  bool AnyEmpty(const CallState& call) const;
  // Addresses of a kernel's buffers.
  void FillPointers(const CallState& call, const LoweredKernel& kernel, const at::Tensor& temporaries,
                    void** buffers) const;

  std::vector<ir::ValueId> Reads() const;
  std::vector<ir::ValueId> Writes() const;
  std::int64_t bytes() const { return bytes_; }  // read and written, at the hints

 private:
  // A value's layout; the numbers are filled in at once where they are constants.
  struct Layout {
    ir::ValueId value = ir::kNoValue;
    c10::ScalarType dtype = c10::ScalarType::Float;
    std::vector<ir::Dim> sizes, strides;
    std::vector<std::int64_t> fixed_sizes, fixed_strides;
    bool fixed = true;
    ir::ValueId over = ir::kNoValue;   // an input whose memory takes this result
    ir::ValueId whole = ir::kNoValue;  // of which this result is a part; fixed
    std::int64_t offset = 0;
    std::vector<std::int64_t> whole_sizes;
  };
  static bool IsLaidOut(const CallState& call, const Layout& layout, const at::Tensor& tensor);
  static Layout LayoutOf(const ir::Graph& graph, ir::ValueId v);
  at::Tensor PartOfWhole(const CallState& call, const Layout& layout) const;
  at::Tensor Allocate(at::IntArrayRef sizes, at::IntArrayRef strides, c10::ScalarType dtype) const;

  c10::Device device_;
  std::vector<Layout> inputs_, outputs_;
  std::vector<std::int64_t> temporary_offsets_;
  std::int64_t temporary_bytes_ = 0, bytes_ = 0;
};

// Each point of `input` is read before `result` is written there, and only then.
bool ReadsBeforeItWrites(const LoweredKernel& kernel, ir::ValueId result, ir::ValueId input);

// All sizes, strides and parameters are constants.
bool IsFixed(const LoweredKernel& kernel);
kernel_ir::LaunchShape FixedShape(const LoweredKernel& kernel);
kernel_ir::LaunchShape ShapeAt(const LoweredKernel& kernel, const CallState& call);
kernel_ir::LaunchShape HintedShape(const LoweredKernel& kernel, const ir::ExprTable& exprs);

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_OPERANDS_H_
