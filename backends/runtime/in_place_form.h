// InPlaceForm: of an operator that copies its first argument and writes a part of the copy (index_copy, index_put,
// scatter …), or reduces the copy with other processes (all_reduce), the form that writes the argument itself.
// On a CPU such an operator raises for a wrong index when it has already written. So indices are looked at before, and
// where one is wrong the operator itself runs, and raises.
#ifndef FRAMEFUSE_BACKENDS_RUNTIME_IN_PLACE_FORM_H_
#define FRAMEFUSE_BACKENDS_RUNTIME_IN_PLACE_FORM_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "backends/graph/graph.h"

namespace framefuse {

// An index that an operator checks against the size of a dimension of its first argument.
struct CheckedIndex {
  ir::ValueId index = ir::kNoValue;
  std::int64_t dim = 0;
  bool may_be_negative = false;
  friend bool operator==(const CheckedIndex&, const CheckedIndex&) = default;
};

struct InPlaceForm {
  ir::OpId op = nullptr;              // null: none, or one that raises too late
  std::vector<CheckedIndex> indices;  // to look at before; none on a device that does not raise for them
};

InPlaceForm InPlaceFormOf(const ir::Graph& graph, const ir::Node& node);

// Whether both check the same indices against the same sizes: where one has not raised, the other does not.
bool ChecksTheSame(const ir::Graph& graph, const ir::Node& a, const ir::Node& b);

bool AreWithin(const std::vector<CheckedIndex>& indices, const at::Tensor& self,
               absl::FunctionRef<const at::Tensor&(ir::ValueId)> value);

}  // namespace framefuse

#endif  // FRAMEFUSE_BACKENDS_RUNTIME_IN_PLACE_FORM_H_
