#include "backends/emit/cuda/form.h"

#include <algorithm>
#include <bit>
#include <set>

namespace framefuse::emit {
namespace {

using kernel_ir::ElementSize;
using kernel_ir::Inner;
using kernel_ir::Kernel;
using kernel_ir::LaunchShape;
using kernel_ir::Op;
using kernel_ir::Skeleton;

constexpr std::int64_t kMostRegisters = 64;  // that a row's chunks may take
constexpr std::int64_t kMostChunks = 4;
constexpr std::int64_t kGoodVectors = 2;  // that a thread of a row which is written asks of memory at a time
// What a kernel needs that only reduces rows, and how many of them its blocks may hold for others to have room.
constexpr std::int64_t kHeldRegisters = 16, kReduceRegisters = 48, kAllRegisters = 65536;
constexpr std::int64_t kWalkedBytes = 64, kMostWalked = 8;  // that a thread of a row which is walked asks for at a time
constexpr int kReduceCode = 48;                             // weight of one that keeps to that
constexpr int kMostCode = 800;                              // weight of what is unrolled
constexpr int kShortCode = 240;                             // that waits for memory
constexpr int kLongCode = 120;  // weight of a vector from which on half of one is written, and twice as many read
constexpr int kBusyCode = 24;   // of an element, that processors take about as long for as for its memory
constexpr int kCheapCode = 12;  // weight of what is computed again in each loop, where it could be kept
constexpr std::int64_t kWantedBlocks = 4;  // of a processor
constexpr std::int64_t kMostBlocks = (1ll << 31) - 1;
constexpr std::int64_t kMostUnits = 1ll << 28;  // whose numbers have 32 bits with the size of an element as a factor

bool IsVector(const kernel_ir::Buffer& b) { return b.inner == Inner::kContiguous || b.inner == Inner::kTransposed; }

std::int64_t Product(const std::vector<std::int64_t>& extents, std::size_t end) {
  std::int64_t n = 1;
  for (std::size_t d = 0; d < end; ++d) n *= extents[d];
  return n;
}

std::int64_t Up(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }

// About how much code an operation is. What has a slow path, or is of doubles, is long.
int Weight(const kernel_ir::Inst& inst) {
  const bool math = ClassOf(inst.op) == kernel_ir::OpClass::kMath;
  const bool slow = math && (inst.op >= Op::kSin || inst.op == Op::kErfc || inst.type == kernel_ir::Type::kF64);
  if (inst.op == Op::kErf && !slow) return 14;
  return slow ? 24 : math || inst.op == Op::kDiv ? 6 : 1;
}

// An element.
int Weight(const Kernel& k) {
  int weight = 0;
  for (const kernel_ir::Inst& inst : k.insts) weight += Weight(inst);
  return weight;
}

// Whether what scratch rows hold of one element is soon computed again from the row.
bool ScratchIsCheap(const Kernel& k) {
  const std::vector<kernel_ir::Level> levels = kernel_ir::ComputeLevels(k);
  std::set<kernel_ir::ValueId> values;
  int weight = 0, loads = 0;
  for (auto id = static_cast<kernel_ir::ValueId>(k.insts.size()); id-- > 0;) {
    const kernel_ir::Inst& inst = k[id];
    const bool of_element = levels[static_cast<std::size_t>(id)] == kernel_ir::Level::kElement;
    if (inst.op != Op::kScratchStore && !(values.contains(id) && of_element)) continue;
    for (int i = 0; i < kernel_ir::Arity(inst.op); ++i) values.insert(inst.args[static_cast<std::size_t>(i)]);
    weight += Weight(inst);
    loads += inst.op == Op::kLoad ? 1 : 0;
  }
  return weight <= kCheapCode && loads == 1;
}

int VectorFor(const Kernel& k, const LaunchShape& shape) {
  int least = 16, most = 1, most_read = 1;
  for (const kernel_ir::Buffer& b : k.buffers) {
    if (!IsVector(b)) continue;
    least = std::min(least, ElementSize(b.dtype));
    most = std::max(most, ElementSize(b.dtype));
    if (!b.written) most_read = std::max(most_read, ElementSize(b.dtype));
  }
  int vector = std::clamp(16 / least, 1, 8);
  while (vector > 1 && (vector * most > 32 || vector * Weight(k) > kMostCode)) vector /= 2;
  const bool rows = !shape.extents.empty();
  while (vector > 1 && (vector > shape.inner || (rows && shape.inner % vector != 0))) vector /= 2;
  if (k.skeleton == Skeleton::kColumn) {
    while (vector > 1 && vector * most_read > 16) vector /= 2;
    while (vector > 1 && std::int64_t{vector} * 32 > std::max<std::int64_t>(shape.inner, 32)) vector /= 2;
  }
  return vector;
}

// Full-sized reads: those that are not the same for all rows.
int Reads(const Kernel& k, const LaunchShape& shape) {
  int reads = 0;
  for (std::size_t b = 0; b < k.buffers.size(); ++b) {
    if (k.buffers[b].written || k.buffers[b].inner == Inner::kUniform) continue;
    const auto& outer = shape.buffers[b].outer;
    const bool moves = outer.empty() || std::any_of(outer.begin(), outer.end(), [](auto s) { return s != 0; });
    reads += moves ? 1 : 0;
  }
  return reads;
}

// Registers of one chunk: raw vectors of what moves with the row, and lanes of scratch rows.
std::int64_t ChunkRegisters(const Kernel& k, const LaunchShape& shape, int vector) {
  std::set<int> read;
  for (const kernel_ir::Inst& inst : k.insts) {
    if (inst.op != Op::kLoad || !IsVector(k.buffers[static_cast<std::size_t>(inst.slot)])) continue;
    const auto& outer = shape.buffers[static_cast<std::size_t>(inst.slot)].outer;
    if (std::any_of(outer.begin(), outer.end(), [](auto s) { return s != 0; })) read.insert(inst.slot);
  }
  std::int64_t n = 0;
  for (int b : read) n += Up(std::int64_t{vector} * ElementSize(k.buffers[static_cast<std::size_t>(b)].dtype), 4);
  std::vector<bool> counted(static_cast<std::size_t>(k.scratch_rows), false);
  for (const kernel_ir::Inst& inst : k.insts) {
    if (inst.op != Op::kScratchStore || counted[static_cast<std::size_t>(inst.slot)]) continue;
    counted[static_cast<std::size_t>(inst.slot)] = true;
    n += std::int64_t{vector} * (kernel_ir::Is64Bit(inst.type) ? 2 : 1);
  }
  return std::max<std::int64_t>(n, 1);
}

bool WritesVectors(const Kernel& k) {
  return std::any_of(k.buffers.begin(), k.buffers.end(),
                     [](const kernel_ir::Buffer& b) { return b.written && b.inner != Inner::kUniform; });
}

// Values that change with the segment are computed with each chunk of it; a store is not done twice.
bool StoresBySegment(const Kernel& k) {
  const std::vector<kernel_ir::Level> levels = kernel_ir::ComputeLevels(k);
  for (std::size_t id = 0; id < k.insts.size(); ++id) {
    if (k.insts[id].op == Op::kStore && levels[id] == kernel_ir::Level::kSegment) return true;
  }
  return false;
}

// Vectors that a thread which walks a long row asks of memory at a time.
int WalkedTogether(const Kernel& k, const LaunchShape& shape, const CudaForm& form) {
  const std::int64_t bytes = 4 * ChunkRegisters(k, shape, form.vector);
  std::int64_t unroll = std::clamp<std::int64_t>(kWalkedBytes / bytes, 1, kMostWalked);
  while (unroll > 1 &&
         (unroll * form.row_threads * form.vector > shape.inner || unroll * form.vector * Weight(k) > kMostCode)) {
    unroll /= 2;
  }
  return static_cast<int>(unroll);
}

// `each`: vectors that stand for one.
void ChooseRow(const Kernel& k, const LaunchShape& shape, bool constant, int processors, int each, CudaForm* form) {
  const std::int64_t work = Up(shape.inner, form->vector), all = work * shape.segments;
  const std::int64_t most =
      std::clamp<std::int64_t>(kMostRegisters / ChunkRegisters(k, shape, form->vector), 1, kMostChunks);
  const auto chunks = [&](int threads) { return shape.segments * Up(work, threads); };
  if (constant && !form->split && !StoresBySegment(k) && chunks(1024) <= most) {
    form->row_threads = 32;
    const auto double_past = [&](std::int64_t enough, int limit) {
      while (form->row_threads < limit && chunks(form->row_threads) > enough) form->row_threads *= 2;
    };
    // A row that is only reduced needs few threads, which share fewer partial results.
    const std::int64_t reads = std::max(Reads(k, shape), 1);
    const std::int64_t good = WritesVectors(k) ? Up(each * kGoodVectors, reads) : kMostChunks;
    double_past(std::max(std::min(most, good), shape.segments), 512);
    double_past(most, 1024);
    form->chunks = static_cast<int>(chunks(form->row_threads));
    form->segments = static_cast<int>(shape.segments);
    form->full = form->exact && all == static_cast<std::int64_t>(form->row_threads) * form->chunks;
  } else {
    // Where processors stay empty, a row is walked by as many threads as a block has.
    const bool few_rows = Product(shape.extents, shape.extents.size()) <= processors;
    form->row_threads = all <= 128 ? 32 : all <= 2048 ? 128 : few_rows && all >= 4096 ? 1024 : 512;
    if (!k.segments) form->unroll = WalkedTogether(k, shape, *form);
  }
  form->threads = form->row_threads == 32 ? 128 : form->row_threads;
  // Between its reductions such a kernel reads nothing: other blocks have to.
  const bool few = form->chunks * ChunkRegisters(k, shape, form->vector) <= kHeldRegisters && Weight(k) <= kReduceCode;
  if (form->full && few && !WritesVectors(k)) {
    form->resident = static_cast<int>(kAllRegisters / kReduceRegisters / form->threads);
  }
}

// Of a column kernel's block.
std::int64_t RowsTogether(const CudaForm& form) { return static_cast<std::int64_t>(form.threads) / 32 * form.unroll; }

std::int64_t Divisor(std::int64_t d, bool narrow) {
  if (!narrow) return std::max<std::int64_t>(d, 1);
  const auto divisor = static_cast<std::uint64_t>(std::max<std::int64_t>(d, 1));
  const auto shift = static_cast<std::uint64_t>(std::bit_width(divisor - 1));
  const std::uint64_t multiplier = ((1ull << 32) * ((1ull << shift) - divisor)) / divisor + 1;
  return static_cast<std::int64_t>(multiplier | shift << 32);
}

// How many units the grid has in all, and the sizes that follow from it.
struct Units {
  std::int64_t units = 0, vectors = 0, down = 0, blocks = 0;
};

Units Count(const Kernel& k, const CudaForm& form, const LaunchShape& shape) {
  Units u;
  const std::size_t rank = shape.extents.size();
  const std::int64_t per_block = static_cast<std::int64_t>(form.threads) * form.unroll;
  switch (k.skeleton) {
    case Skeleton::kRow:
      u.units = Product(shape.extents, rank);
      u.blocks = Up(u.units, form.threads / form.row_threads);
      break;
    case Skeleton::kColumn:
      u.units = shape.extents.back();
      u.vectors = Up(shape.inner, std::int64_t{32} * form.vector);
      u.blocks = u.vectors * Product(shape.extents, rank - 1);
      break;
    case Skeleton::kTransposed:
      u.units = shape.extents.back();
      u.vectors = Up(shape.inner, form.tile_columns);
      u.down = Up(u.units, form.tile_rows);
      u.blocks = u.vectors * u.down * Product(shape.extents, rank - 1);
      break;
    case Skeleton::kPointwise:
    case Skeleton::kHorizontal:
      u.vectors = Up(shape.inner, form.vector);
      u.units = u.vectors * Product(shape.extents, rank);
      u.blocks = Up(u.units, per_block);
      break;
  }
  u.blocks = shape.inner == 0 ? 0 : u.blocks;
  return u;
}

// In bytes, of rows, batches and segments: a multiplication of 32 bits by 32 gives the place.
bool StridesAreShort(const LaunchShape& shape) {
  return std::all_of(shape.buffers.begin(), shape.buffers.end(), [](const kernel_ir::BufferStrides& b) {
    const auto fits = [](std::int64_t s) { return s >= 0 && s < (1ll << 32); };
    return fits(b.segment) && std::all_of(b.outer.begin(), b.outer.end(), fits);
  });
}

// A filter of 3 by 3 has nine points a channel: of a square tile most threads would have nothing.
void ChooseTile(const LaunchShape& shape, CudaForm* form) {
  constexpr std::int64_t kFew = 16, kMany = 256;
  const auto beside = [&](std::int64_t points) {
    const auto wanted = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(points)));
    return static_cast<int>(std::clamp(wanted, std::int64_t{kTile}, kMany));
  };
  const std::int64_t rows = shape.extents.back(), columns = shape.inner;
  if (rows == 0 || columns == 0) return;
  if (rows <= kFew) {
    form->tile_rows = kFew, form->tile_columns = beside(columns);  // whole vectors go down, though some find nothing
  } else if (columns <= kFew) {
    form->tile_columns = static_cast<int>(columns), form->tile_rows = beside(rows);
  }
}

}  // namespace

