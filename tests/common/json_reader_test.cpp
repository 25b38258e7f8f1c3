// JSON text, read: what json_text.h writes comes back, and what is none is refused.
#include "common/json_reader.h"

#include <gtest/gtest.h>

#include "common/json_text.h"
#include "common/status.h"

namespace framefuse {
namespace {

TEST(JsonReaderTest, ReadsWhatJsonTextWrites) {
  const std::string text = "a \"b\"\n\t\\ é \xf0\x9f\x98\x80 \x01";
  JsonObject object;
  object.Text("text", text).Int("number", -12).Bool("yes", true).Json("list", JsonList({"1", "null"}));
  const absl::StatusOr<JsonValue> read = ReadJson(object.Done());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->Find("text")->text, text);
  EXPECT_EQ(read->Find("number")->number, -12);
  EXPECT_EQ(read->Find("yes")->number, 1);
  EXPECT_EQ(read->Find("list")->items.size(), 2U);
  EXPECT_EQ(read->Find("absent"), nullptr);
}

TEST(JsonReaderTest, RefusesWhatIsNone) {
  for (const char* text :
       {"", "{", "[1,", "[1 2]", "{\"a\"}", "{\"a\":1,\"a\":2}", "\"a", "\"\\u12", "\"\\ud800\"", "\"\\udc00\"",
        "\"\\x\"", "tru", "1.5", "1e3", "[1]x", "99999999999999999999", "\"\x01\"", "{1:2}"}) {
    EXPECT_FALSE(ReadJson(text).ok()) << text;
  }
}

TEST(JsonReaderTest, DepthIsBounded) {
  EXPECT_TRUE(ReadJson(std::string(20, '[') + std::string(20, ']')).ok());
  const absl::Status deep = ReadJson(std::string(100000, '[')).status();
  EXPECT_NE(MessageOf(deep).find("nested too deeply"), std::string::npos);
}

}  // namespace
}  // namespace framefuse
