#include "backends/cpu_runtime/launch.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <limits>

namespace framefuse::cpu {

using kernel_ir::ElementSize;
using kernel_ir::Inner;
using kernel_ir::Kernel;
using kernel_ir::SizesLayout;
using kernel_ir::Skeleton;

namespace {

constexpr std::int64_t kGrain = 16 * 1024;  // elements a thread should have at least
constexpr std::int64_t kPanel = 256;        // columns of a unit of a column reduction
// Transposed tiles are so tall and wide at most: each of their rows and columns has a page of its own, and a page that
// is looked up should be used. Kernels turn kLeastRows at once: fewer go along with the tile before them.
constexpr std::int64_t kTall = 64, kWide = 512, kLeastRows = 16;

// Scratch memory of a thread; grows, and is reused by all kernels.
char* ThreadScratch(std::size_t bytes) {
  struct Free {
    void operator()(char* p) const { ::operator delete (p, std::align_val_t{64}); }
  };
  static thread_local std::unique_ptr<char, Free> memory;
  static thread_local std::size_t size = 0;
  if (bytes > size) {
    memory.reset(static_cast<char*>(::operator new (bytes, std::align_val_t{64})));
    size = bytes;
  }
  return memory.get();
}

template <typename F>
void Parallel(std::int64_t units, std::int64_t elements_a_unit, const F& f) {
  if (units <= 0) return;
  if (units == 1 || units * elements_a_unit < kGrain) return f(std::int64_t{0}, units);
  at::parallel_for(0, units, std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(1, elements_a_unit)), f);
}

// An extent in parts of whole lines, nearly equal; the last takes what is left.
struct Parts {
  static constexpr std::int64_t kLine = 64;
  std::int64_t extent, count, step;

  Parts(std::int64_t size, std::int64_t most) : extent(size), count(1), step(most) {
    count = std::max<std::int64_t>(1, (size + most - kLeastRows) / most);
    step = std::clamp((size / count + kLine / 2) / kLine * kLine, kLine, most);
  }
  std::int64_t Size(std::int64_t i) const { return i + 1 < count ? step : extent - (count - 1) * step; }
};

}  // namespace

// The args array of a call.
struct Launch::Arguments {
  std::array<void*, 80> args;
  std::array<std::int64_t, 16> digits{};

  Arguments(const Launch& launch, std::int64_t* sizes) {
    const std::size_t buffers = launch.kernel_->ir().buffers.size();
    const auto rows = static_cast<std::size_t>(launch.scratch_rows_);
    if (rows > 0) {
      char* scratch = ThreadScratch(rows * static_cast<std::size_t>(launch.scratch_bytes_));
      for (std::size_t s = 0; s < rows; ++s)
        args[buffers + s] = scratch + s * static_cast<std::size_t>(launch.scratch_bytes_);
    }
    args[buffers + rows] = sizes;
    args[buffers + rows + 1] = digits.data();
  }
};

Launch::Launch(std::shared_ptr<const CpuKernel> kernel, LaunchShape shape)
    : kernel_(std::move(kernel)), shape_(std::move(shape)) {
  const Kernel& ir = kernel_->ir();
  const SizesLayout layout(ir);
  sizes_.assign(static_cast<std::size_t>(layout.count()), 0);
  const auto put = [&](int slot, std::int64_t value) { sizes_[static_cast<std::size_t>(slot)] = value; };
  put(SizesLayout::kInner, shape_.inner);
  put(SizesLayout::kSegments, shape_.segments);
  const auto known = static_cast<std::size_t>(ir.outer_rank);
  const std::size_t batch_dims = shape_.extents.size() - known;
  for (std::size_t d = 0; d < shape_.extents.size(); ++d) (d < batch_dims ? batches_ : rows_) *= shape_.extents[d];
  for (std::size_t d = 0; d < known; ++d) put(layout.Extent(static_cast<int>(d)), shape_.extents[batch_dims + d]);
  for (std::size_t p = 0; p < shape_.params.size(); ++p) {
    put(layout.Param(static_cast<int>(p)), static_cast<std::int64_t>(shape_.params[p]));
  }
  for (std::size_t b = 0; b < shape_.buffers.size(); ++b) {
    const BufferStrides& strides = shape_.buffers[b];
    std::int64_t inside = 0;  // what the dimensions inside have moved when they carry
    for (std::size_t d = known; d-- > 0;) {
      const std::int64_t stride = strides.outer[batch_dims + d];
      put(layout.Delta(static_cast<int>(b), static_cast<int>(d)), stride - inside);
      inside += (shape_.extents[batch_dims + d] - 1) * stride;
    }
    put(layout.SegmentStride(static_cast<int>(b)), strides.segment);
    put(layout.InnerStride(static_cast<int>(b)), strides.inner);
  }
  scratch_rows_ = kernel_ir::ScratchRowCount(ir);
  const std::int64_t points = ir.skeleton == Skeleton::kColumn ? kPanel : shape_.inner * shape_.segments;
  scratch_bytes_ = (points + 16) * 8 / 64 * 64 + 64;
}

