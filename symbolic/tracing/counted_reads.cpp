#include "symbolic/tracing/counted_reads.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "backends/graph/input_writes.h"
#include "backends/graph/reads_of_copies.h"
#include "symbolic/tracing/break.h"
#include "symbolic/tracing/fake_tensor.h"
#include "symbolic/tracing/version_counter.h"

namespace framefuse::tracing {
namespace {

thread_local CountedReads* current = nullptr;

const c10::StorageImpl* MemoryOf(const at::Tensor& t) {
  return t.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

bool Has(const std::vector<const void*>& counters, const void* counter) {
  return std::find(counters.begin(), counters.end(), counter) != counters.end();
}

[[noreturn]] void EndBefore(const ir::Graph& graph, int node, const char* why) {
  const ir::Node& write = graph.nodes[static_cast<std::size_t>(node)];
  ThrowBreak({BreakKind::kMutation, std::string(write.op->name()), why, {}, node});
}

}  // namespace

CountedReads::CountedReads(Recorder& recorder, const std::vector<InputRecord>& inputs,
                           const std::vector<at::Tensor>& outputs)
    : recorder_(recorder),
      first_of_backward_(static_cast<ir::ValueId>(recorder.graph().values.size())),
      outer_(std::exchange(current, this)) {
  for (const InputRecord& in : inputs) {
    of_memory_[MemoryOf(in.fake)].own.push_back(PlaceOfCounter(in.fake));
    inputs_.insert(recorder.graph().value(in.value).storage);
  }
  // A view of `x.data` counts with that, which may come after it.
  for (const bool copies : {true, false}) {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      Counters& c = of_memory_[MemoryOf(outputs[i])];
      const void* const counter = PlaceOfCounter(outputs[i]);
      if (recorder.graph().outputs[i].own_version != copies || Has(c.own, counter) || Has(c.copies, counter)) continue;
      (copies ? c.copies : c.own).push_back(counter);
    }
  }
}

CountedReads::~CountedReads() { current = outer_; }

ir::ValueId CountedReads::Read(const at::Tensor& t, ir::ValueId value, const ir::Node& node) const {
  if (value >= first_of_backward_ || t.is_inference() || AsFake(t) == nullptr) return value;
  ir::Graph& graph = recorder_.graph();
  const bool is_input = inputs_.contains(graph.value(value).storage);
  if (const int write = recorder_.writes().uncounted().FirstBehindARead(graph, t, value, is_input); write >= 0) {
    EndBefore(graph, write, "x.data is written behind an operator that has read x for a derivative");
  }
  if (t.requires_grad()) return value;
  const auto found = of_memory_.find(MemoryOf(t));
  const void* const counter = PlaceOfCounter(t);
  const bool leaves = found != of_memory_.end();
  if (!leaves || counter == nullptr || Has(found->second.own, counter)) return value;
  const bool is_seen = Has(found->second.copies, counter);
  if (is_seen && found->second.copies.size() > 1) {
    ThrowBreak(BreakKind::kMutation, node.op->name(), "several results that are x.data of one tensor");
  }
  ir::Value metadata = graph.value(value);
  metadata.requires_grad = false;
  ir::Node alias;
  alias.op = ir::RequireOp(ir::OpName::kAlias);
  alias.phase = ir::Phase::kBackward;
  alias.origin = node.origin;
  alias.sequence = node.sequence;
  alias.args = {ir::Arg::OfValue(value)};
  alias.outputs = {graph.AddValue(std::move(metadata))};
  ir::MarkCopyRead(is_seen ? ir::CopyRead::kOfResult : ir::CopyRead::kOfUnseen, &alias);
  graph.nodes.push_back(std::move(alias));
  return graph.nodes.back().outputs[0];
}

void CountedReads::Mark(c10::ArrayRef<c10::IValue> args, ir::Node* node) {
  if (current == nullptr || node->phase != ir::Phase::kBackward) return;
  for (std::size_t i = 0; i < args.size(); ++i) {
    ir::Arg& a = node->args[i];
    if (a.kind == ir::Arg::Kind::kValue && args[i].isTensor())
      a.value = current->Read(args[i].toTensor(), a.value, *node);
    if (a.kind != ir::Arg::Kind::kValueList) continue;
    for (std::size_t k = 0; k < a.values.size(); ++k) {
      if (a.values[k] != ir::kNoValue)
        a.values[k] = current->Read(args[i].toListRef()[k].toTensor(), a.values[k], *node);
    }
  }
}

absl::Status CheckPartedReads(Recorder& recorder, const std::vector<InputRecord>& inputs,
                              absl::FunctionRef<bool(int)> rebased) {
  ir::Graph& graph = recorder.graph();
  recorder.writes().uncounted().MarkIn(&graph, [&](ir::StorageId storage, const c10::VariableVersion& counter) {
    return std::any_of(inputs.begin(), inputs.end(), [&](const InputRecord& r) {
      return graph.value(r.value).storage == storage && SameCounter(counter, CounterOf(r.fake));
    });
  });
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const InputRecord& r = inputs[i];
    if (!r.history.defined() || !r.real.is_view()) continue;
    const ir::RenewedReads reads = ir::RenewedReadsOf(graph, graph.value(r.value).storage);
    const int write = rebased(static_cast<int>(i)) ? reads.behind_a_read : reads.part_at;
    if (write < 0) continue;
    const char* const why = "a view is written without gradients between operators that have read it";
    const std::string_view name = graph.nodes[static_cast<std::size_t>(write)].op->name();
    recorder.SetPendingBreak({BreakKind::kMutation, std::string(name), why, {}, write});
    return absl::FailedPreconditionError(why);
  }
  return absl::OkStatus();
}

}  // namespace framefuse::tracing
