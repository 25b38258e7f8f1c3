// What a graph must be before anything trusts it: values defined once and before use, schemas kept, outputs sound.
#include <string>

#include "absl/strings/str_cat.h"
#include "backends/graph/graph.h"
#include "common/indexed_vector.h"
#include "common/status.h"

namespace framefuse::ir {
namespace {

// Tensors that schemas require, but torch itself passes undefined: what attention has no bias or no packed sequences
// for.
bool MayBeUndefined(std::string_view argument) {
  return argument == "attn_bias" || argument == "cum_seq_q" || argument == "cum_seq_k";
}

class Verifier {
 public:
  explicit Verifier(const Graph& g) : g_(g), defined_(g.values.size(), false) {}

  absl::Status Run() {
    for (std::size_t i = 0; i < g_.inputs.size(); ++i) {
      where_ = {"input", i};
      FF_RETURN_IF_ERROR(Define(g_.inputs[i].value));
      FF_RETURN_IF_ERROR(CheckInput(i));
    }
    for (std::size_t i = 0; i < g_.constants.size(); ++i) {
      where_ = {"constant", i};
      FF_RETURN_IF_ERROR(Define(g_.constants[i].value));
    }
    for (std::size_t i = 0; i < g_.nodes.size(); ++i) {
      const Node& n = g_.nodes[i];
      if (n.op == nullptr) return absl::InvalidArgumentError(absl::StrCat("node ", i, " has no op"));
      where_ = {"node", i, n.op};
      FF_RETURN_IF_ERROR(CheckNode(i));
    }
    for (std::size_t i = 0; i < g_.outputs.size(); ++i) FF_RETURN_IF_ERROR(CheckOutput(i));
    return absl::OkStatus();
  }

 private:
  // Part of the graph: a text only once something is wrong with it.
  struct Location {
    const char* kind = "";
    std::size_t index = 0;
    const Op* op = nullptr;
  };

  absl::Status Bad(std::string_view what) const {
    const std::string op = where_.op != nullptr ? absl::StrCat(" (", where_.op->name(), ")") : "";
    return absl::InvalidArgumentError(
        absl::StrCat(where_.kind, " ", where_.index, op, ": ", absl::string_view(what.data(), what.size())));
  }
  bool InRange(ValueId v) const { return v >= 0 && static_cast<std::size_t>(v) < g_.values.size(); }

  absl::Status Define(ValueId v) {
    if (!InRange(v)) return Bad(absl::StrCat("value id ", v, " is out of range"));
    if (defined_[v]) return Bad(absl::StrCat("value ", v, " is defined twice"));
    defined_[v] = true;
    return CheckMetadata(v);
  }

