#include "backends/graph/literal_parser.h"

#include <ATen/core/jit_type.h>

#include <charconv>
#include <limits>

#include "absl/strings/str_cat.h"
#include "backends/graph/text_names.h"
#include "common/status.h"

namespace framefuse::ir {
namespace {

c10::TypePtr WithoutOptional(const c10::Type& type) {
  if (const auto* optional = type.castRaw<c10::OptionalType>()) return optional->getElementType();
  return nullptr;
}

double ParseDouble(std::string_view text) {
  double v = 0;
  std::from_chars(text.data(), text.data() + text.size(), v);
  return v;
}

}  // namespace

const Token& LiteralParser::Peek(std::size_t ahead) const {
  return tokens_[std::min(next_ + ahead, tokens_.size() - 1)];
}

Token LiteralParser::Take() {
  Token t = Peek();
  if (next_ + 1 < tokens_.size()) ++next_;
  return t;
}

bool LiteralParser::TakePunct(std::string_view punct) {
  if (Peek().kind != TokenKind::kPunct || Peek().text != punct) return false;
  Take();
  return true;
}

bool LiteralParser::TakeName(std::string_view name) {
  if (Peek().kind != TokenKind::kName || Peek().text != name) return false;
  Take();
  return true;
}

absl::Status LiteralParser::Error(std::string_view what) const {
  std::string_view next = AtEnd() ? std::string_view("the end of the line") : Peek().text;
  return absl::InvalidArgumentError(absl::StrCat(absl::string_view(what.data(), what.size()), " at '",
                                                 absl::string_view(next.data(), next.size()), "'"));
}

absl::Status LiteralParser::Expect(std::string_view punct) {
  if (TakePunct(punct)) return absl::OkStatus();
  return Error("expected '" + std::string(punct) + "'");
}

absl::StatusOr<std::string> LiteralParser::ExpectName() {
  if (Peek().kind != TokenKind::kName) return Error("expected a name");
  return std::string(Take().text);
}

absl::StatusOr<std::int64_t> LiteralParser::ExpectInteger() {
  bool negative = TakePunct("-");
  if (Peek().kind != TokenKind::kInteger) return Error("expected an integer");
  std::string text = (negative ? "-" : "") + std::string(Take().text);
  std::int64_t v = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error != std::errc()) return Error("integer out of range");
  return v;
}

absl::StatusOr<double> LiteralParser::ExpectFloat() {
  double sign = TakePunct("-") ? -1.0 : 1.0;
  if (TakeName("inf")) return sign * std::numeric_limits<double>::infinity();
  if (TakeName("nan")) return std::copysign(std::numeric_limits<double>::quiet_NaN(), sign);
  if (Peek().kind != TokenKind::kFloat && Peek().kind != TokenKind::kInteger) return Error("expected a number");
  return sign * ParseDouble(Take().text);
}

absl::StatusOr<std::vector<Dim>> LiteralParser::Dims() {
  FF_RETURN_IF_ERROR(Expect("["));
  std::vector<Dim> dims;
  while (!TakePunct("]")) {
    if (!dims.empty()) FF_RETURN_IF_ERROR(Expect(","));
    FF_ASSIGN_OR_RETURN(Dim d, Expression());
    dims.push_back(d);
  }
  return dims;
}

absl::StatusOr<c10::Device> LiteralParser::Device() {
  FF_ASSIGN_OR_RETURN(std::string name, ExpectName());
  if (TakePunct(":")) {
    FF_ASSIGN_OR_RETURN(std::int64_t index, ExpectInteger());
    name += ":" + std::to_string(index);
  }
  try {
    return c10::Device(name);
  } catch (const c10::Error&) {
    return Error("'" + name + "' is no device");
  }
}

// ---- literals

bool LiteralParser::NextIsPlainNumber() const {
  std::size_t i = Peek().kind == TokenKind::kPunct && Peek().text == "-" ? 1 : 0;
  const Token& t = Peek(i);
  bool number = t.kind == TokenKind::kInteger || t.kind == TokenKind::kFloat ||
                (t.kind == TokenKind::kName && (t.text == "inf" || t.text == "nan"));
  const Token& after = Peek(i + 1);
  bool ends = after.kind == TokenKind::kEnd ||
              (after.kind == TokenKind::kPunct && (after.text == "," || after.text == ")" || after.text == "]"));
  return number && ends;
}

