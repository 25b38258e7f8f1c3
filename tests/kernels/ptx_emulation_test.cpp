// The emulation of PTX itself: what it computes, and that it refuses what a device would do something with.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status.h"
#include "tests/kernels/ptx_program.h"

namespace framefuse::testing {
namespace {

using ::testing::HasSubstr;

constexpr unsigned kThreads = 64;

// A kernel of two pointers; `code` finds them in %rd0 and %rd1, with the thread's number in %r0.
absl::Status RunCode(const std::string& code, const void* from, void* to) {
  const std::string text = absl::StrCat(R"(.version 7.8
.target sm_90
.address_size 64
.visible .entry kernel(.param .align 8 .b8 a[16])
.maxntid 64, 1, 1
{
  .reg .pred %p<9>;
  .reg .b16 %h<9>;
  .reg .b32 %r<9>;
  .reg .f32 %f<9>;
  .reg .b64 %rd<9>;
  .shared .align 16 .b8 shared[1024];
  ld.param.u64 %rd0, [a];
  ld.param.u64 %rd1, [a+8];
  mov.u32 %r0, %tid.x;
)",
                                        code, "  ret;\n}\n");
  auto program = ptx::Parse(text);
  if (!program.ok()) return program.status();
  return ptx::Run((*program)->entries.front(),
                  {reinterpret_cast<std::int64_t>(from), reinterpret_cast<std::int64_t>(to)}, 2, 1, kThreads);
}
std::string ErrorOf(const std::string& code) {
  alignas(16) static float memory[4 * kThreads];
  return MessageOf(RunCode(code, memory, memory));
}

// Each block sums what its threads read, by shuffles and shared memory; both write the same.
TEST(PtxEmulation, SumsABlock) {
  std::vector<float> from(kThreads), to(2, 0);
  float sum = 0;
  for (unsigned i = 0; i < kThreads; ++i) sum += from[i] = static_cast<float>(i) / 4;
  const absl::Status status = RunCode(R"(
  mul.wide.u32 %rd2, %r0, 4;
  add.s64 %rd2, %rd2, %rd0;
  ld.global.nc.L1::no_allocate.f32 %f0, [%rd2];
  mov.u32 %r1, 16;
again:
  { .reg .b32 t; .reg .f32 f;
    mov.b32 t, %f0;
    shfl.sync.bfly.b32 t|%p1, t, %r1, 31, 0xffffffff;
    mov.b32 f, t;
    add.f32 %f0, %f0, f; }
  shr.u32 %r1, %r1, 1;
  setp.ne.u32 %p0, %r1, 0;
  @%p0 bra again;
  and.b32 %r2, %r0, 31;
  setp.eq.u32 %p0|%p2, %r2, 0;
  shr.u32 %r3, %r0, 5;
  mov.u32 %r4, shared;
  mad.lo.u32 %r4, %r3, 4, %r4;
  @%p0 st.shared.f32 [%r4], %f0;
  bar.sync 0;
  @!%p0 bra $end;
  ld.shared.v2.f32 {%f1, %f2}, [shared];
  add.rn.f32 %f1, %f1, %f2;
  mov.u32 %r5, %ctaid.x;
  mad.wide.u32 %rd3, %r5, 4, %rd1;
  st.global.f32 [%rd3], %f1;
$end:
)",
                                      from.data(), to.data());
  ASSERT_TRUE(status.ok()) << MessageOf(status);
  EXPECT_EQ(to[0], sum);
  EXPECT_EQ(to[1], sum);
}

TEST(PtxEmulation, ConvertsAndPacks) {
  std::vector<float> from(kThreads);
  for (unsigned i = 0; i < kThreads; ++i) from[i] = static_cast<float>(i) * 0.37f - 9;
  from[5] = NAN;
  std::vector<std::int64_t> to(kThreads);
  const absl::Status status = RunCode(R"(
  mad.wide.u32 %rd2, %r0, 4, %rd0;
  ld.global.f32 %f0, [%rd2];
  cvt.rn.bf16x2.f32 %r1, 0f3F800000, %f0;
  mov.b32 {%h0, %h1}, %r1;
  cvt.rzi.s32.f32 %r2, %f0;
  cvt.s8.s32 %h2, %r2;
  cvt.u32.u16 %r3, %h0;
  shl.b32 %r3, %r3, 16;
  mov.b32 %f1, %r3;
  setp.neu.f32 %p0, %f1, %f1;
  selp.b32 %r3, 7, %r2, %p0;
  mov.b32 %r4, {%h2, %h1};
  mov.b64 %rd3, {%r3, %r4};
  mad.wide.u32 %rd4, %r0, 8, %rd1;
  st.global.b64 [%rd4], %rd3;
)",
                                      from.data(), to.data());
  ASSERT_TRUE(status.ok()) << MessageOf(status);
  for (unsigned i = 0; i < kThreads; ++i) {
    const int n = std::isnan(from[i]) ? 0 : static_cast<int>(from[i]);
    const auto low = static_cast<std::uint32_t>(std::isnan(from[i]) ? 7 : n);
    const std::uint32_t high = 0x3f800000u | static_cast<std::uint16_t>(n);
    EXPECT_EQ(std::bit_cast<std::uint64_t>(to[i]), static_cast<std::uint64_t>(high) << 32 | low) << from[i];
  }
}

