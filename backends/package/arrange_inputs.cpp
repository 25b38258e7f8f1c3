#include "backends/package/arrange_inputs.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "common/status.h"

namespace framefuse {
namespace {

// An input that no node reads.
absl::StatusOr<ir::Value> Described(ir::Graph& graph, const PlacedInput& placed) {
  ir::Value value = ir::DescribeTensor(placed.tensor);
  value.requires_grad = false;
  value.offset = ir::Dim(0);
  if (placed.symbols.empty()) return value;
  if (!placed.tensor.is_contiguous()) {
    return absl::InvalidArgumentError(
        absl::StrCat(placed.name, " has symbolic sizes, is read for its sizes only, and is not contiguous"));
  }
  for (const auto& [dim, symbol] : placed.symbols) {
    value.sizes[static_cast<std::size_t>(dim)] = graph.exprs.OfSymbol(symbol);
  }
  value.strides = ir::ContiguousStrides(graph.exprs, value.sizes);
  return value;
}

void MoveReferences(ir::Graph& graph, const std::vector<int>& new_place) {
  const auto move = [&](std::int32_t* index) { *index = new_place[static_cast<std::size_t>(*index)]; };
  for (ir::Output& output : graph.outputs) {
    if (output.input >= 0) move(&output.input);
    const bool of_input = output.alias == ir::OutputAlias::kInput || output.alias == ir::OutputAlias::kViewOfInput;
    if (of_input) move(&output.alias_of);
  }
}

}  // namespace

absl::StatusOr<std::string> ArrangeInputs(std::string_view text, const std::vector<PlacedInput>& inputs,
                                          const std::vector<int>& returned) {
  FF_ASSIGN_OR_RETURN(ir::Graph graph, ir::Parse(text));
  const std::vector<ir::Input> before = std::move(graph.inputs);
  graph.inputs.clear();
  std::vector<int> new_place(before.size(), -1);
  for (const PlacedInput& placed : inputs) {
    ir::Input input;
    if (placed.from >= 0) {
      const auto from = static_cast<std::size_t>(placed.from);
      if (from >= before.size() || new_place[from] >= 0) return absl::InvalidArgumentError("no such input to place");
      new_place[from] = static_cast<int>(graph.inputs.size());
      input = before[from];
      // Where it began in its storage nobody read.
      graph.value(input.value).offset = ir::Dim(0);
    } else {
      FF_ASSIGN_OR_RETURN(ir::Value value, Described(graph, placed));
      input.value = graph.AddValue(std::move(value));
    }
    input.role = placed.is_weight ? ir::InputRole::kParameter : ir::InputRole::kArgument;
    input.name = placed.name;
    graph.inputs.push_back(std::move(input));
  }
  if (absl::c_linear_search(new_place, -1)) return absl::InvalidArgumentError("an input has no place");
  MoveReferences(graph, new_place);
  for (const int place : returned) {
    ir::Output output;
    output.value = graph.inputs.at(static_cast<std::size_t>(place)).value;
    output.alias = ir::OutputAlias::kInput;
    output.alias_of = place;
    graph.outputs.push_back(output);
  }
  FF_RETURN_IF_ERROR(ir::Verify(graph));
  return ir::Print(graph);
}

}  // namespace framefuse