absl::StatusOr<LiteralParser::Item> LiteralParser::PlainNumber() {
  const Token& t = Peek(Peek().kind == TokenKind::kPunct ? 1 : 0);
  Item item;
  if (t.kind == TokenKind::kInteger) {
    FF_ASSIGN_OR_RETURN(std::int64_t v, ExpectInteger());
    item.kind = Item::Kind::kDim;
    item.dim = Dim(v);
    return item;
  }
  FF_ASSIGN_OR_RETURN(double v, ExpectFloat());
  item.kind = Item::Kind::kConstant;
  item.constant = v;
  return item;
}

absl::StatusOr<LiteralParser::Item> LiteralParser::ParseComplex() {
  Take();
  FF_RETURN_IF_ERROR(Expect("("));
  FF_ASSIGN_OR_RETURN(double real, ExpectFloat());
  FF_RETURN_IF_ERROR(Expect(","));
  FF_ASSIGN_OR_RETURN(double imaginary, ExpectFloat());
  FF_RETURN_IF_ERROR(Expect(")"));
  Item item;
  item.kind = Item::Kind::kConstant;
  item.constant = c10::complex<double>(real, imaginary);
  return item;
}

absl::StatusOr<LiteralParser::Item> LiteralParser::ParseNamed(NamedInt named) {
  Item item;
  std::string_view name = Peek().text;
  std::optional<std::int64_t> number;
  if (named == NamedInt::kDtype) {
    if (auto t = ParseDtype(name)) number = static_cast<std::int64_t>(*t);
  } else if (named == NamedInt::kLayout) {
    if (auto l = ParseLayout(name)) number = static_cast<std::int64_t>(*l);
  } else if (named == NamedInt::kMemoryFormat) {
    if (auto f = ParseMemoryFormat(name)) number = static_cast<std::int64_t>(*f);
  }
  item.kind = Item::Kind::kConstant;
  if (number.has_value()) {
    Take();
    item.constant = *number;
    return item;
  }
  FF_ASSIGN_OR_RETURN(c10::Device device, Device());
  item.constant = device;
  return item;
}

LiteralParser::Item LiteralParser::OfDim(Dim d) const {
  Item item;
  item.kind = Item::Kind::kDim;
  item.dim = d;
  return item;
}

absl::StatusOr<LiteralParser::Item> LiteralParser::ParseItem(NamedInt named) {
  Item item;
  if (TakeName("None")) return item;
  if (Peek().kind == TokenKind::kName && (Peek().text == "True" || Peek().text == "False")) {
    item.kind = Item::Kind::kConstant;
    item.constant = Take().text == "True";
    return item;
  }
  if (NextIsPlainNumber()) return PlainNumber();
  if (Peek().kind == TokenKind::kString) {
    item.kind = Item::Kind::kConstant;
    item.constant = Unescape(Take().text);
    return item;
  }
  if (Peek().kind == TokenKind::kValue) {
    auto it = names_->values.find(std::string(Peek().text));
    if (it == names_->values.end()) return Error("undefined value");
    Take();
    item.kind = Item::Kind::kValue;
    item.value = it->second;
    return item;
  }
  if (TakePunct("[")) {
    item.kind = Item::Kind::kList;
    while (!TakePunct("]")) {
      if (!item.items.empty()) FF_RETURN_IF_ERROR(Expect(","));
      FF_ASSIGN_OR_RETURN(Item element, ParseItem(named));
      item.items.push_back(std::move(element));
    }
    return item;
  }
  if (Peek().kind == TokenKind::kName && Peek().text == "complex") return ParseComplex();
  if (Peek().kind == TokenKind::kName) {
    bool call = Peek(1).kind == TokenKind::kPunct && Peek(1).text == "(";
    if (!call && Peek().text != "not" && !names_->symbols.contains(std::string(Peek().text))) return ParseNamed(named);
  }
  FF_ASSIGN_OR_RETURN(Dim d, Expression());
  return OfDim(d);
}

