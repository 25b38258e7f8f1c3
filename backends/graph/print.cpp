// The text form of a graph, written: what parse.cpp reads back as an equal graph.
#include <bit>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/graph/graph.h"
#include "backends/graph/text_names.h"

namespace framefuse::ir {
namespace {

class Printer {
 public:
  Printer(const Graph& g, const PrintOptions& options) : g_(g), options_(options), exprs_(g.exprs) {
    NumberValues();
    NumberStorages();
  }

  std::string Run() {
    absl::StrAppend(&text_, "graph ", Quote(g_.name), g_.functional ? " functional\n" : "\n");
    for (const Symbol& s : g_.exprs.symbols()) PrintSymbol(s);
    for (const Input& in : g_.inputs) PrintInput(in);
    for (const ConstantTensor& c : g_.constants) PrintConstantTensor(c);
    bool backward = false;
    for (const Node& n : g_.nodes) {
      if (n.phase == Phase::kBackward && !backward) {
        backward = true;
        absl::StrAppend(&text_, "backward\n");
      }
      PrintNode(n);
    }
    for (const Output& o : g_.outputs) PrintOutput(o);
    return std::move(text_);
  }

 private:
  void Number(ValueId v) {
    if (v != kNoValue) numbers_.try_emplace(v, static_cast<int>(numbers_.size()));
  }

  void NumberValues() {
    for (const Input& in : g_.inputs) Number(in.value);
    for (const ConstantTensor& c : g_.constants) Number(c.value);
    for (const Node& n : g_.nodes) {
      for (ValueId v : n.outputs) Number(v);
    }
  }

  // Only storages of several values are worth a number.
  void NumberStorages() {
    absl::flat_hash_map<StorageId, int> users;
    for (const auto& [v, number] : numbers_) {
      if (g_.value(v).storage >= 0) ++users[g_.value(v).storage];
    }
    std::vector<ValueId> in_order(numbers_.size());
    for (const auto& [v, number] : numbers_) in_order[static_cast<std::size_t>(number)] = v;
    for (ValueId v : in_order) {
      StorageId s = g_.value(v).storage;
      if (s >= 0 && users[s] > 1) storages_.try_emplace(s, static_cast<int>(storages_.size()));
    }
  }

  std::string Ref(ValueId v) const {
    if (v == kNoValue) return "_";
    auto it = numbers_.find(v);
    return it == numbers_.end() ? absl::StrCat("%undefined_", v) : absl::StrCat("%", it->second);
  }

  std::string Dims(const std::vector<Dim>& dims) const {
    return absl::StrCat(
        "[", absl::StrJoin(dims, ", ", [&](std::string* out, const Dim& d) { *out += exprs_.Print(d); }), "]");
  }

  std::string Type(ValueId id) {
    const Value& v = g_.value(id);
    switch (v.kind) {
      case ValueKind::kInt:
        return "int";
      case ValueKind::kFloat:
        return "float";
      case ValueKind::kBool:
        return "bool";
      case ValueKind::kTensor:
        break;
    }
    std::vector<std::string> extras;
    bool strided = v.layout == c10::Layout::Strided;
    // Those of dimensions with one element, too: Python sees them.
    const bool plain = v.strides == ContiguousStrides(exprs_, v.sizes);
    if (strided && !plain) extras.push_back(absl::StrCat("strides=", Dims(v.strides)));
    if (!(v.offset == Dim(0))) extras.push_back(absl::StrCat("offset=", exprs_.Print(v.offset)));
    if (!v.device.is_cpu()) extras.push_back(absl::StrCat("device=", v.device.str()));
    if (!strided) extras.push_back(absl::StrCat("layout=", PrintLayout(v.layout)));
    if (auto it = storages_.find(v.storage); v.storage >= 0 && it != storages_.end()) {
      extras.push_back(absl::StrCat("storage=", it->second));
    }
    if (v.requires_grad) extras.push_back("grad");
    if (v.wrapped_number) extras.push_back("wrapped");
    if (v.of_formula) extras.push_back("formula");
    std::string text = absl::StrCat(PrintDtype(v.dtype), Dims(v.sizes));
    if (!extras.empty()) absl::StrAppend(&text, "{", absl::StrJoin(extras, ", "), "}");
    return text;
  }

  std::string Definition(ValueId v) { return v == kNoValue ? "_" : absl::StrCat(Ref(v), ": ", Type(v)); }