// `each`: vectors that stand for one.
CudaForm FormFor(const Kernel& k, const LaunchShape& shape, bool constant, int processors, int vector, int each) {
  CudaForm form;
  form.rank = static_cast<int>(shape.extents.size());
  form.vector = vector;
  form.split = shape.split_total > 0;
  form.exact = constant && shape.inner % form.vector == 0 && !(form.split && k.skeleton == Skeleton::kRow);
  form.half = kernel_ir::RoundingHidesErrors(k);
  const int reads = Reads(k, shape);
  switch (k.skeleton) {
    case Skeleton::kRow:
      ChooseRow(k, shape, constant, processors, each, &form);
      form.again = form.full && k.scratch_rows > 0 && form.chunks % 2 == 0 && ScratchIsCheap(k);
      break;
    case Skeleton::kColumn:
      form.unroll = reads <= 1 && shape.extents.back() >= 4 * form.threads / 32 ? 4 : reads <= 3 ? 2 : 1;
      form.full =
          constant && shape.extents.back() % RowsTogether(form) == 0 && shape.split_total % RowsTogether(form) == 0;
      break;
    case Skeleton::kTransposed:
      if (form.exact) ChooseTile(shape, &form);
      form.full = form.exact && shape.extents.back() % form.vector == 0;
      break;
    case Skeleton::kPointwise:
    case Skeleton::kHorizontal: {
      form.threads = 128;
      form.unroll = form.exact && reads <= 1 && form.vector * Weight(k) <= kShortCode ? 2 * each : each;
      // Rows that no vector fits: more of what is asked for at a time makes up for how little each is.
      if (form.exact && reads <= 1 && form.vector == 1 && form.rank > 0 && Weight(k) <= kBusyCode) form.unroll = 8;
      if (Count(k, form, shape).blocks < kWantedBlocks * processors) form.unroll = 1;
      const std::int64_t block = std::int64_t{form.threads} * form.unroll;
      const Units all = Count(k, form, shape);
      form.full = form.unroll > 1 && all.units % block == 0;
      form.near = form.full && (form.rank == 0 || all.vectors % block == 0) &&
                  std::none_of(k.buffers.begin(), k.buffers.end(), [](const kernel_ir::Buffer& b) {
                    return b.inner == Inner::kStrided || b.inner == Inner::kTransposed;
                  });
      break;
    }
  }
  const Units u = Count(k, form, shape);
  form.narrow = constant && StridesAreShort(shape) && std::max(u.units, u.blocks) < kMostUnits &&
                shape.inner < (1ll << 31) - 4096 && u.vectors < (1ll << 31);
  return form;
}

