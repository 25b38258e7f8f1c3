// Tests of ways through bytecode that only raise.
#include "frame_eval/bytecode/raising.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/frame_eval/python_environment.h"

namespace framefuse {
namespace {

// Of the first branch of a function with this body.
std::optional<bool> FirstBranch(const std::string& body) {
  testing::Execute("def f(a, b):\n" + body);
  const Ref code = testing::Eval("f.__code__");
  const Bytecode* bytecode = BytecodeOf(reinterpret_cast<PyCodeObject*>(code.get()));
  const std::vector<Instruction>& all = bytecode->instructions();
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (all[i].opcode != Opcode::kPopJumpIfFalse && all[i].opcode != Opcode::kPopJumpIfTrue) continue;
    // From 3.13 on the truth is asked for by the instruction before.
    const Opcode before = all[i - 1].opcode;
    const bool asked_before = before == Opcode::kToBool || before == Opcode::kCompareOpToBool;
    return TruthThatGoesOn(*bytecode, all[asked_before ? i - 1 : i].index);
  }
  ADD_FAILURE() << "no branch in " << body;
  return std::nullopt;
}

TEST(Raising, OneWayRaises) {
  EXPECT_EQ(FirstBranch("  if a: raise ValueError\n  return 1\n"), false);
  EXPECT_EQ(FirstBranch("  if not a: raise ValueError(f'{b} {a!r}')\n  return 1\n"), true);
  EXPECT_EQ(FirstBranch("  assert a, b\n"), true);
  EXPECT_EQ(FirstBranch("  if a < b: raise ValueError\n  return 1\n"), false);
  EXPECT_EQ(FirstBranch("  assert a < b\n"), true);
  EXPECT_EQ(FirstBranch("  if a:\n    return 1\n  raise KeyError(a)\n"), true);
  EXPECT_EQ(FirstBranch("  if a:\n    text = 'x' if b else 'y'\n    raise ValueError(text)\n  return b\n"), false);
}

TEST(Raising, NeitherOrBoth) {
  EXPECT_EQ(FirstBranch("  if a: b = 1\n  return b\n"), std::nullopt);
  EXPECT_EQ(FirstBranch("  if a < b: b = 1\n  return b\n"), std::nullopt);
  EXPECT_EQ(FirstBranch("  if a: raise ValueError\n  raise KeyError\n"), std::nullopt);
  EXPECT_EQ(FirstBranch("  if a:\n    if b: raise ValueError\n  return b\n"), std::nullopt);
  EXPECT_EQ(FirstBranch("  if a:\n    for i in b: raise ValueError\n  return b\n"), std::nullopt);
  EXPECT_EQ(FirstBranch("  if a:\n    while b: pass\n    raise ValueError\n  return b\n"), std::nullopt);
}

TEST(Raising, NoBranch) {
  testing::Execute("def f(a): return a");
  const Ref code = testing::Eval("f.__code__");
  const Bytecode* bytecode = BytecodeOf(reinterpret_cast<PyCodeObject*>(code.get()));
  EXPECT_EQ(TruthThatGoesOn(*bytecode, bytecode->instructions().front().index), std::nullopt);
  EXPECT_FALSE(OnlyRaises(*bytecode, 0));
}

}  // namespace
}  // namespace framefuse
