#include "symbolic/capture/entry_sizes.h"

#include "absl/strings/str_cat.h"
#include "guards/leaf/tensor.h"

namespace framefuse {

std::vector<std::int64_t> EntrySizes::Read(PyObject* const* objects) const {
  std::vector<std::int64_t> values;
  values.reserve(symbols.size());
  for (const Symbol& s : symbols) values.push_back(SizeOf(objects[s.source], s.dim));
  return values;
}

std::vector<std::int64_t> SizeFacts::Values(absl::Span<PyObject* const> tensors) const {
  std::vector<std::int64_t> symbols, values;
  for (const Symbol& s : symbols_) symbols.push_back(SizeOf(tensors[s.tensor], s.dim));
  expressions_.EvaluateAll(symbols, &values);
  return values;
}

bool SizeFacts::Holds(absl::Span<PyObject* const> tensors) const noexcept {
  const std::vector<std::int64_t> values = Values(tensors);
  for (const Condition& c : conditions_) {
    if (values[static_cast<std::size_t>(c.condition.expr)] == 0) return false;
  }
  for (const Stride& s : strides_) {
    if (StrideOf(tensors[s.tensor], s.dim) != values[static_cast<std::size_t>(s.stride.expr)]) return false;
  }
  return true;
}

ir::ExprTable SizeFacts::Named(absl::Span<const std::string> names) const {
  ir::ExprTable named = expressions_;
  for (std::size_t i = 0; i < symbols_.size(); ++i) {
    named.symbol(static_cast<ir::SymbolIndex>(i)).name =
        absl::StrCat(names[symbols_[i].tensor], ".size(", symbols_[i].dim, ")");
  }
  return named;
}

std::string SizeFacts::Expression(absl::Span<const std::string> names) const {
  const ir::ExprTable named = Named(names);
  std::string text;
  const auto add = [&](const std::string& condition) {
    absl::StrAppend(&text, text.empty() ? "" : " and ", condition);
  };
  for (const Condition& c : conditions_) add(named.Print(c.condition));
  for (const Stride& s : strides_) {
    add(absl::StrCat(names[s.tensor], ".stride(", s.dim, ") == ", named.Print(s.stride)));
  }
  return text;
}

std::string SizeFacts::Failure(absl::Span<const std::string> names, absl::Span<PyObject* const> tensors) const {
  const std::vector<std::int64_t> values = Values(tensors);
  const ir::ExprTable named = Named(names);
  for (const Condition& c : conditions_) {
    if (values[static_cast<std::size_t>(c.condition.expr)] != 0) continue;
    const ir::Expr& e = named[c.condition.expr];
    std::string text = absl::StrCat(named.Print(c.condition), " failed: ");
    if (e.left != ir::kNoExpr && e.right != ir::kNoExpr) {
      absl::StrAppend(&text, values[static_cast<std::size_t>(e.left)], " and ",
                      values[static_cast<std::size_t>(e.right)]);
    }
    return c.where.empty() ? text : absl::StrCat(text, " (", c.where, ")");
  }
  for (const Stride& s : strides_) {
    const std::int64_t found = StrideOf(tensors[s.tensor], s.dim);
    const std::int64_t wanted = values[static_cast<std::size_t>(s.stride.expr)];
    if (found == wanted) continue;
    return absl::StrCat(names[s.tensor], ".stride(", s.dim, ") == ", named.Print(s.stride), " failed: ", found, " and ",
                        wanted);
  }
  return "";
}

}  // namespace framefuse