void Launch::Run(void* const* buffers) const {
  const Kernel& ir = kernel_->ir();
  if (rows_ == 0 && ir.skeleton != Skeleton::kColumn) return;
  if (shape_.inner * shape_.segments == 0) return RunEmptyRows(buffers);
  if (ir.skeleton == Skeleton::kColumn) return RunColumns(buffers);
  if (ir.skeleton == Skeleton::kTransposed) return RunTransposed(buffers);
  if (ir.outer_rank == 0) {
    return Parallel(shape_.inner, 1, [&](std::int64_t begin, std::int64_t end) { RunFlat(buffers, begin, end); });
  }
  const std::int64_t full = shape_.split_total > 0 ? rows_ - 1 : rows_;
  Parallel(full, shape_.inner * shape_.segments,
           [&](std::int64_t begin, std::int64_t end) { RunRows(buffers, begin, end); });
  if (full < rows_) RunRows(buffers, full, rows_);
}

// Only reductions have results then. A tensor without elements has no memory, where one number would be read for a row.
void Launch::RunEmptyRows(void* const* buffers) const {
  if (kernel_->ir().skeleton != Skeleton::kRow) return;
  static constexpr std::int64_t kNothing = 0;
  LaunchShape shape = shape_;
  std::vector<void*> present(buffers, buffers + shape.buffers.size());
  for (std::size_t b = 0; b < present.size(); ++b) {
    if (present[b] != nullptr) continue;
    present[b] = const_cast<std::int64_t*>(&kNothing);
    shape.buffers[b] = {std::vector<std::int64_t>(shape.buffers[b].outer.size(), 0), 0, 0};
  }
  Launch(kernel_, std::move(shape)).RunRows(present.data(), 0, rows_);
}

void Launch::RunFlat(void* const* buffers, std::int64_t begin, std::int64_t end) const {
  const Kernel& ir = kernel_->ir();
  Arguments a(*this, const_cast<std::int64_t*>(sizes_.data()));
  for (std::size_t b = 0; b < ir.buffers.size(); ++b) {
    a.args[b] = static_cast<char*>(buffers[b]) + begin * InnerStride(b);
  }
  kernel_->Call(a.args.data(), begin, end);
}

void Launch::RunRows(void* const* buffers, std::int64_t begin, std::int64_t end) const {
  const Kernel& ir = kernel_->ir();
  const bool last_part = shape_.split_total > 0 && end == rows_;
  std::vector<std::int64_t> own;
  if (last_part) {
    own = sizes_;
    own[SizesLayout::kInner] = shape_.split_total - (rows_ - 1) * shape_.inner;
  }
  Arguments a(*this, last_part ? own.data() : const_cast<std::int64_t*>(sizes_.data()));
  std::int64_t rest = begin;
  for (std::size_t d = shape_.extents.size(); d-- > 0;) {
    a.digits[d] = rest % shape_.extents[d];
    rest /= shape_.extents[d];
  }
  for (std::size_t b = 0; b < ir.buffers.size(); ++b) {
    auto* p = static_cast<char*>(buffers[b]);
    for (std::size_t d = 0; d < shape_.extents.size(); ++d) p += a.digits[d] * shape_.buffers[b].outer[d];
    a.args[b] = p;
  }
  kernel_->Call(a.args.data(), begin, end);
}