  absl::Status CheckMetadata(ValueId id) const {
    const Value& v = g_.value(id);
    if (v.kind != ValueKind::kTensor || v.layout != c10::Layout::Strided) return absl::OkStatus();
    if (v.sizes.size() != v.strides.size())
      return Bad(absl::StrCat("value ", id, " has ", v.sizes.size(), " sizes and ", v.strides.size(), " strides"));
    auto known = [&](const Dim& d) { return d.is_constant() || (d.expr >= 0 && d.expr < g_.exprs.size()); };
    for (std::size_t i = 0; i < v.sizes.size(); ++i) {
      if (!known(v.sizes[i]) || !known(v.strides[i]))
        return Bad(absl::StrCat("value ", id, " uses an unknown expression"));
      if (v.sizes[i].is_constant() && v.sizes[i].constant() < 0)
        return Bad(absl::StrCat("value ", id, " has a negative size"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckInput(std::size_t i) const {
    const Input& in = g_.inputs[i];
    if (in.role == InputRole::kTangent &&
        (in.tangent_of < 0 || static_cast<std::size_t>(in.tangent_of) >= g_.outputs.size())) {
      return Bad("tangent of an output that does not exist");
    }
    if (in.role != InputRole::kTangent && i > 0 && g_.inputs[i - 1].role == InputRole::kTangent) {
      return Bad("tangents come after the other inputs");
    }
    if (!in.mutated)
      return in.mutated_output < 0 ? absl::OkStatus() : Bad("mutated_output of an input that is not mutated");
    if (in.role == InputRole::kConstant || in.role == InputRole::kTangent) return Bad("this role cannot be mutated");
    if (in.mutated_output < 0)
      return g_.functional ? Bad("a functional graph must give a mutated input's new value") : absl::OkStatus();
    if (static_cast<std::size_t>(in.mutated_output) >= g_.outputs.size()) return Bad("mutated_output is out of range");
    const Output& out = g_.outputs[static_cast<std::size_t>(in.mutated_output)];
    if (out.role != OutputRole::kMutatedInput || out.input != static_cast<std::int32_t>(i))
      return Bad("mutated_output does not point back");
    return absl::OkStatus();
  }

  absl::Status CheckNode(std::size_t i) {
    const Node& n = g_.nodes[i];
    if (n.phase == Phase::kBackward) {
      backward_ = true;
    } else if (backward_) {
      return Bad("forward node after a backward node");
    }
    if (n.args.size() != n.op->arguments().size()) {
      return Bad(absl::StrCat("has ", n.args.size(), " arguments, its schema ", n.op->arguments().size()));
    }
    if (n.origin >= 0 && static_cast<std::size_t>(n.origin) >= g_.origins.size()) return Bad("origin is out of range");
    for (std::size_t a = 0; a < n.args.size(); ++a) FF_RETURN_IF_ERROR(CheckArg(n.args[a], n.op->arguments()[a]));
    if (g_.functional && n.op->mutates()) return Bad("writes an argument in a functional graph");
    return CheckResults(n);
  }

  absl::Status CheckArg(const Arg& arg, const OpArgument& schema) const {
    absl::Status used = absl::OkStatus();
    ForEachValue(arg, [&](ValueId v) {
      if (!InRange(v)) {
        used = Bad(absl::StrCat("argument ", schema.name, ": value id ", v, " is out of range"));
      } else if (!defined_[v]) {
        used = Bad(absl::StrCat("argument ", schema.name, ": value ", v, " is used before its definition"));
      }
    });
    FF_RETURN_IF_ERROR(used);
    bool ok = true;
    switch (schema.type) {
      case ArgType::kTensor:
        ok = (arg.kind == Arg::Kind::kValue && IsTensor(arg.value)) ||
             (arg.kind == Arg::Kind::kNone && MayBeUndefined(schema.name));
        break;
      case ArgType::kOptionalTensor:
        ok = arg.kind == Arg::Kind::kNone || (arg.kind == Arg::Kind::kValue && IsTensor(arg.value));
        break;
      case ArgType::kTensorList:
      case ArgType::kOptionalTensorList:
        ok = arg.kind == Arg::Kind::kValueList || arg.kind == Arg::Kind::kNone;
        for (ValueId v : arg.values)
          ok = ok && (v == kNoValue ? schema.type == ArgType::kOptionalTensorList : IsTensor(v));
        break;
      case ArgType::kOther:
        ok = arg.kind != Arg::Kind::kValueList && !(arg.kind == Arg::Kind::kValue && IsTensor(arg.value));
        break;
    }
    for (const Dim& d : arg.dims) ok = ok && (d.is_constant() || d.expr < g_.exprs.size());
    return ok ? absl::OkStatus() : Bad(absl::StrCat("argument ", schema.name, " has the wrong kind"));
  }

  bool IsTensor(ValueId v) const { return g_.value(v).kind == ValueKind::kTensor; }

  absl::Status CheckResults(const Node& n) {
    const std::vector<OpReturn>& returns = n.op->returns();
    std::size_t expected = returns.size();
    if (!n.list_sizes.empty()) {
      if (n.list_sizes.size() != returns.size()) return Bad("list_sizes does not match the schema's returns");
      expected = 0;
      for (std::size_t r = 0; r < returns.size(); ++r) {
        bool list = returns[r].type == ArgType::kTensorList;
        if (list != (n.list_sizes[r] >= 0)) return Bad("list_sizes does not match the schema's returns");
        expected += list ? static_cast<std::size_t>(n.list_sizes[r]) : 1;
      }
    } else {
      for (const OpReturn& r : returns) {
        if (r.type == ArgType::kTensorList) return Bad("returns a list but has no list_sizes");
      }
    }
    if (n.outputs.size() != expected)
      return Bad(absl::StrCat("has ", n.outputs.size(), " outputs, its schema ", expected));
    for (ValueId v : n.outputs) {
      if (v != kNoValue) FF_RETURN_IF_ERROR(Define(v));
    }
    return absl::OkStatus();
  }

  absl::Status CheckGradientOfOutput(const Output& o) {
    if (o.role != OutputRole::kGradient || o.input >= 0) return Bad("is no gradient of an output");
    for (const Input& in : g_.inputs) {
      if (in.role == InputRole::kTangent && in.tangent_of == o.of_output) return absl::OkStatus();
    }
    return Bad("of_output has no tangent");
  }

  absl::Status CheckOutput(std::size_t i) {
    const Output& o = g_.outputs[i];
    where_ = {"output", i};
    if (o.value == kNoValue)
      return o.role == OutputRole::kGradient || o.role == OutputRole::kUser ? absl::OkStatus() : Bad("has no value");
    if (!InRange(o.value)) return Bad("value id is out of range");
    if (!defined_[o.value]) return Bad(absl::StrCat("value ", o.value, " is never defined"));
    if (o.of_output >= 0) return CheckGradientOfOutput(o);
    if (o.role == OutputRole::kUnbacked) {
      const bool known = o.symbol >= 0 && static_cast<std::size_t>(o.symbol) < g_.exprs.symbols().size();
      if (!known || !g_.exprs.symbols()[static_cast<std::size_t>(o.symbol)].unbacked)
        return Bad("symbol is not unbacked");
      if (o.dim >= static_cast<std::int32_t>(g_.value(o.value).rank())) return Bad("dim is out of range");
      return absl::OkStatus();
    }
    bool wants_input = o.role == OutputRole::kMutatedInput || o.role == OutputRole::kGradient;
    bool view = o.alias == OutputAlias::kViewOfInput || o.alias == OutputAlias::kViewOfOutput;
    if ((o.without_grad || o.detached || o.own_version) && !view) return Bad("is no view");
    if (o.spent && (!o.requires_grad || o.alias != OutputAlias::kFresh)) return Bad("has no history to be used up");
    if (!o.underivable.empty() && !o.spent) return Bad("has an operator without a derivative, and a history");
    if (o.inference && (o.requires_grad || o.alias != OutputAlias::kFresh)) return Bad("is made in inference mode");
    if (o.without_grad && o.requires_grad) return Bad("was made without grad and has a history");
    if (wants_input && (o.input < 0 || static_cast<std::size_t>(o.input) >= g_.inputs.size()))
      return Bad("input is out of range");
    switch (o.alias) {
      case OutputAlias::kFresh:
        return absl::OkStatus();
      case OutputAlias::kInput:
      case OutputAlias::kViewOfInput:
        return o.alias_of >= 0 && static_cast<std::size_t>(o.alias_of) < g_.inputs.size() ? absl::OkStatus()
                                                                                          : Bad("alias_of is no input");
      case OutputAlias::kViewOfOutput:
      case OutputAlias::kOutput:
        return o.alias_of >= 0 && static_cast<std::size_t>(o.alias_of) < g_.outputs.size() &&
                       o.alias_of != static_cast<std::int32_t>(i)
                   ? absl::OkStatus()
                   : Bad("alias_of is no other output");
    }
    return absl::OkStatus();
  }

  const Graph& g_;
  IndexedVector<ValueId, bool> defined_;
  Location where_;
  bool backward_ = false;
};

}  // namespace

absl::Status Verify(const Graph& graph) { return Verifier(graph).Run(); }

}  // namespace framefuse::ir
