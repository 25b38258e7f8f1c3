// SymbolicKeys: symbolic numbers that are looked for in small containers of plain ones: `step in milestones`,
// `rates.get(step)`, and integers in a range. One answer serves all numbers that the container tells nothing apart of.
// Invariant: what the answer rests on is guarded: the container's keys or elements, the values of those that count as
// alike, and a fact about the number.
#ifndef FRAMEFUSE_SYMBOLIC_PROTOCOLS_SYMBOLIC_KEYS_H_
#define FRAMEFUSE_SYMBOLIC_PROTOCOLS_SYMBOLIC_KEYS_H_

#include <cstdint>
#include <optional>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "symbolic/evaluator/protocols.h"

namespace framefuse {

class BreakController;
class Journals;
class NativeArguments;
class ObjectContents;
class ObjectTable;
namespace tracing {
class Tracer;
}

class SymbolicKeys {
 public:
  explicit SymbolicKeys(Journals& journals);

  // Nothing: it is looked up as a plain number.
  std::optional<Truth> IsIn(ValueView number, ValueView container);
  // The plain integer by which a dict, looked at as a whole from now on, gives what it gives for `key`; nothing: `key`
  // itself is to be looked up. Of a key that is absent too, if the caller does not name it in an error.
  std::optional<Ref> PlainKey(ValueView dict, ValueView key, bool absent_too);
  // Whether guards tell `key` from each that the dict, looked at as a whole from now on, has: it may be looked for, put
  // there and deleted without being pinned. `contents`: where.
  Truth Keeps(ValueView dict, ValueView key, BorrowedRef* contents);

 private:
  using Integers = absl::InlinedVector<std::int64_t, 8>;
  bool IsSymbolic(ValueView v) const;
  std::optional<Ref> ElementsOf(ValueView container);  // of few; nothing: of others
  bool IsOneOf(BorrowedRef number, absl::Span<const std::int64_t> values);
  std::optional<Truth> IsInRange(ValueView number, ValueView range);
  bool IsFoundByValue(BorrowedRef number, BorrowedRef elements);
  bool IsToldFrom(BorrowedRef number, absl::Span<PyObject* const> keys);
  std::optional<bool> Compare(BorrowedRef number, BorrowedRef elements);

  tracing::Tracer& tracer_;
  BreakController& breaks_;
  ObjectTable& objects_;
  ObjectContents& contents_;
  NativeArguments& arguments_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_PROTOCOLS_SYMBOLIC_KEYS_H_
