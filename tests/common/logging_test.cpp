// Log artifacts: off by default, switched by name, one record a text, unknown names answered with the list.
#include "common/logging.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "common/status.h"

namespace framefuse {
namespace {

class LoggingTest : public testing::Test {
 protected:
  LoggingTest() : mask_(LogMask()) {
    SetLogMask(0);
    SetLogSink([this](LogArtifact artifact, std::string_view text) { records_.emplace_back(artifact, text); });
  }
  ~LoggingTest() override {
    SetLogSink({});
    SetLogMask(mask_);
  }
  std::vector<std::pair<LogArtifact, std::string>> records_;

 private:
  std::uint64_t mask_;
};

TEST_F(LoggingTest, WritesOnlyWhatIsOn) {
  int evaluated = 0;
  FF_LOG(kGuards) << ++evaluated;
  EXPECT_EQ(evaluated, 0);
  SetLogEnabled(LogArtifact::kGuards, true);
  FF_LOG(kGuards) << "count " << ++evaluated;
  FF_LOG(kCache) << "no";
  ASSERT_EQ(records_.size(), 1U);
  EXPECT_EQ(records_[0].second, "count 1");
}

TEST_F(LoggingTest, TextSwitchesByName) {
  ASSERT_TRUE(EnableLogsFromText("graph_breaks, guards").ok());
  EXPECT_TRUE(LogEnabled(LogArtifact::kGraphBreaks));
  EXPECT_TRUE(LogEnabled(LogArtifact::kGuards));
  EXPECT_FALSE(LogEnabled(LogArtifact::kCache));
  ASSERT_TRUE(EnableLogsFromText("all,-guards").ok());
  EXPECT_TRUE(LogEnabled(LogArtifact::kCache));
  EXPECT_FALSE(LogEnabled(LogArtifact::kGuards));
}

TEST_F(LoggingTest, PlusAsksForDetails) {
  ASSERT_TRUE(EnableLogsFromText("+recompiles,guards").ok());
  EXPECT_TRUE(LogEnabled(LogArtifact::kRecompiles) && LogDetailed(LogArtifact::kRecompiles));
  EXPECT_TRUE(LogEnabled(LogArtifact::kGuards) && !LogDetailed(LogArtifact::kGuards));
  const std::uint64_t mask = LogMask();
  ASSERT_TRUE(EnableLogsFromText("-recompiles").ok());
  EXPECT_FALSE(LogEnabled(LogArtifact::kRecompiles) || LogDetailed(LogArtifact::kRecompiles));
  SetLogMask(mask);
  EXPECT_TRUE(LogDetailed(LogArtifact::kRecompiles));
}

TEST_F(LoggingTest, NamesOfTorchStandForOurs) {
  ASSERT_TRUE(EnableLogsFromText("aot_graphs,recompiles_verbose").ok());
  EXPECT_TRUE(LogEnabled(LogArtifact::kAot) && LogDetailed(LogArtifact::kRecompiles));
  for (const LogAlias& alias : LogAliases()) EXPECT_TRUE(FindLogArtifact(alias.ours).ok()) << alias.theirs;
}

TEST_F(LoggingTest, AWrongTextSwitchesNothing) {
  EXPECT_FALSE(EnableLogsFromText("guards,guard").ok());
  EXPECT_EQ(LogMask(), 0U);
}

TEST_F(LoggingTest, DeliversOnlyWhatWaits) {
  static int delivered = 0;
  SetLogDelivery([] { ++delivered; });
  DeliverLogs();
  EXPECT_EQ(delivered, 0);
  SetLogsWaiting(true);
  DeliverLogs();
  EXPECT_EQ(delivered, 1);
  SetLogsWaiting(false);
  SetLogDelivery(nullptr);
}

TEST_F(LoggingTest, UnknownNameListsTheArtifacts) {
  const absl::Status status = EnableLogsFromText("guard");
  ASSERT_FALSE(status.ok());
  EXPECT_NE(MessageOf(status).find("unknown log artifact 'guard'"), std::string::npos);
  EXPECT_NE(MessageOf(status).find("graph_breaks, "), std::string::npos);
}

TEST_F(LoggingTest, NamesFollowTheEnumeration) {
  for (const LogArtifactInfo& info : LogArtifacts()) EXPECT_STREQ(LogName(info.artifact), info.name);
}

}  // namespace
}  // namespace framefuse