TEST(PtxEmulation, RefusesWhatItDoesNotHave) {
  EXPECT_THAT(ErrorOf("  bfind.u32 %r1, %r0;\n"), HasSubstr("line 16: the emulation does not have bfind.u32"));
  EXPECT_THAT(ErrorOf("  mov.b32 %r77, %r0;\n"), HasSubstr("%r77 is not declared"));
  EXPECT_THAT(ErrorOf("  bra nowhere;\n"), HasSubstr("nowhere is no label"));
  EXPECT_THAT(ErrorOf("  add.u32 %r1, %rd0, 1;\n"), HasSubstr("another width"));
  EXPECT_THAT(ErrorOf("  mov.f32 %f0, 0f00000000;\n  add.f32 %f1, %f0, 1;\n"), HasSubstr("an integer where"));
}

TEST(PtxEmulation, RefusesWhatIsUndefined) {
  EXPECT_THAT(ErrorOf("  setp.eq.u32 %p0, %r0, 3;\n  @%p0 mov.u32 %r1, 1;\n  add.u32 %r1, %r1, 1;\n"),
              HasSubstr("thread 0 of block 0, 0: a register is read that was never set"));
  EXPECT_THAT(ErrorOf("  ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%rd0+4];\n"), HasSubstr("not a multiple of 16"));
  const std::string unset = "  ld.shared.v2.u32 {%r1, %r2}, [shared+8];\n  add.u32 %r1, %r2, 1;\n";
  EXPECT_EQ(ErrorOf(unset), "");
  EXPECT_THAT(ErrorOf(unset + "  st.global.u32 [%rd1], %r1;\n"), HasSubstr("nobody set is written"));
  EXPECT_THAT(ErrorOf(unset + "  setp.eq.u32 %p0, %r1, 0;\n  @%p0 ret;\n"), HasSubstr("a decision"));
  EXPECT_THAT(ErrorOf(unset + "  shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;\n"), HasSubstr("given to others"));
  EXPECT_THAT(ErrorOf(unset + "  st.shared.u32 [%r1], %r0;\n"), HasSubstr("an address"));
  EXPECT_THAT(ErrorOf("  st.shared.u32 [shared+1024], %r0;\n"), HasSubstr("outside of shared memory"));
  EXPECT_THAT(ErrorOf("  ld.param.u64 %rd2, [a+16];\n"), HasSubstr("outside of the arguments"));
  EXPECT_THAT(ErrorOf("  st.shared.u32 [shared], %r0;\n"), HasSubstr("a race"));
  EXPECT_THAT(ErrorOf("  setp.eq.u32 %p0, %r0, 3;\n  @%p0 st.shared.u32 [shared], %r0;\n  bar.sync 0;\n"
                      "  ld.shared.u32 %r1, [shared];\n  @%p0 st.shared.u32 [shared], %r1;\n"),
              HasSubstr("a race"));
  EXPECT_THAT(ErrorOf("  setp.eq.u32 %p0, %r0, 3;\n  @%p0 bra over;\n  bar.sync 0;\nover:\n"),
              HasSubstr("will not come"));
  EXPECT_THAT(ErrorOf("  setp.eq.u32 %p0, %r0, 3;\n  @%p0 bra over;\n"
                      "  shfl.sync.bfly.b32 %r1, %r0, 1, 31, -1;\nover:\n"),
              HasSubstr("will not come"));
  EXPECT_THAT(ErrorOf("over:\n  bra over;\n"), HasSubstr("does not end"));
  EXPECT_THAT(ErrorOf("  trap;\n"), HasSubstr("ends itself"));
}

}  // namespace
}  // namespace framefuse::testing
