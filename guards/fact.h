// Fact: a Guard in the form that an installed entry keeps: expected objects held as Held, texts of locations ready.
// Invariant: Holds decides every kind that concerns one value; GuardProgram's fast steps are short cuts of it.
#ifndef FRAMEFUSE_GUARDS_FACT_H_
#define FRAMEFUSE_GUARDS_FACT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "guards/dict_lookup.h"
#include "guards/guard.h"

namespace framefuse {

// A UserLocation without the code object: an entry hangs on a code object, and must not keep it alive.
struct FactLocation {
  Ref file;  // co_filename, or null
  std::int32_t line = 0;
  bool is_user = true;
  std::shared_ptr<const CallerLocation> caller;
};

[[nodiscard]] FactLocation LocationOf(const UserLocation& where);

struct Fact {
  SourceId source = kNoSource;
  GuardKind kind = GuardKind::kTypeIs;
  Held expected;               // kTypeIs, kIdentity, kEquals, kTypeLookup (empty: the name is absent)
  DictKey key;                 // kHasKey, kLacksKey, kLacksAttr, kTypeLookup (the name)
  std::vector<Held> elements;  // kKeys, kOwnNames, kSetEquals, in order; kTypeLookups: what is found
  Ref found, absent;           // kTypeLookups: tuples of names
  std::int64_t number = 0;     // kLength; other kinds: the guard's aux
  FactLocation where;
};

// Into a new `fact`.
absl::Status MakeFact(const Guard& guard, Fact* fact);

// `value` may be null (absent). Of a kind whose scope is one value (guards/kinds.h).
bool Holds(const Fact& fact, BorrowedRef value);

// It is about two sources: checked when both are read.
bool IsRelation(const Fact& fact);

// Why a fact does not hold, such as "== 3 failed: 4", to follow the source's text.
std::string ExplainFact(const Fact& fact, BorrowedRef value, const std::string& source);

}  // namespace framefuse

#endif  // FRAMEFUSE_GUARDS_FACT_H_
