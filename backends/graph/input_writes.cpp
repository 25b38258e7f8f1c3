#include "backends/graph/input_writes.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "backends/graph/operators.h"
#include "backends/graph/reads_of_copies.h"
#include "backends/graph/spelled_histories.h"

namespace framefuse::ir {
namespace {

bool IsOnCpu(const Graph& graph, const Node& node) {
  bool on_cpu = false;
  const auto look = [&](ValueId v) { on_cpu = on_cpu || graph.value(v).device.is_cpu(); };
  ForEachUse(node, look);
  return on_cpu;
}

bool GivesIntegers(const Graph& graph, const Node& node) {
  return std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId v) {
    return v != kNoValue && c10::isIntegralType(graph.value(v).dtype, /*includeBool=*/true);
  });
}

// Whether two elements may lie in one place: eager's kernels refuse to write such a tensor.
bool MayOverlap(const Value& v) {
  std::vector<std::pair<std::int64_t, std::int64_t>> dims;  // strides and sizes
  for (std::size_t d = 0; d < v.sizes.size(); ++d) {
    if (!v.sizes[d].is_constant() || !v.strides[d].is_constant()) return true;
    if (v.sizes[d].constant() == 0) return false;
    if (v.sizes[d].constant() > 1) dims.emplace_back(v.strides[d].constant(), v.sizes[d].constant());
  }
  std::sort(dims.begin(), dims.end());
  std::int64_t last = 0;  // element's place
  for (const auto& [stride, size] : dims) {
    if (stride <= last) return true;
    last += (size - 1) * stride;
  }
  return false;
}

bool WritesOverlap(const Graph& graph, const Node& node) {
  bool overlaps = false;
  for (std::size_t a = 0; node.op->mutates() && a < node.args.size(); ++a) {
    if (!node.op->arguments()[a].written) continue;
    ForEachValue(node.args[a], [&](ValueId v) { overlaps = overlaps || MayOverlap(graph.value(v)); });
  }
  return overlaps;
}

// The piece of memory that a tensor's elements lie in, or all of it, as a tensor of one dimension.
at::Tensor MemoryOf(const at::Tensor& t, bool whole) {
  const auto item = static_cast<std::int64_t>(t.element_size());
  if (whole) return t.as_strided({static_cast<std::int64_t>(t.storage().nbytes()) / item}, {1}, 0);
  std::int64_t count = t.numel() == 0 ? 0 : 1;
  for (std::int64_t d = 0; count > 0 && d < t.dim(); ++d) count += (t.size(d) - 1) * t.stride(d);
  return t.as_strided({count}, {1}, t.storage_offset());
}

}  // namespace

bool Writes(const Graph& graph, const Node& node, StorageId storage) {
  bool writes = false;
  for (std::size_t a = 0; node.op->mutates() && a < node.args.size(); ++a) {
    if (!node.op->arguments()[a].written) continue;
    ForEachValue(node.args[a], [&](ValueId v) { writes = writes || graph.value(v).storage == storage; });
  }
  return writes;
}

namespace {

struct ReadAndWritten {
  bool read = false, written = false;
};

ReadAndWritten InHistories(const Graph& graph, const Node& n, StorageId storage) {
  ReadAndWritten found;
  std::size_t use = 0;
  for (std::size_t a = 0; a < n.args.size(); ++a) {
    ForEachValue(n.args[a], [&](ValueId v) {
      const bool detached = IsDetached(n, use), uncounted = IsUncounted(n, use);
      ++use;
      if (graph.value(v).storage != storage) return;
      found.read = found.read || (graph.value(v).requires_grad && !detached);
      found.written = found.written || (n.op->mutates() && n.op->arguments()[a].written && !uncounted);
    });
  }
  const bool kept = n.history == History::kKept;
  return {found.read && kept && !Is(n.op, OpName::kDetach), found.written && !kept};
}

}  // namespace

RenewedReads RenewedReadsOf(const Graph& graph, StorageId storage) {
  RenewedReads found;
  int writes = 0, first = -1, last = -1;  // of the reads, how many writes are before
  for (std::size_t i = 0; i < graph.nodes.size() && graph.nodes[i].phase == Phase::kForward; ++i) {
    const ReadAndWritten node = InHistories(graph, graph.nodes[i], storage);
    if (node.read) last = writes;
    if (node.read && first < 0) first = writes;
    if (node.written && first == writes) found.behind_a_read = static_cast<int>(i);
    if (node.written) ++writes;
  }
  found.behind = writes > 0 && first == writes;
  if (last > 0 && !found.behind) found.part_at = found.behind_a_read;
  return found;
}

bool MayRaise(const Graph& graph, const Node& node) {
  if (!Has(node.op, OpFact::kAten) || WritesOverlap(graph, node)) return true;
  if (node.op->is_view()) return Is(node.op, OpName::kAsStrided);  // its bounds are asked where there is memory
  if (node.op->is_pointwise()) return Has(node.op, OpFact::kDivides) && GivesIntegers(graph, node);
  if (Has(node.op, OpFact::kNeverRaises)) return false;
  return !Has(node.op, OpFact::kRaisesOnCpu) || IsOnCpu(graph, node);
}

bool BackwardReads(const Graph& graph, StorageId storage) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& n) {
    bool reads = false;
    ForEachUse(n, [&](ValueId v) { reads = reads || graph.value(v).storage == storage; });
    return reads && n.phase == Phase::kBackward;
  });
}

std::vector<bool> WrittenAndRead(const Graph& graph) {
  std::vector<bool> read;
  for (const Input& in : graph.inputs) {
    read.push_back(in.mutated && BackwardReads(graph, graph.value(in.value).storage));
  }
  return read;
}

