// Cursor over one line's tokens, with the expression and literal grammar of the text form.
// Invariant: after an error the cursor's position is meaningless; the caller stops at the first error.
#ifndef FRAMEFUSE_BACKENDS_GRAPH_LITERAL_PARSER_H_
#define FRAMEFUSE_BACKENDS_GRAPH_LITERAL_PARSER_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/graph/graph.h"
#include "backends/graph/lexer.h"

namespace framefuse::ir {

class LiteralParser {
 public:
  // What the text has defined so far.
  struct Names {
    absl::flat_hash_map<std::string, ValueId> values;
    absl::flat_hash_map<std::string, SymbolIndex> symbols;
  };

  LiteralParser(const std::vector<Token>& tokens, Graph* graph, const Names* names)
      : tokens_(tokens), graph_(graph), names_(names) {}

  const Token& Peek(std::size_t ahead = 0) const;
  Token Take();
  bool AtEnd() const { return Peek().kind == TokenKind::kEnd; }
  bool TakePunct(std::string_view punct);  // true and past it, if it is next
  bool TakeName(std::string_view name);    // likewise
  absl::Status Expect(std::string_view punct);
  absl::StatusOr<std::string> ExpectName();
  absl::StatusOr<std::int64_t> ExpectInteger();  // sign allowed
  absl::StatusOr<double> ExpectFloat();          // an integer, inf and nan too
  absl::Status Error(std::string_view what) const;

  absl::StatusOr<Dim> Expression() { return Disjunction(); }
  absl::StatusOr<std::vector<Dim>> Dims();  // [a, b]
  absl::StatusOr<c10::Device> Device();     // cpu, cuda:0
  // An argument of a node for a schema argument whose run-time type is `type`.
  absl::StatusOr<Arg> Argument(NamedInt named, const c10::Type& type);

 private:
  // A literal before its schema type is applied.
  struct Item {
    enum class Kind { kNone, kValue, kDim, kConstant, kList } kind = Kind::kNone;
    ValueId value = kNoValue;
    Dim dim;
    c10::IValue constant;
    std::vector<Item> items;
  };
  absl::StatusOr<Item> ParseItem(NamedInt named);
  absl::StatusOr<Item> ParseNamed(NamedInt named);
  absl::StatusOr<Item> ParseComplex();
  bool NextIsPlainNumber() const;
  absl::StatusOr<Item> PlainNumber();
  Item OfDim(Dim d) const;
  absl::StatusOr<Arg> ToArg(const Item& item, const c10::Type& type);
  absl::StatusOr<Arg> ListToArg(const Item& item, const c10::Type& type);

  absl::StatusOr<Dim> Disjunction();
  absl::StatusOr<Dim> Conjunction();
  absl::StatusOr<Dim> Negation();
  absl::StatusOr<Dim> Comparison();
  absl::StatusOr<Dim> Sum();
  absl::StatusOr<Dim> Product();
  absl::StatusOr<Dim> Unary();
  absl::StatusOr<Dim> Power();
  absl::StatusOr<Dim> Atom();
  absl::StatusOr<Dim> FunctionCall(std::string_view name);

  const std::vector<Token>& tokens_;
  std::size_t next_ = 0;
  Graph* graph_;
  const Names* names_;
};

}  // namespace framefuse::ir

#endif  // FRAMEFUSE_BACKENDS_GRAPH_LITERAL_PARSER_H_
