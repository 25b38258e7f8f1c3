// Tracked: an object that existed before the frame and was seen by it: original ↔ representative ↔ source.
// The representative is what the evaluator sees: a fake for a tensor, a shadow for a builtin container, the
// object itself for everything else. Writes go to the overlay (attributes, cells, dict items) or to the
// shadow, never to the original; the close of the capture turns them into effects.
// Invariant: one representative an object for the whole capture (soundness rule 6). Owned by the ObjectTable.
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_TRACKED_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_TRACKED_H_

#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "frame_eval/ref.h"
#include "guards/source.h"
#include "symbolic/rules/leaf_types.h"

namespace framefuse {

struct MadeArray;

enum class TrackedKind : std::uint8_t {
  kTensor,
  kList,
  kTuple,  // exact tuple or a subclass without a dict (namedtuple)
  kDict,   // exact dict, OrderedDict, defaultdict; like a list, also of a Python class
  kSet,    // exact set or frozenset
  kDeque,
  kCell,
  kContextVariable,
  kInstance,      // of a heap type with generic attribute storage
  kInstanceDict,  // __dict__ of `owner`
  kFunction,
  kModule,
  kType,
  kCallable,  // builtin functions, bound methods, descriptors, partials: state is read by field
  kView,      // of a dict, or a read-only proxy of one: the representative is one of the dict's representative
  kOpaque,    // anything else
};

// One overlaid write: attribute name, dict key or (null key) a cell's contents or a context variable's value. A null
// value is a deletion.
struct OverlayWrite {
  Ref key;
  Ref value;
  bool reinserted = false;  // deleted before: the key moves behind the others
};

struct Tracked {
  TrackedKind kind = TrackedKind::kOpaque;
  SourceId source = kNoSource;
  Ref original;
  Ref representative;
  Tracked* owner = nullptr;       // kInstanceDict, and the attributes of a container
  Tracked* dict = nullptr;        // its __dict__, where that was looked at
  Tracked* attributes = nullptr;  // of a container of a Python class: a kInstance of the same object, its `owner` this
  bool realised = false;          // containers: the shadow is filled; a realised __dict__ follows its owner's writes
  bool replaced = false;          // containers: the shadow's contents replace the original's at the end
  bool layout_guarded = false;  // sets: the shadow's table stands as that of the original in any later call; arrays: as
  Ref memory_of;                // of an array: the tensor that was made here and whose memory it has
  std::shared_ptr<const MadeArray> made;  // of an array: numpy makes it when the graph has run
  bool compared = false;                  // C code may have looked whether another object is this one
  bool drawn = false;                     // a generator that drew: what it holds by now is not known
  bool shows_class = false;               // of a tensor: guarded that its attributes hide none of its class
  int appended_from = -1;                 // lists: only appends so far; the shadow holds just the appended items
  std::vector<OverlayWrite> writes;       // of a set: what is added (with a value) and discarded, step by step

  bool is_container() const {
    return kind == TrackedKind::kList || kind == TrackedKind::kDict || kind == TrackedKind::kSet ||
           kind == TrackedKind::kDeque || kind == TrackedKind::kTuple;
  }
  bool is_empty_array() const { return memory_of || made != nullptr; }  // nothing is in it yet
  bool has_shadow() const { return is_container() || kind == TrackedKind::kInstanceDict; }
  bool mutated() const { return replaced || !writes.empty() || appended_from >= 0; }
  Tracked& holder_of_attributes() { return attributes != nullptr ? *attributes : *this; }
  OverlayWrite* FindWrite(BorrowedRef key);
  void Write(BorrowedRef key, Ref value);
};

class TrackedTable {
 public:
  Tracked* FindByOriginal(BorrowedRef object) const;
  // By what is on the stack; originals that are their own representatives are found too.
  Tracked* Find(BorrowedRef representative) const {
    return IsTextOrNumber(representative) ? nullptr : FindObject(representative);  // leaves are in no table
  }
  Tracked* Add(TrackedKind kind, SourceId source, Ref original, Ref representative);
  void AddAttributes(Tracked* container);
  const std::vector<Tracked*>& default_dicts() const { return default_dicts_; }
  const std::vector<std::unique_ptr<Tracked>>& all() const { return all_; }  // in order of first load

 private:
  Tracked* FindObject(BorrowedRef representative) const;
  std::vector<std::unique_ptr<Tracked>> all_;
  std::vector<Tracked*> default_dicts_;
  absl::flat_hash_map<PyObject*, Tracked*> by_original_;
  absl::flat_hash_map<PyObject*, Tracked*> by_representative_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_TRACKED_H_
