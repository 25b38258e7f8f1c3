#include "backends/runtime/recordable.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>

#include <optional>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "backends/runtime/node_text.h"
#include "common/status.h"

namespace framefuse {
namespace {

using ir::Graph;
using ir::Node;
using ir::ValueId;

absl::Status No(const std::string& why) { return absl::FailedPreconditionError(why); }

const ir::Value& At(const Graph& g, ValueId v) { return g.values[static_cast<std::size_t>(v)]; }

bool IsIndexing(const std::string& name) {
  return absl::StartsWith(name, "aten.index") || absl::StartsWith(name, "aten._index_put") ||
         absl::StartsWith(name, "aten._unsafe_index");
}

// Operators that copy to the host or wait for the device without a tag that says so.
bool IsKnownToWait(const std::string& name) {
  for (const char* prefix :
       {"aten.linalg_", "aten._linalg_", "aten.cholesky", "aten.lu_", "aten.svd", "aten.geqrf", "aten.ormqr",
        "aten.triangular_solve", "aten._ctc_loss", "aten.histc", "aten._histogramdd", "aten.repeat_interleave",
        "aten._pack_padded_sequence", "aten.multinomial", "aten._embedding_bag", "aten.nonzero"}) {
    if (absl::StartsWith(name, prefix)) return true;
  }
  return false;
}

// Indexing with a mask counts the mask's elements on the host.
bool HasMask(const Graph& g, const Node& n) {
  bool mask = false;
  for (std::size_t a = 0; a < n.args.size(); ++a) {
    if (n.op->arguments()[a].type != ir::ArgType::kOptionalTensorList) continue;
    ir::ForEachValue(n.args[a], [&](ValueId v) {
      mask = mask || At(g, v).dtype == c10::ScalarType::Bool || At(g, v).dtype == c10::ScalarType::Byte;
    });
  }
  return mask;
}

bool IsSeed(const std::string& argument) {
  return argument == "philox_seed" || argument == "philox_offset" || argument == "rng_state" || argument == "unused";
}

bool IsAttention(const Node& n) {
  return absl::StrContains(n.op->name(), "attention") && n.op->FindArgument("dropout_p") >= 0;
}

// An attention operator, forward or backward, that drops nothing.
bool IsAttentionWithoutDropout(const Node& n) {
  if (!IsAttention(n)) return false;
  const int dropout = n.op->FindArgument("dropout_p");
  const ir::Arg& arg = n.args[static_cast<std::size_t>(dropout)];
  return arg.kind == ir::Arg::Kind::kConstant && arg.constant.isScalar() && arg.constant.toScalar().toDouble() == 0;
}

absl::Status CheckOperator(const Graph& g, const Node& n) {
  const std::string& name = n.op->name();
  if (!absl::StartsWith(name, "aten.") && !absl::StartsWith(name, "prims.")) return No("it is not one of torch's own");
  if (n.op->has_side_effect()) return No("it has an effect");
  if (n.op->mutates()) return No("it writes its arguments");
  for (const ir::Arg& arg : n.args) {
    if (arg.kind == ir::Arg::Kind::kConstant && arg.constant.isGenerator()) return No("it has a generator of its own");
  }
  // A recorded forward would leave its seeds on the device, where a backward that is not recorded must not read them.
  if (IsAttention(n) && !IsAttentionWithoutDropout(n)) return No("the seeds of its dropout are on the host");
  const bool gives_values = n.op->handle().hasTag(at::Tag::data_dependent_output) || n.op->is_sized_by_values();
  const bool waits = IsIndexing(name) ? HasMask(g, n) : gives_values || IsKnownToWait(name);
  return waits ? No("the host waits for its values") : absl::OkStatus();
}

// A 0-dim constant of the host is a number that a pointwise operator takes along; all else on the host is work there.
absl::Status CheckValues(const Graph& g, const Node& n, c10::Device device, const std::set<ValueId>& constants,
                         const std::vector<bool>& unread) {
  absl::Status status = absl::OkStatus();
  ir::ForEachUse(n, [&](ValueId v) {
    const ir::Value& value = At(g, v);
    if (unread[static_cast<std::size_t>(v)]) return;
    if (value.kind != ir::ValueKind::kTensor) status = No("it reads a number that changes");
    if (value.device == device) return;
    const bool number = constants.contains(v) && value.sizes.empty() && value.device.is_cpu();
    if (!number || !n.op->is_pointwise() || absl::StrContains(n.op->name(), "copy")) {
      status = No(absl::StrCat("it reads a tensor on ", value.device.str()));
    }
  });
  for (ValueId v : n.outputs) {
    if (v == ir::kNoValue || unread[static_cast<std::size_t>(v)]) continue;
    if (At(g, v).kind != ir::ValueKind::kTensor) status = No("it gives the host a number");
    if (At(g, v).device != device) status = No(absl::StrCat("its result is on ", At(g, v).device.str()));
  }
  return status;
}

// Of the first node with a result.
std::optional<c10::Device> FirstDevice(const Graph& g) {
  for (const Node& n : g.nodes) {
    for (ValueId v : n.outputs) {
      if (v != ir::kNoValue) return At(g, v).device;
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<bool> UnreadSeeds(const Graph& g) {
  // Candidates are what such operators give as integers, and inputs; every use must be as the seed of another.
  std::vector<bool> unread(g.values.size(), false);
  for (const ir::Input& in : g.inputs) unread[static_cast<std::size_t>(in.value)] = true;
  for (const Node& n : g.nodes) {
    for (ValueId v : n.outputs) {
      if (v == ir::kNoValue) continue;
      const ir::Value& value = At(g, v);
      unread[static_cast<std::size_t>(v)] = IsAttentionWithoutDropout(n) && value.kind == ir::ValueKind::kTensor &&
                                            c10::isIntegralType(value.dtype, /*includeBool=*/false);
    }
  }
  std::vector<bool> used(g.values.size(), false);
  for (const Node& n : g.nodes) {
    for (std::size_t a = 0; a < n.args.size(); ++a) {
      const bool seed = IsAttentionWithoutDropout(n) && IsSeed(n.op->arguments()[a].name);
      ir::ForEachValue(n.args[a], [&](ValueId v) {
        used[static_cast<std::size_t>(v)] = true;
        if (!seed) unread[static_cast<std::size_t>(v)] = false;
      });
    }
  }
  for (const ir::Input& in : g.inputs) {
    if (!used[static_cast<std::size_t>(in.value)]) unread[static_cast<std::size_t>(in.value)] = false;
  }
  return unread;
}

absl::StatusOr<c10::Device> DeviceToRecordOn(const Graph& g) {
  if (!g.functional) return No("the graph writes its inputs as it runs");
  const std::optional<c10::Device> found = FirstDevice(g);
  if (!found.has_value()) return No("the graph does nothing");
  const c10::Device device = *found;
  const std::vector<bool> unread = UnreadSeeds(g);
  for (const ir::Input& in : g.inputs) {
    if (unread[static_cast<std::size_t>(in.value)]) continue;
    if (At(g, in.value).kind != ir::ValueKind::kTensor) return No(absl::StrCat(in.name, " is a number that changes"));
    if (At(g, in.value).device != device) {
      return No(absl::StrCat(in.name, " is on ", At(g, in.value).device.str(), ", work on ", device.str()));
    }
  }
  std::set<ValueId> constants;
  for (const ir::ConstantTensor& c : g.constants) constants.insert(c.value);
  for (const Node& n : g.nodes) {
    absl::Status status = CheckOperator(g, n);
    if (status.ok()) status = CheckValues(g, n, device, constants, unread);
    if (!status.ok()) return Annotate(status, DescribeNode(g, n));
  }
  return device;
}

}  // namespace framefuse
