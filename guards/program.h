// CompiledProgram: guards as a linear list of steps over an array of source values.
//
// Reads of one container form a block: while the container's version tag is the one of the last success, its reads
// and the facts that follow from them (identities, immutable values, absent keys) hold and are not run again; the
// values in the array are still right. Other steps (locals, cells, list items, types of instances, tensors) run on
// every call. If no dict that matters changed since the last success (DictEpoch), even the tags of dicts that
// cannot be replaced are left unread: `quick` is `full` without those blocks.
//
// Invariant: a block's remembered tag is non-zero only if all its steps succeeded on the dict that has this tag, and
// the values it reads are those in `objects`. Tags are unique over all containers and times, so this also holds when
// one program serves several objects; each of those has a Memory of its own only to save look-ups.
#ifndef FRAMEFUSE_GUARDS_PROGRAM_H_
#define FRAMEFUSE_GUARDS_PROGRAM_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "guards/fact.h"
#include "guards/guard.h"
#include "guards/leaf/distinct.h"
#include "guards/leaf/global_state.h"
#include "guards/leaf/overlap.h"
#include "guards/leaf/tensor.h"
#include "guards/leaf/value.h"
#include "guards/read.h"

namespace framefuse {

enum class StepOp : std::uint8_t {
  kReadLocal,      // objects[source] = slot `index`
  kRead,           // objects[source] = ReadSource
  kTypeIs,         // type of objects[source] is `operand`
  kIs,             // objects[source] is `operand`
  kTensor,         // `operand` is a TensorSpec
  kTensors,        // all of ProgramImage::tensors
  kFact,           // `operand` is a Fact
  kInstanceBlock,  // attributes of the instance or module objects[source], of type `operand` unless that is null;
                   // `index` is the block
  kInstances,      // instance blocks one after the other: ProgramImage::instances of the range runs[index]
  kItemsBlock,     // items of objects[source], versioned if it is a dict
  kTypeBlock,      // look-ups in the type objects[source]
  kTwoValues,      // `operand` is a GuardKindRow: its relation of objects[source] and objects[index]
  kDistinct,       // ProgramImage::distinct[index]
  kGlobalState,
  kOverlap,
  kValue,  // ProgramImage::values[index]
};

struct GuardStep {
  StepOp op = StepOp::kRead;
  bool may_be_null = false;      // kRead, kReadLocal: an absent value is no failure
  bool has_block_below = false;  // kRead, kReadLocal: blocks remember what depends on this value
  std::int32_t source = kNoSource;
  std::int32_t index = 0;
  const void* operand = nullptr;
};

// How many steps ahead objects are prefetched.
inline constexpr int kLookAhead = 8;

// What was read of tensors' data, and where.
struct GuardedValue {
  ReadValue read;
  FactLocation where;
};

struct StepRange {
  std::int32_t begin = 0, end = 0;  // in ProgramImage::slow, or ::instances
};

// A step kInstanceBlock of `quick` whose type keeps its instances' dicts where it can be read at once.
struct InstanceCheck {
  std::int32_t source = kNoSource;
  std::int32_t block = 0;
  const PyTypeObject* type = nullptr;
};

// Torch's state, where it is guarded.
struct GuardedState {
  bool present = false;
  GlobalState values;
  std::vector<Ref> modes;  // keeps the modes in `values` from being replaced by others at their address
};

// Which tensors' memory is one, by class (OverlapFact).
struct GuardedMemory {
  std::vector<SourceId> sources;
  OverlapFact fact;
};

// Everything that does not change after compilation.
struct ProgramImage {
  std::vector<Read> reads;      // by SourceId; unused ones are kNone
  std::vector<Source> sources;  // the same, for texts
  std::vector<std::string> slot_names;
  std::vector<Fact> facts;  // in order of source
  std::vector<TensorSpec> specs;
  GuardedState torch_state;
  std::vector<TensorCheck> tensors;  // those that are no argument: checked together, last
  GuardedMemory overlap;
  std::vector<DistinctObjects> distinct;
  std::vector<GuardedValue> values;
  std::vector<const Held*> weak_constants;  // of reads: their objects must be alive before anything is looked at
  std::size_t guard_count = 0;

  std::vector<GuardStep> full, quick, slow;  // full and quick end in kLookAhead steps that are never run
  std::vector<StepRange> blocks;
  std::vector<InstanceCheck> instances;  // ends in kLookAhead that are never looked at
  std::vector<StepRange> runs;
  std::vector<SourceId> anchor;  // path of sources to the object whose Memory is used
};

class CompiledProgram : public GuardProgram {
 public:
  explicit CompiledProgram(std::unique_ptr<ProgramImage> image);
  bool Check(const FrameView& frame, ResolvedSources* resolved) const noexcept override;
  std::string Explain(const FrameView& frame) const override;
  std::string PythonText(const std::string& name) const override;
  bool IsDead() const override;
  std::size_t guard_count() const override { return image_->guard_count; }
  std::vector<OtherSizes> FindOtherSizes(const FrameView& frame) const override;
  const ProgramImage& image() const { return *image_; }

 private:
  enum class Result : std::uint8_t { kHolds, kFails, kStale };  // kStale: the quick list cannot tell

  // What the last success on one anchor left.
  struct Memory {
    PyObject* anchor = nullptr;  // compared, never read
    std::uint64_t epoch = 0;     // DictEpoch of the last success; 0: none
    std::vector<PyObject*> objects;
    std::vector<std::uint64_t> tags;  // by block
    std::vector<PyObject*> dicts;     // by block: the dict, to compare and to prefetch; read through only if restless
    // Dicts whose changes the epoch does not follow; they live while it stays.
    std::vector<PyObject*> restless;           // of an instance, by block, instead of the one in `dicts`
    std::vector<std::int32_t> restless_items;  // blocks of dicts that are themselves looked into
    std::vector<TensorHint> hints;             // by index into ProgramImage::tensors
  };
  struct Run;

  Memory& SelectMemory(PyObject* anchor) const;
  void KeepDicts(Memory& memory) const;
  PyObject* ReadAnchor(const FrameView& frame) const;

  std::unique_ptr<ProgramImage> image_;
  bool use_quick_;
  std::vector<bool> of_items_;  // by block: its container is a dict or the like, not an instance
  mutable std::vector<std::unique_ptr<Memory>> memories_;  // most recently used first
  mutable OverlapChecker overlap_;
  mutable std::vector<MemoryRange> ranges_;
  mutable DistinctChecker distinct_;
};

// explain.cpp
std::string ExplainImage(const ProgramImage& image, const FrameView& frame);
// Tells each guard that is looked at, up to the first that fails, with the reason; empty: it holds.
using GuardSeen = std::function<void(GuardKind kind, std::string_view why)>;
void TellGuards(const ProgramImage& image, const FrameView& frame, const GuardSeen& seen);
std::vector<GuardProgram::OtherSizes> FindOtherSizes(const ProgramImage& image, const FrameView& frame);
std::string ImageText(const ProgramImage& image, const std::string& name);

}  // namespace framefuse

#endif  // FRAMEFUSE_GUARDS_PROGRAM_H_
