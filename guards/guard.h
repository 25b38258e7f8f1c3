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
#include "guards/leaf/distinct.h"
#include "guards/leaf/value.h"
#include "guards/source.h"

namespace framefuse {

enum class GuardKind : std::uint8_t {
  kTypeIs,      // type(value) is expected
  kIdentity,    // value is expected (also None/True/False)
  kEquals,      // same exact type and value (floats by their bits): immutables as of IsImmutable, torch.device;
                // the same object where equality is object's own (torch.dtype …)
  kLength,      // raw length of a list, tuple, dict, set, deque, str or bytes (or a subclass of one)
  kKeys,        // exact dict or OrderedDict: these keys (list or tuple) in this order
  kHasKey,      // exact dict `value` contains key `expected`
  kLacksKey,    // exact dict `value` lacks key `expected` (also module dicts, globals, builtins)
  kLacksAttr,   // instance dict/inline values of `value` lack the name `expected`
  kOwnNames,    // the instance dict (an exact one) or inline values of `value` hold these names (list or tuple) in this
                // order, and no others
  kSetEquals,   // exact set/frozenset: expected's elements in expected's iteration order (a set, list or tuple)
  kSetLayout,   // exact set/frozenset: its elements stand in its table as expected's do, with what was discarded
  kTypeLookup,  // frame_ops::TypeLookup(value, name) is the expected object; expected: (name, object), or (name,) for
                // absent; where aux is not 0 it is the version tag that the type `value` has instead; of a name of
                // guards/class_order.h: the classes that the type is made of
  kTypeLookups,     // many such look-ups of one type: expected has the names that are found, what they give, and the
                    // names that are absent (three tuples); aux: the type's version tag at which that was so, or 0
  kTensor,          // tensor metadata (expected: a TensorSpec, see leaf/tensor.h)
  kCellEmpty,       // cell has no contents
  kGlobalState,     // grad mode, inference mode, autocast, default dtype/device, deterministic, num_threads …
  kOverlap,         // storage overlap partition of the input tensors (one per entry)
  kNull,            // slot is unbound (null)
  kSameAs,          // value is the very object of source `aux`
  kDistinctFrom,    // value is not the object of source `aux`
  kDistinct,        // no written object of a group is another object of it (one per group, see leaf/distinct.h)
  kValueOfTensors,  // a number or a size that follows from the data of some tensors (see leaf/value.h); aux: its index
};

// A call in inlined code. Places below it share it.
struct CallerLocation {
  Ref file;  // co_filename
  std::int32_t line = 0;
  bool is_user = true;  // no installed package's code
  std::shared_ptr<const CallerLocation> caller;
};

struct UserLocation {
  RefOf<PyCodeObject> code;
  std::int32_t line = 0;
  bool is_user = true;
  std::shared_ptr<const CallerLocation> caller;  // null: the outermost frame that is captured
};

struct Guard {
  SourceId source = kNoSource;
  GuardKind kind = GuardKind::kTypeIs;
  Ref expected;
  std::int64_t aux = 0;  // kLength: the length; kTensor: index of its spec; relations: the other source
  UserLocation where;
};

class GuardProgram;
struct TensorSpec;

class GuardSet {
 public:
  explicit GuardSet(SourceTable* sources);
  // Adds a guard unless an equal one is there. Returns whether it was added.
  bool Add(SourceId source, GuardKind kind, BorrowedRef expected, const UserLocation& where, std::int64_t aux = 0);
  bool AddLength(SourceId source, std::int64_t length, const UserLocation& where);
  // Look-ups in types are not compared with what is there: who makes them knows which were made.
  // `version` other than 0: the type's version tag stands for what was found, which is then not kept alive.
  void AddTypeLookup(SourceId type_source, BorrowedRef name, BorrowedRef found_or_null, const UserLocation& where,
                     std::int64_t version = 0);
  // `lookups` as a guard of kind kTypeLookups has them.
  void AddTypeLookups(SourceId type_source, BorrowedRef lookups, const UserLocation& where, std::int64_t version);
  // Records dtype, device, layout, sizes, strides, requires_grad, key set, subclass … of a live tensor (see
  // leaf/tensor.h). A second call for the same source is ignored. False also where `tensor` is none.
  bool AddTensor(SourceId source, BorrowedRef tensor, const UserLocation& where);
  // The guard of AddTensor compares the storage offset, too.
  void AddStorageOffset(SourceId source, BorrowedRef tensor);
  void AddStorage(SourceId source, BorrowedRef tensor);  // its offset, and the bytes of the storage
  // The guard of AddTensor compares whether it is a leaf, too.
  void AddLeaf(SourceId source, BorrowedRef tensor);
  // The guard of AddTensor compares that no attribute of its own hides one of its class, too.
  void AddShownClass(SourceId source, BorrowedRef tensor);
  // The guard of AddTensor leaves these dimensions out (bit i: dimension i). False: it compares them.
  bool FreeSizes(SourceId source, std::uint32_t sizes, std::uint32_t strides);
  // Records the dispatcher-wide state that every capture depends on, as it is now. To be called before the capture
  // changes any of it (the thread-local Fake key, grad mode …).
  void AddGlobalState();
  // Compares torch_settings.h, too: those of now.
  void AddTorchSettings();
  // Records how the storages of these tensors overlap, as it is now (soundness rule 11): tensors[i] is the live
  // value of tensor_sources[i].
  void AddOverlap(absl::Span<const SourceId> tensor_sources, absl::Span<const BorrowedRef> tensors);

