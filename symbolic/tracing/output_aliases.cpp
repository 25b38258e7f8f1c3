#include "symbolic/tracing/output_aliases.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <typeinfo>

#include "absl/container/flat_hash_map.h"
#include "backends/graph/grad_fn_name.h"
#include "backends/graph/operators.h"
#include "symbolic/tracing/autograd_bridge.h"
#include "symbolic/tracing/made_leaves.h"
#include "symbolic/tracing/version_counter.h"

namespace framefuse::tracing {
namespace {

ir::ValueId ValueOf(const at::Tensor& t) { return AsFake(t)->value(); }

// requires_grad_() on what shares memory with what requires none.
bool IsNewLeaf(const at::Tensor& t) {
  return t.requires_grad() && IsLeaf(t) && !(t.is_view() && t._base().requires_grad());
}

// A view made while grad mode is off, which has no history of its own.
bool RequiresGradAsItsBase(const at::Tensor& t) { return t.requires_grad() && t.is_view() && IsLeaf(t); }

bool MadeWithoutGrad(const at::Tensor& view) {
  const auto* meta = torch::autograd::impl::get_view_autograd_meta(view);
  return meta->get_creation_meta() == torch::autograd::CreationMeta::NO_GRAD_MODE;
}

// An autograd.Function gave it, or what it is a view of: what a view's backward does is not all that its own does.
bool ComesOutOfFunction(const at::Tensor& t, const at::Tensor& base) {
  using torch::autograd::CreationMeta;
  const auto* meta = torch::autograd::impl::get_view_autograd_meta(t);
  if (meta == nullptr || !meta->has_bw_view()) return false;
  if (meta->get_creation_meta() == CreationMeta::IN_CUSTOM_FUNCTION) return true;
  if (meta->get_creation_meta() != CreationMeta::MULTI_OUTPUT_NODE) return false;
  const torch::autograd::Node* const end = base.defined() ? base.grad_fn().get() : nullptr;
  const torch::autograd::Node* node = t.grad_fn().get();
  while (node != nullptr && node != end) {
    if (IsOfFunction(*node)) return true;
    node = node->num_outputs() == 1 ? node->next_edge(0).function.get() : nullptr;
  }
  return false;
}

class OutputAliases {
 public:
  OutputAliases(Recorder& recorder, const std::vector<InputRecord>& inputs, const std::vector<at::Tensor>& tensors,
                std::vector<std::pair<std::size_t, at::Tensor>>* hidden)
      : recorder_(recorder),
        graph_(recorder.graph()),
        inputs_(inputs),
        tensors_(tensors),
        hidden_(*hidden),
        definitions_(graph_.Definitions()) {}

  absl::Status Describe() {
    if (CountWithOtherMemory()) {
      return Fail(BreakKind::kMutation, "a tensor counts its versions together with one of other memory");
    }
    absl::flat_hash_map<ir::StorageId, std::vector<std::size_t>> groups;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      graph_.outputs.push_back(NewOutput(graph_, tensors_[i]));
      const bool shares = AliasesInput(i);
      if (graph_.outputs[i].alias != ir::OutputAlias::kInput && IsNewLeaf(tensors_[i])) {
        return RefuseMadeLeaves(recorder_, {tensors_[i]}, "a leaf is made here");
      }
      if (shares) {
        const bool own = HasOwnHistory(i, inputs_[static_cast<std::size_t>(graph_.outputs[i].alias_of)].fake);
        if (own && IsUnsafePart(i)) {
          StandsAlone(i);
        } else if (own) {
          return Fail(BreakKind::kMutation, "memory of an input, with a history of its own");
        }
        continue;
      }
      if (RepeatsOutput(i)) continue;
      if (tensors_[i].unsafeGetTensorImpl()->grad().defined()) {
        return RefuseMadeLeaves(recorder_, {tensors_[i]}, "a tensor made here has a gradient");
      }
      groups[StorageOf(graph_.outputs[i].value)].push_back(i);
    }
    // In order of the outputs, so that equal captures give equal graphs.
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      auto it = groups.find(StorageOf(graph_.outputs[i].value));
      if (it == groups.end() || it->second.front() != i) continue;
      const bool lone = it->second.size() < 2 && !RequiresGradAsItsBase(tensors_[i]);
      if (lone && !IsLoneView(i) && !CountsApart(tensors_[i])) continue;
      if (absl::Status s = ShareBase(it->second); !s.ok()) return s;
    }
    ShareCopies();
    return NoteInference();
  }

