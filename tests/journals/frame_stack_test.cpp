// FrameStack: where a program stands in its frames.
#include "symbolic/journals/frame_stack.h"

#include "tests/journals/attempt.h"

namespace framefuse {
namespace {

using testing::Attempt;
using testing::Eval;
using testing::Execute;
using testing::InnerFrame;

class FrameStackTest : public testing::InAttempt {
 protected:
  void SetUp() override {
    Execute(
        "def f(x, y=None):\n"
        "  a = x\n"
        "  return a\n"
        "def inner(z):\n"
        "  return z\n");
  }
};

TEST_F(FrameStackTest, HereFollowsTheInnermostInstruction) {
  At("f(1)", [](Attempt& a) {
    const auto line_at = [&](Activation& act, int line) {  // the first instruction of the line
      for (act.instruction = 0; act.instruction < 1000; ++act.instruction) {
        if (a.frames().Here().line == line) return true;
      }
      return false;
    };
    EXPECT_TRUE(line_at(a.root, 2));
    EXPECT_EQ(a.frames().Here().code.get(), frame_ops::Code(a.root.frame));
    EXPECT_TRUE(line_at(a.root, 3));
    {
      InnerFrame inner(a.journals, "inner", Completion::kPush);
      EXPECT_TRUE(line_at(inner.act, 5));
      EXPECT_EQ(a.frames().Here().code.get(), frame_ops::Code(inner.act.frame));
    }
    EXPECT_EQ(a.frames().Here().line, 3);
  });
}

TEST_F(FrameStackTest, NoFrameIsNowhere) {
  FrameStack frames(/*real_frame=*/nullptr, /*keeps_callers=*/false);
  EXPECT_EQ(frames.top(), nullptr);
  EXPECT_FALSE(frames.Here().code);
  EXPECT_FALSE(frames.has_root());
  EXPECT_FALSE(frames.InSkippedCode());
}

TEST_F(FrameStackTest, AFrameEnteredFromCEndsTheChain) {
  At("f(1)", [](Attempt& a) {
    InnerFrame called(a.journals, "inner", Completion::kPush);
    EXPECT_TRUE(a.frames().IsChain());
    {
      InnerFrame from_c(a.journals, "inner", Completion::kCallback);
      InnerFrame below(a.journals, "inner", Completion::kPush);
      EXPECT_FALSE(a.frames().IsChain());
      EXPECT_EQ(a.frames().all().size(), 4u);
      EXPECT_EQ(a.frames().top(), &below.act);
    }
    EXPECT_TRUE(a.frames().IsChain());
    EXPECT_EQ(a.frames().top(), &called.act);
  });
}

TEST_F(FrameStackTest, TheRootIsThereUntilItIsPopped) {
  At("f(1)", [](Attempt& a) {
    EXPECT_TRUE(a.frames().has_root());
    {
      InnerFrame inner(a.journals, "inner", Completion::kPush);
      EXPECT_TRUE(a.frames().has_root());
    }
    EXPECT_TRUE(a.frames().has_root());
    a.frames().Pop();
    EXPECT_FALSE(a.frames().has_root());
    {
      InnerFrame afterwards(a.journals, "inner", Completion::kCallback);  // a backward function
      EXPECT_FALSE(a.frames().has_root());
    }
    a.frames().PushRoot(&a.root);
  });
}

TEST_F(FrameStackTest, DroppedSlotsKeepNothingAlive) {
  Execute("kept = []");
  At("f(kept)", [](Attempt& a) {
    const Ref object = Eval("kept");
    const Py_ssize_t before = Py_REFCNT(object.get());
    FrameStack::DropSlots(a.root.frame);
    EXPECT_EQ(Py_REFCNT(object.get()), before - 1);
    EXPECT_EQ(frame_ops::Slots(a.root.frame)[0], nullptr);
  });
}

TEST_F(FrameStackTest, NamesSlotsAndPositions) {
  At("f(1)", [](Attempt& a) {
    const std::vector<std::string> names = a.frames().SlotNames();
    ASSERT_GE(names.size(), 4u);
    EXPECT_EQ(names[0], "x");
    EXPECT_EQ(names[1], "y");
    EXPECT_EQ(names[2], "a");
    EXPECT_EQ(names[3], "stack0");
    a.root.instruction = 4;
    const CapturePosition position = a.frames().PositionOf(a.root, 17);
    EXPECT_EQ(position.executed, 17u);
    EXPECT_EQ(position.code.get(), frame_ops::Code(a.root.frame));
    EXPECT_EQ(position.instruction, 4);
  });
}

}  // namespace
}  // namespace framefuse