  // Records that no object of `group` that is written is another of it.
  void AddDistinct(DistinctObjects group);

  // Records what the program read of the data of tensors, which have guards on their metadata.
  void AddValue(ReadValue value, const UserLocation& where);

  // Compiles; `also_resolve` are sources that the entry loads even if no guard names them.
  // `slot_names` are the names of the frame's slots, for texts.
  absl::StatusOr<std::unique_ptr<GuardProgram>> Compile(absl::Span<const SourceId> also_resolve,
                                                        std::vector<std::string> slot_names) const;
  const std::vector<Guard>& guards() const { return guards_; }
  ~GuardSet();
  GuardSet(const GuardSet&) = delete;
  GuardSet& operator=(const GuardSet&) = delete;

 private:
  struct State;  // tensor specs, global state, overlap partition, dedupe index
  void AddToTensor(SourceId source, BorrowedRef tensor, bool (*record)(BorrowedRef, TensorSpec*));
  SourceTable* sources_;
  std::vector<Guard> guards_;
  std::unique_ptr<State> state_;
};

// Values of sources for one call, by SourceId: objects[id] is borrowed from live state or from `owned`. Valid for the
// guarded sources, those in `also_resolve`, and their bases. The array belongs to the program: take references before
// anything runs that may check the same program again.
struct ResolvedSources {
  PyObject* const* objects = nullptr;
  std::vector<Ref> owned;
};

class GuardProgram {
 public:
  virtual ~GuardProgram() = default;
  // Resolves every source once, in order, and checks each guard. On success `resolved` (which may be null) holds the
  // value of every source that was asked for. Never sets a Python error.
  virtual bool Check(const FrameView& frame, ResolvedSources* resolved) const noexcept = 0;
  virtual bool IsDead() const = 0;                                    // an expected object is gone
  virtual std::string Explain(const FrameView& frame) const = 0;      // empty: all hold
  virtual std::string PythonText(const std::string& name) const = 0;  // one readable function
  virtual std::size_t guard_count() const = 0;
  // Tensors of which other sizes are there now than those compared, or other strides than when they were recorded, and
  // integers, by the text of their source.
  struct OtherSizes {
    std::string source;
    std::vector<int> dims, strides;
    bool is_number() const { return dims.empty() && strides.empty(); }
  };
  virtual std::vector<OtherSizes> FindOtherSizes(const FrameView& frame) const = 0;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_GUARDS_GUARD_H_
