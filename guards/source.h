// Source: where a value that existed before the frame came from, as a closed variant.
// Invariant: sources are hash-consed in one SourceTable per capture; a base's id is smaller than its
// user's, so ids are a topological order. Id 0 means "no source" (a fresh value).
// A source can be resolved on a FrameView (raw, without running Python) and printed as Python text.
#ifndef FRAMEFUSE_GUARDS_SOURCE_H_
#define FRAMEFUSE_GUARDS_SOURCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "frame_eval/ref.h"

namespace framefuse {

using SourceId = std::int32_t;
inline constexpr SourceId kNoSource = 0;

enum class SourceKind : std::uint8_t {
  kNone,
  kLocal,             // frame slot `index` (localsplus: arguments, cells, free variables, then the stack)
  kClosureCell,       // cell object `index` of the frame's own function (func.__closure__[index])
  kFunction,          // the frame's function object
  kGlobals,           // the frame's globals dict
  kBuiltins,          // the frame's builtins dict
  kHandledException,  // the exception that the thread is handling, as sys.exception() gives it; absent if none
  kAbcToken,          // abc.get_cache_token(): another number whenever a class is registered with an ABC
  kConstant,          // `key` itself: an object the entry keeps alive (a module of torch, say)
  kCellContents,      // contents of the cell object `base`
  kInstanceAttr,      // `key` in the instance dict (or inline values) of `base`; never runs descriptors
  kInstanceDict,      // base.__dict__ as an object (only where it is materialised already)
  kSlotAttr,          // member descriptor (__slots__) `key` (the descriptor object) read from `base`
  kType,              // type(base)
  kTypeAttr,          // `key` looked up in base.__mro__ (base is a type), raw
  kItem,              // base[key], base an exact dict/OrderedDict/list/tuple/deque…; key an int or an immutable
  kModuleAttr,        // `key` in the dict of the module `base`
  kDefault,           // base.__defaults__[index] of the function `base`
  kKwDefault,         // base.__kwdefaults__[key]
  kFunctionCell,      // base.__closure__[index] of the function `base` (the cell object)
  kFunctionField,  // base.__code__ / __globals__ / __dict__ … (`key` names it) of the function `base`; a class's names
  kMethodSelf,     // base.__self__ of a bound method
  kMethodFunction,  // base.__func__ of a bound method; the method descriptor of a bound C method
  kTensorGrad,      // base.grad of a tensor
  kWeakrefTarget,   // what the weak reference `base` refers to; None once it is dead
  kContextValue,    // what the context variable `base` is set to, or the token `base` sets it back to; or absent
  kContextDefault,  // what the context variable `base` gives where it is not set; the variable of a usable token
  kCachedResult,    // what functools.lru_cache's wrapper `base` keeps for the call `key`; absent if nothing
  kMaxlen,          // base.maxlen of a deque
  kLength,          // len(base) of a container, raw (RawLength)
  kViewed,          // the mapping that `base` is a view or a read-only proxy of
  kTensorOfArray,   // torch.from_numpy(base), or a list's numbers (guards/leaf/number_list.h), made anew in each call:
                    // `index` tells several of one array apart
  kThreadDict,      // the attributes that the threading.local `base` has in the calling thread, as a dict
  kPartialField,    // base.func / args / keywords of functools.partial (`key` names it)
};

struct Source {
  SourceKind kind = SourceKind::kNone;
  SourceId base = kNoSource;
  std::int32_t index = 0;
  Ref key;  // kept alive; compared by type and value for immutables, by identity otherwise
};

class SourceTable {
 public:
  SourceTable();
  SourceTable(const SourceTable&) = delete;
  SourceTable& operator=(const SourceTable&) = delete;
  // Returns the id of an equal source, or adds it.
  SourceId Intern(SourceKind kind, SourceId base, std::int32_t index, BorrowedRef key);
  SourceId Local(int slot) { return Intern(SourceKind::kLocal, kNoSource, slot, nullptr); }
  SourceId InstanceAttr(SourceId base, BorrowedRef name) { return Intern(SourceKind::kInstanceAttr, base, 0, name); }
  SourceId Item(SourceId base, BorrowedRef key) { return Intern(SourceKind::kItem, base, 0, key); }

  const Source& operator[](SourceId id) const { return sources_[static_cast<std::size_t>(id)]; }
  SourceId size() const { return static_cast<SourceId>(sources_.size()); }
  // As PrintSource, below.
  std::string Print(SourceId id, const std::vector<std::string>& local_names) const;

 private:
  // A source by its id and the hash of its content: a slot is small, for the table is gone through in no order.
  struct Indexed {
    std::uint32_t hash;
    SourceId id;
  };
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(const Indexed& i) const { return i.hash; }
    std::size_t operator()(const Source& s) const;
  };
  struct Equal {
    using is_transparent = void;
    bool operator()(const Indexed& a, const Indexed& b) const { return a.id == b.id; }
    bool operator()(const Indexed& a, const Source& b) const;
    const std::vector<Source>* sources;
  };
  std::vector<Source> sources_;
  absl::flat_hash_set<Indexed, Hash, Equal> index_;
};

// Python text as a user would write it: L['x'].weight, G['torch'], L['self']._modules['fc'] …
// `sources` are indexed by SourceId, `local_names` are the frame's slot names.
std::string PrintSource(absl::Span<const Source> sources, SourceId id, const std::vector<std::string>& local_names);

}  // namespace framefuse

#endif  // FRAMEFUSE_GUARDS_SOURCE_H_
