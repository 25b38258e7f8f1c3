// Golden texts: golden/*.txt hold a list of passes, a graph, a line of dashes, and what the passes make of it.
// FF_UPDATE_GOLDEN=1 rewrites the second half; the difference is then for a human to read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "backends/autograd/partition.h"
#include "backends/passes/pass.h"
#include "common/status.h"

namespace framefuse {
namespace {

namespace fs = std::filesystem;

constexpr char kSeparator[] = "--------\n";

std::vector<std::string> GoldenFiles() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(fs::path(FF_GRAPH_TEST_FOLDER) / "golden")) {
    names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

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

TEST_P(Golden, IsAsRecorded) {
  fs::path path = fs::path(FF_GRAPH_TEST_FOLDER) / "golden" / (GetParam() + ".txt");
  std::stringstream content;
  content << std::ifstream(path).rdbuf();
  std::string text = content.str();
  std::size_t separator = text.find(kSeparator);
  std::string input = text.substr(0, separator);
  std::string result = Transform(input);
  if (std::getenv("FF_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << input << kSeparator << result;
  ASSERT_NE(separator, std::string::npos) << "no expected text yet: run with FF_UPDATE_GOLDEN=1 and read it";
  EXPECT_EQ(result, text.substr(separator + std::string(kSeparator).size()));
}

INSTANTIATE_TEST_SUITE_P(Passes, Golden, ::testing::ValuesIn(GoldenFiles()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace framefuse
