#include "symbolic/tracing/record_branch.h"

#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "backends/graph/grad_fn_name.h"
#include "backends/graph/operators.h"
#include "backends/graph/spelled_histories.h"
#include "backends/graph/subgraph.h"
#include "common/status.h"
#include "symbolic/tracing/autograd_bridge.h"
#include "symbolic/tracing/pass_order.h"
#include "symbolic/tracing/record_backward.h"

namespace framefuse::tracing {
namespace {

using ir::ValueId;
using Values = absl::flat_hash_set<ValueId>;

absl::Status Refused(const std::string& why) { return absl::FailedPreconditionError(why); }
ValueId ValueOf(const at::Tensor& t) { return AsFake(t)->value(); }

Values DefinedBy(const std::vector<ir::Node>& nodes) {
  Values defined;
  for (const ir::Node& n : nodes) {
    for (const ValueId v : n.outputs) {
      if (v != ir::kNoValue) defined.insert(v);
    }
  }
  return defined;
}

// What a node may not do in a branch, or nothing.
std::string Forbidden(const ir::Graph& graph, const ir::Node& node, const absl::flat_hash_set<ir::StorageId>& outside) {
  if (node.op->has_side_effect()) return absl::StrCat(node.op->name(), " has an effect");
  std::string found;
  const auto& schema = node.op->arguments();
  for (std::size_t a = 0; a < node.args.size(); ++a) {
    if (!schema[a].written) continue;
    ir::ForEachValue(node.args[a], [&](ValueId v) {
      if (outside.contains(graph.value(v).storage)) found = "it writes to a tensor from outside of it";
    });
  }
  return found;
}

absl::flat_hash_set<ir::StorageId> StoragesOutside(const ir::Graph& graph, const Values& own) {
  absl::flat_hash_set<ir::StorageId> outside;
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    if (!own.contains(static_cast<ValueId>(v))) outside.insert(graph.values[v].storage);
  }
  return outside;
}

absl::Status CheckOutputs(const ir::Graph& graph, const std::vector<at::Tensor>& outputs,
                          absl::flat_hash_set<ir::StorageId> taken) {
  for (const at::Tensor& t : outputs) {
    if (!taken.insert(graph.value(ValueOf(t)).storage).second) {
      return Refused("a result of it shares memory with a tensor from outside of it or with another result");
    }
    if (t.requires_grad() && IsLeaf(t)) return Refused("it makes a leaf that requires grad");
    if (HasGradientHooks(t) || t.retains_grad()) return Refused("it puts a hook on its result");
  }
  return absl::OkStatus();
}

absl::Status CheckSame(const ir::Graph& graph, const RecordedBranch& yes, const RecordedBranch& no) {
  if (yes.outputs.size() != no.outputs.size()) return Refused("the branches return different numbers of tensors");
  for (std::size_t i = 0; i < yes.outputs.size(); ++i) {
    const ir::Value& a = graph.value(ValueOf(yes.outputs[i]));
    const ir::Value& b = graph.value(ValueOf(no.outputs[i]));
    if (a.sizes != b.sizes) return Refused("the branches return tensors of different sizes");
    if (a.dtype != b.dtype) return Refused("the branches return tensors of different dtypes");
    if (a.device != b.device) return Refused("the branches return tensors on different devices");
    if (a.strides != b.strides || a.offset != b.offset) {
      return Refused("the branches return tensors of different strides");
    }
  }
  return absl::OkStatus();
}

class Joining {
 public:
  // `one`: the branches are equal.
  Joining(Recorder& recorder, OriginProvider* origins, RecordedBranch (&branches)[2], bool one)
      : recorder_(recorder), graph_(recorder.graph()), origins_(origins), branches_(branches), one_(one) {}

  absl::StatusOr<JoinedBranches> Run() {
    FF_RETURN_IF_ERROR(CheckSame(graph_, branches_[1], branches_[0]));
    for (const int which : {1, 0}) {
      for (const at::Tensor& t : branches_[which].read) AddOperand(t);
      for (const ir::Node& n : branches_[which].nodes) result_.random = result_.random || n.op->is_random();
    }
    for (const int which : {0, 1}) {
      FF_RETURN_IF_ERROR(Print(which == 1 ? "true_branch" : "false_branch", branches_[which].nodes, operand_values_,
                               OutputsOf(branches_[which].outputs), &result_.branches[which]));
    }
    if (c10::GradMode::is_enabled()) FF_RETURN_IF_ERROR(AddBackward());
    return std::move(result_);
  }

