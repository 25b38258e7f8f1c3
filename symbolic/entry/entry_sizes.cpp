#include "symbolic/entry/entry_sizes.h"

#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "guards/leaf/tensor.h"
#include "symbolic/entry/numpy_kinds.h"

namespace framefuse {

std::optional<std::int64_t> IntegerOf(PyObject* object) {
  if (object == nullptr || !PyLong_CheckExact(object)) return std::nullopt;
  int overflow = 0;
  const std::int64_t value = PyLong_AsLongLongAndOverflow(object, &overflow);
  const bool fits = overflow == 0 && value >= ir::kNumbers.first && value <= ir::kNumbers.second;
  return fits ? std::optional(value) : std::nullopt;
}

namespace {
std::int64_t BitsOf(PyObject* object) { return std::bit_cast<std::int64_t>(PyFloat_AS_DOUBLE(object)); }

// As Python's number, by numpy's own code. Null: it is none.
Ref PlainOf(PyObject* object, bool is_float) {
  const bool of_numpy = object != nullptr && (Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0 &&
                        std::strncmp(Py_TYPE(object)->tp_name, "numpy.", 6) == 0;
  if (!of_numpy || (PyIndex_Check(object) != 0) == is_float) return Ref();
  Ref plain = Ref::Steal(is_float ? PyNumber_Float(object) : PyNumber_Index(object));
  if (!plain) PyErr_Clear();
  return plain;
}

// Nothing: it is no such number.
std::optional<std::int64_t> NumberOf(PyObject* object, int kind) {
  if (kind == kIsNumpyNumber || kind == kIsNumpyFloat) {
    const Ref plain = PlainOf(object, kind == kIsNumpyFloat);
    return plain ? NumberOf(plain, kind == kIsNumpyFloat ? kIsFloat : kIsNumber) : std::nullopt;
  }
  if (kind == kIsNumber) return IntegerOf(object);
  return object != nullptr && PyFloat_CheckExact(object) ? std::optional(BitsOf(object)) : std::nullopt;
}

bool IsItself(int dim) { return dim < 0 && dim != kIsUnbacked; }

std::int64_t OfTensor(PyObject* tensor, const EntrySizes::Symbol& s) {
  return s.of_stride ? StrideOf(tensor, s.dim) : SizeOf(tensor, s.dim);
}
}  // namespace

std::optional<std::int64_t> EntrySizes::ValueOf(const Symbol& symbol, PyObject* object) {
  return IsItself(symbol.dim) ? NumberOf(object, symbol.dim) : OfTensor(object, symbol);
}

std::string EntrySizes::NameOf(const Symbol& symbol, const std::string& name) {
  if (IsItself(symbol.dim)) return name;
  return absl::StrCat(name, symbol.of_stride ? ".stride(" : ".size(", symbol.dim, ")");
}

std::vector<std::int64_t> EntrySizes::Read(PyObject* const* objects) const {
  std::vector<std::int64_t> values;
  values.reserve(symbols.size());
  for (const Symbol& s : symbols) {
    if (s.dim == kIsUnbacked) {
      values.push_back(expressions.symbols()[values.size()].hint);
      continue;
    }
    values.push_back(ValueOf(s, objects[s.source]).value_or(0));
  }
  return values;
}

Ref SizeValues::ObjectOf(ir::ExprId expression) const {
  const std::int64_t value = Of(expression);
  const bool is_float = sizes->expressions[expression].type == ir::NumberType::kFloat;
  return Ref::Steal(is_float ? PyFloat_FromDouble(std::bit_cast<double>(value)) : PyLong_FromLongLong(value));
}

std::optional<std::vector<std::int64_t>> SizeFacts::Values(absl::Span<PyObject* const> tensors) const {
  std::vector<std::int64_t> symbols, values;
  symbols.reserve(symbols_.size());
  for (const Symbol& s : symbols_) {
    if (s.dim == kIsUnbacked) {
      symbols.push_back(expressions_.symbols()[symbols.size()].hint);
    } else if (const auto value = EntrySizes::ValueOf({kNoSource, s.dim, s.of_stride}, tensors[s.tensor])) {
      symbols.push_back(*value);
    } else {
      return std::nullopt;
    }
  }
  if (!expressions_.EvaluateAll(symbols, &values)) return std::nullopt;
  return values;
}

bool SizeFacts::Holds(absl::Span<PyObject* const> tensors) const noexcept {
  const std::optional<std::vector<std::int64_t>> all = Values(tensors);
  if (!all) return false;
  const std::vector<std::int64_t>& values = *all;
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
    if (symbols_[i].dim == kIsUnbacked) continue;
    const Symbol& s = symbols_[i];
    named.symbol(static_cast<ir::SymbolIndex>(i)).name =
        EntrySizes::NameOf({kNoSource, s.dim, s.of_stride}, names[s.tensor]);
  }
  return named;
}

std::string SizeFacts::Expression(absl::Span<const std::string> names) const {
  const ir::ExprTable named = Named(names);
  std::string text;
  const auto add = [&](const std::string& condition) {
    absl::StrAppend(&text, text.empty() ? "" : " and ", condition);
  };
  for (const Symbol& s : symbols_) {
    if (s.dim == kIsNumber || s.dim == kIsNumpyNumber) add(absl::StrCat("is_int32(", names[s.tensor], ")"));
    if (s.dim == kIsFloat || s.dim == kIsNumpyFloat) add(absl::StrCat("is_float(", names[s.tensor], ")"));
  }
  for (const Condition& c : conditions_) add(named.Print(c.condition));
  for (const Stride& s : strides_) {
    add(absl::StrCat(names[s.tensor], ".stride(", s.dim, ") == ", named.Print(s.stride)));
  }
  return text;
}

std::string SizeFacts::Failure(absl::Span<const std::string> names, absl::Span<PyObject* const> tensors) const {
  const std::optional<std::vector<std::int64_t>> all = Values(tensors);
  if (!all) {
    for (const Symbol& s : symbols_) {
      if (!IsItself(s.dim) || NumberOf(tensors[s.tensor], s.dim).has_value()) continue;
      return absl::StrCat(names[s.tensor],
                          s.dim == kIsFloat || s.dim == kIsNumpyFloat ? " is no float" : " is no integer of 32 bits");
    }
    return absl::StrCat("what is computed of ", absl::StrJoin(names, ", "), " does not fit in 64 bits");
  }
  const std::vector<std::int64_t>& values = *all;
  const ir::ExprTable named = Named(names);
  for (const Condition& c : conditions_) {
    if (values[static_cast<std::size_t>(c.condition.expr)] != 0) continue;
    const ir::Expr& e = named[c.condition.expr];
    std::string text = absl::StrCat(named.Print(c.condition), " failed: ");
    if (e.left != ir::kNoExpr && e.right != ir::kNoExpr) {
      const auto value = [&](ir::ExprId id) {
        const std::int64_t v = values[static_cast<std::size_t>(id)];
        return named[id].type == ir::NumberType::kFloat ? absl::StrCat(std::bit_cast<double>(v)) : absl::StrCat(v);
      };
      absl::StrAppend(&text, value(e.left), " and ", value(e.right));
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
