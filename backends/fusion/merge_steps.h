// Horizontal steps: one kernel over many tensors, made of neighbouring steps that run one kernel each (a flat one, or
// on CUDA one of the same sizes) and do not read what the others write. What such steps share on every device.
#ifndef FRAMEFUSE_BACKENDS_FUSION_MERGE_STEPS_H_
#define FRAMEFUSE_BACKENDS_FUSION_MERGE_STEPS_H_

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backends/fusion/step.h"

namespace framefuse::fusion {

template <typename Part>
using Parts = std::vector<std::unique_ptr<Part>>;

template <typename Part>
std::vector<ir::ValueId> ReadsOf(const Parts<Part>& parts) {
  std::vector<ir::ValueId> out;
  for (const auto& p : parts) {
    for (ir::ValueId v : p->Reads()) out.push_back(v);
  }
  return out;
}

template <typename Part>
std::vector<ir::ValueId> ResultsOf(const Parts<Part>& parts) {
  std::vector<ir::ValueId> out;
  for (const auto& p : parts) {
    for (ir::ValueId v : p->Results()) out.push_back(v);
  }
  return out;
}

// Step::WriteOver. The order of the parts is not known: no other one than the writer may read the input.
template <typename Part>
bool WriteOverInParts(const Parts<Part>& parts, ir::ValueId result, ir::ValueId input) {
  const auto lists = [](const std::vector<ir::ValueId>& values, ir::ValueId v) {
    return std::find(values.begin(), values.end(), v) != values.end();
  };
  Part* writer = nullptr;
  for (const auto& p : parts) {
    if (lists(p->operands().Writes(), result)) {
      writer = p.get();
    } else if (lists(p->Reads(), input)) {
      return false;
    }
  }
  return writer != nullptr && writer->WriteOver(result, input);
}

template <typename Part>
PlanGroup ExplainParts(const Parts<Part>& parts, std::string code) {
  PlanGroup group{"horizontal × " + std::to_string(parts.size()) + ", " + parts[0]->description(), std::move(code), 0,
                  0};
  for (const auto& p : parts) {
    group.nodes += p->nodes();
    group.bytes += p->operands().bytes();
  }
  return group;
}

// How many steps from `begin` on, which is a Part, go together.
template <typename Part, typename Fits>
std::size_t RunLength(const std::vector<std::unique_ptr<Step>>& steps, std::size_t begin, Fits fits) {
  const auto* first = dynamic_cast<const Part*>(steps[begin].get());
  if (first == nullptr || !first->CanMerge()) return 1;
  std::set<ir::ValueId> written;
  std::size_t end = begin;
  for (const Part* next = first; next != nullptr;) {
    for (ir::ValueId v : next->operands().Writes()) written.insert(v);
    if (++end == steps.size()) break;
    next = dynamic_cast<const Part*>(steps[end].get());
    if (next == nullptr || !next->CanMerge() || !fits(*first, *next)) break;
    for (ir::ValueId v : next->Reads()) {
      if (written.contains(v)) return end - begin;
    }
  }
  return end - begin;
}

// `join` makes one step of the parts that `fits` lets go together.
template <typename Part, typename Fits, typename Join>
void MergeRuns(std::vector<std::unique_ptr<Step>>* steps, Fits fits, Join join) {
  std::vector<std::unique_ptr<Step>> out;
  for (std::size_t i = 0, length = 0; i < steps->size(); i += length) {
    length = RunLength<Part>(*steps, i, fits);
    if (length == 1) {
      out.push_back(std::move((*steps)[i]));
      continue;
    }
    Parts<Part> parts;
    for (std::size_t k = i; k < i + length; ++k) parts.emplace_back(static_cast<Part*>((*steps)[k].release()));
    out.push_back(join(std::move(parts)));
  }
  *steps = std::move(out);
}

}  // namespace framefuse::fusion

#endif  // FRAMEFUSE_BACKENDS_FUSION_MERGE_STEPS_H_