 private:
  static std::vector<ir::Output> OutputsOf(const std::vector<at::Tensor>& tensors) {
    std::vector<ir::Output> outputs;
    for (const at::Tensor& t : tensors) {
      outputs.emplace_back().value = ValueOf(t);
      outputs.back().grad_fn = ir::GradFnNameOf(t);
    }
    return outputs;
  }

  // Two tensors may stand for one value: the one whose gradient is asked for counts.
  void AddOperand(const at::Tensor& t) {
    const auto it = std::find(operand_values_.begin(), operand_values_.end(), ValueOf(t));
    if (it == operand_values_.end()) {
      operand_values_.push_back(ValueOf(t));
      result_.operands.push_back(t);
    } else if (t.requires_grad()) {
      result_.operands[static_cast<std::size_t>(it - operand_values_.begin())] = t;
    }
  }

  absl::Status AddBackward() {
    const std::size_t count = branches_[0].outputs.size();
    for (std::size_t i = 0; i < count; ++i) {
      if (branches_[0].outputs[i].requires_grad() || branches_[1].outputs[i].requires_grad()) {
        result_.with_gradient.push_back(static_cast<std::int64_t>(i));
      }
    }
    if (result_.with_gradient.empty()) return absl::OkStatus();
    if (result_.random) FindRandomDevices();
    for (std::size_t i = 0; i < result_.operands.size(); ++i) {
      const at::Tensor& t = result_.operands[i];
      if (!t.requires_grad()) continue;
      if (IsLeaf(t) && HasGradientHooks(t)) return Refused("a leaf that it reads has a hook");
      if (!HasOwnHistory(t)) return Refused("it reads a tensor in a way that is not followed");
      result_.differentiable.push_back(static_cast<std::int64_t>(i));
      targets_.push_back(t);
    }
    Backward backward[2];
    FF_RETURN_IF_ERROR(RecordBackward(0, &backward[0]));
    if (one_) {
      backward[1] = backward[0];
    } else {
      FF_RETURN_IF_ERROR(RecordBackward(1, &backward[1]));
    }
    FF_RETURN_IF_ERROR(AlignGradients(backward));
    FindSaved(backward);
    for (const int which : {0, 1}) {
      std::vector<ValueId> inputs;
      for (const std::int64_t i : result_.saved) inputs.push_back(operand_values_[static_cast<std::size_t>(i)]);
      for (const at::Tensor& t : backward[which].tangents) inputs.push_back(ValueOf(t));
      std::vector<ir::Output> outputs = OutputsOf(backward[which].gradients);
      for (std::size_t i = 0; i < backward[which].turns.size(); ++i) outputs[i].turns = {backward[which].turns[i]};
      FF_RETURN_IF_ERROR(Print(which == 1 ? "true_backward" : "false_backward", backward[which].nodes, inputs, outputs,
                               &result_.backward[which]));
    }
    return absl::OkStatus();
  }

  // The backward computes a branch again, with the same random numbers.
  void FindRandomDevices() {
    for (const RecordedBranch& branch : branches_) {
      for (const ir::Node& n : branch.nodes) {
        if (!n.op->is_random()) continue;
        const auto note = [&](ValueId v) {
          if (v == ir::kNoValue) return;
          const c10::Device device = graph_.value(v).device;
          const std::int64_t index = device.is_cpu() ? -1 : device.index();
          auto& known = result_.random_devices;
          if (std::find(known.begin(), known.end(), index) == known.end()) known.push_back(index);
        };
        ir::ForEachUse(n, note);
        for (const ValueId v : n.outputs) note(v);
      }
    }
  }

  struct Backward {
    std::vector<ir::Node> nodes;  // the branch's own among them
    std::vector<at::Tensor> tangents;
    std::vector<at::Tensor> gradients;
    std::vector<std::int32_t> turns;  // of a checkpoint's, as eager comes to what they are of
  };

