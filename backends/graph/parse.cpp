// The text form of a graph, read: a line an input, constant, node or output, errors with line and column.
#include <ATen/core/function_schema.h>
#include <ATen/ops/empty.h>

#include <bit>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "backends/graph/graph.h"
#include "backends/graph/literal_parser.h"
#include "backends/graph/text_names.h"
#include "common/status.h"

namespace framefuse::ir {
namespace {

class Parser {
 public:
  absl::StatusOr<Graph> Run(std::string_view text) {
    int number = 0;
    while (!text.empty()) {
      std::size_t end = text.find('\n');
      std::string_view line = text.substr(0, end);
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
      ++number;
      if (absl::Status s = Line(line); !s.ok()) return Annotate(s, absl::StrCat("line ", number));
    }
    return std::move(g_);
  }

 private:
  absl::Status Line(std::string_view text) {
    FF_ASSIGN_OR_RETURN(LexedLine line, LexLine(text));
    if (line.tokens.size() == 1) return absl::OkStatus();
    LiteralParser p(line.tokens, &g_, &names_);
    absl::Status s = Statement(p, line.comment);
    if (s.ok() && !p.AtEnd()) return p.Error("unexpected text");
    return s;
  }

  absl::Status Statement(LiteralParser& p, std::string_view comment) {
    if (p.TakeName("graph")) return GraphLine(p);
    if (p.TakeName("symbol")) return SymbolLine(p);
    if (p.TakeName("input")) return InputLine(p);
    if (p.TakeName("constant")) return ConstantLine(p);
    if (p.TakeName("output")) return OutputLine(p);
    if (p.TakeName("backward")) {
      phase_ = Phase::kBackward;
      return absl::OkStatus();
    }
    return NodeLine(p, comment);
  }

  absl::Status GraphLine(LiteralParser& p) {
    g_.name = p.Peek().kind == TokenKind::kString ? Unescape(p.Take().text) : std::string(p.Take().text);
    g_.functional = p.TakeName("functional");
    return absl::OkStatus();
  }

  absl::Status SymbolLine(LiteralParser& p) {
    Symbol s;
    FF_ASSIGN_OR_RETURN(s.name, p.ExpectName());
    if (p.TakePunct(":")) {
      FF_ASSIGN_OR_RETURN(std::string type, p.ExpectName());
      if (type != "float" && type != "int" && type != "bool") return p.Error("a symbol is int, float or bool");
      s.type = type == "float" ? NumberType::kFloat : type == "bool" ? NumberType::kBool : NumberType::kInt;
    }
    FF_RETURN_IF_ERROR(p.Expect("="));
    if (s.type == NumberType::kFloat) {
      FF_ASSIGN_OR_RETURN(double v, p.ExpectFloat());
      s.hint = std::bit_cast<std::int64_t>(v);
    } else if (s.type == NumberType::kBool) {
      s.hint = p.Take().text == "True";
    } else {
      FF_ASSIGN_OR_RETURN(s.hint, p.ExpectInteger());
    }
    while (!p.AtEnd()) {
      FF_ASSIGN_OR_RETURN(std::string key, p.ExpectName());
      FF_RETURN_IF_ERROR(p.Expect("="));
      FF_ASSIGN_OR_RETURN(std::int64_t v, p.ExpectInteger());
      if (key == "unbacked") {
        s.unbacked = v != 0;
        continue;
      }
      if (key != "min" && key != "max" && key != "divisor") return p.Error("unknown fact of a symbol: " + key);
      (key == "min" ? s.min : key == "max" ? s.max : s.divisor) = v;
    }
    std::string name = s.name;
    SymbolIndex index = g_.exprs.AddSymbol(std::move(s));
    if (!names_.symbols.try_emplace(name, index).second) return p.Error("symbol " + name + " is there already");
    return absl::OkStatus();
  }

  // f32[s0, 4]{strides=[1, s0], grad}, or int, float, bool
  absl::StatusOr<Value> Type(LiteralParser& p) {
    Value v;
    FF_ASSIGN_OR_RETURN(std::string name, p.ExpectName());
    if (!(p.Peek().kind == TokenKind::kPunct && p.Peek().text == "[")) {
      if (name != "int" && name != "float" && name != "bool") return p.Error("expected the sizes of a tensor");
      v.kind = name == "int" ? ValueKind::kInt : name == "float" ? ValueKind::kFloat : ValueKind::kBool;
      return v;
    }
    std::optional<c10::ScalarType> dtype = ParseDtype(name);
    if (!dtype.has_value()) return p.Error("unknown dtype " + name);
    v.dtype = *dtype;
    FF_ASSIGN_OR_RETURN(v.sizes, p.Dims());
    v.strides = ContiguousStrides(g_.exprs, v.sizes);
    if (p.TakePunct("{")) {
      while (true) {
        FF_RETURN_IF_ERROR(TypeExtra(p, &v));
        if (p.TakePunct("}")) break;
        FF_RETURN_IF_ERROR(p.Expect(","));
      }
    }
    return v;
  }