  void PrintSymbol(const Symbol& s) {
    absl::StrAppend(&text_, "symbol ", s.name);
    if (s.type == NumberType::kFloat) {
      absl::StrAppend(&text_, ": float = ", PrintFloat(std::bit_cast<double>(s.hint)));
    } else if (s.type == NumberType::kBool) {
      absl::StrAppend(&text_, ": bool = ", s.hint != 0 ? "True" : "False");
    } else {
      absl::StrAppend(&text_, " = ", s.hint);
    }
    const Symbol plain;
    if (s.min != plain.min) absl::StrAppend(&text_, " min=", s.min);
    if (s.max != plain.max) absl::StrAppend(&text_, " max=", s.max);
    if (s.divisor != plain.divisor) absl::StrAppend(&text_, " divisor=", s.divisor);
    if (s.unbacked) absl::StrAppend(&text_, " unbacked=1");
    absl::StrAppend(&text_, "\n");
  }

  void PrintInput(const Input& in) {
    static constexpr const char* kRoles[] = {"argument", "parameter", "buffer", "constant", "tangent", "rng_state"};
    absl::StrAppend(&text_, "input ", Definition(in.value), " ", kRoles[static_cast<int>(in.role)]);
    if (!in.name.empty()) absl::StrAppend(&text_, " ", Quote(in.name));
    if (in.mutated && in.mutated_output < 0) absl::StrAppend(&text_, " mutated");
    if (in.mutated && in.mutated_output >= 0) absl::StrAppend(&text_, " mutated=", in.mutated_output);
    if (in.mutated_without_grad) absl::StrAppend(&text_, " without_grad");
    if (in.mutated_uncounted) absl::StrAppend(&text_, " uncounted");
    if (in.overlap_class != 0) absl::StrAppend(&text_, " overlap=", in.overlap_class);
    if (in.tangent_of >= 0) absl::StrAppend(&text_, " of=", in.tangent_of);
    absl::StrAppend(&text_, "\n");
  }

  void PrintConstantTensor(const ConstantTensor& c) {
    absl::StrAppend(&text_, "constant ", Definition(c.value), " = [");
    at::Tensor flat = c.tensor.detach().cpu().contiguous().view({-1});
    for (std::int64_t i = 0; i < flat.numel(); ++i) {
      absl::StrAppend(&text_, i == 0 ? "" : ", ", PrintScalar(flat[i].item()));
    }
    absl::StrAppend(&text_, "]\n");
  }

  static std::string PrintScalar(const c10::Scalar& s) {
    if (s.isBoolean()) return s.toBool() ? "True" : "False";
    if (s.isFloatingPoint()) return PrintFloat(s.toDouble());
    if (s.isComplex()) return PrintComplex(s.toComplexDouble());
    return std::to_string(s.toLong());
  }

  static std::string PrintComplex(const c10::complex<double>& c) {
    return absl::StrCat("complex(", PrintFloat(c.real()), ", ", PrintFloat(c.imag()), ")");
  }

  static std::string PrintConstant(const c10::IValue& v, NamedInt named) {
    if (v.isInt()) {
      switch (named) {
        case NamedInt::kDtype:
          return PrintDtype(static_cast<c10::ScalarType>(v.toInt()));
        case NamedInt::kLayout:
          return PrintLayout(static_cast<c10::Layout>(v.toInt()));
        case NamedInt::kMemoryFormat:
          return PrintMemoryFormat(static_cast<c10::MemoryFormat>(v.toInt()));
        case NamedInt::kNone:
          return std::to_string(v.toInt());
      }
    }
    if (v.isBool()) return v.toBool() ? "True" : "False";
    if (v.isDouble()) return PrintFloat(v.toDouble());
    if (v.isComplexDouble()) return PrintComplex(v.toComplexDouble());
    if (v.isString()) return Quote(v.toStringRef());
    if (v.isDevice()) return v.toDevice().str();
    if (v.isNone()) return "None";
    if (v.isList()) {
      std::vector<std::string> parts;
      for (const c10::IValue& e : v.toListRef()) parts.push_back(PrintConstant(e, named));
      return absl::StrCat("[", absl::StrJoin(parts, ", "), "]");
    }
    return absl::StrCat("<", v.tagKind(), ">");
  }

  std::string PrintArg(const Arg& a, NamedInt named) {
    switch (a.kind) {
      case Arg::Kind::kNone:
        return "None";
      case Arg::Kind::kValue:
        return Ref(a.value);
      case Arg::Kind::kValueList: {
        auto element = [&](std::string* out, ValueId v) { *out += v == kNoValue ? "None" : Ref(v); };
        return absl::StrCat("[", absl::StrJoin(a.values, ", ", element), "]");
      }
      case Arg::Kind::kConstant:
        return PrintConstant(a.constant, named);
      case Arg::Kind::kDim:
        return exprs_.Print(a.dims[0]);
      case Arg::Kind::kDimList:
        return Dims(a.dims);
    }
    return "None";
  }

