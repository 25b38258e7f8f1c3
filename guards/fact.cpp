#include "guards/fact.h"

#include "guards/kinds.h"

namespace framefuse {

FactLocation LocationOf(const UserLocation& where) {
  if (!where.code) return FactLocation();
  return FactLocation{Ref::Create(where.code->co_filename), where.line, where.is_user, where.caller};
}

absl::Status MakeFact(const Guard& guard, Fact* fact) {
  fact->source = guard.source;
  fact->kind = guard.kind;
  fact->number = guard.aux;
  fact->where = LocationOf(guard.where);
  const auto record = RowOf(guard.kind).record;
  return record != nullptr ? record(guard, fact) : absl::OkStatus();
}

bool Holds(const Fact& fact, BorrowedRef value) { return RowOf(fact.kind).holds(fact, value); }

bool IsRelation(const Fact& fact) { return RowOf(fact.kind).scope == GuardScope::kTwoValues; }

std::string ExplainFact(const Fact& fact, BorrowedRef value, const std::string& source) {
  const GuardKindRow& row = RowOf(fact.kind);
  const std::string failed = row.expression(fact, {source, ""}) + " failed";
  if (!value) return failed + ": it is missing";
  return row.found != nullptr ? failed + ": " + row.found(fact, value) : failed;
}

}  // namespace framefuse
