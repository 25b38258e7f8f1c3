// GuardSet: guards collected during a capture, equal ones once.
#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "guards/guard.h"
#include "guards/immutable.h"
#include "guards/program_builder.h"

namespace framefuse {

struct GuardSet::State {
  std::vector<TensorSpec> specs;
  bool has_global_state = false;
  GlobalState global_state;
  std::vector<Ref> modes;
  std::vector<SourceId> overlap_sources;
  OverlapFact overlap;
  // Hash of a guard → indices of guards with that hash.
  absl::flat_hash_map<std::size_t, std::vector<std::size_t>> index;
};

namespace {

// Lists and sets (of keys, of elements) are equal guards only as one object; their content is not hashed.
std::size_t HashGuard(SourceId source, GuardKind kind, BorrowedRef expected, std::int64_t aux) {
  return absl::HashOf(source, static_cast<int>(kind), expected ? HashImmutable(expected) : 0, aux);
}

bool SameExpected(BorrowedRef a, BorrowedRef b) { return !a || !b ? !a && !b : SameImmutable(a, b); }

}  // namespace

GuardSet::GuardSet(SourceTable* sources) : sources_(sources), state_(std::make_unique<State>()) {}
GuardSet::~GuardSet() = default;

bool GuardSet::Add(SourceId source, GuardKind kind, BorrowedRef expected, const UserLocation& where, std::int64_t aux) {
  std::vector<std::size_t>& bucket = state_->index[HashGuard(source, kind, expected, aux)];
  for (std::size_t i : bucket) {
    const Guard& g = guards_[i];
    if (g.source == source && g.kind == kind && g.aux == aux && SameExpected(g.expected, expected)) return false;
  }
  bucket.push_back(guards_.size());
  guards_.push_back(Guard{source, kind, Ref::Create(expected.get()), aux, where});
  return true;
}

bool GuardSet::AddLength(SourceId source, std::int64_t length, const UserLocation& where) {
  return Add(source, GuardKind::kLength, nullptr, where, length);
}

bool GuardSet::AddTypeLookup(SourceId type_source, BorrowedRef name, BorrowedRef found_or_null,
                             const UserLocation& where, std::int64_t version) {
  Ref pair = Ref::Steal(found_or_null ? PyTuple_Pack(2, name.get(), found_or_null.get()) : PyTuple_Pack(1, name.get()));
  if (!pair) {
    PyErr_Clear();
    return false;
  }
  return Add(type_source, GuardKind::kTypeLookup, pair, where, version);
}

bool GuardSet::AddTensor(SourceId source, BorrowedRef tensor, const UserLocation& where) {
  std::vector<std::size_t>& bucket = state_->index[HashGuard(source, GuardKind::kTensor, nullptr, -1)];
  for (std::size_t i : bucket) {
    if (guards_[i].source == source && guards_[i].kind == GuardKind::kTensor) return false;
  }
  TensorSpec spec;
  if (!RecordTensor(tensor, &spec)) return false;
  // Layers repeat: few specs serve many parameters, and stay in the cache.
  std::vector<TensorSpec>& specs = state_->specs;
  const auto same = std::find(specs.begin(), specs.end(), spec);
  const auto number = static_cast<std::int64_t>(same - specs.begin());
  if (same == specs.end()) specs.push_back(std::move(spec));
  bucket.push_back(guards_.size());
  guards_.push_back(Guard{source, GuardKind::kTensor, nullptr, number, where});
  return true;
}

void GuardSet::AddGlobalState() {
  if (state_->has_global_state) return;
  state_->has_global_state = true;
  state_->global_state = ReadGlobalState();
  for (const void* mode : {state_->global_state.top_function_mode, state_->global_state.top_dispatch_mode}) {
    if (mode != nullptr) state_->modes.push_back(Ref::Create(static_cast<PyObject*>(const_cast<void*>(mode))));
  }
  guards_.push_back(Guard{kNoSource, GuardKind::kGlobalState, nullptr, 0, {}});
}

void GuardSet::AddOverlap(absl::Span<const SourceId> tensor_sources, absl::Span<const BorrowedRef> tensors) {
  if (tensor_sources.size() < 2 || !state_->overlap_sources.empty()) return;
  std::vector<MemoryRange> ranges;
  for (BorrowedRef tensor : tensors) ranges.push_back(TensorMemory(tensor));
  state_->overlap_sources.assign(tensor_sources.begin(), tensor_sources.end());
  state_->overlap = FindOverlap(ranges);
  guards_.push_back(Guard{kNoSource, GuardKind::kOverlap, nullptr, 0, {}});
}

absl::StatusOr<std::unique_ptr<GuardProgram>> GuardSet::Compile(absl::Span<const SourceId> also_resolve,
                                                                std::vector<std::string> slot_names) const {
  auto image = std::make_unique<ProgramImage>();
  image->slot_names = std::move(slot_names);
  image->specs = state_->specs;
  image->has_global_state = state_->has_global_state;
  image->global_state = state_->global_state;
  image->modes = state_->modes;
  image->overlap_sources = state_->overlap_sources;
  image->overlap = state_->overlap;
  image->guard_count = guards_.size();
  return BuildProgram(std::move(image), *sources_, guards_, also_resolve);
}

}  // namespace framefuse