  absl::Status TypeExtra(LiteralParser& p, Value* v) {
    FF_ASSIGN_OR_RETURN(std::string key, p.ExpectName());
    if (key == "grad") {
      v->requires_grad = true;
      return absl::OkStatus();
    }
    if (key == "wrapped") {
      v->wrapped_number = true;
      return absl::OkStatus();
    }
    if (key == "formula") {
      v->of_formula = true;
      return absl::OkStatus();
    }
    FF_RETURN_IF_ERROR(p.Expect("="));
    if (key == "strides") {
      FF_ASSIGN_OR_RETURN(v->strides, p.Dims());
    } else if (key == "offset") {
      FF_ASSIGN_OR_RETURN(v->offset, p.Expression());
    } else if (key == "device") {
      FF_ASSIGN_OR_RETURN(v->device, p.Device());
    } else if (key == "storage") {
      FF_ASSIGN_OR_RETURN(std::int64_t s, p.ExpectInteger());
      v->storage = static_cast<StorageId>(s);
    } else if (key == "layout") {
      FF_ASSIGN_OR_RETURN(std::string name, p.ExpectName());
      std::optional<c10::Layout> layout = ParseLayout(name);
      if (!layout.has_value()) return p.Error("unknown layout " + name);
      v->layout = *layout;
      v->strides.clear();
    } else {
      return p.Error("unknown fact of a value: " + key);
    }
    return absl::OkStatus();
  }

  // %3: f32[2], or _
  absl::StatusOr<ValueId> Definition(LiteralParser& p) {
    if (p.TakeName("_")) return kNoValue;
    if (p.Peek().kind != TokenKind::kValue) return p.Error("expected a value");
    std::string name(p.Take().text);
    FF_RETURN_IF_ERROR(p.Expect(":"));
    FF_ASSIGN_OR_RETURN(Value v, Type(p));
    ValueId id = g_.AddValue(std::move(v));
    if (!names_.values.try_emplace(name, id).second) return p.Error("%" + name + " is defined twice");
    return id;
  }

  absl::Status InputLine(LiteralParser& p) {
    Input in;
    FF_ASSIGN_OR_RETURN(in.value, Definition(p));
    if (in.value == kNoValue) return p.Error("an input needs a name");
    FF_ASSIGN_OR_RETURN(std::string role, p.ExpectName());
    static constexpr const char* kRoles[] = {"argument", "parameter", "buffer", "constant", "tangent", "rng_state"};
    int found = -1;
    for (int i = 0; i < 6; ++i) {
      if (role == kRoles[i]) found = i;
    }
    if (found < 0) return p.Error("unknown role " + role);
    in.role = static_cast<InputRole>(found);
    if (p.Peek().kind == TokenKind::kString) in.name = Unescape(p.Take().text);
    while (!p.AtEnd()) FF_RETURN_IF_ERROR(InputFact(p, &in));
    g_.inputs.push_back(std::move(in));
    return absl::OkStatus();
  }

  absl::Status InputFact(LiteralParser& p, Input* in) {
    FF_ASSIGN_OR_RETURN(std::string key, p.ExpectName());
    if (key == "without_grad" || key == "uncounted") {
      (key == "uncounted" ? in->mutated_uncounted : in->mutated_without_grad) = true;
      return absl::OkStatus();
    }
    if (key == "mutated") in->mutated = true;
    std::int32_t* field = key == "mutated"   ? &in->mutated_output
                          : key == "overlap" ? &in->overlap_class
                          : key == "of"      ? &in->tangent_of
                                             : nullptr;
    if (field == nullptr) return p.Error("unknown fact of an input: " + key);
    if (key == "mutated" && !(p.Peek().kind == TokenKind::kPunct && p.Peek().text == "=")) return absl::OkStatus();
    FF_RETURN_IF_ERROR(p.Expect("="));
    FF_ASSIGN_OR_RETURN(std::int64_t v, p.ExpectInteger());
    *field = static_cast<std::int32_t>(v);
    return absl::OkStatus();
  }

