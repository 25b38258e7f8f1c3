// ObjectTable: the objects of an attempt. Those that existed before are adopted: each gets its one representative, with
// the guards that seeing it implies (tracked.h). Of those that the attempt made it knows functions and __dict__s.
// Invariant: one representative an object (soundness rule 6); an object and the dict of its attributes are not both
// adopted, for writes to one would be seen in the other.
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_OBJECT_TABLE_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_OBJECT_TABLE_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "guards/source.h"
#include "symbolic/evaluator/activation.h"
#include "symbolic/journals/tracked.h"
#include "symbolic/tracing/tracer.h"

namespace framefuse {

class BreakController;
class FrameStack;
class NativeBoundary;
class ReadJournal;
class Symbols;

struct TensorInput {
  SourceId source;
  Ref real, fake;
};

// A DTensor, whose local tensor is an input.
struct ShardedInput {
  int input;  // its number among the tensor inputs
  SourceId source;
  Ref entrance;  // framefuse._sharded.Entrance
  Ref inside;    // what the program sees
  std::vector<std::uintptr_t> state;
};

class ObjectTable {
 public:
  ObjectTable(const FrameStack& frames, BreakController& breaks, NativeBoundary& boundary, ReadJournal& reads,
              Symbols& symbols, tracing::Tracer& tracer, bool takes_sharded)
      : frames_(frames),
        breaks_(breaks),
        boundary_(boundary),
        reads_(reads),
        symbols_(symbols),
        tracer_(tracer),
        takes_sharded_(takes_sharded) {}

  // ---- what existed before
  // The value with its representative; null: broke, or an error is set.
  Value Adopt(BorrowedRef original, SourceId source);
  Value AdoptLocal(Activation& act, BorrowedRef original, int slot);
  // The object's __dict__, as a representative.
  Tracked* InstanceDictOf(Tracked& instance);
  static TrackedKind Classify(BorrowedRef original);
  // A key of a dict or an element of a set, which a guard on the whole compares. False: an error is set, or
  // captured code could read of it what no guard compares.
  [[nodiscard]] bool AdoptElement(BorrowedRef element);
  // Compared by its value: it may be another object in the next call.
  bool IsElementByValue(BorrowedRef object) const { return elements_by_value_.contains(object.get()); }

  const TrackedTable& tracked() const { return tracked_; }
  Tracked* Find(BorrowedRef representative) const { return tracked_.Find(representative); }
  Tracked* FindByOriginal(BorrowedRef original) const { return tracked_.FindByOriginal(original); }
  // In the order of their first load.
  const std::vector<TensorInput>& tensor_inputs() const { return tensor_inputs_; }
  const std::vector<ShardedInput>& sharded_inputs() const { return sharded_inputs_; }
  bool AreShardedAsTheyCame() const;
  // An input for a number that a generator at `source` draws.
  void AddDrawn(SourceId source, BorrowedRef real, const Ref& fake) {
    tensor_inputs_.push_back({source, Ref::Create(real), fake});
  }
  // Whether DTensors can be taken here, with a guard on what decides it. False: broke.
  bool MayTakeSharded();
  // An input was made by operations that require grad.
  bool has_history_from_outside() const { return has_history_from_outside_; }

  // An empty dict that is only tested needs no representative. False: it has one, or may not be taken for itself.
  [[nodiscard]] bool NoteEmptyDict(SourceId source, BorrowedRef original);
  // Objects of one type, one of which is written: as one object in another call they would mean another program.
  void GuardDistinctObjects();

  // ---- what was made here
  void NoteFreshFunction(BorrowedRef f) { fresh_functions_.insert(f.get()); }
  bool IsFreshFunction(BorrowedRef f) const { return fresh_functions_.contains(f.get()); }
  void NoteFreshDict(BorrowedRef dict, BorrowedRef owner);
  // An array that has the memory of a tensor made here: captured code may not read it.
  void NoteArray(BorrowedRef array, BorrowedRef tensor);
  void NoteUnknown(BorrowedRef object);  // made when the entry runs: captured code may keep it and ask nothing
  void NoteMadeArray(BorrowedRef array, MadeArray how);  // read no more than that
  bool has_empty_arrays() const { return has_empty_arrays_; }
  bool IsEmptyArray(BorrowedRef object) const;
  // The object made in this attempt whose __dict__ this is, or none.
  BorrowedRef OwnerOfDict(BorrowedRef dict) const;

  void ClearTracked() { tracked_ = TrackedTable(); }
  void ClearFresh() { fresh_dicts_.clear(); }

 private:
  // The __dict__ that was read of an object made here.
  struct FreshDict {
    Ref dict;
    Ref owner;
  };
  // Found empty, and not tracked then.
  struct TestedDict {
    SourceId source;
    PyObject* original;  // held by the program for the whole attempt, which changes nothing
  };

  Value AdoptContainer(TrackedKind kind, BorrowedRef original, SourceId source);
  Value AdoptView(BorrowedRef original, SourceId source);
  Value AdoptContainerOfClass(TrackedKind kind, BorrowedRef original, SourceId source);
  Value AdoptTuple(BorrowedRef original, SourceId source);
  Value AdoptTensor(BorrowedRef original, SourceId source);
  Value AdoptSharded(BorrowedRef original, SourceId source);
  Value AdoptObject(TrackedKind kind, BorrowedRef original, SourceId source);
  bool IsDictOfInstance(TrackedKind kind, BorrowedRef original);
  void GuardFunction(BorrowedRef original, SourceId source);
  void GuardObject(TrackedKind kind, BorrowedRef original, SourceId source);
  void GuardDictsOfInstances();

  const FrameStack& frames_;
  BreakController& breaks_;
  NativeBoundary& boundary_;
  ReadJournal& reads_;
  Symbols& symbols_;
  tracing::Tracer& tracer_;
  TrackedTable tracked_;
  const bool takes_sharded_;
  std::vector<TensorInput> tensor_inputs_;
  std::vector<ShardedInput> sharded_inputs_;
  bool has_history_from_outside_ = false;
  bool has_empty_arrays_ = false;
  absl::flat_hash_set<PyObject*> instance_dicts_;  // of the instances that were adopted
  std::vector<TestedDict> tested_dicts_;
  absl::flat_hash_set<PyObject*> elements_by_value_;
  absl::flat_hash_set<PyObject*> fresh_functions_;
  absl::flat_hash_map<PyObject*, FreshDict> fresh_dicts_;  // by the dict
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_OBJECT_TABLE_H_
