// Value: an object on the evaluator's stack or in a local slot, with its Source.
// Invariant: the source is kNoSource for fresh values. Identity-known objects (tensors, containers, user
// objects) find their source in the capture's table; the slot's source matters for immutable leaves, which
// are guarded only when consumed.
#ifndef FRAMEFUSE_SYMBOLIC_EVALUATOR_VALUE_H_
#define FRAMEFUSE_SYMBOLIC_EVALUATOR_VALUE_H_

#include <utility>

#include "frame_eval/ref.h"
#include "guards/source.h"

namespace framefuse {

// Owned result of a protocol. A null object means failure, and a Python error is set: also where the run unwinds, whose
// error no handler matches (BreakController::SetUnwindError). What may be absent is a std::optional<Value>.
struct [[nodiscard]] Value {
  Ref object;
  SourceId source = kNoSource;
  explicit operator bool() const { return static_cast<bool>(object); }
};

// A value lent for the duration of a call.
struct ValueView {
  BorrowedRef object;
  SourceId source = kNoSource;
  ValueView() = default;
  ValueView(BorrowedRef o, SourceId s) : object(o), source(s) {}
  ValueView(const Value& v) : object(v.object), source(v.source) {}  // NOLINT(runtime/explicit)
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_EVALUATOR_VALUE_H_
