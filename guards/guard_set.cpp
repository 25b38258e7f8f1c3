// GuardSet: guards collected during a capture, equal ones once.
#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "guards/guard.h"
#include "guards/immutable.h"
#include "guards/leaf/torch_settings.h"
#include "guards/program_builder.h"

namespace framefuse {

namespace {

// What makes two guards one; a source has one guard on its tensor, whose spec's number (aux) does not count.
struct GuardKey {
  SourceId source;
  GuardKind kind;
  BorrowedRef expected;
  std::int64_t aux;
};

GuardKey KeyOf(const Guard& g) { return {g.source, g.kind, g.expected, g.kind == GuardKind::kTensor ? -1 : g.aux}; }

bool SameExpected(BorrowedRef a, BorrowedRef b) { return !a || !b ? !a && !b : SameImmutable(a, b); }

// A guard by its index and the hash of its key. Lists and sets (of keys, of elements) are equal guards only as one
// object; their content is not hashed.
struct IndexedGuard {
  std::size_t hash;
  std::uint32_t index;
};
std::size_t HashOfKey(const GuardKey& k) {
  return absl::HashOf(k.source, static_cast<int>(k.kind), k.expected ? HashImmutable(k.expected) : 0, k.aux);
}

struct GuardHash {
  using is_transparent = void;
  std::size_t operator()(const IndexedGuard& g) const { return g.hash; }
  std::size_t operator()(const GuardKey& k) const { return HashOfKey(k); }
};

struct GuardEqual {
  using is_transparent = void;
  bool operator()(const IndexedGuard& a, const IndexedGuard& b) const { return a.index == b.index; }
  bool operator()(const IndexedGuard& a, const GuardKey& b) const {
    const GuardKey key = KeyOf((*guards)[a.index]);
    return key.source == b.source && key.kind == b.kind && key.aux == b.aux && SameExpected(key.expected, b.expected);
  }
  const std::vector<Guard>* guards;
};

}  // namespace

// Of a small model.
constexpr std::size_t kExpectedGuards = 256;

struct GuardSet::State {
  explicit State(const std::vector<Guard>* guards) : index(0, GuardHash(), GuardEqual{guards}) {}
  std::vector<TensorSpec> specs;
  GuardedState torch_state;
  GuardedMemory overlap;
  std::vector<DistinctObjects> distinct;
  std::vector<ReadValue> values;
  absl::flat_hash_set<IndexedGuard, GuardHash, GuardEqual> index;