CudaForm ChooseForm(const Kernel& k, const LaunchShape& shape, bool constant, int processors) {
  const int vector = VectorFor(k, shape);
  const CudaForm form = FormFor(k, shape, constant, processors, vector, 1);
  const bool points = k.skeleton == Skeleton::kPointwise;
  const bool row = k.skeleton == Skeleton::kRow && WritesVectors(k) && !k.segments;
  if (vector < 8 || vector * Weight(k) < kLongCode || !form.exact || !(points || (row && form.full))) return form;
  const CudaForm halves = FormFor(k, shape, constant, processors, vector / 2, 2);
  // Of many copies moving words about is what a kernel that computes much has no time for.
  if (points && halves.unroll > 2 && Weight(k) > kBusyCode) return form;
  if (!halves.full || (row && (halves.chunks % 2 != 0 || (k.scratch_rows > 0 && !halves.again)))) return form;
  return halves;
}

CudaForm PlainForm(const Kernel& k, const CudaForm& form) {
  CudaForm plain = form;
  plain.exact = plain.full = false;
  if (k.skeleton == Skeleton::kPointwise) plain.unroll = 1;
  return plain;
}

namespace {
// Each takes so many words of a launch's arguments.
int MostTensors(const Kernel& k, CudaForm form, int words) {
  constexpr int kMostWords = 500;  // 4 KiB of arguments
  form.tensors = 1;
  return std::max(1, (kMostWords - CudaSizes(k, form).count()) / words);
}
}  // namespace