  absl::Status RecordBackward(int which, Backward* backward) {
    const RecordedBranch& branch = branches_[which];
    std::vector<at::Tensor> outputs;
    for (const std::int64_t i : result_.with_gradient) {
      const at::Tensor& t = branch.outputs[static_cast<std::size_t>(i)];
      if (t.requires_grad()) outputs.push_back(t);
    }
    BeginBranch(recorder_);
    absl::StatusOr<BackwardPass> pass = RecordBackwardPass(recorder_, outputs, targets_);
    if (!pass.ok()) return pass.status();
    pass->gradients.resize(targets_.size());
    if (one_) {
      DropUnreached(&pass->gradients);
      for (const std::vector<std::int32_t>& turns : OrderOfPass(outputs, targets_, {}).inputs) {
        backward->turns.push_back(*std::max_element(turns.begin(), turns.end()));
      }
    }
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      at::Tensor& g = pass->gradients[i];
      if (!g.defined()) g = at::zeros_like(targets_[i]);
      // A result of the pass may be what came into it, or one memory under two names.
      if (!g.defined() || AsFake(g) == nullptr) return Refused("a gradient of it is no traced tensor");
    }
    std::size_t next = 0;
    for (const std::int64_t i : result_.with_gradient) {
      const at::Tensor& t = branch.outputs[static_cast<std::size_t>(i)];
      backward->tangents.push_back(t.requires_grad() ? pass->tangents[next++]
                                                     : recorder_.NewFake(LikeTensor(t, t.scalar_type()), t.device(),
                                                                         nullptr, recorder_.NewStorage()));
    }
    backward->gradients = std::move(pass->gradients);
    backward->nodes = branch.nodes;
    (void)recorder_.branches().Close(graph_, &backward->nodes);
    return absl::OkStatus();
  }

  void DropUnreached(std::vector<at::Tensor>* gradients) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < gradients->size(); ++i) {
      if (!(*gradients)[i].defined()) continue;
      targets_[kept] = targets_[i];
      result_.differentiable[kept] = result_.differentiable[i];
      (*gradients)[kept++] = (*gradients)[i];
    }
    targets_.resize(kept);
    result_.differentiable.resize(kept);
    gradients->resize(kept);
  }

  // Both branches' gradients get one layout, and each memory of its own.
  absl::Status AlignGradients(Backward (&backward)[2]) {
    bool aligned = true;
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      const at::Tensor& a = backward[0].gradients[i];
      const at::Tensor& b = backward[1].gradients[i];
      if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type() || a.device() != b.device()) {
        return Refused("the gradients of the branches differ in their metadata");
      }
      aligned = aligned && a.strides() == b.strides();
    }
    for (const Backward& b : backward) {
      aligned = aligned && CheckOutputs(graph_, b.gradients, StoragesOutside(graph_, DefinedBy(b.nodes))).ok();
    }
    if (aligned) return absl::OkStatus();
    for (Backward& b : backward) {
      BeginBranch(recorder_);
      for (at::Tensor& g : b.gradients) g = g.clone(at::MemoryFormat::Contiguous);
      (void)recorder_.branches().Close(graph_, &b.nodes);
      if (one_) break;
    }
    if (one_) backward[1] = backward[0];
    return absl::OkStatus();
  }

  // The operands that a backward needs, and the nodes. A node that writes makes what is needed hard to see: then all.
  void FindSaved(Backward (&backward)[2]) {
    Values used;
    for (Backward& b : backward) {
      const bool writes =
          std::any_of(b.nodes.begin(), b.nodes.end(), [](const ir::Node& n) { return n.op->mutates(); });
      Values live;
      for (const at::Tensor& g : b.gradients) live.insert(ValueOf(g));
      std::vector<ir::Node> needed;
      for (std::size_t i = b.nodes.size(); i-- > 0;) {
        const ir::Node& n = b.nodes[i];
        const bool is_needed =
            writes || std::any_of(n.outputs.begin(), n.outputs.end(), [&](ValueId v) { return live.contains(v); });
        if (!is_needed) continue;
        ir::ForEachUse(n, [&](ValueId v) { live.insert(v); });
        needed.push_back(n);
      }
      b.nodes.assign(std::make_move_iterator(needed.rbegin()), std::make_move_iterator(needed.rend()));
      used.insert(live.begin(), live.end());
    }
    for (std::size_t i = 0; i < operand_values_.size(); ++i) {
      if (used.contains(operand_values_[i])) result_.saved.push_back(static_cast<std::int64_t>(i));
    }
  }

  absl::Status Print(const char* name, const std::vector<ir::Node>& nodes, const std::vector<ValueId>& inputs,
                     const std::vector<ir::Output>& outputs, std::string* text) {
    Values known = DefinedBy(nodes);
    for (const ir::Node& n : nodes) {
      bool leaked = false;
      ir::ForEachUse(n,
                     [&](ValueId v) { leaked = leaked || (recorder_.branches().LeftGraph(v) && !known.contains(v)); });
      if (leaked) return Refused("it uses a tensor that another branch made");
    }
    ir::SubgraphBuilder builder(graph_, name);
    for (const ValueId v : inputs) builder.AddInput(v, ir::Input());
    for (const ir::Node& n : nodes) builder.AddNode(n);
    for (const ir::Output& out : outputs) builder.AddOutput(out);
    ir::Graph branch = builder.Take();
    branch.origins.clear();
    for (ir::Node& n : branch.nodes) {
      n.phase = ir::Phase::kForward;
      n.origin = n.origin < 0 || origins_ == nullptr ? -1 : branch.AddOrigin(origins_->Resolve(n.origin));
    }
    for (ir::Value& v : branch.values) v.requires_grad = false;
    for (const ir::ConstantTensor& c : branch.constants) {
      if (c.tensor.numel() > 1) return Refused("it holds a constant tensor");
    }
    // A text says no more of histories than the operators that it names.
    if (c10::GradMode::is_enabled()) ir::SpellHistories(branch, [](ValueId) { return true; });
    FF_RETURN_IF_ERROR(ir::Verify(branch));
    const TlsScope off(nullptr);  // the constants' numbers are read
    *text = ir::Print(branch);
    return absl::OkStatus();
  }

  Recorder& recorder_;
  ir::Graph& graph_;
  OriginProvider* origins_;
  RecordedBranch (&branches_)[2];
  bool one_;
  JoinedBranches result_;
  std::vector<ValueId> operand_values_;
  std::vector<at::Tensor> targets_;
};

}  // namespace

