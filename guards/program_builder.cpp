#include "guards/program_builder.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "common/coverage.h"
#include "common/indexed_vector.h"
#include "guards/counting_program.h"
#include "guards/immutable.h"
#include "guards/kinds.h"
#include "guards/slow_steps.h"
#include "guards/text.h"

namespace framefuse {
namespace {

enum class BlockKind : std::uint8_t { kInstance, kItems, kType };

// Groups of values: constants, values read on every call, and (from 0 on) the block whose container decides them.
constexpr std::int32_t kStatic = -2;
constexpr std::int32_t kAlways = -1;

// __class__ of an instance cannot be assigned: its type is a fact of the object.
bool IsFixedType(PyTypeObject* type) {
  return (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) != 0 && !PyType_IsSubtype(type, &PyModule_Type);
}

class ProgramBuilder {
 public:
  ProgramBuilder(std::unique_ptr<ProgramImage> image, const SourceTable& sources)
      : image_(std::move(image)), sources_(sources), needed_(static_cast<std::size_t>(sources.size())) {}

  absl::StatusOr<std::unique_ptr<GuardProgram>> Build(absl::Span<const Guard> guards,
                                                      absl::Span<const SourceId> also_resolve);

 private:
  absl::Status CollectFacts(absl::Span<const Guard> guards);
  void Need(SourceId source);
  absl::Status MakeReads();
  void LearnTypes();
  void ResolveConstantTypes();
  void MergeTypeLookups();
  void AssignGroups();
  std::int32_t GroupOf(SourceId source);
  std::int32_t GroupOfFact(const Fact& fact);
  absl::Status EmitFact(const Fact& fact);
  void EmitRead(SourceId source);
  void EmitBlocks(SourceId source);
  void EmitRelations();
  void PadForLookAhead();
  void MakeQuickList();
  void FindAnchor();

  std::int32_t Block(SourceId source, BlockKind kind);
  std::int32_t FindBlock(SourceId source, BlockKind kind) const;
  void Emit(std::int32_t group, const GuardStep& step);
  void EmitAlways(StepOp op, std::size_t index);
  bool IsKnownDict(SourceId source) const;
  bool FollowsFromObject(const Fact& fact) const;
  bool ImpliedByTensor(const Fact& fact) const;
  bool CheckedByBlock(const Fact& fact) const;
  const Read& ReadOf(SourceId source) const { return image_->reads[static_cast<std::size_t>(source)]; }
  std::int32_t& Group(SourceId source) { return group_[source]; }
  PyTypeObject* TypeOf(SourceId source) const { return type_of_[source]; }