CudaForm AlikeForm(const Kernel& k, const CudaForm& form) {
  CudaForm table = form;
  table.tensors = MostTensors(k, form, static_cast<int>(k.buffers.size()));
  table.alike = true;
  return table;
}

CudaForm TableForm(const Kernel& k, const CudaForm& form, const std::vector<std::int64_t>& elements) {
  CudaForm table = form;
  table.tensors = MostTensors(k, form, static_cast<int>(k.buffers.size()) + 1);
  table.full = table.near = false;
  table.threads = 256;
  table.unroll = 1;
  if (table.vector == 8) table.vector = 4;  // as fast, and half the code
  const auto all = [&](const auto& is) { return std::all_of(elements.begin(), elements.end(), is); };
  table.exact = all([&](std::int64_t n) { return n % table.vector == 0; });
  table.narrow = all([](std::int64_t n) { return n < kMostUnits; });
  return table;
}

CudaLaunch MakeTableLaunch(const Kernel& k, const CudaForm& form, const std::vector<std::int64_t>& elements) {
  CudaLaunch launch;
  const CudaSizes at(k, form);
  const std::size_t buffers = k.buffers.size() * static_cast<std::size_t>(form.tensors);
  launch.words.assign(buffers + static_cast<std::size_t>(at.count()), 0);
  std::int64_t most = 0;
  for (std::size_t t = 0; t < elements.size(); ++t) {
    launch.words[buffers + static_cast<std::size_t>(at.Elements(static_cast<int>(t)))] = elements[t];
    most = std::max(most, elements[t]);
  }
  launch.tensors = static_cast<unsigned>(elements.size());
  launch.blocks =
      static_cast<unsigned>(std::min(Up(most, static_cast<std::int64_t>(form.threads) * form.vector), kMostBlocks));
  return launch;
}