  absl::Status ConstantLine(LiteralParser& p) {
    FF_ASSIGN_OR_RETURN(ValueId id, Definition(p));
    if (id == kNoValue) return p.Error("a constant needs a name");
    FF_RETURN_IF_ERROR(p.Expect("="));
    FF_RETURN_IF_ERROR(p.Expect("["));
    const Value& v = g_.value(id);
    std::vector<std::int64_t> sizes;
    for (const Dim& d : v.sizes) sizes.push_back(d.constant());
    at::Tensor t = at::empty(sizes, at::TensorOptions().dtype(v.dtype));
    at::Tensor flat = t.view({-1});
    std::int64_t count = 0;
    while (!p.TakePunct("]")) {
      if (count > 0) FF_RETURN_IF_ERROR(p.Expect(","));
      if (count >= flat.numel()) return p.Error("too many elements");
      FF_ASSIGN_OR_RETURN(Arg element, p.Argument(NamedInt::kNone, *c10::NumberType::get()));
      if (element.kind != Arg::Kind::kConstant) return p.Error("expected a number");
      flat[count++].fill_(element.constant.toScalar());
    }
    if (count != flat.numel()) return p.Error("too few elements");
    if (!v.device.is_cpu()) t = t.to(v.device);
    if (v.wrapped_number) t.unsafeGetTensorImpl()->set_wrapped_number(true);
    g_.constants.push_back({id, std::move(t)});
    return absl::OkStatus();
  }

  absl::Status OutputLine(LiteralParser& p) {
    Output o;
    if (!p.TakeName("_")) {
      auto it = names_.values.find(std::string(p.Peek().text));
      if (p.Peek().kind != TokenKind::kValue || it == names_.values.end()) return p.Error("undefined value");
      p.Take();
      o.value = it->second;
    }
    while (!p.AtEnd()) FF_RETURN_IF_ERROR(OutputFact(p, &o));
    g_.outputs.push_back(o);
    return absl::OkStatus();
  }

  absl::Status OutputFact(LiteralParser& p, Output* o) {
    FF_ASSIGN_OR_RETURN(std::string key, p.ExpectName());
    if (key == "user") return absl::OkStatus();
    if (key == "hidden") {
      o->role = OutputRole::kHidden;
      return absl::OkStatus();
    }
    static constexpr std::pair<const char*, bool Output::*> kFlags[] = {
        {"grad", &Output::requires_grad},  {"spent", &Output::spent},
        {"inference", &Output::inference}, {"without_grad", &Output::without_grad},
        {"detached", &Output::detached},   {"own_version", &Output::own_version}};
    for (const auto& [name, flag] : kFlags) {
      if (key != name) continue;
      o->*flag = true;
      return absl::OkStatus();
    }
    FF_RETURN_IF_ERROR(p.Expect("="));
    if (key == "turns") return Turns(p, o);
    if (key == "underivable" || key == "grad_fn") {
      if (p.Peek().kind != TokenKind::kString) return p.Error("no name in quotes");
      (key == "grad_fn" ? o->grad_fn : o->underivable) = std::string(p.Take().text);
      return absl::OkStatus();
    }
    FF_ASSIGN_OR_RETURN(std::int64_t index, p.ExpectInteger());
    auto number = static_cast<std::int32_t>(index);
    if (key == "mutated_input" || key == "gradient") {
      o->role = key == "gradient" ? OutputRole::kGradient : OutputRole::kMutatedInput;
      o->input = number;
      return absl::OkStatus();
    }
    if (key == "defines") {
      o->role = OutputRole::kUnbacked;
      o->symbol = number;
      return absl::OkStatus();
    }
    if (key == "version" || key == "dim") {
      (key == "dim" ? o->dim : o->version) = number;
      return absl::OkStatus();
    }
    if (key == "gradient_of_output") {
      o->role = OutputRole::kGradient;
      o->of_output = number;
      return absl::OkStatus();
    }
    static constexpr const char* kAliases[] = {"", "input", "view_of_input", "view_of_output", "is_output"};
    for (int i = 1; i < 5; ++i) {
      if (key != kAliases[i]) continue;
      o->alias = static_cast<OutputAlias>(i);
      o->alias_of = number;
      return absl::OkStatus();
    }
    return p.Error("unknown fact of an output: " + key);
  }

  absl::Status Turns(LiteralParser& p, Output* o) {
    FF_RETURN_IF_ERROR(p.Expect("["));
    while (!p.TakePunct("]")) {
      if (!o->turns.empty()) FF_RETURN_IF_ERROR(p.Expect(","));
      FF_ASSIGN_OR_RETURN(std::int64_t turn, p.ExpectInteger());
      o->turns.push_back(static_cast<std::int32_t>(turn));
    }
    return absl::OkStatus();
  }

