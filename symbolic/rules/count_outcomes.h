// Outcomes of call rules and effects, counted for tests (common/coverage.h).
// A rule is taken if the call went through, refused if the graph broke in it. An effect is applied, or not where the
// call raised before its first write.
#ifndef FRAMEFUSE_SYMBOLIC_RULES_COUNT_OUTCOMES_H_
#define FRAMEFUSE_SYMBOLIC_RULES_COUNT_OUTCOMES_H_

#include "common/coverage.h"
#include "symbolic/evaluator/activation.h"
#include "symbolic/rules/call_rules.h"

namespace framefuse {

void CountRule(const CallRule& rule, bool taken);

// For the time of a call by a rule.
class RuleCount {
 public:
  RuleCount(const CallRule& rule, const Control& control) : rule_(rule), control_(control) {}
  ~RuleCount() {
    if (CountsKinds()) CountRule(rule_, !control_.unwinding);
  }
  RuleCount(const RuleCount&) = delete;
  RuleCount& operator=(const RuleCount&) = delete;

 private:
  const CallRule rule_;  // the call may add rules, and so move them
  const Control& control_;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_SYMBOLIC_RULES_COUNT_OUTCOMES_H_
