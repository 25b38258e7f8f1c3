#include "guards/program.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "frame_eval/versions/dict_reads.h"
#include "frame_eval/versions/frame_ops.h"
#include "guards/dict_epoch.h"
#include "guards/kinds.h"

namespace framefuse {
namespace {

// Objects that one program remembers at a time; equal layers of a model share one program.
constexpr std::size_t kMaxMemories = 32;
// Asking for the epoch costs about as much as comparing this many tags.
constexpr std::size_t kMinSavedBlocks = 8;

// An instance's dict pointer lies before the object, its type after the reference count.
void PrefetchObject(PyObject* object) {
  constexpr std::uintptr_t kDictPointer = 24;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): there may be no object
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(object) - kDictPointer));
  __builtin_prefetch(&object->ob_type);
}

// How many steps of `full` are left out of `quick`.
std::size_t SavedBlocks(const ProgramImage& image) {
  const std::size_t batched = image.instances.size() - kLookAhead - image.runs.size();
  return image.full.size() - image.quick.size() - batched;
}

}  // namespace

// One execution of the program: the state that its steps share.
struct CompiledProgram::Run {
  const ProgramImage& image;
  Memory& memory;
  const FrameView& frame;
  std::vector<Ref>* owned;
  const CompiledProgram& program;

  template <bool kQuick, bool kMain>
  Result Steps(const GuardStep* step, const GuardStep* end);
  template <bool kQuick>
  Result Slow(std::int32_t block);
  template <bool kQuick>
  Result Store(const GuardStep& step, PyObject* value);
  template <bool kQuick>
  Result InstanceBlock(const GuardStep& step, PyObject* object);
  Result Instances(const StepRange& range);
  template <bool kQuick>
  Result ItemsBlock(const GuardStep& step, PyObject* object);
  template <bool kQuick>
  Result TypeBlock(const GuardStep& step, PyObject* object);
  template <bool kQuick>
  Result Versioned(std::int32_t block, std::uint64_t tag);
  Result Restless(std::int32_t block, PyObject* dict);
  bool RestlessItemsHold();
  PyObject* ReadNow(const GuardStep& step);
  bool Overlap();
  bool HoldsBetween(const GuardStep& step, PyObject* object);
  bool Distinct(const GuardStep& step);
  bool Value(const ReadValue& value);
};

template <bool kQuick>
CompiledProgram::Result CompiledProgram::Run::Store(const GuardStep& step, PyObject* value) {
  if (value == nullptr && !step.may_be_null) return Result::kFails;
  PyObject*& slot = memory.objects[static_cast<std::size_t>(step.source)];
  if (kQuick && step.has_block_below && slot != value) return Result::kStale;
  slot = value;
  return Result::kHolds;
}

template <bool kQuick>
CompiledProgram::Result CompiledProgram::Run::Slow(std::int32_t block) {
  const StepRange range = image.blocks[static_cast<std::size_t>(block)];
  return Steps<kQuick, false>(image.slow.data() + range.begin, image.slow.data() + range.end);
}

// Runs a block unless its container is as it was. The tag is 0 while the steps are under way: a failure half-way
// leaves values of the new container in `objects`.
template <bool kQuick>
CompiledProgram::Result CompiledProgram::Run::Versioned(std::int32_t block, std::uint64_t tag) {
  std::uint64_t& remembered = memory.tags[static_cast<std::size_t>(block)];
  if (tag != 0 && tag == remembered) return Result::kHolds;
  remembered = 0;
  const Result result = Slow<kQuick>(block);
  if (result == Result::kHolds) remembered = tag;
  return result;
}