absl::StatusOr<Arg> LiteralParser::Argument(NamedInt named, const c10::Type& type) {
  FF_ASSIGN_OR_RETURN(Item item, ParseItem(named));
  if (c10::TypePtr inner = WithoutOptional(type)) return ToArg(item, *inner);
  return ToArg(item, type);
}

absl::StatusOr<Arg> LiteralParser::ToArg(const Item& item, const c10::Type& type) {
  switch (item.kind) {
    case Item::Kind::kNone:
      return Arg::None();
    case Item::Kind::kValue:
      return Arg::OfValue(item.value);
    case Item::Kind::kDim:
      if (item.dim.is_symbolic()) return Arg::OfDim(item.dim);
      if (type.kind() == c10::TypeKind::FloatType) return Arg::Constant(static_cast<double>(item.dim.constant()));
      // int[1] arguments take a bare int.
      if (type.kind() == c10::TypeKind::ListType) return Arg::Constant(c10::List<std::int64_t>({item.dim.constant()}));
      return Arg::Constant(item.dim.constant());
    case Item::Kind::kConstant:
      return Arg::Constant(item.constant);
    case Item::Kind::kList:
      return ListToArg(item, type);
  }
  return Error("bad argument");
}

absl::StatusOr<Arg> LiteralParser::ListToArg(const Item& item, const c10::Type& type) {
  const auto* list_type = type.castRaw<c10::ListType>();
  if (list_type == nullptr) return Error("a list where the schema wants none");
  const c10::TypePtr& element = list_type->getElementType();
  bool optional_tensor = element->kind() == c10::TypeKind::OptionalType;
  if (element->kind() == c10::TypeKind::TensorType || optional_tensor) {
    std::vector<ValueId> values;
    for (const Item& i : item.items) {
      if (i.kind != Item::Kind::kValue && i.kind != Item::Kind::kNone)
        return Error("a list of tensors holds something else");
      values.push_back(i.value);
    }
    return Arg::OfValues(std::move(values));
  }
  std::vector<Dim> dims;
  c10::impl::GenericList generic(element);
  for (const Item& i : item.items) {
    if (i.kind == Item::Kind::kDim) dims.push_back(i.dim);
    bool as_float = i.kind == Item::Kind::kDim && element->kind() == c10::TypeKind::FloatType;
    bool constant = i.kind == Item::Kind::kConstant || (i.kind == Item::Kind::kDim && i.dim.is_constant());
    if (!constant) continue;
    if (i.kind == Item::Kind::kConstant) {
      generic.push_back(i.constant);
    } else {
      generic.push_back(as_float ? c10::IValue(static_cast<double>(i.dim.constant())) : c10::IValue(i.dim.constant()));
    }
  }
  bool ints = element->kind() == c10::TypeKind::IntType || element->kind() == c10::TypeKind::SymIntType;
  if (ints && dims.size() == item.items.size()) return Arg::OfDims(std::move(dims));
  if (generic.size() != item.items.size()) return Error("a list with unsuitable elements");
  return Arg::Constant(c10::IValue(std::move(generic)));
}

// ---- expressions

absl::StatusOr<Dim> LiteralParser::Disjunction() {
  FF_ASSIGN_OR_RETURN(Dim left, Conjunction());
  while (TakeName("or")) {
    FF_ASSIGN_OR_RETURN(Dim right, Conjunction());
    left = graph_->exprs.Make(ExprKind::kOr, left, right);
  }
  return left;
}

absl::StatusOr<Dim> LiteralParser::Conjunction() {
  FF_ASSIGN_OR_RETURN(Dim left, Negation());
  while (TakeName("and")) {
    FF_ASSIGN_OR_RETURN(Dim right, Negation());
    left = graph_->exprs.Make(ExprKind::kAnd, left, right);
  }
  return left;
}

absl::StatusOr<Dim> LiteralParser::Negation() {
  if (!TakeName("not")) return Comparison();
  FF_ASSIGN_OR_RETURN(Dim d, Negation());
  return graph_->exprs.Make(ExprKind::kNot, d);
}

