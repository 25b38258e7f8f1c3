// What eager's kernels refuse and torch's meta kernels do not ask for. The capture breaks there, so that the program
// gets eager's error where the operator stands, also when nobody reads its result.
#include "symbolic/tracing/shapes/shapes.h"

namespace framefuse::tracing {
namespace {

bool TypesDiffer(Arguments args) {
  std::optional<c10::ScalarType> type;
  for (const c10::IValue& v : args) {
    if (!v.isTensor() || !v.toTensor().defined()) continue;
    if (type.has_value() && *type != v.toTensor().scalar_type()) return true;
    type = v.toTensor().scalar_type();
  }
  return false;
}

bool ExpandsTo(const at::Tensor& t, c10::SymIntArrayRef sizes) {
  if (t.dim() > static_cast<std::int64_t>(sizes.size())) return false;
  for (std::int64_t d = 1; d <= t.dim(); ++d) {
    const c10::SymInt& from = t.sym_size(-d);
    if (!IsOne(from) && from != sizes[sizes.size() - static_cast<std::size_t>(d)]) return false;
  }
  return true;
}

// Sizes of what the indices of index_put choose; nullopt if that depends on their values.
std::optional<Dims> IndexedSizes(const at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices) {
  Dims chosen, rest;
  std::size_t first = 0, last = 0, count = 0;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const std::optional<at::Tensor> index = indices[i];
    if (!index.has_value() || !index->defined()) continue;
    if (index->scalar_type() == c10::ScalarType::Bool || index->scalar_type() == c10::ScalarType::Byte) return {};
    if (!Broadcast(Dims(chosen), index->sym_sizes(), &chosen)) return {};
    if (count++ == 0) first = i;
    last = i;
  }
  const bool together = last - first + 1 == count;
  for (std::size_t d = 0; d < static_cast<std::size_t>(self.dim()); ++d) {
    const bool indexed = d < indices.size() && indices[d].has_value() && indices[d]->defined();
    if (!indexed) rest.push_back(self.sym_size(static_cast<std::int64_t>(d)));
  }
  rest.insert(rest.begin() + static_cast<std::ptrdiff_t>(together ? first : 0), chosen.begin(), chosen.end());
  return rest;
}

// (self, indices, values, …)
bool ValuesDoNotFit(Arguments args) {
  const auto indices = args[1].toOptionalTensorList();
  const std::optional<Dims> sizes = IndexedSizes(args[0].toTensor(), indices);
  if (!sizes.has_value()) return false;
  return !ExpandsTo(args[2].toTensor(), *sizes);
}

// (self, mask, …), in place
bool MaskDoesNotFit(Arguments args) { return !ExpandsTo(args[1].toTensor(), args[0].toTensor().sym_sizes()); }

constexpr RefusalRow kRows[] = {
    {"aten::mm", TypesDiffer, "its operands are of several types"},
    {"aten::bmm", TypesDiffer, "its operands are of several types"},
    {"aten::mv", TypesDiffer, "its operands are of several types"},
    {"aten::dot", TypesDiffer, "its operands are of several types"},
    {"aten::addmm", TypesDiffer, "its operands are of several types"},
    {"aten::addmv", TypesDiffer, "its operands are of several types"},
    {"aten::baddbmm", TypesDiffer, "its operands are of several types"},
    {"aten::masked_fill_.Scalar", MaskDoesNotFit, "the mask does not fit"},
    {"aten::masked_fill_.Tensor", MaskDoesNotFit, "the mask does not fit"},
    {"aten::masked_scatter_", MaskDoesNotFit, "the mask does not fit"},
    {"aten::index_put", ValuesDoNotFit, "the values do not fit the places"},
    {"aten::index_put_", ValuesDoNotFit, "the values do not fit the places"},
};

}  // namespace

const RefusalRow* FindRefusal(std::string_view name) {
  for (const RefusalRow& row : kRows) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

}  // namespace framefuse::tracing
