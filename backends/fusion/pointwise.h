// Pointwise: which ATen operators act on one element at a time, and what they compute in the kernel IR.
// One table, by operator name; each row computes in the type that eager computes in (halves in f32).
#ifndef FRAMEFUSE_BACKENDS_FUSION_POINTWISE_H_
#define FRAMEFUSE_BACKENDS_FUSION_POINTWISE_H_

#include <c10/core/Scalar.h>

#include <optional>
#include <vector>

#include "backends/graph/graph.h"
#include "backends/kernel_ir/kernel.h"

namespace framefuse::fusion {

// Storage type of a tensor type that kernels know.
std::optional<kernel_ir::DType> StorageOf(c10::ScalarType type);
// Whether the type has a value near this number. Where it has none eager raises, or wraps.
bool FitsIn(const c10::Scalar& number, kernel_ir::DType type);

// A 0-dim constant of the host: kernels take its number, whatever device they are for.
std::optional<c10::Scalar> NumberConstant(const ir::Graph& graph, ir::ValueId v);
// It as a constant of a kernel, in the compute type of its storage.
kernel_ir::ValueId EmitNumber(kernel_ir::Builder& builder, const ir::Graph& graph, ir::ValueId v);

// Gives the rows of the table their operands.
class PointwiseEmitter {
 public:
  // `tensors[a]`: kernel value of tensor argument a, in the compute type of its storage; kNoValue for others.
  // `numbers[a]`: kernel value of a symbolic number argument; kNoValue for others.
  PointwiseEmitter(const ir::Graph& graph, const ir::Node& node, kernel_ir::Builder* builder,
                   std::vector<kernel_ir::ValueId> tensors, std::vector<kernel_ir::ValueId> numbers);

  // The value of the node's result, or kNoValue if this form of the operator is not known.
  kernel_ir::ValueId Emit();

  // --- for the rows
  kernel_ir::Builder& b() { return builder_; }
  kernel_ir::Type type() const { return type_; }  // that the result is computed in
  // Tensor or number, as type(). A half that was computed here has not been rounded yet: who makes another type of it
  // sees the rounded value.
  kernel_ir::ValueId Arg(std::size_t a);
  kernel_ir::ValueId Arg(std::size_t a, kernel_ir::Type as);
  kernel_ir::ValueId Raw(std::size_t a) { return tensors_[a]; }
  bool Has(std::size_t a) const;  // argument is given and not None
  bool IsTensor(std::size_t a) const { return tensors_[a] != kernel_ir::kNoValue; }
  std::optional<double> Number(std::size_t a) const;  // constant number
  std::string Text(std::size_t a) const;
  kernel_ir::DType StorageOfTensor(std::size_t a) const;
  // The half type of argument a, if it comes from arithmetic in f32 and not from memory.
  std::optional<kernel_ir::DType> UnroundedHalf(std::size_t a) const;
  kernel_ir::DType storage() const { return storage_; }
  c10::Device device() const { return graph_.value(node_.outputs[0]).device; }
  kernel_ir::ValueId Const(double value) { return builder_.Const(type_, value); }
  kernel_ir::DType Promoted(std::size_t a, std::size_t c) const;  // that two arguments are compared in
  kernel_ir::ValueId Two(kernel_ir::Op op, kernel_ir::ValueId x, kernel_ir::ValueId y) {
    return builder_.Binary(op, x, y);
  }
  kernel_ir::ValueId One(kernel_ir::Op op, kernel_ir::ValueId x);

 private:
  bool NumbersFit() const;
  const ir::Graph& graph_;
  const ir::Node& node_;
  kernel_ir::Builder& builder_;
  std::vector<kernel_ir::ValueId> tensors_, numbers_;
  kernel_ir::Type type_;
  kernel_ir::DType storage_;
};

// The operator is in the table, its tensors are strided, on one device and of known types.
bool IsPointwise(const ir::Graph& graph, const ir::Node& node);

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_POINTWISE_H_