  // Layers repeat: few specs serve many parameters, and stay in the cache.
  std::int64_t NumberOf(TensorSpec spec) {
    const auto same = std::find(specs.begin(), specs.end(), spec);
    const auto number = static_cast<std::int64_t>(same - specs.begin());
    if (same == specs.end()) specs.push_back(std::move(spec));
    return number;
  }
};

GuardSet::GuardSet(SourceTable* sources) : sources_(sources), state_(std::make_unique<State>(&guards_)) {
  guards_.reserve(kExpectedGuards);
  state_->index.reserve(kExpectedGuards);
}

GuardSet::~GuardSet() = default;

bool GuardSet::Add(SourceId source, GuardKind kind, BorrowedRef expected, const UserLocation& where, std::int64_t aux) {
  const GuardKey key{source, kind, expected, aux};
  const std::size_t hash = HashOfKey(key);
  if (state_->index.find(key, hash) != state_->index.end()) return false;
  state_->index.insert(IndexedGuard{hash, static_cast<std::uint32_t>(guards_.size())});
  guards_.push_back(Guard{source, kind, Ref::Create(expected.get()), aux, where});
  return true;
}

bool GuardSet::AddLength(SourceId source, std::int64_t length, const UserLocation& where) {
  return Add(source, GuardKind::kLength, nullptr, where, length);
}

void GuardSet::AddTypeLookup(SourceId type_source, BorrowedRef name, BorrowedRef found_or_null,
                             const UserLocation& where, std::int64_t version) {
  Ref pair = Ref::Steal(found_or_null ? PyTuple_Pack(2, name.get(), found_or_null.get()) : PyTuple_Pack(1, name.get()));
  guards_.push_back(Guard{type_source, GuardKind::kTypeLookup, std::move(pair), version, where});
}

void GuardSet::AddTypeLookups(SourceId type_source, BorrowedRef lookups, const UserLocation& where,
                              std::int64_t version) {
  guards_.push_back(Guard{type_source, GuardKind::kTypeLookups, Ref::Create(lookups.get()), version, where});
}

bool GuardSet::AddTensor(SourceId source, BorrowedRef tensor, const UserLocation& where) {
  const GuardKey key{source, GuardKind::kTensor, nullptr, -1};
  const std::size_t hash = HashOfKey(key);
  if (state_->index.find(key, hash) != state_->index.end()) return false;
  TensorSpec spec;
  if (!RecordTensor(tensor, &spec)) return false;
  const std::int64_t number = state_->NumberOf(std::move(spec));
  state_->index.insert(IndexedGuard{hash, static_cast<std::uint32_t>(guards_.size())});
  guards_.push_back(Guard{source, GuardKind::kTensor, nullptr, number, where});
  return true;
}

void GuardSet::AddToTensor(SourceId source, BorrowedRef tensor, bool (*record)(BorrowedRef, TensorSpec*)) {
  AddTensor(source, tensor, UserLocation());
  for (Guard& g : guards_) {
    if (g.source != source || g.kind != GuardKind::kTensor) continue;
    TensorSpec spec = state_->specs[static_cast<std::size_t>(g.aux)];
    if (record(tensor, &spec)) g.aux = state_->NumberOf(std::move(spec));
  }
}

void GuardSet::AddStorageOffset(SourceId source, BorrowedRef tensor) { AddToTensor(source, tensor, RecordOffset); }

void GuardSet::AddStorage(SourceId source, BorrowedRef tensor) { AddToTensor(source, tensor, RecordStorage); }

void GuardSet::AddLeaf(SourceId source, BorrowedRef tensor) { AddToTensor(source, tensor, RecordLeaf); }

void GuardSet::AddShownClass(SourceId source, BorrowedRef tensor) { AddToTensor(source, tensor, RecordShownClass); }

bool GuardSet::FreeSizes(SourceId source, std::uint32_t sizes, std::uint32_t strides) {
  for (Guard& g : guards_) {
    if (g.source != source || g.kind != GuardKind::kTensor) continue;
    TensorSpec spec = state_->specs[static_cast<std::size_t>(g.aux)];
    if (!framefuse::FreeSizes(&spec, sizes, strides)) return false;
    g.aux = state_->NumberOf(std::move(spec));
  }
  return true;
}

void GuardSet::AddGlobalState() {
  GuardedState& state = state_->torch_state;
  if (state.present) return;
  state.present = true;
  state.values = ReadGlobalState();
  for (const void* mode : {state.values.top_function_mode, state.values.top_dispatch_mode}) {
    if (mode != nullptr) state.modes.push_back(Ref::Create(static_cast<PyObject*>(const_cast<void*>(mode))));
  }
  guards_.push_back(Guard{kNoSource, GuardKind::kGlobalState, nullptr, 0, {}});
}

void GuardSet::AddTorchSettings() { state_->torch_state.values.settings = ReadTorchSettings(); }

void GuardSet::AddOverlap(absl::Span<const SourceId> tensor_sources, absl::Span<const BorrowedRef> tensors) {
  if (tensor_sources.size() < 2 || !state_->overlap.sources.empty()) return;
  std::vector<MemoryRange> ranges;
  for (BorrowedRef tensor : tensors) ranges.push_back(TensorMemory(tensor));
  state_->overlap.sources.assign(tensor_sources.begin(), tensor_sources.end());
  state_->overlap.fact = FindOverlap(ranges);
  guards_.push_back(Guard{kNoSource, GuardKind::kOverlap, nullptr, 0, {}});
}

void GuardSet::AddDistinct(DistinctObjects group) {
  if (group.written.empty() || group.written.size() + group.others.size() < 2) return;
  guards_.push_back(
      Guard{kNoSource, GuardKind::kDistinct, nullptr, static_cast<std::int64_t>(state_->distinct.size()), {}});
  state_->distinct.push_back(std::move(group));
}

void GuardSet::AddValue(ReadValue value, const UserLocation& where) {
  guards_.push_back(
      Guard{kNoSource, GuardKind::kValueOfTensors, nullptr, static_cast<std::int64_t>(state_->values.size()), where});
  state_->values.push_back(std::move(value));
}

absl::StatusOr<std::unique_ptr<GuardProgram>> GuardSet::Compile(absl::Span<const SourceId> also_resolve,
                                                                std::vector<std::string> slot_names) const {
  auto image = std::make_unique<ProgramImage>();
  image->slot_names = std::move(slot_names);
  image->specs = state_->specs;
  image->torch_state = state_->torch_state;
  image->overlap = state_->overlap;
  image->distinct = state_->distinct;
  for (const Guard& g : guards_) {
    if (g.kind != GuardKind::kValueOfTensors) continue;
    image->values.push_back({state_->values[static_cast<std::size_t>(g.aux)], LocationOf(g.where)});
  }
  image->guard_count = guards_.size();
  return BuildProgram(std::move(image), *sources_, guards_, also_resolve);
}

}  // namespace framefuse