template <bool kQuick>
CompiledProgram::Result CompiledProgram::Run::InstanceBlock(const GuardStep& step, PyObject* object) {
  if (step.operand != nullptr && Py_TYPE(object) != step.operand) return Result::kFails;
  PyObject** const dicts = memory.dicts.data() + step.index;
  PyObject*& remembered = *dicts;
  if (!kQuick) __builtin_prefetch(dicts[kLookAhead]);
  if (kQuick) {
    // No dict changed since the last success: the same dict has the same contents.
    if (PyObject* dict = frame_ops::RawInstanceDict(object)) {
      return dict == remembered ? Result::kHolds : Restless(step.index, dict);
    }
  }
  PyObject* dict = InstanceDictOf(object);
  remembered = dict;
  return Versioned<kQuick>(step.index, dict != nullptr ? frame_ops::InlineDictVersion(dict) : 0);
}

// Before `quick`, which leaves out blocks of dicts. Their containers are as they were unless a check here says no more.
bool CompiledProgram::Run::RestlessItemsHold() {
  for (std::int32_t block : memory.restless_items) {
    PyObject* const dict = memory.dicts[static_cast<std::size_t>(block)];
    if (Versioned<true>(block, frame_ops::InlineDictVersion(dict)) != Result::kHolds) return false;
  }
  return true;
}

// In `quick`, for a dict that is not the one whose changes the epoch follows.
CompiledProgram::Result CompiledProgram::Run::Restless(std::int32_t block, PyObject* dict) {
  if (memory.restless[static_cast<std::size_t>(block)] != dict) return Result::kStale;
  return Versioned<true>(block, frame_ops::InlineDictVersion(dict));
}

// No dict changed since the last success: an instance with the dict that it had has the same attributes.
CompiledProgram::Result CompiledProgram::Run::Instances(const StepRange& range) {
  PyObject** const objects = memory.objects.data();
  const InstanceCheck* const end = image.instances.data() + range.end;
  for (const InstanceCheck* check = image.instances.data() + range.begin; check != end; ++check) {
    PrefetchObject(objects[check[kLookAhead].source]);
    PyObject* const object = objects[check->source];
    if (object == nullptr || Py_TYPE(object) != check->type) return Result::kFails;
    PyObject* const dict = frame_ops::InlineManagedDict(object);
    if (dict != nullptr && dict == memory.dicts[static_cast<std::size_t>(check->block)]) continue;
    const Result result = dict != nullptr ? Restless(check->block, dict) : Versioned<true>(check->block, 0);
    if (result != Result::kHolds) return result;
  }
  return Result::kHolds;
}

template <bool kQuick>
CompiledProgram::Result CompiledProgram::Run::ItemsBlock(const GuardStep& step, PyObject* object) {
  const bool is_dict = PyDict_Check(object);
  PyObject*& remembered = memory.dicts[static_cast<std::size_t>(step.index)];
  if (kQuick && is_dict) return object == remembered ? Result::kHolds : Result::kStale;
  remembered = object;
  return Versioned<kQuick>(step.index, is_dict ? frame_ops::InlineDictVersion(object) : 0);
}

template <bool kQuick>
CompiledProgram::Result CompiledProgram::Run::TypeBlock(const GuardStep& step, PyObject* object) {
  if (!PyType_Check(object)) return Result::kFails;
  return Versioned<kQuick>(step.index, frame_ops::TypeVersion(reinterpret_cast<PyTypeObject*>(object)));
}

PyObject* CompiledProgram::Run::ReadNow(const GuardStep& step) {
  const Read& read = image.reads[static_cast<std::size_t>(step.source)];
  return ReadSource(read, memory.objects[static_cast<std::size_t>(read.base)], frame, owned);
}

bool CompiledProgram::Run::HoldsBetween(const GuardStep& step, PyObject* object) {
  PyObject* const other = memory.objects[static_cast<std::size_t>(step.index)];
  return static_cast<const GuardKindRow*>(step.operand)->holds_between(object, other);
}

bool CompiledProgram::Run::Distinct(const GuardStep& step) {
  return program.distinct_.Check(image.distinct[static_cast<std::size_t>(step.index)], memory.objects.data());
}

bool CompiledProgram::Run::Overlap() {
  std::vector<MemoryRange>& ranges = program.ranges_;
  ranges.clear();
  for (SourceId source : image.overlap.sources) {
    ranges.push_back(TensorMemory(memory.objects[static_cast<std::size_t>(source)]));
  }
  return program.overlap_.Check(ranges);
}

