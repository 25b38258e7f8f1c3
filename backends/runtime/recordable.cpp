#include "backends/runtime/recordable.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "backends/graph/operators.h"
#include "backends/runtime/node_text.h"
#include "common/index.h"
#include "common/status.h"

namespace framefuse {
namespace {

using ir::Graph;
using ir::Node;
using ir::ValueId;

absl::Status No(const std::string& why) { return absl::FailedPreconditionError(why); }

const ir::Value& ValueOf(const Graph& g, ValueId v) { return g.values[At(v)]; }

// Indexing with a mask counts the mask's elements on the host.
bool HasMask(const Graph& g, const Node& n) {
  bool mask = false;
  for (std::size_t a = 0; a < n.args.size(); ++a) {
    if (n.op->arguments()[a].type != ir::ArgType::kOptionalTensorList) continue;
    ir::ForEachValue(n.args[a], [&](ValueId v) {
      mask = mask || ValueOf(g, v).dtype == c10::ScalarType::Bool || ValueOf(g, v).dtype == c10::ScalarType::Byte;
    });
  }
  return mask;
}

bool IsSeed(const std::string& argument) {
  return argument == "philox_seed" || argument == "philox_offset" || argument == "rng_state" || argument == "unused";
}

// What becomes of the seeds of an operator, forward or backward.
enum class Seeds : std::uint8_t {
  kNone,       // it is no attention
  kUnread,     // it drops nothing
  kOnDevice,   // flash attention's
  kWandering,  // on the device where it is recorded, else on the host
  kUnknown,
};

Seeds SeedsOf(const Node& n) {
  const int dropout = n.op->FindArgument("dropout_p");
  if (dropout < 0 || !ir::Has(n.op, ir::OpFact::kAttention)) return Seeds::kNone;
  const ir::Arg& arg = n.args[At(dropout)];
  if (arg.kind != ir::Arg::Kind::kConstant || !arg.constant.isScalar()) return Seeds::kUnknown;
  if (arg.constant.toScalar().toDouble() == 0) return Seeds::kUnread;
  if (ir::Has(n.op, ir::OpFact::kFlashAttention)) return Seeds::kOnDevice;
  // cuDNN's are on the device also where nothing is recorded (torch 2.11); a recording of it has not been tried.
  return ir::Has(n.op, ir::OpFact::kEfficientAttention) ? Seeds::kWandering : Seeds::kUnknown;
}

// Values that such operators give as integers, and inputs, of which every use is as the seed of another.
std::vector<bool> OnlySeeds(const Graph& g, Seeds kind) {
  std::vector<bool> only(g.values.size(), false), used(g.values.size(), false);
  for (const ir::Input& in : g.inputs) only[At(in.value)] = true;
  for (const Node& n : g.nodes) {
    const bool is_kind = SeedsOf(n) == kind;
    for (ValueId v : n.outputs) {
      if (v == ir::kNoValue) continue;
      const ir::Value& value = ValueOf(g, v);
      only[At(v)] =
          is_kind && value.kind == ir::ValueKind::kTensor && c10::isIntegralType(value.dtype, /*includeBool=*/false);
    }
    for (std::size_t a = 0; a < n.args.size(); ++a) {
      const bool seed = is_kind && IsSeed(n.op->arguments()[a].name);
      ir::ForEachValue(n.args[a], [&](ValueId v) {
        used[At(v)] = true;
        if (!seed) only[At(v)] = false;
      });
    }
  }
  for (const ir::Input& in : g.inputs) {
    if (!used[At(in.value)]) only[At(in.value)] = false;
  }
  return only;
}

// The program gets its seeds where eager leaves them: on the host.
bool GivesSeeds(const Graph& g, const Node& n) {
  return std::any_of(g.outputs.begin(), g.outputs.end(), [&](const ir::Output& o) {
    const bool own = std::find(n.outputs.begin(), n.outputs.end(), o.value) != n.outputs.end();
    return own && o.role != ir::OutputRole::kHidden && o.value != ir::kNoValue &&
           c10::isIntegralType(ValueOf(g, o.value).dtype, /*includeBool=*/false);
  });
}

absl::Status CheckOperator(const Graph& g, const Node& n) {
  const bool speaks = ir::Has(n.op, ir::OpFact::kOfProcesses);
  if (!speaks && !ir::Has(n.op, ir::OpFact::kAten) && !ir::Has(n.op, ir::OpFact::kPrims))
    return No("it is not one of torch's own");
  if (!speaks && n.op->has_side_effect()) return No("it has an effect");
  if (n.op->mutates()) return No("it writes its arguments");
  for (const ir::Arg& arg : n.args) {
    if (arg.kind == ir::Arg::Kind::kConstant && arg.constant.isGenerator()) return No("it has a generator of its own");
  }
  const Seeds seeds = SeedsOf(n);
  if (seeds == Seeds::kUnknown) return No("where the seeds of its dropout are is not known");
  if (seeds == Seeds::kWandering && GivesSeeds(g, n)) return No("the seeds of its dropout are on the host");
  const bool gives_values = n.op->handle().hasTag(at::Tag::data_dependent_output) || n.op->is_sized_by_values();
  const bool waits =
      ir::Has(n.op, ir::OpFact::kIndexes) ? HasMask(g, n) : gives_values || ir::Has(n.op, ir::OpFact::kWaits);
  return waits ? No("the host waits for its values") : absl::OkStatus();
}

// A 0-dim constant of the host is a number that a pointwise operator takes along; all else on the host is work there.
absl::Status CheckValues(const Graph& g, const Node& n, c10::Device device, const std::set<ValueId>& constants,
                         const std::vector<bool>& anywhere) {
  absl::Status status = absl::OkStatus();
  ir::ForEachUse(n, [&](ValueId v) {
    const ir::Value& value = ValueOf(g, v);
    if (anywhere[At(v)]) return;
    if (value.kind != ir::ValueKind::kTensor) status = No("it reads a number that changes");
    if (value.device == device) return;
    const bool number = constants.contains(v) && value.sizes.empty() && value.device.is_cpu();
    if (!number || !n.op->is_pointwise() || ir::Has(n.op, ir::OpFact::kCopies)) {
      status = No(absl::StrCat("it reads a tensor on ", value.device.str()));
    }
  });
  for (ValueId v : n.outputs) {
    if (v == ir::kNoValue || anywhere[At(v)]) continue;
    if (ValueOf(g, v).kind != ir::ValueKind::kTensor) status = No("it gives the host a number");
    if (ValueOf(g, v).device != device) status = No(absl::StrCat("its result is on ", ValueOf(g, v).device.str()));
  }
  return status;
}

// Of the first node with a result.
std::optional<c10::Device> FirstDevice(const Graph& g) {
  for (const Node& n : g.nodes) {
    for (ValueId v : n.outputs) {
      if (v != ir::kNoValue) return ValueOf(g, v).device;
    }
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> GroupsOf(const Graph& g) {
  std::set<std::string> groups;
  for (const Node& n : g.nodes) {
    const int argument = ir::Has(n.op, ir::OpFact::kOfProcesses) ? n.op->FindArgument("group_name") : -1;
    if (argument < 0) continue;
    const ir::Arg& arg = n.args[At(argument)];
    if (arg.kind != ir::Arg::Kind::kConstant || !arg.constant.isString()) return No("its group is not known");
    groups.insert(arg.constant.toStringRef());
  }
  return std::vector<std::string>(groups.begin(), groups.end());
}

std::vector<bool> UnreadSeeds(const Graph& g) { return OnlySeeds(g, Seeds::kUnread); }
std::vector<bool> WanderingSeeds(const Graph& g) { return OnlySeeds(g, Seeds::kWandering); }

absl::StatusOr<c10::Device> DeviceToRecordOn(const Graph& g) {
  if (!g.functional) return No("the graph writes its inputs as it runs");
  const std::optional<c10::Device> found = FirstDevice(g);
  if (!found.has_value()) return No("the graph does nothing");
  const c10::Device device = *found;
  std::vector<bool> anywhere = UnreadSeeds(g);
  const std::vector<bool> wandering = WanderingSeeds(g);
  for (std::size_t v = 0; v < anywhere.size(); ++v) anywhere[v] = anywhere[v] || wandering[v];
  for (const ir::Input& in : g.inputs) {
    if (anywhere[At(in.value)]) continue;
    if (ValueOf(g, in.value).kind != ir::ValueKind::kTensor)
      return No(absl::StrCat(in.name, " is a number that changes"));
    if (ValueOf(g, in.value).device != device) {
      return No(absl::StrCat(in.name, " is on ", ValueOf(g, in.value).device.str(), ", work on ", device.str()));
    }
  }
  std::set<ValueId> constants;
  for (const ir::ConstantTensor& c : g.constants) constants.insert(c.value);
  for (const Node& n : g.nodes) {
    absl::Status status = CheckOperator(g, n);
    if (status.ok()) status = CheckValues(g, n, device, constants, anywhere);
    if (!status.ok()) return Annotate(status, DescribeNode(g, n));
  }
  return device;
}

}  // namespace framefuse