 private:
  // `y = x.detach()`, and then `y.data = z`: it would be handed out with a counter of its own.
  bool CountWithOtherMemory() const {
    absl::flat_hash_map<const void*, ir::StorageId> memory;
    for (const InputRecord& in : inputs_) memory.try_emplace(PlaceOfCounter(in.fake), StorageOf(ValueOf(in.fake)));
    return std::any_of(tensors_.begin(), tensors_.end(), [&](const at::Tensor& t) {
      const void* const place = PlaceOfCounter(t);
      return place != nullptr &&
             memory.try_emplace(place, StorageOf(ValueOf(t))).first->second != StorageOf(ValueOf(t));
    });
  }

  // What a block of inference mode made, in a program that does not run in it.
  absl::Status NoteInference() {
    for (std::size_t i = 0; i < tensors_.size() && !c10::InferenceMode::is_enabled(); ++i) {
      const at::Tensor& t = tensors_[i];
      ir::Output& o = graph_.outputs[i];
      const auto* view = torch::autograd::impl::get_view_autograd_meta(t);
      if (view != nullptr && view->get_creation_meta() == torch::autograd::CreationMeta::INFERENCE_MODE) {
        return Fail(BreakKind::kHiddenState, "a view that is made in inference mode");
      }
      if (!t.is_inference() || o.alias == ir::OutputAlias::kInput || o.alias == ir::OutputAlias::kOutput) continue;
      if (o.alias == ir::OutputAlias::kViewOfInput && MadeOfInference(o.alias_of)) continue;
      if (o.alias != ir::OutputAlias::kFresh || t.layout() != c10::kStrided) {
        return Fail(BreakKind::kHiddenState, "a view, or no dense tensor, of inference mode");
      }
      o.inference = true;
    }
    return absl::OkStatus();
  }
  bool MadeOfInference(std::int32_t input) const {
    return inputs_[static_cast<std::size_t>(input)].real.is_inference();
  }

  absl::Status Fail(BreakKind kind, const std::string& explanation) {
    recorder_.SetPendingBreak({kind, "output", explanation, {}});
    return absl::FailedPreconditionError("output: " + explanation);
  }
  ir::StorageId StorageOf(ir::ValueId v) const { return graph_.value(v).storage; }

  // The value that `v` is a view of, through view nodes.
  // `for_autograd`: to which what _unsafe_view() makes is no view, though it has the memory of its operand.
  ir::ValueId RootOf(ir::ValueId v, bool for_autograd = false) const {
    for (;;) {
      const ir::NodeIndex d = definitions_[static_cast<std::size_t>(v)];
      if (d == ir::kNoNode) return v;
      if (for_autograd && ir::Is(graph_.nodes[static_cast<std::size_t>(d)].op, ir::OpName::k_UnsafeView)) return v;
      ir::ValueId base = ir::kNoValue;
      for (const ir::Arg& arg : graph_.nodes[static_cast<std::size_t>(d)].args) {
        ir::ForEachValue(arg, [&](ir::ValueId u) {
          if (base == ir::kNoValue && StorageOf(u) == StorageOf(v)) base = u;
        });
      }
      if (base == ir::kNoValue) return v;
      v = base;
    }
  }