bool CompiledProgram::Run::Value(const ReadValue& value) {
  absl::InlinedVector<PyObject*, 4> tensors;
  for (SourceId source : value.sources) tensors.push_back(memory.objects[static_cast<std::size_t>(source)]);
  return value.fact->Holds(tensors);
}

// kMain: the steps are `full` or `quick`, which can be read beyond their end; each then starts the cache misses of a
// step to come.
template <bool kQuick, bool kMain>
CompiledProgram::Result CompiledProgram::Run::Steps(const GuardStep* step, const GuardStep* end) {
  PyObject** const objects = memory.objects.data();
  for (; step != end; ++step) {
    PyObject* const object = objects[step->source];
    if (kMain) PrefetchObject(objects[step[kLookAhead].source]);
    Result result = Result::kHolds;
    switch (step->op) {
      case StepOp::kReadLocal:
        result = Store<kQuick>(*step, step->index < frame.slot_count ? frame.slots[step->index] : nullptr);
        break;
      case StepOp::kRead:
        result = Store<kQuick>(*step, ReadNow(*step));
        break;
      case StepOp::kTypeIs:
        if (object == nullptr || Py_TYPE(object) != step->operand) return Result::kFails;
        break;
      case StepOp::kIs:
        if (object != step->operand) return Result::kFails;
        break;
      case StepOp::kTensor:
        if (!CheckTensor(*static_cast<const TensorSpec*>(step->operand), object)) return Result::kFails;
        break;
      case StepOp::kTensors:
        if (!CheckTensors(image.tensors, objects, memory.hints.data())) return Result::kFails;
        break;
      case StepOp::kFact:
        if (!Holds(*static_cast<const Fact*>(step->operand), object)) return Result::kFails;
        break;
      case StepOp::kInstanceBlock:
        result = object != nullptr ? InstanceBlock<kQuick>(*step, object) : Result::kFails;
        break;
      case StepOp::kInstances:
        result = Instances(image.runs[static_cast<std::size_t>(step->index)]);
        break;
      case StepOp::kItemsBlock:
        result = object != nullptr ? ItemsBlock<kQuick>(*step, object) : Result::kFails;
        break;
      case StepOp::kTypeBlock:
        result = object != nullptr ? TypeBlock<kQuick>(*step, object) : Result::kFails;
        break;
      case StepOp::kTwoValues:
        if (!HoldsBetween(*step, object)) return Result::kFails;
        break;
      case StepOp::kDistinct:
        if (!Distinct(*step)) return Result::kFails;
        break;
      case StepOp::kGlobalState:
        if (ReadGlobalState(image.torch_state.values.settings != 0) != image.torch_state.values) return Result::kFails;
        break;
      case StepOp::kOverlap:
        if (!Overlap()) return Result::kFails;
        break;
      case StepOp::kValue:
        if (!Value(image.values[static_cast<std::size_t>(step->index)].read)) return Result::kFails;
        break;
    }
    if (result != Result::kHolds) return result;
  }
  return Result::kHolds;
}

CompiledProgram::CompiledProgram(std::unique_ptr<ProgramImage> image)
    : image_(std::move(image)),
      use_quick_(SavedBlocks(*image_) >= kMinSavedBlocks),
      of_items_(image_->blocks.size(), false),
      overlap_(image_->overlap.fact) {
  for (const GuardStep& step : image_->full) {
    if (step.op == StepOp::kItemsBlock) of_items_[static_cast<std::size_t>(step.index)] = true;
  }
}

PyObject* CompiledProgram::ReadAnchor(const FrameView& frame) const {
  PyObject* object = nullptr;
  std::vector<Ref> none;  // no anchor path makes an object
  for (SourceId source : image_->anchor) {
    object = ReadSource(image_->reads[static_cast<std::size_t>(source)], object, frame, &none);
    if (object == nullptr) return nullptr;
  }
  return object;
}