absl::StatusOr<Dim> LiteralParser::Comparison() {
  FF_ASSIGN_OR_RETURN(Dim left, Sum());
  static constexpr std::pair<const char*, ExprKind> kOps[] = {
      {"==", ExprKind::kEq}, {"!=", ExprKind::kNe}, {"<=", ExprKind::kLe}, {"<", ExprKind::kLt}};
  for (const auto& [text, kind] : kOps) {
    if (!TakePunct(text)) continue;
    FF_ASSIGN_OR_RETURN(Dim right, Sum());
    return graph_->exprs.Make(kind, left, right);
  }
  return left;
}

absl::StatusOr<Dim> LiteralParser::Sum() {
  FF_ASSIGN_OR_RETURN(Dim left, Product());
  while (true) {
    bool minus = false;
    if (TakePunct("-")) {
      minus = true;
    } else if (!TakePunct("+")) {
      return left;
    }
    FF_ASSIGN_OR_RETURN(Dim right, Product());
    if (minus) right = graph_->exprs.Make(ExprKind::kNeg, right);
    left = graph_->exprs.Make(ExprKind::kAdd, left, right);
  }
}

absl::StatusOr<Dim> LiteralParser::Product() {
  FF_ASSIGN_OR_RETURN(Dim left, Unary());
  while (true) {
    ExprKind kind;
    if (TakePunct("*")) {
      kind = ExprKind::kMul;
    } else if (TakePunct("//")) {
      kind = ExprKind::kFloorDiv;
    } else if (TakePunct("%")) {
      kind = ExprKind::kMod;
    } else if (TakePunct("/")) {
      kind = ExprKind::kTrueDiv;
    } else {
      return left;
    }
    FF_ASSIGN_OR_RETURN(Dim right, Unary());
    left = graph_->exprs.Make(kind, left, right);
  }
}

absl::StatusOr<Dim> LiteralParser::Unary() {
  if (!TakePunct("-")) return Power();
  FF_ASSIGN_OR_RETURN(Dim d, Unary());
  return graph_->exprs.Make(ExprKind::kNeg, d);
}

absl::StatusOr<Dim> LiteralParser::Power() {
  FF_ASSIGN_OR_RETURN(Dim base, Atom());
  if (!TakePunct("**")) return base;
  FF_ASSIGN_OR_RETURN(Dim exponent, Unary());
  return graph_->exprs.Make(ExprKind::kPow, base, exponent);
}

absl::StatusOr<Dim> LiteralParser::FunctionCall(std::string_view name) {
  const std::optional<ExprKind> kind = FunctionNamed(name);
  if (!kind) return Error("unknown function " + std::string(name));
  FF_RETURN_IF_ERROR(Expect("("));
  FF_ASSIGN_OR_RETURN(Dim left, Expression());
  Dim right;
  if (OperandsOf(*kind) == 2) {
    FF_RETURN_IF_ERROR(Expect(","));
    FF_ASSIGN_OR_RETURN(right, Expression());
  }
  FF_RETURN_IF_ERROR(Expect(")"));
  return graph_->exprs.Make(*kind, left, right);
}

absl::StatusOr<Dim> LiteralParser::Atom() {
  if (TakePunct("(")) {
    FF_ASSIGN_OR_RETURN(Dim d, Expression());
    FF_RETURN_IF_ERROR(Expect(")"));
    return d;
  }
  if (Peek().kind == TokenKind::kInteger) {
    FF_ASSIGN_OR_RETURN(std::int64_t v, ExpectInteger());
    return Dim(v);
  }
  if (Peek().kind == TokenKind::kFloat) return graph_->exprs.FloatConstant(ParseDouble(Take().text));
  if (Peek().kind != TokenKind::kName) return Error("expected an expression");
  if (auto it = names_->symbols.find(std::string(Peek().text)); it != names_->symbols.end()) {
    Take();
    return graph_->exprs.OfSymbol(it->second);
  }
  if (!(Peek(1).kind == TokenKind::kPunct && Peek(1).text == "(")) return Error("unknown symbol");
  std::string name(Take().text);
  return FunctionCall(name);
}

}  // namespace framefuse::ir
