// ReadJournal: what an attempt read of what existed before, as sources and guards. Objects that are tracked are guarded
// where they are adopted (object_table.h); here stand immutable leaves, whose values are guarded when they are
// consumed, look-ups in types, and single facts. Invariant: what the attempt's outcome depends on has a guard
// (soundness rule 1), at the source that a later call has: classes that the attempt made are in none. Guards are only
// added.
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_READ_JOURNAL_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_READ_JOURNAL_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "guards/guard.h"
#include "guards/source.h"
#include "symbolic/evaluator/value.h"
#include "symbolic/journals/backward_phase.h"

namespace framefuse {

class BreakController;
class MadeClasses;
class FrameStack;
struct Tracked;
namespace tracing {
class Tracer;
}

class ReadJournal {
 public:
  ReadJournal(FrameStack& frames, BreakController& breaks, const BackwardPhase& backward, MadeClasses& classes,
              tracing::Tracer& tracer);

  SourceTable& sources() { return sources_; }
  GuardSet& guards() { return guards_; }

  // ---- sources
  SourceId ConstantSource(BorrowedRef object);
  // Of an object that a guard on its container knows: a key of a dict, an element of a set. An entry holds it weakly.
  SourceId ElementSource(BorrowedRef object);
  SourceId TypeAttr(PyTypeObject* type, BorrowedRef name);
  // As a later call has it; null: of this attempt.
  std::optional<SourceId> Rebase(SourceId source) const;
  bool MayRead(SourceId source) const { return backward_.MayRead(sources_[source].kind); }  // false: broke

  // ---- guards
  void AddGuard(SourceId source, GuardKind kind, BorrowedRef expected, int aux = 0);
  // Pins a symbolic one.
  void AddLength(SourceId source, std::int64_t length);
  bool IsLengthGuarded(SourceId source) const;
  void NoteSymbolicLength(SourceId source, BorrowedRef number) { lengths_.try_emplace(source, Ref::Create(number)); }
  void AddTensor(SourceId source, BorrowedRef tensor);
  // What order writes give, and what is made of a set as a whole, depends on where its elements stand.
  void GuardSetLayout(Tracked& set);
  void GuardTypeOfLeaf(ValueView v);  // an immutable leaf's type is read and its value is not
  void GuardNothingHandled();         // at the frame's start

  // ---- immutable leaves
  // It is there, even if its value never matters.
  void NoteLeaf(SourceId source);
  const std::vector<SourceId>& leaves() const { return leaves_; }  // must be there in each call
  // Guards an immutable leaf's value. Consume: somebody looks at it, which pins a symbolic size. Move: it goes on
  // without its source, to where its value will be looked at or not.
  void Consume(ValueView v);
  void Move(ValueView v);
  void PinNumber(BorrowedRef object);  // symbolic sizes that it is or holds
  // Where a leaf that goes on without its source came from: in a later call an equal object may be there.
  SourceId SourceOfConsumed(BorrowedRef leaf) const;
  // The same, to load it from there. Where it came from several places, they must hold one object in a later call, too.
  SourceId SourceToLoad(BorrowedRef leaf);
  // False: a graph break, for a guard would have to call the key's own hash or equality.
  [[nodiscard]] bool GuardLacksKey(SourceId dict, BorrowedRef key);
  // Whether two leaves are one object is a fact of its own. False: broke.
  [[nodiscard]] bool GuardLeafIdentity(ValueView left, ValueView right, bool same);

  // ---- types
  // frame_ops::TypeLookup with its guard; borrowed or null.
  BorrowedRef LookupInType(PyTypeObject* type, BorrowedRef name);
  BorrowedRef LookupInType(PyTypeObject* type, const char* name);
  // All dunder look-ups that C slots of a heap type make; false: broke.
  [[nodiscard]] bool GuardProtocolMethods(PyTypeObject* type);
  // Of the types that were looked at: the text of an error of C code's has names of classes, which a program may
  // change.
  void GuardNamesIn(BorrowedRef error);

  void EndLookups() { type_lookups_.clear(); }  // they may hold what dies with the attempt

 private:
  // A name in a class, as its bases define it.
  struct TypeLookup {
    Ref name;
    Ref found;
  };
  enum LeafFact : std::uint8_t { kRead = 1, kConsumed = 2 };

  bool IsNewsOfLeaf(SourceId source, LeafFact fact);
  [[nodiscard]] bool GuardLostIdentity(ValueView left, ValueView right, bool same);

  FrameStack& frames_;
  BreakController& breaks_;
  const BackwardPhase& backward_;
  MadeClasses& classes_;
  tracing::Tracer& tracer_;
  SourceTable sources_;
  GuardSet guards_;
  std::vector<SourceId> leaves_;
  std::vector<std::uint8_t> leaf_facts_;                                              // by source
  absl::flat_hash_map<PyObject*, absl::InlinedVector<SourceId, 1>> consumed_leaves_;  // held by their guards
  absl::flat_hash_map<SourceId, Ref> lengths_;    // that are symbolic, and null: those that are guarded
  absl::flat_hash_set<SourceId> number_sources_;  // of symbolic numbers
  absl::flat_hash_map<std::pair<PyTypeObject*, PyObject*>, TypeLookup> type_lookups_;
  absl::flat_hash_set<PyTypeObject*> guarded_protocols_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_READ_JOURNAL_H_