  ir::ValueId RootOf(const std::vector<std::size_t>& group) const {
    const ir::ValueId root = RootOf(graph_.outputs[group.front()].value, /*for_autograd=*/true);
    const bool all = std::all_of(group.begin(), group.end(),
                                 [&](std::size_t i) { return RootOf(graph_.outputs[i].value, true) == root; });
    return all ? root : RootOf(root);
  }

  int InputOfValue(ir::ValueId v) const {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].value == v) return static_cast<int>(i);
    }
    return -1;
  }

  // Whether autograd takes `t` for a view of `base`, or of what that is a view of itself.
  static bool IsViewOf(const at::Tensor& t, const at::Tensor& base) {
    if (!t.is_view() || !base.defined()) return t.is_view();
    return t._base().is_same(base.is_view() ? at::Tensor(base._base()) : base);
  }

  // Whether it is `z.data`, or a view of that: what the backward has saved of z does not count with it.
  static bool CountsApart(const at::Tensor& t) {
    if (t.requires_grad()) return false;
    const FakeImpl* fake = AsFake(t.is_view() ? at::Tensor(t._base()) : t);
    return fake != nullptr && fake->is_copy();
  }

  // `base` may be undefined: then nobody but the backward can compare versions with it.
  void SetKindOfView(std::size_t i, const at::Tensor& base) {
    const at::Tensor& t = tensors_[i];
    ir::Output& o = graph_.outputs[i];
    // Autograd knows no views of inference tensors, and counts none of their writes but those of detached ones.
    const bool counts = t.unsafeGetTensorImpl()->version_counter().enabled();
    if (t.is_inference() && base.defined() && base.is_inference() && !counts) return;
    o.detached = !IsViewOf(t, base);
    const bool base_requires = base.defined() && base.requires_grad();
    const bool could_be = !o.detached && !o.requires_grad;
    const bool of_detached = o.detached && !o.requires_grad && t.is_view();
    o.without_grad = of_detached || (could_be && (base_requires ? t.requires_grad() : MadeWithoutGrad(t)));
    o.own_version = base.defined() ? !ShareCounter(t, base) : CountsApart(t);
  }

  bool HasOwnHistory(std::size_t i, const at::Tensor& base) const {
    const ir::Output& o = graph_.outputs[i];
    if (!o.requires_grad || o.alias == ir::OutputAlias::kInput) return false;
    return o.detached || ComesOutOfFunction(tensors_[i], base);
  }

  // Torch takes no part of unsafe_split() for a view: it has a history and a count of versions of its own, in the
  // memory of what was split.
  bool IsUnsafePart(std::size_t i) const {
    const at::Tensor& t = tensors_[i];
    if (t.is_view() || !t.grad_fn() || t._version() != 0) return false;
    const std::string name = t.grad_fn()->name();
    if (name != "UnsafeSplitBackward0" && name != "UnsafeSplitWithSizesBackward0") return false;
    const ir::StorageId storage = StorageOf(graph_.outputs[i].value);
    return std::none_of(graph_.nodes.begin(), graph_.nodes.end(),
                        [&](const ir::Node& n) { return Writes(n, storage); });
  }
  bool Writes(const ir::Node& n, ir::StorageId storage) const {
    bool found = false;
    for (std::size_t a = 0; a < n.args.size() && n.op->mutates(); ++a) {
      if (!n.op->arguments()[a].written) continue;
      ir::ForEachValue(n.args[a], [&](ir::ValueId v) { found = found || StorageOf(v) == storage; });
    }
    return found;
  }
  // What the graph's own view gives is the tensor.
  void StandsAlone(std::size_t i) {
    ir::Output& o = graph_.outputs[i];
    o.alias = ir::OutputAlias::kFresh;
    o.alias_of = -1;
    o.detached = o.without_grad = o.own_version = false;
  }

  bool AliasesInput(std::size_t i) {
    ir::Output& o = graph_.outputs[i];
    for (std::size_t k = 0; k < inputs_.size(); ++k) {
      if (!inputs_[k].fake.is_same(tensors_[i])) continue;
      o.alias = ir::OutputAlias::kInput;
      o.alias_of = static_cast<std::int32_t>(k);
      return true;
    }
    const int k = InputOfValue(RootOf(o.value));
    if (k < 0) return false;
    o.alias = ir::OutputAlias::kViewOfInput;
    o.alias_of = k;
    SetKindOfView(i, inputs_[static_cast<std::size_t>(k)].fake);
    return true;
  }

  bool RepeatsOutput(std::size_t i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (!tensors_[j].is_same(tensors_[i])) continue;
      graph_.outputs[i].alias = ir::OutputAlias::kOutput;
      graph_.outputs[i].alias_of = static_cast<std::int32_t>(j);
      return true;
    }
    return false;
  }

  // Whoever writes it later writes its base's history: the one that it has had is gone then, with its hooks. Where the
  // base is not known, or its view's history is a function's, it is handed out as no view.
  bool IsLoneView(std::size_t i) const {
    const at::Tensor& t = tensors_[i];
    if (!t.is_view()) return false;
    const at::Tensor base = BaseTensor({i}, RootOf(std::vector<std::size_t>{i}));
    return base.defined() && (base.requires_grad() || !t.requires_grad()) && !IsNewLeaf(base) &&
           !ComesOutOfFunction(t, base);
  }

  // Several outputs share memory: all are views of one of them, or of a hidden base. One that is a view has one, too.
  absl::Status ShareBase(const std::vector<std::size_t>& group) {
    const bool needs_grad =
        std::any_of(group.begin(), group.end(), [&](std::size_t i) { return tensors_[i].requires_grad(); });
    const ir::ValueId root = RootOf(group);
    std::int32_t base = -1;
    for (std::size_t i : group) {
      const ir::Output& o = graph_.outputs[i];
      // v.data stands for the same value as v, and v may be there as well, or only views of it.
      const bool is_root = o.value == root && !tensors_[i].is_view() && !CountsApart(tensors_[i]);
      if (is_root && o.requires_grad == needs_grad && base < 0) base = static_cast<std::int32_t>(i);
    }
    at::Tensor tensor = base < 0 ? BaseTensor(group, root) : tensors_[static_cast<std::size_t>(base)];
    if (base < 0) {
      if (!tensor.defined() && needs_grad) {
        return Fail(BreakKind::kMutation, "outputs share memory whose history is not known");
      }
      if (tensor.defined() && IsNewLeaf(tensor)) {
        return RefuseMadeLeaves(recorder_, {tensor}, "a leaf is made here");
      }
      if (tensor.defined() && CountsApart(tensor)) tensor = at::Tensor();
      base = AddHidden(root, tensor);
    }
    for (std::size_t i : group) {
      if (static_cast<std::int32_t>(i) == base) continue;
      graph_.outputs[i].alias = ir::OutputAlias::kViewOfOutput;
      graph_.outputs[i].alias_of = base;
      SetKindOfView(i, tensor);
      const bool of_past =
          graph_.outputs[i].requires_grad && !graph_.outputs[static_cast<std::size_t>(base)].requires_grad;
      if (HasOwnHistory(i, tensor) || of_past) {
        return Fail(BreakKind::kMutation, "memory of another output, with a history of its own");
      }
      // Of a base that is gone they tell how often it was written.
      ir::Output& of = graph_.outputs[static_cast<std::size_t>(base)];
      if (!tensor.defined() && !graph_.outputs[i].own_version) of.version = graph_.outputs[i].version;
    }
    return absl::OkStatus();
  }

  // Results that count together, and not with x: `x.data` and views of it. They are views of that, or of the first one.
  void ShareCopies() {
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      if (!graph_.outputs[i].own_version) continue;
      std::size_t base = i;
      for (std::size_t j = tensors_.size(); j-- > 0;) {
        if (!graph_.outputs[j].own_version || !ShareCounter(tensors_[i], tensors_[j])) continue;
        if (tensors_[base].is_view() || !tensors_[j].is_view()) base = j;
      }
      if (base == i) continue;
      graph_.outputs[i].alias = ir::OutputAlias::kViewOfOutput;
      graph_.outputs[i].alias_of = static_cast<std::int32_t>(base);
      SetKindOfView(i, tensors_[base]);
    }
  }

  std::int32_t AddHidden(ir::ValueId root, const at::Tensor& tensor) {
    ir::Output o;
    if (tensor.defined()) o = NewOutput(graph_, tensor);
    o.value = root;
    o.role = ir::OutputRole::kHidden;
    graph_.outputs.push_back(o);
    hidden_.emplace_back(graph_.outputs.size() - 1, tensor);
    return static_cast<std::int32_t>(graph_.outputs.size() - 1);
  }

  at::Tensor BaseTensor(const std::vector<std::size_t>& group, ir::ValueId root) const {
    at::Tensor without_history;
    for (std::size_t i : group) {
      if (!tensors_[i].is_view()) continue;
      at::Tensor base(tensors_[i]._base());
      if (AsFake(base) == nullptr || ValueOf(base) != root) continue;
      if (tensors_[i].requires_grad()) return base;
      without_history = std::move(base);
    }
    return without_history;
  }

  Recorder& recorder_;
  ir::Graph& graph_;
  const std::vector<InputRecord>& inputs_;
  const std::vector<at::Tensor>& tensors_;
  std::vector<std::pair<std::size_t, at::Tensor>>& hidden_;
  const std::vector<ir::NodeIndex> definitions_;
};

}  // namespace

