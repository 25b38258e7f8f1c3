// Settings by name: types are checked, unknown names are answered with the list, text sets several at once.
#include "common/config.h"

#include <gtest/gtest.h>

#include "common/status.h"

namespace framefuse {
namespace {

class ConfigTest : public testing::Test {
 protected:
  ~ConfigTest() override {
    for (const SettingInfo& info : ConfigSettings()) EXPECT_TRUE(SetConfig(info.name, info.initial).ok());
  }
};

TEST_F(ConfigTest, DefaultsAreTheTable) {
  EXPECT_EQ(config().recompile_limit, 8);
  for (const SettingInfo& info : ConfigSettings()) EXPECT_EQ(*GetConfig(info.name), info.initial) << info.name;
}

TEST_F(ConfigTest, SetByNameIsSeenByFieldAndName) {
  ASSERT_TRUE(SetConfig("recompile_limit", std::int64_t{3}).ok());
  EXPECT_EQ(config().recompile_limit, 3);
  EXPECT_EQ(*GetConfig("recompile_limit"), SettingValue(std::int64_t{3}));
}

TEST_F(ConfigTest, WrongTypeAndNameSayWhatIsRight) {
  EXPECT_EQ(MessageOf(SetConfig("verbose", std::int64_t{1})), "setting 'verbose' takes a bool");
  const std::string message = MessageOf(SetConfig("verbos", true));
  EXPECT_NE(message.find("unknown setting 'verbos'"), std::string::npos);
  EXPECT_NE(message.find("recompile_limit"), std::string::npos);
}

TEST_F(ConfigTest, TextSetsSeveral) {
  ASSERT_TRUE(SetConfigFromText("recompile_limit=4, verbose=1,cache_dir=/tmp/x=y").ok());
  EXPECT_EQ(config().recompile_limit, 4);
  EXPECT_TRUE(config().verbose);
  EXPECT_EQ(config().cache_dir.get(), "/tmp/x=y");
  EXPECT_FALSE(SetConfigFromText("verbose=maybe").ok());
  EXPECT_FALSE(SetConfigFromText("recompile_limit=4x").ok());
}

TEST_F(ConfigTest, NumbersHaveARange) {
  const absl::Status status = SetConfig("recompile_limit", std::int64_t{-1});
  EXPECT_TRUE(absl::IsOutOfRange(status));
  EXPECT_NE(MessageOf(status).find("takes 0 or more, not -1"), std::string::npos);
  EXPECT_GE(config().recompile_limit, 0);
  EXPECT_TRUE(absl::IsOutOfRange(SetConfigFromText("break_at=-2")));
}

}  // namespace
}  // namespace framefuse
