// Golden texts: golden/*.txt hold a list of passes, a graph, a line of dashes, and what the passes make of it
// (see tests/common/golden.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_split.h"
#include "backends/autograd/partition.h"
#include "backends/passes/pass.h"
#include "common/status.h"
#include "tests/common/golden.h"

namespace framefuse {
namespace {

const std::filesystem::path kFolder = std::filesystem::path(FF_GRAPH_TEST_FOLDER) / "golden";

absl::StatusOr<std::string> Apply(const std::string& pass, ir::Graph& g) {
  static constexpr Pass kPasses[] = {
      {"functionalize", Functionalize},  {"eliminate_dead_code", EliminateDeadCode},
      {"fold_constants", FoldConstants}, {"merge_common_subexpressions", MergeCommonSubexpressions},
      {"remove_no_ops", RemoveNoOps},    {"simplify_views", SimplifyViews},
  };
  if (pass == "partition" || pass == "partition_save_all") {
    BackendOptions options;
    options.save_all = pass == "partition_save_all";
    absl::StatusOr<Partitioned> parts = Partition(g, options);
    if (!parts.ok()) return parts.status();
    return ir::Print(parts->forward) + "\n" + ir::Print(parts->backward);
  }
  for (const Pass& p : kPasses) {
    if (pass != p.name) continue;
    absl::Status s = RunPasses(g, {&p, 1}, nullptr);
    if (!s.ok()) return s;
    return ir::Print(g);
  }
  return absl::NotFoundError("no pass " + pass);
}

// First line: "# passes: a, b".
std::string Transform(const std::string& input) {
  absl::StatusOr<ir::Graph> g = ir::Parse(input);
  if (!g.ok()) return MessageOf(g.status()) + "\n";
  std::string first = input.substr(0, input.find('\n'));
  std::string printed;
  for (absl::string_view pass : absl::StrSplit(first.substr(first.find(':') + 2), ", ")) {
    absl::StatusOr<std::string> text = Apply(std::string(pass), *g);
    if (!text.ok()) return MessageOf(text.status()) + "\n";
    printed = *text;
  }
  return printed;
}

class Golden : public ::testing::TestWithParam<std::string> {};

TEST_P(Golden, IsAsRecorded) { testing::ExpectGolden(kFolder, GetParam(), Transform); }

INSTANTIATE_TEST_SUITE_P(Passes, Golden, ::testing::ValuesIn(testing::GoldenNames(kFolder)),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace framefuse
