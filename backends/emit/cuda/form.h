// CudaForm: how a kernel is printed for a use (vector width, threads, what stays in registers), and CudaLaunch: the
// grid and the argument block of one call. Both are plain host code: they are tested without a device.
// Invariant: a form that was chosen from hints is right for every size; sizes only decide how fast it is. What it
// takes for granted comes from constants (`exact`, `narrow`), but alignment: where buffers are not aligned for an exact
// form, the kernel's PlainForm runs.
#ifndef FRAMEFUSE_BACKENDS_EMIT_CUDA_FORM_H_
#define FRAMEFUSE_BACKENDS_EMIT_CUDA_FORM_H_

#include <compare>
#include <cstdint>
#include <vector>

#include "backends/kernel_ir/kernel.h"
#include "backends/kernel_ir/launch_shape.h"

namespace framefuse::emit {

inline constexpr int kTile = 64;  // rows and columns of a transposed kernel's block, where it has many of both

struct CudaForm {
  int rank = 0;         // outer dimensions, batch dimensions counted
  int vector = 1;       // neighbouring points of a thread
  int threads = 256;    // of a block
  int row_threads = 1;  // row kernels: threads that share a row, 32 or all of the block
  int chunks = 0;       // row kernels: vectors of a row that a thread keeps in registers; 0: walks and computes again
  int segments = 1;     // of a row, each held in so many of the chunks
  int resident = 0;     // blocks that a processor is to hold at a time; 0: as many as it can
  int unroll = 1;       // pointwise, column, and rows that are walked: vectors whose loads are issued together
  bool near = false;    // pointwise: the copies of a block's threads are of one row, and none runs through it in steps
  bool again = false;   // row kernels with chunks: what scratch rows would hold is computed in each loop
  int tensors = 1;      // how many equal kernels one launch runs, each its own row of the grid
  bool alike = false;   // of tensors of one shape, whose sizes they share; else they are flat, each of its own size
  // Transposed: what a block takes. Where one side has few points, the other has more.
  int tile_rows = kTile, tile_columns = kTile;
  bool narrow = false;  // the units of the grid fit 28 bits, and strides of rows and segments in bytes 32
  bool exact = false;   // `inner` is a multiple of `vector`, and all contiguous buffers are aligned for it (IsAligned)
  // Row kernels: the chunks of the threads are the row; transposed: vectors down are whole, too; pointwise, column: so
  // are the unrolled copies of a block's threads.
  bool full = false;
  bool half = false;   // rounding to halves hides small errors
  bool split = false;  // the last part is shorter (LaunchShape::split_total)
  auto operator<=>(const CudaForm&) const = default;
};

// Multiprocessors of an H100 or H200, for which the choices were measured.
inline constexpr int kUsualProcessors = 132;

// `constant`: the sizes of `shape` hold for every call. `processors`: of the device, by which is judged whether a grid
// is large enough.
CudaForm ChooseForm(const kernel_ir::Kernel& kernel, const kernel_ir::LaunchShape& shape, bool constant,
                    int processors = kUsualProcessors);

// The form that does the work of as many equal flat kernels, of tensors of so many elements, as one launch's arguments
// have room for.
CudaForm TableForm(const kernel_ir::Kernel& kernel, const CudaForm& form, const std::vector<std::int64_t>& elements);
// The same for equal kernels of one shape, flat or not.
CudaForm AlikeForm(const kernel_ir::Kernel& kernel, const CudaForm& form);
// For buffers of any alignment.
CudaForm PlainForm(const kernel_ir::Kernel& kernel, const CudaForm& form);

// Slots of Args::s. Strides are in elements.
class CudaSizes {
 public:
  CudaSizes(const kernel_ir::Kernel& kernel, const CudaForm& form)
      : rank_(form.rank),
        own_sizes_(form.tensors > 1 && !form.alike ? form.tensors : 0),
        params_(static_cast<int>(kernel.params.size())),
        buffers_(static_cast<int>(kernel.buffers.size())) {}
  static constexpr int kInner = 0, kSegments = 1;
  static constexpr int kUnits = 2;       // pointwise: vectors in all; row: rows; column, transposed: rows
  static constexpr int kVectors = 3;     // vectors of a row (pointwise), panels (column), tiles across (transposed)
  static constexpr int kVectorsDiv = 4;  // divisor of kVectors
  static constexpr int kFast = 5;        // every contiguous buffer is aligned for the vector
  static constexpr int kSplitTotal = 6;
  static constexpr int kDown = 7;  // transposed: tiles down
  int Extent(int d) const { return 8 + d; }
  int ExtentDiv(int d) const { return 8 + rank_ + d; }
  int Param(int i) const { return 8 + 2 * rank_ + i; }
  int Outer(int buffer, int d) const { return Base(buffer) + d; }
  int Segment(int buffer) const { return Base(buffer) + rank_; }
  int InnerStride(int buffer) const { return Base(buffer) + rank_ + 1; }
  int Elements(int tensor) const { return Base(buffers_) + tensor; }  // of a table that is not alike
  int count() const { return Base(buffers_) + own_sizes_; }

 private:
  int Base(int buffer) const { return 8 + 2 * rank_ + params_ + buffer * (rank_ + 2); }
  int rank_, own_sizes_, params_, buffers_;
};

struct CudaLaunch {
  unsigned blocks = 0;              // 0: nothing to do
  unsigned tensors = 1;             // rows of the grid
  std::vector<std::int64_t> words;  // pointers (filled in by SetPointers), then sizes
};

CudaLaunch MakeCudaLaunch(const kernel_ir::Kernel& kernel, const CudaForm& form, const kernel_ir::LaunchShape& shape);
// A launch of a table that is not alike: `elements` of each.
CudaLaunch MakeTableLaunch(const kernel_ir::Kernel& kernel, const CudaForm& form,
                           const std::vector<std::int64_t>& elements);
// Of so many tensors that are alike.
CudaLaunch MakeAlikeLaunch(const kernel_ir::Kernel& kernel, const CudaForm& form, const kernel_ir::LaunchShape& shape,
                           std::size_t tensors);
// Whether every contiguous buffer can be read and written by whole vectors.
bool IsAligned(const kernel_ir::Kernel& kernel, const CudaForm& form, const kernel_ir::LaunchShape& shape,
               void* const* buffers);
// Puts the buffers (of all tensors, one after the other) into the argument block; `aligned`: IsAligned for them.
void SetPointers(const kernel_ir::Kernel& kernel, const CudaForm& form, bool aligned, void* const* buffers,
                 CudaLaunch* launch);

}  // namespace framefuse::emit

#endif  // FRAMEFUSE_BACKENDS_EMIT_CUDA_FORM_H_
