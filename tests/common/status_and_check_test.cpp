// FF_RET_CHECK and the Status macros: what they return, and that FF_CHECK ends the process with file and condition.
#include <gtest/gtest.h>

#include "common/check.h"
#include "common/status.h"
#include "common/text_writer.h"

namespace framefuse {
namespace {

absl::StatusOr<int> Half(int n) {
  FF_RET_CHECK(n % 2 == 0) << "n is " << n;
  return n / 2;
}

absl::StatusOr<int> Quarter(int n) {
  FF_ASSIGN_OR_RETURN(const int half, Half(n));
  FF_ASSIGN_OR_RETURN(const int quarter, Half(half));
  return quarter;
}

TEST(StatusTest, RetCheckReturnsAnInternalErrorWithItsPlace) {
  EXPECT_EQ(*Quarter(12), 3);
  const absl::Status status = Quarter(6).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_NE(MessageOf(status).find("status_and_check_test.cpp"), std::string::npos);
  EXPECT_NE(MessageOf(status).find("n % 2 == 0 n is 3"), std::string::npos);
}

TEST(StatusTest, AnnotateKeepsTheCode) {
  const absl::Status status = Annotate(absl::NotFoundError("no op"), "reading a graph");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(MessageOf(status), "reading a graph: no op");
  EXPECT_TRUE(Annotate(absl::OkStatus(), "x").ok());
}

TEST(CheckDeathTest, FailedCheckAbortsWithItsText) {
  const int users = 2;
  FF_CHECK(users == 2) << "not evaluated";
  EXPECT_DEATH(FF_CHECK(users == 1) << "users " << users, "check failed: users == 1 users 2");
}

TEST(TextWriterTest, IndentsScopesAndBlocks) {
  TextWriter writer;
  writer.Line("def f(x):");
  {
    const TextWriter::Scope body(writer);
    writer.Line("y = x + ", 1).Line().Block("if y:\n  return y\n");
  }
  EXPECT_EQ(writer.text(), "def f(x):\n  y = x + 1\n\n  if y:\n    return y\n");
}

}  // namespace
}  // namespace framefuse
