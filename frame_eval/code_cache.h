// CodeCache: what is known about a code object, kept in its extra slot: entries and state flags for each
// (owner, instruction offset), the most recently hit entry first.
// An Owner stands for compiled objects with equal backend, mode and options: they share entries, and limits count per
// owner. A site's data dies with the code object, with the last compiled object of its owner, or by Reset.
// Invariant: all functions need the GIL. Destroying an entry may run Python and so re-enter the cache: no function
// destroys entries while it walks the cache's own structures, and an entry that runs is held by its runner.
#ifndef FRAMEFUSE_FRAME_EVAL_CODE_CACHE_H_
#define FRAMEFUSE_FRAME_EVAL_CODE_CACHE_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
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

// One (code object, owner, offset). Hold it by shared_ptr across anything that can run Python: a Reset takes it out
// of the cache, and writes to it then have no effect.
class Site {
 public:
  // The first entry that `matches`, moved to the front; null if none. `matches` must not run Python.
  std::shared_ptr<Entry> Find(absl::FunctionRef<bool(const Entry&)> matches);
  void Install(std::shared_ptr<Entry> entry);
  // Takes one entry out (it turned out to be wrong, or its guards can never hold again).
  void Remove(const Entry* entry);
  void RemoveDead();
  // A copy, in order of use: safe to walk while Python runs.
  std::vector<std::shared_ptr<Entry>> Entries() const { return entries_; }
  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }

  bool skip = false;  // never try again; entries that are there stay usable
  std::string skip_reason;
  int compile_failures = 0;
  int recompiles = 0;
  bool limit_reported = false;

 private:
  friend class CodeCache;
  std::vector<std::shared_ptr<Entry>> entries_;
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
  // All offsets of a code object for which the owner has a site.
  static std::vector<int> Offsets(BorrowedRefOf<PyCodeObject> code, const Owner& owner);
  // Drops everything of all owners and code objects.
  static void Reset();
  // Drops what one owner has, on all code objects.
  static void Drop(const Owner& owner);
};

}  // namespace framefuse

#endif  // FRAMEFUSE_FRAME_EVAL_CODE_CACHE_H_
