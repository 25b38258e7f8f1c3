// JSON text and the trace: whatever bytes come, valid ASCII JSON goes out; collectors hear what is written while they
// are on.
#include "common/json_text.h"

#include <gtest/gtest.h>

#include "common/compile_id.h"
#include "common/logging.h"
#include "common/trace.h"

namespace framefuse {
namespace {

TEST(JsonTextTest, EscapesWhatIsNotPlain) {
  EXPECT_EQ(JsonString("a\"b\\c\nd\te\x01"), "\"a\\\"b\\\\c\\nd\\te\\u0001\"");
  EXPECT_EQ(JsonString("ä⋯"), "\"\\u00e4\\u22ef\"");
  EXPECT_EQ(JsonString("😀"), "\"\\ud83d\\ude00\"");
}

TEST(JsonTextTest, BytesThatAreNoUtf8AreSpelled) {
  EXPECT_EQ(JsonString("a\xff"), "\"a\\\\xff\"");
  EXPECT_EQ(JsonString("\xc3"), "\"\\\\xc3\"");                        // cut off
  EXPECT_EQ(JsonString("\xc0\x80"), "\"\\\\xc0\\\\x80\"");             // too long a form
  EXPECT_EQ(JsonString("\xed\xa0\x80"), "\"\\\\xed\\\\xa0\\\\x80\"");  // a surrogate
}

TEST(JsonTextTest, Objects) {
  JsonObject object;
  object.Text("a", "x").Int("b", -2).Bool("c", true).Json("d", "").Json("e", JsonList({"1", "2"})).Number("f", 0.5);
  EXPECT_EQ(object.Done(), R"({"a":"x","b":-2,"c":true,"d":null,"e":[1,2],"f":0.500000})");
}

TEST(TraceTest, OffNothingIsWantedAndWritten) {
  EXPECT_FALSE(TraceEnabled());
  EXPECT_FALSE(TraceWants("key"));
  WriteTrace("event", JsonObject());
}

TEST(TraceTest, CollectorsGetLinesWithTheCompileId) {
  const int collector = StartTraceCollector();
  EXPECT_TRUE(TraceEnabled());
  {
    const CompileIdScope id({2, 1});
    WriteTrace("event", JsonObject().Int("n", 3));
  }
  WriteTraceOnce("key", "once", JsonObject());
  WriteTraceOnce("key", "once", JsonObject());
  const std::vector<std::string> lines = StopTraceCollector(collector);
  ASSERT_EQ(lines.size(), 3u);  // the first says what process it is
  EXPECT_NE(lines[1].find(R"("id":"2/1","n":3})"), std::string::npos) << lines[1];
  EXPECT_FALSE(TraceEnabled());
}

TEST(TraceTest, ARelayedCollectorsLinesAreTakenWhereLogsAreDelivered) {
  static int collector = 0;
  static std::vector<std::string> taken;
  collector = StartTraceCollector(true);
  TakeTraceLines(collector);  // the first says what process it is
  SetLogDelivery([] {
    SetLogsWaiting(false);
    taken = TakeTraceLines(collector);
  });
  DeliverLogs();
  EXPECT_TRUE(taken.empty());
  WriteTrace("event", JsonObject().Int("n", 3));
  DeliverLogs();
  SetLogDelivery(nullptr);
  EXPECT_EQ(taken.size(), 1u);
  EXPECT_TRUE(StopTraceCollector(collector).empty());
}

TEST(TraceTest, TheUsersLogsAreTheirOwn) {
  const std::uint64_t mask = LogMask();
  std::vector<std::string> seen;
  SetLogSink([&](LogArtifact, std::string_view text) { seen.emplace_back(text); });
  const int collector = StartTraceCollector();
  EXPECT_EQ(LogMask(), mask);
  FF_LOG(kFusion) << "for the trace alone";
  SetLogEnabled(LogArtifact::kFusion, true);
  FF_LOG(kFusion) << "for both";
  SetLogMask(mask);
  EXPECT_EQ(StopTraceCollector(collector).size(), 3u);
  FF_LOG(kFusion) << "for nobody";
  SetLogSink({});
  EXPECT_EQ(seen, std::vector<std::string>{"for both"});
}

}  // namespace
}  // namespace framefuse