CompiledProgram::Memory& CompiledProgram::SelectMemory(PyObject* anchor) const {
  for (std::size_t i = 0; i < memories_.size(); ++i) {
    if (memories_[i]->anchor != anchor) continue;
    if (i != 0)
      std::rotate(memories_.begin(), memories_.begin() + static_cast<std::ptrdiff_t>(i),
                  memories_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    return *memories_.front();
  }
  if (memories_.size() < kMaxMemories) memories_.push_back(std::make_unique<Memory>());
  std::rotate(memories_.begin(), memories_.end() - 1, memories_.end());
  Memory& memory = *memories_.front();
  memory.anchor = anchor;
  memory.epoch = 0;
  memory.objects.assign(image_->reads.size(), nullptr);
  memory.tags.assign(image_->blocks.size(), 0);
  memory.dicts.assign(image_->blocks.size() + kLookAhead, nullptr);
  memory.restless.assign(image_->blocks.size(), nullptr);
  memory.hints.assign(image_->tensors.size(), TensorHint());
  for (std::size_t i = 0; i < image_->reads.size(); ++i) {
    if (image_->reads[i].kind == SourceKind::kConstant) memory.objects[i] = image_->reads[i].constant.get().get();
  }
  return memory;
}

// After a success: the epoch follows the dicts that were looked at.
void CompiledProgram::KeepDicts(Memory& memory) const {
  memory.restless_items.clear();
  for (std::size_t block = 0; block < memory.restless.size(); ++block) {
    memory.restless[block] = nullptr;
    PyObject*& dict = memory.dicts[block];
    if (dict == nullptr || !PyDict_Check(dict) || KeepInEpoch(dict)) continue;
    if (of_items_[block]) {
      memory.restless_items.push_back(static_cast<std::int32_t>(block));
    } else {
      memory.restless[block] = std::exchange(dict, nullptr);
    }
  }
}

bool CompiledProgram::Check(const FrameView& frame, ResolvedSources* resolved) const noexcept {
  ResolvedSources unused;
  if (resolved == nullptr) resolved = &unused;
  resolved->owned.clear();
  for (const Held* constant : image_->weak_constants) {
    if (!constant->get()) return false;
  }
  Memory& memory = SelectMemory(ReadAnchor(frame));
  resolved->objects = memory.objects.data();
  Run run{*image_, memory, frame, &resolved->owned, *this};
  const std::uint64_t epoch = use_quick_ ? DictEpoch() : 0;
  if (epoch != 0 && epoch == memory.epoch && run.RestlessItemsHold()) {
    const std::vector<GuardStep>& quick = image_->quick;
    const Result result = run.Steps<true, true>(quick.data(), quick.data() + quick.size() - kLookAhead);
    if (result != Result::kStale) return result == Result::kHolds;
    resolved->owned.clear();
  }
  memory.epoch = 0;
  const std::vector<GuardStep>& full = image_->full;
  if (run.Steps<false, true>(full.data(), full.data() + full.size() - kLookAhead) != Result::kHolds) return false;
  if (use_quick_ && EpochFollowsKeptDicts()) KeepDicts(memory);
  memory.epoch = epoch;
  return true;
}

bool CompiledProgram::IsDead() const {
  const auto dead = [](const Held& held) { return held.weak() && !held.get(); };
  for (const Held* constant : image_->weak_constants) {
    if (dead(*constant)) return true;
  }
  return std::any_of(image_->facts.begin(), image_->facts.end(), [&](const Fact& fact) {
    return dead(fact.expected) || std::any_of(fact.elements.begin(), fact.elements.end(), dead);
  });
}

std::string CompiledProgram::Explain(const FrameView& frame) const { return ExplainImage(*image_, frame); }

std::vector<GuardProgram::OtherSizes> CompiledProgram::FindOtherSizes(const FrameView& frame) const {
  return framefuse::FindOtherSizes(*image_, frame);
}

std::string CompiledProgram::PythonText(const std::string& name) const { return ImageText(*image_, name); }

}  // namespace framefuse