  absl::Status Results(LiteralParser& p, Node* n) {
    bool any_list = false;
    std::vector<std::int32_t> list_sizes;
    while (true) {
      if (p.TakePunct("[")) {
        any_list = true;
        std::int32_t count = 0;
        while (!p.TakePunct("]")) {
          if (count > 0) FF_RETURN_IF_ERROR(p.Expect(","));
          FF_ASSIGN_OR_RETURN(ValueId v, Definition(p));
          n->outputs.push_back(v);
          ++count;
        }
        list_sizes.push_back(count);
      } else {
        FF_ASSIGN_OR_RETURN(ValueId v, Definition(p));
        n->outputs.push_back(v);
        list_sizes.push_back(-1);
      }
      if (!p.TakePunct(",")) break;
    }
    if (any_list) n->list_sizes = std::move(list_sizes);
    return p.Expect("=");
  }

  absl::Status NodeLine(LiteralParser& p, std::string_view comment) {
    Node n;
    n.phase = phase_;
    bool has_results = p.Peek().kind != TokenKind::kName || p.Peek().text == "_";
    if (has_results) FF_RETURN_IF_ERROR(Results(p, &n));
    FF_ASSIGN_OR_RETURN(std::string name, p.ExpectName());
    FF_ASSIGN_OR_RETURN(n.op, FindOp(name));
    if (!has_results) n.outputs.assign(n.op->returns().size(), kNoValue);
    FF_RETURN_IF_ERROR(Arguments(p, &n));
    if (!comment.empty()) n.origin = ParseOrigin(comment);
    g_.nodes.push_back(std::move(n));
    return absl::OkStatus();
  }

  absl::Status Arguments(LiteralParser& p, Node* n) {
    const auto& schema = n->op->schema().arguments();
    std::vector<bool> given(schema.size(), false);
    n->args.resize(schema.size());
    std::size_t next = 0;
    FF_RETURN_IF_ERROR(p.Expect("("));
    bool first = true;
    while (!p.TakePunct(")")) {
      if (!first) FF_RETURN_IF_ERROR(p.Expect(","));
      first = false;
      std::size_t at = next++;
      bool keyword = p.Peek().kind == TokenKind::kName && p.Peek(1).kind == TokenKind::kPunct && p.Peek(1).text == "=";
      if (keyword) {
        FF_ASSIGN_OR_RETURN(std::string key, p.ExpectName());
        int found = n->op->FindArgument(key);
        if (found < 0) return p.Error(n->op->name() + " has no argument " + key);
        at = static_cast<std::size_t>(found);
        FF_RETURN_IF_ERROR(p.Expect("="));
      }
      if (at >= schema.size()) return p.Error("too many arguments");
      if (given[at]) return p.Error("argument " + schema[at].name() + " is given twice");
      given[at] = true;
      FF_ASSIGN_OR_RETURN(n->args[at], p.Argument(n->op->arguments()[at].named_int, *schema[at].type()));
    }
    for (std::size_t i = 0; i < schema.size(); ++i) {
      if (given[i]) continue;
      if (!schema[i].default_value().has_value()) return p.Error("argument " + schema[i].name() + " is missing");
      n->args[i] = Arg::Constant(*schema[i].default_value());
    }
    return absl::OkStatus();
  }

  // model.py:12 in forward: x + r  <torch.add>
  OriginId ParseOrigin(std::string_view comment) {
    Origin o;
    std::size_t in = comment.find(" in ");
    std::size_t colon = in == std::string_view::npos ? in : comment.rfind(':', in);
    std::size_t after = in == std::string_view::npos ? in : comment.find(": ", in);
    if (colon == std::string_view::npos || after == std::string_view::npos) return -1;  // a free comment
    o.file = comment.substr(0, colon);
    for (char c : comment.substr(colon + 1, in - colon - 1)) {
      if (c < '0' || c > '9') return -1;
      o.line = o.line * 10 + (c - '0');
    }
    o.function = comment.substr(in + 4, after - in - 4);
    std::string_view source = comment.substr(after + 2);
    if (std::size_t call = source.rfind("  <"); call != std::string_view::npos && source.back() == '>') {
      o.torch_call = source.substr(call + 3, source.size() - call - 4);
      source = source.substr(0, call);
    }
    o.source = source;
    return g_.AddOrigin(std::move(o));
  }

  Graph g_;
  LiteralParser::Names names_;
  Phase phase_ = Phase::kForward;
};

}  // namespace

absl::StatusOr<Graph> Parse(std::string_view text) {
  FF_ASSIGN_OR_RETURN(Graph g, Parser().Run(text));
  FF_RETURN_IF_ERROR(Verify(g));
  return g;
}

}  // namespace framefuse::ir