std::int64_t Launch::InnerStride(std::size_t buffer) const {
  const kernel_ir::Buffer& b = kernel_->ir().buffers[buffer];
  if (b.inner == Inner::kUniform) return 0;
  return b.inner == Inner::kContiguous ? ElementSize(b.dtype) : shape_.buffers[buffer].inner;
}

std::int64_t Launch::BatchOffset(int buffer, std::int64_t batch) const {
  const BufferStrides& strides = shape_.buffers[static_cast<std::size_t>(buffer)];
  std::int64_t offset = 0;
  for (std::size_t d = shape_.extents.size() - 1; d-- > 0;) {
    offset += batch % shape_.extents[d] * strides.outer[d];
    batch /= shape_.extents[d];
  }
  return offset;
}

void Launch::RunColumns(void* const* buffers) const {
  const std::int64_t panels = (shape_.inner + kPanel - 1) / kPanel;
  const std::int64_t width = std::min(kPanel, shape_.inner);
  Parallel(batches_ * panels, std::max<std::int64_t>(rows_, 1) * width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t first = unit % panels * kPanel;
      RunColumnUnit(buffers, unit / panels, first, std::min(first + kPanel, shape_.inner));
    }
  });
}

void Launch::RunColumnUnit(void* const* buffers, std::int64_t batch, std::int64_t begin, std::int64_t end) const {
  const Kernel& ir = kernel_->ir();
  std::vector<std::int64_t> own = sizes_;
  own[SizesLayout::kInner] = end - begin;
  Arguments a(*this, own.data());
  for (std::size_t b = 0; b < ir.buffers.size(); ++b) {
    a.args[b] = static_cast<char*>(buffers[b]) + BatchOffset(static_cast<int>(b), batch) + begin * InnerStride(b);
  }
  std::int64_t rows = rows_;
  if (shape_.split_total > 0) {
    const std::int64_t part = batch % shape_.extents[shape_.extents.size() - 2];
    rows = std::clamp<std::int64_t>(shape_.split_total - part * rows_, 0, rows_);
  }
  kernel_->Call(a.args.data(), 0, rows);
}

void Launch::RunTransposed(void* const* buffers) const {
  const std::int64_t threads = at::get_num_threads();
  std::int64_t tall = kTall, wide = kWide;
  Parts down(rows_, tall), across(shape_.inner, wide);
  while (threads > 1 && batches_ * down.count * across.count < 4 * threads && tall * wide > kGrain) {
    (tall < wide ? wide : tall) /= 2;
    down = Parts(rows_, tall), across = Parts(shape_.inner, wide);
  }
  const std::int64_t tiles = down.count * across.count;
  if (tiles == 0) return;
  Parallel(batches_ * tiles, rows_ * shape_.inner / tiles, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::int64_t> own = sizes_;
    Arguments a(*this, own.data());
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t i = unit % tiles / across.count, j = unit % across.count;
      own[SizesLayout::kInner] = across.Size(j);
      for (std::size_t b = 0; b < shape_.buffers.size(); ++b) {
        a.args[b] = static_cast<char*>(buffers[b]) + BatchOffset(static_cast<int>(b), unit / tiles) +
                    i * down.step * shape_.buffers[b].outer.back() + j * across.step * InnerStride(b);
      }
      kernel_->Call(a.args.data(), 0, down.Size(i));
    }
  });
}

void Launch::RunTable(const std::vector<std::vector<void*>>& tables, const std::vector<std::int64_t>& counts) const {
  // Chunks in order, so that a thread gets neighbouring tensors.
  std::vector<std::pair<std::size_t, std::int64_t>> chunks;
  for (std::size_t t = 0; t < counts.size(); ++t) {
    for (std::int64_t at = 0; at < counts[t]; at += kGrain) chunks.emplace_back(t, at);
  }
  std::int64_t total = 0;
  for (std::int64_t n : counts) total += n;
  const auto units = static_cast<std::int64_t>(chunks.size());
  if (units == 0) return;
  Parallel(units, std::max<std::int64_t>(1, total / units), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t u = begin; u < end; ++u) {
      const auto [t, at] = chunks[static_cast<std::size_t>(u)];
      RunFlat(tables[t].data(), at, std::min(at + kGrain, counts[t]));
    }
  });
}

}  // namespace framefuse::cpu
