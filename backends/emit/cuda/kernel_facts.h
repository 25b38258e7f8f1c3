// KernelFacts: what every printer of kernels for CUDA devices has to know of a kernel and its form before it writes:
// levels, what is of elements, which vectors are read, what stays in registers, which function a half is made by.
// Stands once, so that the two texts of a kernel (CUDA C++, PTX) do the same.
#ifndef FRAMEFUSE_BACKENDS_EMIT_CUDA_KERNEL_FACTS_H_
#define FRAMEFUSE_BACKENDS_EMIT_CUDA_KERNEL_FACTS_H_

#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "backends/emit/cuda/form.h"

namespace framefuse::emit {

class KernelFacts {
 protected:
  using Block = kernel_ir::Block;
  using BlockKind = kernel_ir::BlockKind;
  using Inner = kernel_ir::Inner;
  using Inst = kernel_ir::Inst;
  using Kernel = kernel_ir::Kernel;
  using Level = kernel_ir::Level;
  using Op = kernel_ir::Op;
  using OpClass = kernel_ir::OpClass;
  using Skeleton = kernel_ir::Skeleton;
  using ValueId = kernel_ir::ValueId;

  KernelFacts(const Kernel& kernel, const CudaForm& form);

  const Inst& inst(ValueId id) const { return k_[id]; }
  const kernel_ir::Buffer& buffer(int b) const { return k_.buffers[static_cast<std::size_t>(b)]; }
  int buffers() const { return static_cast<int>(k_.buffers.size()); }
  Level level(ValueId id) const { return levels_[static_cast<std::size_t>(id)]; }
  bool IsReduce(ValueId id) const { return kernel_ir::ClassOf(inst(id).op) == OpClass::kReduce; }
  bool IsElement(ValueId id) const { return level(id) == Level::kElement || IsReduce(id); }

  bool IsVector(int b) const { return buffer(b).inner == Inner::kContiguous; }
  bool IsTile(int b) const { return buffer(b).inner == Inner::kTransposed && k_.skeleton == Skeleton::kTransposed; }
  // Tiles of halves are kept as pairs of columns, and read by whole vectors.
  bool IsPaired(int b) const {
    return IsTile(b) && kernel_ir::ElementSize(buffer(b).dtype) == 2 && f_.vector == 8 && f_.tile_rows == kTile &&
           f_.tile_columns == kTile;
  }
  // A part for each of the block's threads, the last one perhaps for some.
  int PartsOf(int all) const { return (all + f_.threads - 1) / f_.threads; }
  // Whether scratch rows are registers; else each loop computes again what they would hold.
  bool KeepsScratch() const { return f_.chunks > 0 && !f_.again; }
  // Whether loops over elements write some, and not only reduce them.
  bool StoresElements() const;

  // The short function (prelude.cu) that stands for an f32 operation here; empty: the operation itself.
  std::string_view ShortFunction(ValueId id) const;

  // Elements that a loop over the block computes, in order, with what its scratch loads stand for where that is
  // computed again.
  std::vector<ValueId> ElementsOf(const Block& block) const;
  // Values of a segment that such a loop computes or needs, in order: those of other loops are out of reach.
  std::vector<ValueId> SegmentValuesOf(const Block& block) const;
  std::set<int> VectorReads(const std::vector<ValueId>& values) const;
  // Buffers of a row kernel that stay in registers: what the first loop reads, or several loops read.
  std::set<int> HeldBuffers() const;
  // Values of a row that wait for no reduction, in order.
  std::vector<ValueId> EarlyValues() const;

  const Kernel& k_;
  const CudaForm& f_;
  const CudaSizes at_;
  std::vector<Level> levels_;
  std::map<int, ValueId> scratch_;  // value that a scratch row holds

 private:
  std::vector<ValueId> WithScratch(const std::vector<ValueId>& values) const;
  std::string_view ForHalf(ValueId id) const;
  bool OnlySummedBesideOne(ValueId id) const;
  bool OnlyBesideOne(ValueId id) const;
  bool IsOne(ValueId id) const;
};

}  // namespace framefuse::emit

#endif  // FRAMEFUSE_BACKENDS_EMIT_CUDA_KERNEL_FACTS_H_
