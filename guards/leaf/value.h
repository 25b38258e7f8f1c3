// leaf/value: what a program read out of the data of its inputs, and relied on: a number, or the size of a result.
// Who reads it (symbolic/tracing) says how it is computed anew. Invariant: computing it runs no Python and writes
// nothing; it is asked only of tensors whose metadata is as it was.
#ifndef FRAMEFUSE_GUARDS_LEAF_VALUE_H_
#define FRAMEFUSE_GUARDS_LEAF_VALUE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "frame_eval/ref.h"
#include "guards/source.h"

namespace framefuse {

class ValueFact {
 public:
  virtual ~ValueFact() = default;
  // tensors[i]: what stands at the i-th source now.
  [[nodiscard]] virtual bool Holds(absl::Span<PyObject* const> tensors) const noexcept = 0;
  // It compares all that its one input holds: what fails there has changed, and may keep changing.
  [[nodiscard]] virtual bool IsOfAllContents() const noexcept { return false; }
  // As a Python expression: `L['mask'].all() == True`.
  [[nodiscard]] virtual std::string Expression(absl::Span<const std::string> names) const = 0;
  // Where it does not hold: what failed, and what is there instead.
  [[nodiscard]] virtual std::string Failure(absl::Span<const std::string> names,
                                            absl::Span<PyObject* const> tensors) const = 0;
};

struct ReadValue {
  std::vector<SourceId> sources;
  std::shared_ptr<const ValueFact> fact;
};

}  // namespace framefuse

#endif  // FRAMEFUSE_GUARDS_LEAF_VALUE_H_