CudaLaunch MakeCudaLaunch(const Kernel& k, const CudaForm& form, const LaunchShape& shape) {
  CudaLaunch launch;
  const CudaSizes at(k, form);
  const Units u = Count(k, form, shape);
  launch.blocks = static_cast<unsigned>(std::min(u.blocks, kMostBlocks));
  const std::size_t buffers = k.buffers.size(), pointers = buffers * static_cast<std::size_t>(form.tensors);
  launch.words.assign(pointers + static_cast<std::size_t>(at.count()), 0);
  const auto put = [&](int slot, std::int64_t v) { launch.words[pointers + static_cast<std::size_t>(slot)] = v; };
  put(CudaSizes::kInner, shape.inner);
  put(CudaSizes::kSegments, shape.segments);
  put(CudaSizes::kUnits, u.units);
  put(CudaSizes::kVectors, u.vectors);
  put(CudaSizes::kVectorsDiv, Divisor(u.vectors, form.narrow));
  put(CudaSizes::kSplitTotal, shape.split_total);
  put(CudaSizes::kDown, u.down);
  for (int d = 0; d < form.rank; ++d) {
    put(at.Extent(d), shape.extents[static_cast<std::size_t>(d)]);
    put(at.ExtentDiv(d), Divisor(shape.extents[static_cast<std::size_t>(d)], form.narrow));
  }
  for (std::size_t p = 0; p < shape.params.size(); ++p) {
    put(at.Param(static_cast<int>(p)), static_cast<std::int64_t>(shape.params[p]));
  }
  for (std::size_t b = 0; b < buffers; ++b) {
    const std::int64_t size = ElementSize(k.buffers[b].dtype);
    const int i = static_cast<int>(b);
    for (int d = 0; d < form.rank; ++d) put(at.Outer(i, d), shape.buffers[b].outer[static_cast<std::size_t>(d)] / size);
    put(at.Segment(i), shape.buffers[b].segment / size);
    put(at.InnerStride(i), shape.buffers[b].inner / size);
  }
  return launch;
}

