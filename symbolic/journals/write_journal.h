// WriteJournal: what an attempt is to do to the world when its entry runs: writes to objects and globals that existed
// before, as overlays, and calls that are made for real.
// Invariant: no object that existed before is changed by the attempt (soundness rule 2). An attempt holds what the
// program drops, so the graph breaks before the drop of an object whose end may run code: a finaliser, or the callback
// of a weak reference.
#ifndef FRAMEFUSE_SYMBOLIC_JOURNALS_WRITE_JOURNAL_H_
#define FRAMEFUSE_SYMBOLIC_JOURNALS_WRITE_JOURNAL_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "symbolic/ambient/torch_state.h"
#include "symbolic/entry/deferred_warnings.h"
#include "symbolic/evaluator/value.h"
#include "symbolic/journals/tracked.h"

namespace framefuse {

class BreakController;
class ReadJournal;

// A call of functools.lru_cache's wrapper, or of an ABC's check, that fills its cache, or a deferred call.
struct CachedCall {
  Ref wrapper;
  Ref args;
  Ref kwargs;           // or null
  Ref key;              // in the cache; null: of none of functools.lru_cache
  Value result;         // null like the key
  bool missed = false;  // the result was not in the cache: captured code made it
  // The call of a function that only notes its arguments: made for those that are there after the frame.
  bool deferred = false;
  bool always = false;                  // made in any case: a record of a log, a hook
  std::shared_ptr<const void> history;  // of a hook: the node of autograd's that the tensor had
};

class WriteJournal {
 public:
  using GlobalWrites = std::vector<std::pair<Ref, std::vector<OverlayWrite>>>;  // by globals dict
  struct Counts {
    std::uint64_t writes = 0;
    std::size_t changes = 0;
    int open_ranges = 0;
    friend bool operator==(const Counts& a, const Counts& b) {
      return a.writes == b.writes && a.changes == b.changes && a.open_ranges == b.open_ranges;
    }
  };

  WriteJournal(BreakController& breaks, ReadJournal& reads, const TrackedTable& tracked)
      : breaks_(breaks), reads_(reads), tracked_(tracked) {}

  // ---- tracked objects; false: broke
  [[nodiscard]] bool Write(Tracked& t, BorrowedRef key, Ref value);  // a null value is a deletion
  void TakeBack(Tracked& variable);                                  // a context variable is as it was before the frame
  [[nodiscard]] bool Replace(Tracked& t);                            // a container's contents, by its shadow's
  [[nodiscard]] bool ReplaceGrown();  // defaultdicts that C code asked for what was not there
  // The set gets the element, or loses it: in any later call, whatever its table looks like.
  [[nodiscard]] bool AddOrDiscard(Tracked& set, BorrowedRef element, bool adds);
  // Appending to a list that was not read needs no guard on what it holds.
  static bool AppendsUnread(const Tracked& t) {
    return t.kind == TrackedKind::kList && (!t.realised || t.appended_from >= 0);
  }
  [[nodiscard]] bool AppendUnread(Tracked& list, BorrowedRef item);

  // ---- classes that existed before: plain values under plain names
  [[nodiscard]] bool WriteClassAttr(Tracked& cls, BorrowedRef name, Ref value);  // false: broke
  bool has_class_writes() const { return has_class_writes_; }
  // What the class itself, or the first class of its order that has anything under the name, was given; null: nothing.
  OverlayWrite* FindOwnClassWrite(PyTypeObject* cls, BorrowedRef name) const;
  OverlayWrite* FindClassWrite(PyTypeObject* type, BorrowedRef name) const;

  // ---- globals
  OverlayWrite* FindGlobal(BorrowedRef globals, BorrowedRef name);  // a null value: it was deleted
  // A null value: it is deleted. False: broke.
  [[nodiscard]] bool WriteGlobal(BorrowedRef globals, BorrowedRef name, BorrowedRef value);
  const GlobalWrites& globals() const { return globals_; }

  // ---- ends of objects
  [[nodiscard]] bool BeforeDrop(ValueView old);      // a local gives it up; false: broke
  [[nodiscard]] bool BeforeEnd(BorrowedRef object);  // of an object that existed before and may end now; false: broke
  // What was kept by it may have ended, too: a weak reference tells.
  bool AnyMayHaveEnded() const { return any_ended_; }

  // ---- classes
  // Python leaves a note of a class's slots in it when the first object of it is copied.
  void LeaveSlotNames(BorrowedRef cls) { noted_classes_.push_back(Ref::Create(cls)); }
  const std::vector<Ref>& noted_classes() const { return noted_classes_; }
  [[nodiscard]] bool WriteSlotNames() const;  // now, in the classes; false: one does not keep them

  // ---- calls
  void AddCall(CachedCall call) { calls_.push_back(std::move(call)); }
  const std::vector<CachedCall>& calls() const { return calls_; }
  [[nodiscard]] bool AddWarning(DeferredWarning warning);
  const std::vector<DeferredWarning>& warnings() const { return warnings_; }
  // A deferred call reads these objects: the graph ends before a write to one.
  void Settle(const std::vector<const Tracked*>& objects) {
    settled_.insert(settled_.end(), objects.begin(), objects.end());
  }
  // Profiler ranges and the library's locks that were entered in this attempt and are still open.
  void EnterRange() { ++open_ranges_; }
  void LeaveRange() { --open_ranges_; }
  int open_ranges() const { return open_ranges_; }

  // Of torch, what the graph's operators go by, where that is not as the attempt found it.
  void NoteRunState(const TorchState& state) { run_state_ = state; }
  const std::optional<TorchState>& run_state() const { return run_state_; }

  std::uint64_t count() const { return count_; }  // of writes to objects that existed before
  Counts CountEffects() const;
  void Clear() { globals_.clear(); }

 private:
  [[nodiscard]] bool BeforeChange(const Tracked& t);
  [[nodiscard]] bool BeforeOverwrite(Tracked& t, BorrowedRef key);
  [[nodiscard]] bool BeforeReplacing(const Tracked& t);

  BreakController& breaks_;
  ReadJournal& reads_;
  const TrackedTable& tracked_;
  GlobalWrites globals_;
  std::vector<CachedCall> calls_;
  std::optional<TorchState> run_state_;
  std::vector<DeferredWarning> warnings_;
  std::vector<const Tracked*> settled_;
  std::vector<Ref> noted_classes_;
  std::uint64_t count_ = 0;
  int open_ranges_ = 0;
  bool any_ended_ = false;
  bool has_class_writes_ = false;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_JOURNALS_WRITE_JOURNAL_H_