  void PrintResults(const Node& n) {
    bool any = !n.list_sizes.empty();
    for (ValueId v : n.outputs) any = any || v != kNoValue;
    if (!any) return;
    std::vector<std::string> parts;
    std::size_t next = 0;
    for (std::size_t r = 0; r < n.op->returns().size(); ++r) {
      if (n.list_sizes.empty() || n.list_sizes[r] < 0) {
        parts.push_back(Definition(n.outputs[next++]));
        continue;
      }
      std::vector<std::string> elements;
      for (int i = 0; i < n.list_sizes[r]; ++i) elements.push_back(Definition(n.outputs[next++]));
      parts.push_back(absl::StrCat("[", absl::StrJoin(elements, ", "), "]"));
    }
    absl::StrAppend(&text_, absl::StrJoin(parts, ", "), " = ");
  }

  void PrintNode(const Node& n) {
    PrintResults(n);
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < n.args.size(); ++i) {
      const OpArgument& schema = n.op->arguments()[i];
      std::string value = PrintArg(n.args[i], schema.named_int);
      if (!schema.keyword_only) {
        parts.push_back(std::move(value));
      } else if (n.args[i].kind != Arg::Kind::kNone || !schema.default_none) {
        parts.push_back(absl::StrCat(schema.name, "=", value));
      }
    }
    absl::StrAppend(&text_, n.op->name(), "(", absl::StrJoin(parts, ", "), ")");
    if (options_.origins && n.origin >= 0) PrintOrigin(g_.origins[static_cast<std::size_t>(n.origin)]);
    absl::StrAppend(&text_, "\n");
  }

  void PrintOrigin(const Origin& o) {
    std::string source = o.source.substr(0, o.source.find('\n'));
    absl::StrAppend(&text_, "  # ", o.file, ":", o.line, " in ", o.function, ": ", source);
    if (!o.torch_call.empty()) absl::StrAppend(&text_, "  <", o.torch_call, ">");
  }

  void PrintOutput(const Output& o) {
    absl::StrAppend(&text_, "output ", Ref(o.value));
    switch (o.role) {
      case OutputRole::kUser:
        absl::StrAppend(&text_, " user");
        break;
      case OutputRole::kMutatedInput:
        absl::StrAppend(&text_, " mutated_input=", o.input);
        break;
      case OutputRole::kHidden:
        absl::StrAppend(&text_, " hidden");
        break;
      case OutputRole::kGradient:
        absl::StrAppend(
            &text_, o.of_output < 0 ? " gradient=" : " gradient_of_output=", o.of_output < 0 ? o.input : o.of_output);
        break;
      case OutputRole::kUnbacked:
        absl::StrAppend(&text_, " defines=", o.symbol, " dim=", o.dim);
        break;
    }
    static constexpr const char* kAliases[] = {"", "input", "view_of_input", "view_of_output", "is_output"};
    if (o.alias != OutputAlias::kFresh)
      absl::StrAppend(&text_, " ", kAliases[static_cast<int>(o.alias)], "=", o.alias_of);
    if (o.requires_grad) absl::StrAppend(&text_, " grad");
    if (o.spent) absl::StrAppend(&text_, " spent");
    if (!o.underivable.empty()) absl::StrAppend(&text_, " underivable=\"", o.underivable, "\"");
    if (!o.grad_fn.empty()) absl::StrAppend(&text_, " grad_fn=\"", o.grad_fn, "\"");
    if (o.inference) absl::StrAppend(&text_, " inference");
    if (o.without_grad) absl::StrAppend(&text_, " without_grad");
    if (o.detached) absl::StrAppend(&text_, " detached");
    if (o.own_version) absl::StrAppend(&text_, " own_version");
    if (o.version > 0) absl::StrAppend(&text_, " version=", o.version);
    if (!o.turns.empty()) absl::StrAppend(&text_, " turns=[", absl::StrJoin(o.turns, ","), "]");
    absl::StrAppend(&text_, "\n");
  }

  const Graph& g_;
  const PrintOptions& options_;
  ExprTable exprs_;  // a copy: contiguity checks make expressions
  absl::flat_hash_map<ValueId, int> numbers_;
  absl::flat_hash_map<StorageId, int> storages_;
  std::string text_;
};

}  // namespace

std::string Print(const Graph& graph, const PrintOptions& options) { return Printer(graph, options).Run(); }

}  // namespace framefuse::ir