  std::unique_ptr<ProgramImage> image_;
  const SourceTable& sources_;
  IndexedVector<SourceId, char> needed_, may_be_null_;
  IndexedVector<SourceId, std::int32_t> group_;
  IndexedVector<SourceId, PyTypeObject*> type_of_;  // as a kTypeIs fact or the kind of source says; null: unknown
  IndexedVector<SourceId, const TensorSpec*> tensor_of_;
  IndexedVector<SourceId, std::array<std::int32_t, 3>> blocks_;  // by source and BlockKind; kAlways: none
  SlowSteps slow_;
};

void ProgramBuilder::Need(SourceId source) {
  for (; source != kNoSource && !needed_[source]; source = sources_[source].base) needed_[source] = 1;
}

// Indices of `items`, in order of source, equal ones as they stand.
template <typename Items>
std::vector<std::uint32_t> InOrderOfSource(const Items& items, SourceId sources) {
  std::vector<std::uint32_t> first(static_cast<std::size_t>(sources) + 1);
  for (const auto& item : items) ++first[static_cast<std::size_t>(item.source) + 1];
  for (std::size_t i = 1; i < first.size(); ++i) first[i] += first[i - 1];
  std::vector<std::uint32_t> order(items.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[first[static_cast<std::size_t>(items[i].source)]++] = i;
  return order;
}

absl::Status ProgramBuilder::CollectFacts(absl::Span<const Guard> guards) {
  for (const Guard& guard : guards) {
    const bool whole = RowOf(guard.kind).scope == GuardScope::kWhole;
    if (whole ? guard.source != kNoSource : guard.source <= kNoSource || guard.source >= sources_.size()) {
      return absl::InvalidArgumentError("a guard names no source");
    }
  }
  image_->facts.reserve(guards.size());
  for (std::uint32_t i : InOrderOfSource(guards, sources_.size())) {
    const Guard& guard = guards[i];
    if (guard.source == kNoSource) continue;
    if (absl::Status status = MakeFact(guard, &image_->facts.emplace_back()); !status.ok()) {
      return absl::InvalidArgumentError(std::string(status.message()) + ": " +
                                        sources_.Print(guard.source, image_->slot_names));
    }
    Need(guard.source);
    if (IsRelation(image_->facts.back())) Need(static_cast<SourceId>(guard.aux));
  }
  for (SourceId source : image_->overlap.sources) Need(source);
  for (const GuardedValue& value : image_->values) {
    for (SourceId source : value.read.sources) Need(source);
  }
  for (const DistinctObjects& group : image_->distinct) {
    for (const DistinctObject& object : group.written) Need(object.source);
    for (const DistinctObject& object : group.others) Need(object.source);
  }
  return absl::OkStatus();
}

absl::Status ProgramBuilder::MakeReads() {
  const auto n = static_cast<std::size_t>(sources_.size());
  image_->reads.resize(n);
  image_->sources.resize(n);
  for (std::size_t i = 1; i < n; ++i) {
    if (!needed_[i]) continue;
    const Source& source = sources_[static_cast<SourceId>(i)];
    if (absl::Status status = MakeRead(source, &image_->reads[i]); !status.ok()) return status;
    image_->sources[i] = source;
    // A key that is a user's object must not live as long as the entry: only its text does.
    if (image_->reads[i].key && image_->reads[i].key->key.weak()) {
      image_->sources[i].key = TextInsteadOf(source.key);
    }
    if (image_->reads[i].constant.weak()) image_->sources[i].key = TextInsteadOf(source.key);
  }
  return absl::OkStatus();
}

void ProgramBuilder::LearnTypes() {
  const std::size_t n = image_->reads.size();
  type_of_.assign(n, nullptr);
  tensor_of_.assign(n, nullptr);
  may_be_null_.assign(n, 0);
  for (std::size_t i = 1; i < n; ++i) {
    const SourceKind kind = image_->reads[i].kind;
    if (kind == SourceKind::kGlobals || kind == SourceKind::kBuiltins || kind == SourceKind::kInstanceDict) {
      type_of_[i] = &PyDict_Type;
    }
    if (kind == SourceKind::kConstant) {
      PyTypeObject* type = image_->reads[i].constant.get().type();
      if (IsFixedType(type)) type_of_[i] = type;
    }
  }
  for (const Fact& fact : image_->facts) {
    const auto i = static_cast<std::size_t>(fact.source);
    if (fact.kind == GuardKind::kTypeIs) type_of_[i] = reinterpret_cast<PyTypeObject*>(fact.expected.get().get());
    if (fact.kind == GuardKind::kTensor) tensor_of_[i] = &image_->specs[static_cast<std::size_t>(fact.number)];
    if (fact.kind == GuardKind::kNull) may_be_null_[i] = 1;
  }
}

// type(x) where x is guarded on its type is a constant.
void ProgramBuilder::ResolveConstantTypes() {
  for (std::size_t i = 1; i < image_->reads.size(); ++i) {
    Read& read = image_->reads[i];
    if (read.kind != SourceKind::kType) continue;
    PyTypeObject* type = TypeOf(read.base);
    if (type == nullptr && tensor_of_[read.base] != nullptr) {
      type = tensor_of_[read.base]->type;
    }
    if (type == nullptr) continue;
    read.kind = SourceKind::kConstant;
    read.base = kNoSource;
    read.constant = Held::ForUse(reinterpret_cast<PyObject*>(type));
  }
}

// Many instances share one type, and each brings the same look-ups: one block a type.
void ProgramBuilder::MergeTypeLookups() {
  absl::flat_hash_map<PyObject*, SourceId> first;
  std::vector<SourceId> first_of(image_->reads.size());
  bool coincide = false;
  for (std::size_t i = 1; i < first_of.size(); ++i) {
    const Read& read = image_->reads[i];
    first_of[i] = static_cast<SourceId>(i);
    if (read.kind != SourceKind::kConstant || !PyType_Check(read.constant.get().get())) continue;
    first_of[i] = first.try_emplace(read.constant.get().get(), first_of[i]).first->second;
    coincide = coincide || first_of[i] != static_cast<SourceId>(i);
  }
  if (!coincide) return;
  const auto canonical = [&](SourceId source) { return first_of[static_cast<std::size_t>(source)]; };
  for (Read& read : image_->reads) {
    if (read.kind == SourceKind::kTypeAttr) read.base = canonical(read.base);
  }
  std::vector<Fact>& facts = image_->facts;
  absl::flat_hash_map<std::pair<SourceId, std::size_t>, const Fact*> seen;
  std::vector<bool> dropped(facts.size());
  for (std::size_t i = 0; i < facts.size(); ++i) {
    Fact& fact = facts[i];
    if (fact.kind == GuardKind::kTypeLookups) fact.source = canonical(fact.source);
    if (fact.kind != GuardKind::kTypeLookup) continue;
    fact.source = canonical(fact.source);
    const auto key = std::make_pair(fact.source, HashImmutable(fact.key.key.reference()));
    auto [it, added] = seen.try_emplace(key, nullptr);
    dropped[i] = !added && SameImmutable(it->second->key.key.reference(), fact.key.key.reference()) &&
                 it->second->expected.reference() == fact.expected.reference();
    if (!dropped[i]) it->second = &fact;
  }
  std::vector<Fact> kept;
  kept.reserve(facts.size());
  for (std::uint32_t i : InOrderOfSource(facts, sources_.size())) {
    if (!dropped[i]) kept.push_back(std::move(facts[i]));
  }
  facts = std::move(kept);
}

std::int32_t ProgramBuilder::Block(SourceId source, BlockKind kind) {
  std::int32_t& block = blocks_[source][static_cast<std::size_t>(kind)];
  if (block == kAlways) block = slow_.NewBlock();
  return block;
}

std::int32_t ProgramBuilder::FindBlock(SourceId source, BlockKind kind) const {
  return blocks_[source][static_cast<std::size_t>(kind)];
}

bool ProgramBuilder::IsKnownDict(SourceId source) const {
  PyTypeObject* type = TypeOf(source);
  return type != nullptr && PyType_IsSubtype(type, &PyDict_Type);
}

std::int32_t ProgramBuilder::GroupOf(SourceId source) {
  const Read& read = ReadOf(source);
  switch (read.kind) {
    case SourceKind::kConstant:
      return kStatic;
    case SourceKind::kInstanceAttr:
    case SourceKind::kModuleAttr:
      return Block(read.base, BlockKind::kInstance);
    case SourceKind::kTypeAttr:
      return Block(read.base, BlockKind::kType);
    case SourceKind::kItem: {
      PyTypeObject* type = TypeOf(read.base);
      // Items of a tuple never change: they are as constant as the tuple.
      if (type != nullptr && PyType_IsSubtype(type, &PyTuple_Type)) return std::max(Group(read.base), kAlways);
      const bool sequence = type != nullptr && !PyType_IsSubtype(type, &PyDict_Type);
      return sequence ? kAlways : Block(read.base, BlockKind::kItems);
    }
    default:
      return kAlways;
  }
}

void ProgramBuilder::AssignGroups() {
  group_.assign(image_->reads.size(), kAlways);
  blocks_.assign(image_->reads.size(), {kAlways, kAlways, kAlways});
  for (std::size_t i = 1; i < image_->reads.size(); ++i) {
    if (needed_[i]) group_[i] = GroupOf(static_cast<SourceId>(i));
  }
}

void ProgramBuilder::Emit(std::int32_t group, const GuardStep& step) {
  if (group >= 0) {
    slow_.Add(group, step);
  } else {
    image_->full.push_back(step);
  }
}

void ProgramBuilder::EmitAlways(StepOp op, std::size_t index) {
  GuardStep step;
  step.op = op;
  step.index = static_cast<std::int32_t>(index);
  image_->full.push_back(step);
}

// True of facts that hold as long as the source's value is the same object.
bool ProgramBuilder::FollowsFromObject(const Fact& fact) const {
  switch (RowOf(fact.kind).decided_by) {
    case DecidedBy::kObject:
      return true;
    case DecidedBy::kTypeOfObject:
      return IsFixedType(reinterpret_cast<PyTypeObject*>(fact.expected.get().get()));
    case DecidedBy::kLength: {
      PyTypeObject* type = TypeOf(fact.source);
      return type == &PyTuple_Type || type == &PyUnicode_Type || type == &PyBytes_Type;
    }
    case DecidedBy::kNothing:
    case DecidedBy::kItems:
    case DecidedBy::kOrderOfItems:
    case DecidedBy::kAttributes:
    case DecidedBy::kClass:
      return false;
  }
  return false;
}

bool ProgramBuilder::ImpliedByTensor(const Fact& fact) const {
  const TensorSpec* spec = tensor_of_[fact.source];
  return fact.kind == GuardKind::kTypeIs && spec != nullptr &&
         fact.expected.Is(reinterpret_cast<PyObject*>(spec->type));
}

// The block of an instance's attributes checks the type first.
bool ProgramBuilder::CheckedByBlock(const Fact& fact) const {
  return fact.kind == GuardKind::kTypeIs && !FollowsFromObject(fact) &&
         fact.expected.Is(reinterpret_cast<PyObject*>(TypeOf(fact.source))) &&
         FindBlock(fact.source, BlockKind::kInstance) != kAlways;
}

void ProgramBuilder::EmitRead(SourceId source) {
  const std::int32_t group = Group(source);
  if (group == kStatic) return;
  GuardStep step;
  step.op = ReadOf(source).kind == SourceKind::kLocal ? StepOp::kReadLocal : StepOp::kRead;
  step.source = source;
  step.index = ReadOf(source).index;
  step.may_be_null = may_be_null_[source] != 0;
  for (BlockKind kind : {BlockKind::kInstance, BlockKind::kItems, BlockKind::kType}) {
    if (FindBlock(source, kind) != kAlways) step.has_block_below = true;
  }
  Emit(group, step);
}

// The group whose steps check it; a container's block if it is decided by the container alone.
std::int32_t ProgramBuilder::GroupOfFact(const Fact& fact) {
  if (FollowsFromObject(fact)) return Group(fact.source);
  switch (RowOf(fact.kind).decided_by) {
    case DecidedBy::kAttributes:
      return Block(fact.source, BlockKind::kInstance);
    case DecidedBy::kClass:
      return Block(fact.source, BlockKind::kType);
    case DecidedBy::kLength:
    case DecidedBy::kItems:
      return IsKnownDict(fact.source) ? Block(fact.source, BlockKind::kItems) : kAlways;
    case DecidedBy::kOrderOfItems: {
      // move_to_end() leaves an OrderedDict's version as it is.
      const bool plain = TypeOf(fact.source) == &PyDict_Type && ReadOf(fact.source).kind != SourceKind::kInstanceDict;
      return plain ? Block(fact.source, BlockKind::kItems) : kAlways;
    }
    case DecidedBy::kNothing:
    case DecidedBy::kObject:
    case DecidedBy::kTypeOfObject:
      return kAlways;
  }
  return kAlways;
}

absl::Status ProgramBuilder::EmitFact(const Fact& fact) {
  if (IsRelation(fact) || ImpliedByTensor(fact) || CheckedByBlock(fact)) return absl::OkStatus();
  const std::int32_t group = GroupOfFact(fact);
  if (group == kStatic) {
    if (Holds(fact, ReadOf(fact.source).constant.get())) return absl::OkStatus();
    return absl::FailedPreconditionError("a guard on a constant does not hold: " +
                                         PrintSource(image_->sources, fact.source, image_->slot_names));
  }
  GuardStep step;
  step.source = fact.source;
  const bool strong = !fact.expected.weak();
  if (fact.kind == GuardKind::kTensor) {
    const TensorSpec* spec = &image_->specs[static_cast<std::size_t>(fact.number)];
    if (ReadOf(fact.source).kind != SourceKind::kLocal) {
      image_->tensors.push_back({spec, fact.source});
      return absl::OkStatus();
    }
    // Arguments at once: they are what differs from one entry of a code object to the next.
    step.op = StepOp::kTensor;
    step.operand = spec;
  } else if ((fact.kind == GuardKind::kTypeIs || fact.kind == GuardKind::kIdentity) && strong) {
    step.op = fact.kind == GuardKind::kTypeIs ? StepOp::kTypeIs : StepOp::kIs;
    step.operand = fact.expected.reference().get();
  } else {
    step.op = StepOp::kFact;
    step.operand = &fact;
  }
  Emit(group, step);
  return absl::OkStatus();
}

void ProgramBuilder::EmitBlocks(SourceId source) {
  const std::pair<BlockKind, StepOp> kinds[] = {{BlockKind::kInstance, StepOp::kInstanceBlock},
                                                {BlockKind::kItems, StepOp::kItemsBlock},
                                                {BlockKind::kType, StepOp::kTypeBlock}};
  for (const auto& [kind, op] : kinds) {
    const std::int32_t block = FindBlock(source, kind);
    if (block == kAlways) continue;
    GuardStep step;
    step.op = op;
    step.source = source;
    step.index = block;
    PyTypeObject* type = TypeOf(source);
    if (kind == BlockKind::kInstance && type != nullptr && !IsFixedType(type)) step.operand = type;
    image_->full.push_back(step);
  }
}

void ProgramBuilder::EmitRelations() {
  if (!image_->tensors.empty()) EmitAlways(StepOp::kTensors, 0);
  for (const Fact& fact : image_->facts) {
    if (!IsRelation(fact)) continue;
    GuardStep step;
    step.op = StepOp::kTwoValues;
    step.operand = &RowOf(fact.kind);
    step.source = fact.source;
    step.index = static_cast<std::int32_t>(fact.number);
    image_->full.push_back(step);
  }
  for (std::size_t i = 0; i < image_->distinct.size(); ++i) EmitAlways(StepOp::kDistinct, i);
  if (!image_->overlap.sources.empty()) EmitAlways(StepOp::kOverlap, 0);
  // Last: the only steps that look at data, of tensors whose metadata holds.
  for (std::size_t i = 0; i < image_->values.size(); ++i) EmitAlways(StepOp::kValue, i);
}

// Blocks of dicts that are the same object as long as what they were read from is unchanged.
void ProgramBuilder::MakeQuickList() {
  for (const GuardStep& step : image_->full) {
    const bool module_constant = step.op == StepOp::kInstanceBlock && Group(step.source) == kStatic &&
                                 PyModule_Check(ReadOf(step.source).constant.get().get());
    const bool known_dict = step.op == StepOp::kItemsBlock && IsKnownDict(step.source);
    if (!module_constant && !known_dict) image_->quick.push_back(step);
  }
  BatchInstances(image_.get());
}

void ProgramBuilder::PadForLookAhead() {
  image_->full.resize(image_->full.size() + kLookAhead);
  image_->quick.resize(image_->quick.size() + kLookAhead);
}

namespace {
// The value may have to be made, or to be held while it is looked at.
bool IsOwnedRead(SourceKind kind) {
  return kind == SourceKind::kTensorGrad || kind == SourceKind::kContextValue || kind == SourceKind::kContextDefault ||
         kind == SourceKind::kLength || kind == SourceKind::kTensorOfArray || kind == SourceKind::kThreadDict;
}
}  // namespace

// The first value read on every call on which a block stands, other than the dicts of the frame.
void ProgramBuilder::FindAnchor() {
  for (const GuardStep& step : image_->full) {
    if ((step.op != StepOp::kRead && step.op != StepOp::kReadLocal) || !step.has_block_below) continue;
    const SourceKind kind = ReadOf(step.source).kind;
    if (kind == SourceKind::kGlobals || kind == SourceKind::kBuiltins || IsOwnedRead(kind)) continue;
    std::vector<SourceId> path;
    for (SourceId s = step.source; s != kNoSource; s = ReadOf(s).base) {
      if (Group(s) != kAlways || IsOwnedRead(ReadOf(s).kind)) return;
      path.push_back(s);
    }
    image_->anchor.assign(path.rbegin(), path.rend());
    return;
  }
}

absl::StatusOr<std::unique_ptr<GuardProgram>> ProgramBuilder::Build(absl::Span<const Guard> guards,
                                                                    absl::Span<const SourceId> also_resolve) {
  if (absl::Status status = CollectFacts(guards); !status.ok()) return status;
  for (SourceId source : also_resolve) Need(source);
  if (absl::Status status = MakeReads(); !status.ok()) return status;
  LearnTypes();
  ResolveConstantTypes();
  for (const Read& read : image_->reads) {
    if (read.constant.weak()) image_->weak_constants.push_back(&read.constant);
  }
  MergeTypeLookups();
  AssignGroups();
  if (image_->torch_state.present) EmitAlways(StepOp::kGlobalState, 0);
  // Blocks that only facts ask for must be known before reads are emitted.
  for (const Fact& fact : image_->facts) {
    if (!IsRelation(fact) && !ImpliedByTensor(fact)) GroupOfFact(fact);
  }
  std::size_t next = 0;
  for (SourceId source = 1; source < sources_.size(); ++source) {
    if (!needed_[source]) continue;
    EmitRead(source);
    for (; next < image_->facts.size() && image_->facts[next].source == source; ++next) {
      if (absl::Status status = EmitFact(image_->facts[next]); !status.ok()) return status;
    }
    EmitBlocks(source);
  }
  EmitRelations();
  slow_.Finish(image_.get());
  MakeQuickList();
  FindAnchor();
  PadForLookAhead();
  auto program = std::make_unique<CompiledProgram>(std::move(image_));
  if (CountsKinds()) return MakeCountingProgram(std::move(program));
  return program;
}

}  // namespace

absl::StatusOr<std::unique_ptr<GuardProgram>> BuildProgram(std::unique_ptr<ProgramImage> image,
                                                           const SourceTable& sources, absl::Span<const Guard> guards,
                                                           absl::Span<const SourceId> also_resolve) {
  return ProgramBuilder(std::move(image), sources).Build(guards, also_resolve);
}

}  // namespace framefuse