CudaLaunch MakeAlikeLaunch(const Kernel& k, const CudaForm& form, const LaunchShape& shape, std::size_t tensors) {
  CudaLaunch launch = MakeCudaLaunch(k, form, shape);
  launch.tensors = static_cast<unsigned>(tensors);
  return launch;
}

bool IsAligned(const Kernel& k, const CudaForm& form, const LaunchShape& shape, void* const* buffers) {
  for (std::size_t b = 0; b < k.buffers.size(); ++b) {
    if (!IsVector(k.buffers[b])) continue;
    const std::int64_t align = std::min(16, form.vector * ElementSize(k.buffers[b].dtype));
    const auto aligned = [&](std::int64_t bytes) { return bytes % align == 0; };
    const bool turned = k.buffers[b].inner == Inner::kTransposed;
    if (!aligned(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(buffers[b])))) return false;
    if (!aligned(shape.buffers[b].segment) || (turned && !aligned(shape.buffers[b].inner))) return false;
    // A transposed buffer runs along the last outer dimension.
    const std::size_t rank = shape.extents.size() - (turned ? 1 : 0);
    for (std::size_t d = 0; d < rank; ++d) {
      if (shape.extents[d] > 1 && !aligned(shape.buffers[b].outer[d])) return false;
    }
  }
  return true;
}

void SetPointers(const Kernel& k, const CudaForm& form, bool aligned, void* const* buffers, CudaLaunch* launch) {
  const std::size_t given = k.buffers.size() * launch->tensors;
  for (std::size_t b = 0; b < given; ++b) {
    launch->words[b] = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(buffers[b]));
  }
  launch->words[k.buffers.size() * static_cast<std::size_t>(form.tensors) + CudaSizes::kFast] = aligned ? 1 : 0;
}

}  // namespace framefuse::emit
