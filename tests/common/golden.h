// Golden texts: a folder's *.txt hold an input, a line of dashes, and what a test makes of the input.
// FF_UPDATE_GOLDEN=1 rewrites the second half; the difference is then for a human to read.
#ifndef FRAMEFUSE_TESTS_COMMON_GOLDEN_H_
#define FRAMEFUSE_TESTS_COMMON_GOLDEN_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace framefuse::testing {

// The names of the folder's texts, in order.
inline std::vector<std::string> GoldenNames(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

// Expects that `transform` makes of the input what the text says.
template <typename F>
void ExpectGolden(const std::filesystem::path& folder, const std::string& name, const F& transform) {
  const std::filesystem::path path = folder / (name + ".txt");
  const std::string dashes = "--------\n";
  std::stringstream content;
  content << std::ifstream(path).rdbuf();
  const std::string text = content.str();
  const std::size_t separator = text.find(dashes);
  const std::string input = text.substr(0, separator), result = transform(input);
  if (std::getenv("FF_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << input << dashes << result;
  ASSERT_NE(separator, std::string::npos) << "no expected text yet: run with FF_UPDATE_GOLDEN=1 and read it";
  EXPECT_EQ(result, text.substr(separator + dashes.size()));
}

}  // namespace framefuse::testing

#endif  // FRAMEFUSE_TESTS_COMMON_GOLDEN_H_