// Torch does not export the class, so it is known by its name.
bool IsOfFunction(const torch::autograd::Node& node) {
  return std::string_view(typeid(node).name()) == "N5torch8autograd6PyNodeE";
}

ir::Output NewOutput(ir::Graph& graph, const at::Tensor& t) {
  ir::Output o;
  o.value = ValueOf(t);
  o.requires_grad = t.requires_grad() && !RequiresGradAsItsBase(t);
  if (o.requires_grad) o.grad_fn = ir::GradFnNameOf(t);
  graph.value(o.value).requires_grad = graph.value(o.value).requires_grad || o.requires_grad;
  if (!t.is_inference()) o.version = static_cast<std::int32_t>(t._version());
  return o;
}

std::vector<std::size_t> ViewsWithHistory(const ir::Graph& graph) {
  std::vector<std::size_t> views;
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    const ir::Output& o = graph.outputs[i];
    if (ir::IsView(o) && o.requires_grad && !o.detached) views.push_back(i);
  }
  return views;
}

absl::Status DescribeOutputs(Recorder& recorder, const std::vector<InputRecord>& inputs,
                             const std::vector<at::Tensor>& tensors,
                             std::vector<std::pair<std::size_t, at::Tensor>>* hidden) {
  return OutputAliases(recorder, inputs, tensors, hidden).Describe();
}

void AddResultsOfFunctions(ir::Graph& graph, absl::Span<const at::Tensor> results,
                           std::vector<std::pair<std::size_t, at::Tensor>>* hidden) {
  const bool was_backward = std::any_of(graph.nodes.begin(), graph.nodes.end(),
                                        [](const ir::Node& n) { return n.phase == ir::Phase::kBackward; });
  if (was_backward) return;  // which may have used their histories up
  for (const at::Tensor& t : results) {
    const auto is_there = [&](const ir::Output& o) { return o.value == ValueOf(t); };
    if (!t.requires_grad() || t.is_view() || std::any_of(graph.outputs.begin(), graph.outputs.end(), is_there))
      continue;
    ir::Output o = NewOutput(graph, t);
    o.role = ir::OutputRole::kHidden;
    hidden->emplace_back(graph.outputs.size(), t);
    graph.outputs.push_back(std::move(o));
  }
}

}  // namespace framefuse::tracing
