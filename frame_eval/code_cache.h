// CodeCache: what is known about a code object, kept in its extra slot: entries and state flags for each
// (owner, instruction offset), the most recently hit entry first.
// An Owner stands for compiled objects with equal backend, mode and options: they share entries. Limits count for each
// compiled object (a Maker). A site's data dies with the code object, with the last compiled object of its owner, or by
// Reset.
// Invariant: all functions need the GIL. Destroying an entry may run Python and so re-enter the cache: no function
// destroys entries while it walks the cache's own structures, and an entry that runs is held by its runner.
#ifndef FRAMEFUSE_FRAME_EVAL_CODE_CACHE_H_
#define FRAMEFUSE_FRAME_EVAL_CODE_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "common/compile_id.h"
#include "frame_eval/entry.h"

namespace framefuse {

class CodeCache;

class Owner {
 public:
  // The owner with this key, made if there is none alive. `kept` is an object that gives the key its meaning (a
  // backend's callable, whose address is part of the key); it lives as long as the owner.
  static std::shared_ptr<Owner> Intern(std::string_view key, Ref kept = {});
  // An owner that nobody else can get.
  static std::shared_ptr<Owner> MakePrivate(std::string_view key, Ref kept = {});
  // Drops the owner's entries everywhere.
  ~Owner();

  const std::string& key() const { return key_; }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;

 private:
  Owner(std::string_view key, Ref kept) : key_(key), kept_(std::move(kept)) {}
  std::string key_;
  Ref kept_;
  bool shared_ = false;
};

// The compiled object that made an entry.
using MakerId = std::uint64_t;

// When a place that could not be compiled is tried again: at each of the next calls, then after 1, 2, 4 … calls. Never
// given up for good: what made it fail may be one call's arguments.
class Retries {
 public:
  // False: this call has to wait.
  [[nodiscard]] bool MayTry();
  void NoteFailure(std::string why);
  const std::string& last_failure() const { return last_failure_; }
  void NoteSuccess() { *this = Retries(); }

 private:
  static constexpr int kEachCall = 3;
  static constexpr int kLongest = 512;
  int failures_ = 0;
  int calls_to_wait_ = 0;
  std::string last_failure_;
};

// Which guards made a place be compiled again, how often, and for which values.
class FailedGuards {
 public:
  // What Entry::Explain says: `GUARD failed: VALUES (PLACE)`.
  void Note(const std::string& explanation);
  // The one that failed most, with its last values; empty if none did.
  std::string Most() const;

 private:
  struct Failed {
    std::string guard, last;
    std::vector<std::string> values;  // the last ones, each once
    int times = 0;
  };
  std::vector<Failed> failed_;
  int times_ = 0;
};

// When an entry gives its place to another one at a limit: after as many calls that found none. Twice as many each time
// that the last one which came so was of no use: code that has other values in each call ends with few captures.
class Turnover {
 public:
  void NoteMiss() { ++waited_; }
  bool Allows(std::uint64_t misses_since_use) const { return waited_ >= patience_ && misses_since_use >= patience_; }
  void NoteReplaced(const std::shared_ptr<Entry>& by);

 private:
  static constexpr std::uint64_t kFirst = 64;
  static constexpr std::uint64_t kLongest = std::uint64_t{1} << 20;
  std::uint64_t patience_ = kFirst;
  std::uint64_t waited_ = 0;
  bool has_replaced_ = false;
  std::weak_ptr<Entry> latest_;
};

// One (code object, owner, offset). Hold it by shared_ptr across anything that can run Python: a Reset takes it out
// of the cache, and writes to it then have no effect.
class Site {
 public:
  // The first entry that `matches`, those that `maker` made first, moved to the front; null if none. `matches` must not
  // run Python.
  std::shared_ptr<Entry> Find(MakerId maker, absl::FunctionRef<bool(const Entry&)> matches);
  // `shown`: the user's code that it was made for, which many compiled objects may have a wrapper in common for.
  void Install(std::shared_ptr<Entry> entry, MakerId maker, const void* shown = nullptr);
  // Takes one entry out (it turned out to be wrong, or its guards can never hold again).
  void Remove(const Entry* entry);
  void RemoveDead();
  // Entries in a row that were removed as dead before any call found them: what they expect is made in each call anew.
  std::size_t died_unfound() const { return died_unfound_; }
  // A copy, in order of use: safe to walk while Python runs.
  std::vector<std::shared_ptr<Entry>> Entries() const;
  std::vector<std::shared_ptr<Entry>> EntriesOf(MakerId maker) const;
  std::size_t CountOf(MakerId maker) const;
  bool empty() const { return made_.empty(); }
  std::size_t size() const { return made_.size(); }
  // True the first time that it is called for a maker.
  [[nodiscard]] bool NoteLimit(MakerId maker) { return at_limit_.insert(maker).second; }

  // Whose limit is met: `maker`'s, or, with kAllMakers, that of all for `shown`.
  struct Kin {
    MakerId maker;
    const void* shown;
  };
  static constexpr MakerId kAllMakers = 0;
  // At a limit, once for each call that no entry fits: whether the one used least recently may leave for a new one.
  [[nodiscard]] bool MayReplace(Kin kin);
  // The one used least recently leaves for `by`, which is not installed yet. False: there is none.
  bool Replace(Kin kin, const std::shared_ptr<Entry>& by);

  std::size_t CountShown(const void* shown) const;

  // The name of the next compilation here.
  [[nodiscard]] CompileId NextCompileId();

  Retries retries;
  FailedGuards failed_guards;
  int recompiles = 0;

 private:
  friend class CodeCache;
  struct Made {
    std::shared_ptr<Entry> entry;
    MakerId maker;
    const void* shown;
    std::uint64_t last_use;  // in misses_at_limit_
  };
  using MadeEntries = std::vector<Made>;
  MadeEntries::iterator Oldest(Kin kin);
  MadeEntries made_;  // by last use, the latest first
  absl::flat_hash_map<MakerId, Turnover> turnovers_;
  absl::flat_hash_set<MakerId> at_limit_;
  std::uint64_t misses_at_limit_ = 0;
  std::size_t died_unfound_ = 0;
  CompileId last_id_;
};

class CodeCache {
 public:
  // Null where nothing is known yet.
  static std::shared_ptr<Site> Find(BorrowedRefOf<PyCodeObject> code, const Owner& owner, int offset);
  // Made if needed.
  static std::shared_ptr<Site> Get(BorrowedRefOf<PyCodeObject> code, const Owner& owner, int offset);
  // For the hot path: no reference taken; valid until Python runs.
  static Site* Peek(BorrowedRefOf<PyCodeObject> code, const Owner& owner, int offset);

  // Entries of one owner at all offsets of a code object.
  static std::size_t CountEntries(BorrowedRefOf<PyCodeObject> code, const Owner& owner);
  // Entries of all owners at the site's offset that were made for `shown`.
  static std::size_t CountShown(BorrowedRefOf<PyCodeObject> code, const Site& site, const void* shown);
  // All offsets of a code object for which the owner has a site.
  static std::vector<int> Offsets(BorrowedRefOf<PyCodeObject> code, const Owner& owner);
  // Drops everything of all owners and code objects.
  static void Reset();
  // Drops what one owner has, on all code objects.
  static void Drop(const Owner& owner);
};

}  // namespace framefuse

#endif  // FRAMEFUSE_FRAME_EVAL_CODE_CACHE_H_