std::vector<std::int64_t> TurnsOfFunctions(const Graph& joint) {
  for (const Output& o : joint.outputs) {  // they stand behind a result's own turn
    const bool is_result = o.role == OutputRole::kUser || o.role == OutputRole::kMutatedInput;
    if (is_result && o.turns.size() > 1) return {o.turns.begin() + 1, o.turns.end()};
  }
  return {};
}

std::vector<InputReads> ReadsOfInputs(const Graph& graph) {
  const std::vector<std::int64_t> functions = TurnsOfFunctions(graph);
  std::vector<bool> is_view(graph.values.size(), false), is_read(graph.values.size(), false);
  std::vector<StorageId> viewed;
  for (const Node& n : graph.nodes) {
    if (n.phase == Phase::kBackward) {
      const bool by_function = std::find(functions.begin(), functions.end(), n.sequence) != functions.end();
      ForEachUse(n, [&](ValueId v) {
        if (!by_function) is_read[static_cast<std::size_t>(v)] = true;
        if (is_view[static_cast<std::size_t>(v)]) viewed.push_back(graph.value(v).storage);
      });
    } else if (n.op->is_view()) {
      for (ValueId v : n.outputs) {
        if (v != kNoValue) is_view[static_cast<std::size_t>(v)] = true;
      }
    }
  }
  std::vector<InputReads> reads;
  for (const Input& in : graph.inputs) {
    const StorageId storage = graph.value(in.value).storage;
    const bool view = storage >= 0 && std::find(viewed.begin(), viewed.end(), storage) != viewed.end();
    reads.push_back({is_read[static_cast<std::size_t>(in.value)], view});
    for (const Node& n : graph.nodes) {
      if (n.phase != Phase::kBackward || n.sequence < 0 || CopyReadBy(n) != CopyRead::kNone) continue;
      std::vector<std::int64_t>& by = reads.back().itself_by;
      ForEachUse(n, [&](ValueId v) {
        if (v == in.value && (by.empty() || by.back() != n.sequence)) by.push_back(n.sequence);
      });
    }
  }
  return reads;
}

std::vector<std::vector<std::int64_t>> SavedByOthers(const Graph& graph) {
  std::vector<std::vector<std::int64_t>> saved_by(graph.outputs.size());
  for (std::size_t o = 0; o < saved_by.size(); ++o) {
    const Output& output = graph.outputs[o];
    const bool is_handed_out = output.role == OutputRole::kUser || output.role == OutputRole::kMutatedInput;
    const bool has_history = is_handed_out && !IsView(output) && !output.turns.empty();
    if (!has_history || output.value == kNoValue) continue;
    for (const Node& n : graph.nodes) {
      if (n.phase != Phase::kBackward || n.sequence < 0 || n.sequence == output.turns.front()) continue;
      if (CopyReadBy(n) != CopyRead::kNone) continue;  // another tensor is saved then
      bool reads = false;
      ForEachUse(n, [&](ValueId v) { reads = reads || v == output.value; });
      if (reads && (saved_by[o].empty() || saved_by[o].back() != n.sequence)) saved_by[o].push_back(n.sequence);
    }
  }
  return saved_by;
}

bool WritesBehindLastSaved(const Graph& graph) {
  std::vector<std::size_t> made_at(graph.values.size(), 0);  // inputs: before all nodes
  std::size_t written_at = 0, saved_at = 0;                  // 1: the first node
  bool any = false;
  for (const Input& in : graph.inputs) any = any || in.mutated;
  for (std::size_t i = 0; any && i < graph.nodes.size(); ++i) {
    const Node& n = graph.nodes[i];
    if (n.phase == Phase::kBackward) {
      ForEachUse(n, [&](ValueId v) { saved_at = std::max(saved_at, made_at[static_cast<std::size_t>(v)]); });
      continue;
    }
    for (const ValueId v : n.outputs) {
      if (v != kNoValue) made_at[static_cast<std::size_t>(v)] = i + 1;
    }
    for (const Input& in : graph.inputs) {
      if (in.mutated && Writes(graph, n, graph.value(in.value).storage)) written_at = i + 1;
    }
  }
  return any && (written_at == 0 || written_at > saved_at);
}

InputWrite WriteOf(const Graph& graph, StorageId storage) {
  InputWrite write;
  bool written = false;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.phase == Phase::kBackward) break;
    if (!written && Writes(graph, node, storage)) {
      write.first_node = static_cast<int>(i);
      written = true;
    }
    write.whole = write.whole || Is(node.op, OpName::kAsStrided);
  }
  for (std::size_t i = 0; i < graph.nodes.size() && !write.kept; ++i) {
    if (graph.nodes[i].phase == Phase::kBackward || !MayRaise(graph, graph.nodes[i])) continue;
    write.raises = true;
    write.kept = i >= static_cast<std::size_t>(write.first_node);
  }
  return write;
}

KeptMemory::KeptMemory(const at::Tensor& t, bool whole) : tensor_(t) {
  const at::AutoDispatchBelowADInplaceOrView plain;  // no history, and no version counts
  memory_ = MemoryOf(t, whole);
  copy_ = memory_.clone();
  if (!t.is_inference()) version_ = t._version();
}

void KeptMemory::PutBack() const {
  const at::AutoDispatchBelowADInplaceOrView plain;
  memory_.copy_(copy_);
  if (tensor_.is_inference()) return;
  c10::VariableVersion counter = tensor_.unsafeGetTensorImpl()->version_counter();
  counter.set_version(version_);
}

}  // namespace framefuse::ir
