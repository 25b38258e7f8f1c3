#include "backends/runtime/differentiable_ops.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "backends/graph/operators.h"
#include "common/index.h"

namespace framefuse {
namespace {

using at::Tensor;
using ir::Arg;
using ir::Node;
using MaybeTensor = std::optional<Tensor>;

// What is replaced gets a gradient of zeros, as in eager, where a history leads to it.
Tensor Copy(const Tensor& self, const Tensor& src, bool non_blocking) {
  const bool leads = at::GradMode::is_enabled() && self.requires_grad();
  return (leads ? self.clone() : at::empty_like(self)).copy_(src, non_blocking);
}

// Torch's have no derivatives for complex numbers.
Tensor SliceScatter(const Tensor& self, const Tensor& src, std::int64_t dim, std::optional<std::int64_t> start,
                    std::optional<std::int64_t> end, std::int64_t step) {
  if (!self.is_complex()) return at::slice_scatter(self, src, dim, start, end, step);
  Tensor out = self.clone();
  out.slice(dim, start, end, step).copy_(src);
  return out;
}

Tensor SelectScatter(const Tensor& self, const Tensor& src, std::int64_t dim, std::int64_t index) {
  if (!self.is_complex()) return at::select_scatter(self, src, dim, index);
  Tensor out = self.clone();
  out.select(dim, index).copy_(src);
  return out;
}

// Torch's own derivative clears what was not written.
Tensor AsStridedScatter(const Tensor& self, const Tensor& src, at::IntArrayRef size, at::IntArrayRef stride,
                        std::optional<std::int64_t> offset) {
  Tensor out = at::empty_strided(self.sizes(), self.strides(), self.options()).copy_(self);
  out.as_strided(size, stride, offset.value_or(self.storage_offset()) - self.storage_offset()).copy_(src);
  return out;
}

// As eager: a write that autograd does not see leaves the tensor's history as it is.
Tensor KeepHistory(const Tensor& value, const Tensor& of) {
  Tensor out = at::empty_strided(value.sizes(), value.strides(), value.options()).copy_(of);
  const at::NoGradGuard unseen;
  return out.copy_(value);
}

thread_local UnknownValues* unknown_values = nullptr;

Tensor NoteUnsaved(const Tensor& made, at::TensorList of) {
  if (unknown_values != nullptr) unknown_values->AddIfOf(made, absl::MakeConstSpan(of.data(), of.size()));
  return made;
}

bool SharesMemoryOf(const Tensor& made, at::TensorList of) {
  return made.has_storage() && std::any_of(of.begin(), of.end(), [&](const Tensor& t) {
           return t.has_storage() && t.storage().is_alias_of(made.storage());
         });
}

// Eager's nodes that have saved it are refused. A view counts with its base, which may be the program's.
Tensor NoteGone(const Tensor& made, at::TensorList of) {
  if (unknown_values == nullptr || SharesMemoryOf(made, of)) return NoteUnsaved(made, of);
  unknown_values->Add(made);
  return made;
}

// The node that has saved its result (of exp, softmax) finds the elements there: they go into the result's memory, past
// its version.
Tensor GiveElements(const Tensor& made, const MaybeTensor& elements, at::TensorList of) {
  if (!elements || !elements->defined()) return NoteGone(made, of);
  TORCH_CHECK(made.sizes() == elements->sizes(), "create_graph=True: an input has other sizes since the graph has run");
  const bool has_node = std::any_of(of.begin(), of.end(), [](const Tensor& t) { return t.requires_grad(); });
  const bool is_own =
      made.has_storage() && !made._is_zerotensor() && made.is_non_overlapping_and_dense() && !SharesMemoryOf(made, of);
  if (!is_own || !has_node) {
    const Tensor out = elements->detach();
    if (made.requires_grad()) torch::autograd::impl::set_gradient_edge(out, torch::autograd::impl::gradient_edge(made));
    return out;
  }
  const at::NoGradGuard unseen;
  made.variable_data().copy_(*elements);
  return made;
}

Tensor SiluBackward(const Tensor& grad, const Tensor& x) {
  const Tensor s = x.sigmoid();
  return grad * s * (1 + x * (1 - s));
}

Tensor MishBackward(const Tensor& grad, const Tensor& x) {
  const Tensor t = at::softplus(x).tanh();
  return grad * (t + x * x.sigmoid() * (1 - t * t));
}

// Outside of [eps, 1 - eps] the input was clamped; without eps there is no such place but [0, 1]'s, where logit is NaN.
Tensor LogitBackward(const Tensor& grad, const Tensor& x, std::optional<double> eps) {
  const Tensor inside = grad / (x * (1 - x));
  const double low = eps.value_or(0.0);
  const Tensor outside = at::full({}, eps ? 0.0 : std::numeric_limits<double>::quiet_NaN(), grad.options());
  return at::where((x < low).logical_or(x > 1.0 - low), outside, inside);
}

// x̂ = (x − mean) · rstd a group, y = x̂ · weight + bias a channel: the textbook's gradients.
std::tuple<Tensor, Tensor, Tensor> GroupNormBackward(const Tensor& grad, const Tensor& x, const Tensor& mean,
                                                     const Tensor& rstd, const MaybeTensor& weight, std::int64_t n,
                                                     std::int64_t channels, std::int64_t points, std::int64_t group,
                                                     std::array<bool, 3> mask) {
  const std::int64_t in_group = channels / group * points;
  const Tensor normal = (x.reshape({n, group, in_group}) - mean.reshape({n, group, 1})) * rstd.reshape({n, group, 1});
  const Tensor rows = grad.reshape({n, channels, points});
  std::tuple<Tensor, Tensor, Tensor> result;
  if (mask[0]) {
    const bool scaled = weight && weight->defined();
    Tensor g = scaled ? rows * weight->reshape({1, channels, 1}) : rows;
    g = g.reshape({n, group, in_group});
    const Tensor direct =
        g - g.mean(at::IntArrayRef({2}), true) - normal * (g * normal).mean(at::IntArrayRef({2}), true);
    std::get<0>(result) = (direct * rstd.reshape({n, group, 1})).reshape(x.sizes()).to(x.scalar_type());
  }
  if (mask[1]) std::get<1>(result) = (rows * normal.reshape({n, channels, points})).sum(at::IntArrayRef({0, 2}));
  if (mask[2]) std::get<2>(result) = rows.sum(at::IntArrayRef({0, 2}));
  return result;
}

// The factors that an operator of linalg kept, as a function of its matrix; the operator's own have no history.
std::pair<Tensor, Tensor> FactorsOf(const Tensor& matrix, const Tensor& factors, const Tensor& pivots) {
  if (!at::GradMode::is_enabled() || !matrix.requires_grad()) return {factors, pivots};
  const bool transposed = matrix.is_contiguous() && !matrix.is_complex();
  for (const bool t : {transposed, !transposed}) {
    auto [made, made_pivots, info] = at::linalg_lu_factor_ex(t ? matrix.mT() : matrix);
    if (at::allclose(made.detach(), factors, 1e-5, 1e-8, /*equal_nan=*/true)) return {made, made_pivots};
  }
  TORCH_CHECK(false,
              "create_graph=True: the factors that an operator of torch.linalg kept are not those of its matrix");
}

std::tuple<Tensor, Tensor, Tensor, Tensor> Solve(const Tensor& a, const Tensor& b, bool left, bool check_errors) {
  auto [x, factors, pivots, info] = at::_linalg_solve_ex(a, b, left, check_errors);
  std::tie(factors, pivots) = FactorsOf(a, factors, pivots);
  return {x, factors, pivots, info};
}

std::tuple<Tensor, Tensor, Tensor> Determinant(const Tensor& a) {
  auto [det, factors, pivots] = at::_linalg_det(a);
  std::tie(factors, pivots) = FactorsOf(a, factors, pivots);
  return {det, factors, pivots};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> SignAndLogDeterminant(const Tensor& a) {
  auto [sign, logarithm, factors, pivots] = at::_linalg_slogdet(a);
  std::tie(factors, pivots) = FactorsOf(a, factors, pivots);
  return {sign, logarithm, factors, pivots};
}

using Stands = absl::flat_hash_map<std::string, ir::OpId>;

// By torch's name, framefuse's operator of the same schema.
const Stands& OwnOperators() {
  static const auto* const operators = [] {
    // Never destroyed: deregistration at exit would race with torch's own.
    static auto* const library =
        new torch::Library(torch::Library::FRAGMENT, "framefuse", std::nullopt, __FILE__, __LINE__);
    auto* const made = new Stands;
    const auto add = [made](const std::string& name, const char* rest, auto kernel) {
      const std::string own = "differentiable_" + name;
      library->def((own + rest).c_str());
      library->impl(own.c_str(), torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, kernel));
      made->emplace("aten." + name, ir::RequireOp("framefuse." + own));
    };
    add("copy", "(Tensor self, Tensor src, bool non_blocking) -> Tensor", TORCH_FN(Copy));
    add("slice_scatter", "(Tensor self, Tensor src, int dim, int? start, int? end, int step) -> Tensor",
        TORCH_FN(SliceScatter));
    add("select_scatter", "(Tensor self, Tensor src, int dim, int index) -> Tensor", TORCH_FN(SelectScatter));
    add("as_strided_scatter", "(Tensor self, Tensor src, int[] size, int[] stride, int? offset) -> Tensor",
        TORCH_FN(AsStridedScatter));
    add("keep_history", "(Tensor value, Tensor of) -> Tensor", TORCH_FN(KeepHistory));
    add("give_elements", "(Tensor made, Tensor? elements, Tensor[] of) -> Tensor", TORCH_FN(GiveElements));
    add("note_unsaved", "(Tensor made, Tensor[] of) -> Tensor", TORCH_FN(NoteUnsaved));
    add("silu_backward", "(Tensor grad, Tensor x) -> Tensor", TORCH_FN(SiluBackward));
    add("mish_backward", "(Tensor grad, Tensor x) -> Tensor", TORCH_FN(MishBackward));
    add("logit_backward", "(Tensor grad, Tensor x, float? eps) -> Tensor", TORCH_FN(LogitBackward));
    add("native_group_norm_backward",
        "(Tensor grad, Tensor x, Tensor mean, Tensor rstd, Tensor? weight, int n, int channels, int points, int group, "
        "bool[3] mask) -> (Tensor, Tensor, Tensor)",
        TORCH_FN(GroupNormBackward));
    const char* const four = " -> (Tensor, Tensor, Tensor, Tensor)";
    add("_linalg_solve_ex", (std::string("(Tensor a, Tensor b, *, bool left, bool check_errors)") + four).c_str(),
        TORCH_FN(Solve));
    add("_linalg_det", "(Tensor a) -> (Tensor, Tensor, Tensor)", TORCH_FN(Determinant));
    add("_linalg_slogdet", (std::string("(Tensor a)") + four).c_str(), TORCH_FN(SignAndLogDeterminant));
    return made;
  }();
  return *operators;
}

bool IsTrue(const Node& n, const char* argument) {
  const int i = n.op->FindArgument(argument);
  if (i < 0) return true;
  const Arg& a = n.args[At(i)];
  return a.kind == Arg::Kind::kConstant && a.constant.isBool() && a.constant.toBool();
}

// In training nothing but the next running statistics depends on the running statistics, whose old values are gone.
void ForgetRunningStatistics(const ir::Graph& joint, Node& n) {
  const ir::OpName name = ir::NameOf(n.op);
  if (name == ir::OpName::k_NativeBatchNormLegitFunctional && IsTrue(n, "training")) {
    n.op = ir::RequireOp(ir::OpName::k_NativeBatchNormLegitNoStats);
    n.args.erase(n.args.begin() + 3, n.args.begin() + 5);
    n.outputs.resize(3);
  } else if (name == ir::OpName::k_BatchNormWithUpdateFunctional && joint.value(n.outputs[0]).device.is_cuda()) {
    // Recorded for cudnn_batch_norm.
    n.op = ir::RequireOp(ir::OpName::kCudnnBatchNorm);
    n.args[3] = n.args[4] = Arg::None();
    n.args.insert(n.args.begin() + 5, Arg::Constant(true));
    n.outputs.resize(4);
  } else if ((name == ir::OpName::kNativeBatchNormBackward && IsTrue(n, "train")) ||
             (name == ir::OpName::kBatchNormBackward && IsTrue(n, "update")) ||
             name == ir::OpName::kCudnnBatchNormBackward) {
    n.args[3] = n.args[4] = Arg::None();
  }
}

}  // namespace

ir::OpId KeepsHistory() {
  OwnOperators();  // defines it
  return ir::RequireOp("framefuse.differentiable_keep_history");
}

ir::OpId NotesUnsaved() {
  OwnOperators();  // defines it
  return ir::RequireOp("framefuse.differentiable_note_unsaved");
}

UnknownValues::UnknownValues(absl::Span<const Tensor> inputs)
    : values_(inputs.begin(), inputs.end()), outer_(std::exchange(unknown_values, this)) {}

UnknownValues::~UnknownValues() { unknown_values = outer_; }

void UnknownValues::AddIfOf(const Tensor& made, absl::Span<const Tensor> of) {
  const auto is_unknown = [&](const Tensor& t) {
    return std::any_of(values_.begin(), values_.end(), [&](const Tensor& known) { return known.is_same(t); });
  };
  if (!is_unknown(made) && std::any_of(of.begin(), of.end(), is_unknown)) values_.push_back(made);
}

void UnknownValues::Spoil() const {
  for (const Tensor& t : values_) torch::autograd::impl::bump_version(t);
}

ir::OpId GivesElements() {
  OwnOperators();  // defines it
  return ir::RequireOp("framefuse.differentiable_give_elements");
}

namespace {

// What computes an argument that has one of these names; null: nothing, or another operator.
const Node* Computes(const ir::Graph& joint, const std::vector<ir::NodeIndex>& definitions, const Arg& a,
                     ir::OpName name) {
  const ir::NodeIndex d = a.kind == Arg::Kind::kValue ? definitions[At(a.value)] : ir::kNoNode;
  return d != ir::kNoNode && ir::Is(joint.nodes[At(d)].op, name) ? &joint.nodes[At(d)] : nullptr;
}

bool IsPlainDifference(const Node& n) {
  const Arg& alpha = n.args[2];
  return alpha.kind == Arg::Kind::kConstant && alpha.constant.isScalar() && alpha.constant.toScalar().equal(1);
}

// A backend has written log_softmax as (x - max) - log(sum(exp(x - max))). Eager's node has saved its result, from
// which all its derivatives are made; of the operators that are here nothing was saved.
void CloseLogSoftmax(ir::Graph& joint) {
  const std::vector<ir::NodeIndex> definitions = joint.Definitions();
  const auto of = [&](const Arg& a, ir::OpName name) { return Computes(joint, definitions, a, name); };
  for (Node& n : joint.nodes) {
    if (n.phase != ir::Phase::kForward || !ir::Is(n.op, ir::OpName::kSubTensor) || !IsPlainDifference(n)) continue;
    const Node* const shifted = of(n.args[0], ir::OpName::kSubTensor);
    const Node* const log = of(n.args[1], ir::OpName::kLog);
    const Node* const sum = log == nullptr ? nullptr : of(log->args[0], ir::OpName::kSumDimIntList);
    const Node* const exp = sum == nullptr ? nullptr : of(sum->args[0], ir::OpName::kExp);
    const Node* const max = shifted == nullptr ? nullptr : of(shifted->args[1], ir::OpName::kAmax);
    if (exp == nullptr || max == nullptr || !IsPlainDifference(*shifted)) continue;
    const bool fits = exp->args[0].value == n.args[0].value && max->args[0].value == shifted->args[0].value;
    const Arg &dims = max->args[1], &same = sum->args[1];
    if (!fits || !dims.constant.isIntList() || !same.constant.isIntList() || !IsTrue(*max, "keepdim") ||
        !IsTrue(*sum, "keepdim") || dims.constant.toIntVector() != same.constant.toIntVector() ||
        dims.constant.toIntVector().size() != 1)
      continue;
    const Arg dim = Arg::Constant(dims.constant.toIntVector()[0]);
    const Arg x = shifted->args[0];
    n.op = ir::RequireOp(ir::OpName::k_LogSoftmax);
    n.args = {x, dim, Arg::Constant(false)};
  }
}

}  // namespace

void MakeDifferentiable(ir::Graph& joint) {
  const Stands& own = OwnOperators();
  CloseLogSoftmax(joint);
  for (Node& n : joint.nodes) {
    if (const auto it = own.find(n.op->name()); it != own.end()) n.op = it->second;
    ForgetRunningStatistics(joint, n);
  }
}

}  // namespace framefuse
