// GuardKindRow: all in which one kind of guard differs from another, a row a kind (kinds.cpp).
// A new kind of one value is an enumerator in guard.h and a row: how it is recorded, checked, written and explained,
// and what decides it. The builder, the check, the explanations and the counts follow the rows.
// Invariant: the rows stand in the order of GuardKind.
#ifndef FRAMEFUSE_GUARDS_KINDS_H_
#define FRAMEFUSE_GUARDS_KINDS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "guards/fact.h"

namespace framefuse {

// What a guard is about.
enum class GuardScope : std::uint8_t {
  kValue,      // the value of its source
  kTensor,     // a tensor's metadata: the spec of number `aux`
  kTwoValues,  // those of its source and of source `aux`
  kWhole,      // no one source: torch's state, groups of objects, memory
};

// What a guard of one value follows from: while that is unchanged, it is not checked again.
enum class DecidedBy : std::uint8_t {
  kNothing,       // checked at each call
  kObject,        // which object the value is
  kTypeOfObject,  // the same, where a type's instances cannot be given another type; else nothing
  kLength,        // the object, where its length is fixed; a dict's items; else nothing
  kItems,         // the items of a dict; of anything else nothing
  kOrderOfItems,  // the same, but not of an OrderedDict, whose version does not tell its order
  kAttributes,    // the attributes of an instance
  kClass,         // the contents of a class and its bases
};

// Texts of a guard's sources.
struct GuardedNames {
  std::string source;
  std::string other;  // of kTwoValues
};

struct GuardKindRow {
  GuardKind kind;
  const char* name;  // in counts and tests
  GuardScope scope = GuardScope::kWhole;
  DecidedBy decided_by = DecidedBy::kNothing;
  absl::Status (*record)(const Guard& guard, Fact* fact) = nullptr;       // null: source and number are all
  bool (*holds)(const Fact& fact, BorrowedRef value) = nullptr;           // kValue; the value may be absent
  bool (*holds_between)(BorrowedRef value, BorrowedRef other) = nullptr;  // kTwoValues
  // The fact as a Python expression: kValue and kTwoValues.
  std::string (*expression)(const Fact& fact, const GuardedNames& names) = nullptr;
  std::string (*found)(const Fact& fact,
                       BorrowedRef value) = nullptr;  // what is there instead; null: the expression says enough
};

const GuardKindRow& RowOf(GuardKind kind);
absl::Span<const GuardKindRow> GuardKinds();

}  // namespace framefuse

#endif  // FRAMEFUSE_GUARDS_KINDS_H_