void BeginConditional(Recorder& recorder, const std::vector<at::Tensor>& readable) {
  recorder.branches().CutHistories(CutHistories(readable));
}

void BeginBranch(Recorder& recorder) { recorder.branches().Open(recorder.graph()); }

absl::Status EndBranch(Recorder& recorder, std::vector<at::Tensor> outputs) {
  RecordedBranch branch;
  OpenBranch open = recorder.branches().Close(recorder.graph(), &branch.nodes);
  branch.outputs = std::move(outputs);
  const ir::Graph& graph = recorder.graph();
  const Values own = DefinedBy(branch.nodes);
  const auto outside = StoragesOutside(graph, own);
  for (const ir::Node& n : branch.nodes) {
    if (std::string why = Forbidden(graph, n, outside); !why.empty()) return Refused(why);
  }
  if (absl::Status s = CheckOutputs(graph, branch.outputs, outside); !s.ok()) return s;
  for (at::Tensor& t : open.read) {
    if (!own.contains(ValueOf(t))) branch.read.push_back(std::move(t));
  }
  recorder.branches().Add(std::move(branch));
  return absl::OkStatus();
}

namespace {
absl::StatusOr<JoinedBranches> Join(Recorder& recorder, OriginProvider* origins, RecordedBranch (&branches)[2],
                                    bool one) {
  const absl::Cleanup restore = [&recorder] { recorder.branches().RestoreHistories(); };
  try {
    return Joining(recorder, origins, branches, one).Run();
  } catch (const std::exception& e) {  // a break that passed through torch, noted in the recorder
    return Refused(e.what());
  }
}
}  // namespace

absl::StatusOr<JoinedBranches> JoinBranches(Recorder& recorder, OriginProvider* origins) {
  RecordedBranch no = recorder.branches().Take();  // it came last
  RecordedBranch branches[] = {std::move(no), recorder.branches().Take()};
  return Join(recorder, origins, branches, /*one=*/false);
}

absl::StatusOr<JoinedBranches> JoinOneBranch(Recorder& recorder, OriginProvider* origins) {
  const RecordedBranch last = recorder.branches().Take();
  RecordedBranch branches[] = {last, last};
  return Join(recorder, origins, branches, /*one=*/true);
}

}  // namespace framefuse::tracing
