// Read: one Source made ready to be resolved: its key hashed, its field chosen.
// Resolving is raw: no descriptor, no __getattr__, no hash or equality of a user type runs, and an instance's __dict__
// is never materialised.
// Invariant: ReadSource leaves no Python error and returns null where the value is absent or its base has another
// shape.
#ifndef FRAMEFUSE_GUARDS_READ_H_
#define FRAMEFUSE_GUARDS_READ_H_

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "frame_eval/frame_view.h"
#include "guards/dict_lookup.h"
#include "guards/held.h"
#include "guards/source.h"

namespace framefuse {

// Fields of functions and functools.partial objects that a source may name.
enum class ObjectField : std::uint8_t {
  kNone,
  kCode,
  kGlobals,
  kBuiltins,
  kDict,
  kName,
  kQualifiedName,
  kModule,
  kDoc,
  kDefaults,
  kKwDefaults,
  kClosure,
  kAnnotations,
  kTypeParameters,
  kAnnotate,
  kPartialFunction,
  kPartialArguments,
  kPartialKeywords,
};

struct Read {
  SourceKind kind = SourceKind::kNone;
  ObjectField field = ObjectField::kNone;
  SourceId base = kNoSource;
  std::int32_t index = 0;    // as the source's; for items of sequences, the key as an integer
  bool integer_key = false;  // the key is an int (or a bool): may index a sequence
  Py_ssize_t offset = 0;     // kSlotAttr: where the member lies
  Held constant;             // kConstant: the object; kSlotAttr: the descriptor's class; kCachedResult: the key
  std::optional<DictKey> key;
};

// Into a new `read`.
absl::Status MakeRead(const Source& source, Read* read);

// abc's cache token: a C function without arguments gives it; one number is the same object while it lasts.
PyObject* ReadAbcToken();

// What the context variable is set to in the current context; null: it is not set, or is no context variable.
Ref ValueInContext(BorrowedRef variable);
// What a variable that is not set gives; null: nothing.
Ref DefaultInContext(BorrowedRef variable);

// Allocating a container may start a cyclic collection, and so run finalisers: not while one of these lives.
class GcPause {
 public:
  GcPause() : was_enabled_(PyGC_Disable() != 0) {}
  ~GcPause() {
    if (was_enabled_) PyGC_Enable();
  }
  GcPause(const GcPause&) = delete;
  GcPause& operator=(const GcPause&) = delete;

 private:
  bool was_enabled_;
};

// `base` is the base's value (null for sources without one). The result is borrowed from live state, or from `owned`
// if it had to be made.
PyObject* ReadSource(const Read& read, PyObject* base, const FrameView& frame, std::vector<Ref>* owned);

// The dict whose version covers every instance attribute, item or module attribute of `object`; null if there is none
// (inline values, sequences).
PyObject* InstanceDictOf(PyObject* object);
// The method descriptor that a C method bound to an instance (`[].append`) came from; null for other builtins.
PyObject* DescriptorOfBoundMethod(PyObject* builtin);

// Length of list, tuple, dict, set, deque, str and bytes (and subclasses, as their C storage has it); -1 otherwise.
Py_ssize_t RawLength(BorrowedRef object);

bool IsOrderedDict(BorrowedRef object);

}  // namespace framefuse

#endif  // FRAMEFUSE_GUARDS_READ_H_
