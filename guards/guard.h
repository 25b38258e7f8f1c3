// Guard: one fact about live state that an entry relies on: {Source, Kind, expected, user location}.
// GuardSet collects them during a capture (deduplicated, each read of a container grouped with it);
// GuardProgram is their compiled form. One description yields the fast check, the explaining check and the
// printed Python function, so they cannot disagree.
// Invariant: checking never runs Python code and never materialises an instance's __dict__.
#ifndef FRAMEFUSE_GUARDS_GUARD_H_
#define FRAMEFUSE_GUARDS_GUARD_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "frame_eval/frame_view.h"
#include "frame_eval/ref.h"
#include "guards/source.h"

namespace framefuse {

enum class GuardKind : std::uint8_t {
  kTypeIs,         // type(value) is expected
  kIdentity,       // value is expected (also None/True/False)
  kEquals,         // same exact type and equal: int float (bitwise) complex str bytes, tuples of these
  kLength,         // len of an exact builtin container (ob_size / ma_used / set used)
  kKeys,           // exact dict: these keys (list object) in this order
  kHasKey,         // exact dict `value` contains key `expected`
  kLacksKey,       // exact dict `value` lacks key `expected` (also module dicts, globals, builtins)
  kLacksAttr,      // instance dict/inline values of `value` lack the name `expected`
  kSetEquals,      // exact set/frozenset equal to expected (elements immutable)
  kTypeLookup,     // _PyType_Lookup(value, name) is the expected object (or absent); expected: (name, object|absent)
  kTensor,         // tensor metadata (expected: a TensorSpec, see leaf/tensor.h)
  kCellEmpty,      // cell has no contents
  kGlobalState,    // grad mode, inference mode, autocast, default dtype/device, deterministic, num_threads …
  kOverlap,        // storage overlap partition of the input tensors (one per entry)
  kNull,           // slot is unbound (null)
  kSameAs,         // value is the very object of source `aux`
  kDistinctFrom,   // value is not the object of source `aux` (aliasing of mutated objects)
};

struct UserLocation {
  RefOf<PyCodeObject> code;
  std::int32_t line = 0;
};

struct Guard {
  SourceId source = kNoSource;
  GuardKind kind = GuardKind::kTypeIs;
  Ref expected;
  std::int32_t aux = 0;  // index of a TensorSpec, length, …
  UserLocation where;
};

class GuardProgram;

class GuardSet {
 public:
  explicit GuardSet(SourceTable* sources) : sources_(sources) {}
  // Adds a guard unless an equal one is there. Returns whether it was added.
  bool Add(SourceId source, GuardKind kind, BorrowedRef expected, const UserLocation& where, std::int32_t aux = 0);
  bool AddLength(SourceId source, std::int64_t length, const UserLocation& where);
  bool AddTypeLookup(SourceId type_source, BorrowedRef name, BorrowedRef found_or_null, const UserLocation& where);
  // Records dtype, device, layout, sizes, strides, requires_grad, key set, subclass … of a live tensor.
  bool AddTensor(SourceId source, BorrowedRef tensor, const UserLocation& where);
  // Records the dispatcher-wide state that every capture depends on, as it is now.
  void AddGlobalState();
  // Records how the storages of these tensor sources overlap, as it is now (soundness rule 11).
  void AddOverlap(absl::Span<const SourceId> tensor_sources);

  // Compiles; `also_resolve` are sources that the entry loads even if no guard names them.
  absl::StatusOr<std::unique_ptr<GuardProgram>> Compile(absl::Span<const SourceId> also_resolve,
                                                        std::vector<std::string> slot_names) const;
  const std::vector<Guard>& guards() const { return guards_; }
  ~GuardSet();
  GuardSet(const GuardSet&) = delete;
  GuardSet& operator=(const GuardSet&) = delete;

 private:
  struct State;  // tensor specs, overlap partition, dedupe index
  SourceTable* sources_;
  std::vector<Guard> guards_;
  std::unique_ptr<State> state_;
};

// Values of sources for one call. `objects[id]` is borrowed from live state or owned by `owned`.
struct ResolvedSources {
  std::vector<PyObject*> objects;
  std::vector<Ref> owned;
};

class GuardProgram {
 public:
  virtual ~GuardProgram() = default;
  // Resolves every source once, in order, and checks each guard. On success `resolved` holds the value of
  // every source that was asked for. Never sets a Python error.
  virtual bool Check(const FrameView& frame, ResolvedSources* resolved) const noexcept = 0;
  virtual std::string Explain(const FrameView& frame) const = 0;  // empty: all hold
  virtual std::string PythonText(const std::string& name) const = 0;  // one readable function
  virtual std::size_t guard_count() const = 0;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_GUARDS_GUARD_H_
