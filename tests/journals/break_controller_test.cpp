// BreakController and BackwardPhase: how an attempt ends before its frame returns.
#include "symbolic/journals/break_controller.h"

#include "symbolic/journals/backward_phase.h"
#include "tests/journals/attempt.h"

namespace framefuse {
namespace {

using testing::Attempt;
using testing::Eval;
using testing::Execute;
using testing::InnerFrame;

class BreakControllerTest : public testing::InAttempt {
 protected:
  void SetUp() override {
    Execute(
        "def f(x):\n"
        "  return x\n"
        "def inner(z):\n"
        "  return z\n"
        "def innermost(z):\n"
        "  return z\n");
  }

  // The evaluator's way to the start of its instruction number `executed`.
  static StopAction Reach(Attempt& a, Activation& act, std::uint64_t executed, int instruction = 0) {
    a.control.executed = executed;
    act.instruction = instruction;
    return a.control.stop_at == executed ? a.breaks().OnStop(act) : StopAction::kContinue;
  }
};

class Listener final : public BreakController::StopListener {
 public:
  void AtStop(Activation& innermost) override { stopped_at = &innermost; }
  bool IsRebuildable(Activation&) override { return ++asked <= rebuildable; }
  Activation* stopped_at = nullptr;
  int asked = 0, rebuildable = 0;
};

TEST_F(BreakControllerTest, ABreakUnwindsAndOnlyTheFirstCounts) {
  At("f(1)", [](Attempt& a) {
    EXPECT_FALSE(a.breaks().unwinding());
    const Value none = a.breaks().Break(GraphBreakKind::kClassDefinition, "first");
    EXPECT_FALSE(none);
    EXPECT_TRUE(a.control.unwinding);
    EXPECT_EQ(a.control.stop_at, a.control.executed);  // no instruction starts any more
    EXPECT_TRUE(PyErr_ExceptionMatches(PyExc_BaseException));
    EXPECT_FALSE(PyErr_ExceptionMatches(PyExc_Exception));  // no handler of a program's is for it
    PyErr_SetString(PyExc_AttributeError, "by C code");
    EXPECT_FALSE(a.breaks().BreakFalse(GraphBreakKind::kDisabled, "second"));
    EXPECT_EQ(a.breaks().BreakTruth(GraphBreakKind::kDisabled, "third"), Truth::kError);
    EXPECT_FALSE(PyErr_ExceptionMatches(PyExc_Exception));
    EXPECT_TRUE(a.breaks().unwinding());
    ASSERT_TRUE(a.breaks().record());
    EXPECT_EQ(a.breaks().record()->reason.kind, GraphBreakKind::kClassDefinition);
    EXPECT_EQ(a.breaks().record()->reason.context, "first");
    EXPECT_EQ(a.breaks().record()->reason.function, "f");
  });
}

TEST_F(BreakControllerTest, ABreakStandsAtEachFrameOfTheChain) {
  At("f(1)", [](Attempt& a) {
    InnerFrame inner(a.journals, "inner", Completion::kPush);
    InnerFrame innermost(a.journals, "innermost", Completion::kInit);
    a.root.started = 3;
    inner.act.started = 5;
    innermost.act.started = 9;
    EXPECT_FALSE(a.breaks().Break(GraphBreakKind::kExplicit, ""));
    ASSERT_TRUE(a.breaks().record());
    const BreakRecord& record = *a.breaks().record();
    EXPECT_EQ(record.position.executed, 9u);
    EXPECT_EQ(record.position.code.get(), frame_ops::Code(innermost.act.frame));
    ASSERT_EQ(record.outer_positions.size(), 2u);
    EXPECT_EQ(record.outer_positions[0].executed, 5u);
    EXPECT_EQ(record.outer_positions[1].executed, 3u);
    EXPECT_EQ(record.reason.function, "innermost");
  });
}

TEST_F(BreakControllerTest, ABreakInACallbackMovesToTheOutermostCallOfC) {
  At("f(1)", [](Attempt& a) {
    InnerFrame called(a.journals, "inner", Completion::kPush);
    InnerFrame from_c(a.journals, "innermost", Completion::kCallback);
    InnerFrame below(a.journals, "innermost", Completion::kPush);
    InnerFrame from_c_again(a.journals, "innermost", Completion::kCallback);
    called.act.started = 5;
    from_c.act.started = below.act.started = from_c_again.act.started = 8;
    EXPECT_FALSE(a.breaks().Break(GraphBreakKind::kExplicit, ""));
    ASSERT_TRUE(a.breaks().record());
    EXPECT_EQ(a.breaks().record()->position.executed, 5u);
    EXPECT_EQ(a.breaks().record()->outer_positions.size(), 1u);
    EXPECT_EQ(a.breaks().record()->reason.function, "innermost");
  });
}

TEST_F(BreakControllerTest, CodeThatTheLibraryMadeIsNoPlaceToStopAt) {
  At("f(1)", [](Attempt& a) {
    a.made().NoteCode(Eval("inner.__code__"));
    InnerFrame of_library(a.journals, "inner", Completion::kPush);
    InnerFrame innermost(a.journals, "innermost", Completion::kPush);
    of_library.act.started = 5;
    innermost.act.started = 9;
    EXPECT_FALSE(a.breaks().Break(GraphBreakKind::kExplicit, ""));
    ASSERT_TRUE(a.breaks().record());
    EXPECT_EQ(a.breaks().record()->position.executed, 9u);
    ASSERT_EQ(a.breaks().record()->outer_positions.size(), 1u);
    EXPECT_EQ(a.breaks().record()->outer_positions[0].code.get(), frame_ops::Code(a.root.frame));
  });
  At("f(1)", [](Attempt& a) {
    a.made().NoteCode(Eval("innermost.__code__"));
    InnerFrame innermost(a.journals, "innermost", Completion::kPush);
    EXPECT_FALSE(a.breaks().Break(GraphBreakKind::kExplicit, ""));
    ASSERT_TRUE(a.breaks().record());
    EXPECT_EQ(a.breaks().record()->position.code.get(), frame_ops::Code(a.root.frame));
  });
}

TEST_F(BreakControllerTest, AReRunStopsWhereItIsTold) {
  At("f(1)", [](Attempt& a) {
    Listener listener;
    a.breaks().set_listener(&listener);
    a.breaks().StopAt(
        {.executed = 2, .code = RefOf<PyCodeObject>::Create(frame_ops::Code(a.root.frame)), .instruction = 6});
    EXPECT_EQ(Reach(a, a.root, 0), StopAction::kContinue);
    EXPECT_EQ(Reach(a, a.root, 1, 2), StopAction::kContinue);
    EXPECT_FALSE(a.breaks().stopped());
    EXPECT_EQ(Reach(a, a.root, 2, 6), StopAction::kUnwind);
    EXPECT_TRUE(a.breaks().stopped());
    EXPECT_FALSE(a.breaks().stop_mismatch());
    EXPECT_TRUE(a.breaks().unwinding());
    EXPECT_FALSE(a.breaks().record());
    EXPECT_EQ(listener.stopped_at, &a.root);
  });
}

TEST_F(BreakControllerTest, AReRunThatTookAnotherWayIsFoundOut) {
  for (const bool other_code : {false, true}) {
    At("f(1)", [&](Attempt& a) {
      Listener listener;
      a.breaks().set_listener(&listener);
      PyCodeObject* code = frame_ops::Code(a.root.frame);
      a.breaks().StopAt({.executed = 2, .code = RefOf<PyCodeObject>::Create(code), .instruction = 6});
      InnerFrame inner(a.journals, "inner", Completion::kPush);
      EXPECT_EQ(Reach(a, other_code ? inner.act : a.root, 2, other_code ? 6 : 8), StopAction::kUnwind);
      EXPECT_TRUE(a.breaks().stop_mismatch());
      EXPECT_FALSE(a.breaks().stopped());
      EXPECT_EQ(listener.stopped_at, nullptr);
    });
  }
}

TEST_F(BreakControllerTest, AForcedBreakWaitsForAPlaceThatCanBeResumed) {
  CaptureOptions options;
  options.break_at = 1;
  At(
      "f(1)",
      [](Attempt& a) {
        EXPECT_EQ(Reach(a, a.root, 0), StopAction::kContinue);
        {
          InnerFrame from_c(a.journals, "inner", Completion::kCallback);
          EXPECT_EQ(Reach(a, from_c.act, 1), StopAction::kContinue);
          EXPECT_EQ(Reach(a, from_c.act, 2), StopAction::kContinue);
        }
        EXPECT_FALSE(a.BrokeWith());
        EXPECT_EQ(Reach(a, a.root, 3), StopAction::kUnwind);
        EXPECT_EQ(a.BrokeWith(), GraphBreakKind::kForced);
        EXPECT_EQ(a.breaks().record()->position.executed, 3u);
      },
      options);
}

TEST_F(BreakControllerTest, TheLastPlaceWhereAllCanBeRebuiltIsKept) {
  At("f(1)", [](Attempt& a) {
    Listener listener;
    listener.rebuildable = 2;
    a.breaks().set_listener(&listener);
    a.breaks().StopAt(
        {.executed = 4, .code = RefOf<PyCodeObject>::Create(frame_ops::Code(a.root.frame)), .instruction = 8});
    a.breaks().TrackRebuildable();
    static_cast<void>(Reach(a, a.root, 0, 0));
    static_cast<void>(Reach(a, a.root, 1, 2));
    {
      InnerFrame inner(a.journals, "inner", Completion::kPush);  // only the root is looked at
      static_cast<void>(Reach(a, inner.act, 2, 0));
    }
    EXPECT_EQ(listener.asked, 2);
    static_cast<void>(Reach(a, a.root, 3, 6));
    EXPECT_EQ(listener.asked, 3);
    ASSERT_TRUE(a.breaks().last_rebuildable());
    EXPECT_EQ(a.breaks().last_rebuildable()->executed, 1u);
    EXPECT_EQ(a.breaks().last_rebuildable()->instruction, 2);
    EXPECT_EQ(Reach(a, a.root, 4, 8), StopAction::kUnwind);
    EXPECT_TRUE(a.breaks().stopped());
  });
}

TEST_F(BreakControllerTest, ALoopWithoutEndBreaks) {
  At("f(1)", [](Attempt& a) {
    std::uint64_t checks = 0;
    while (!a.breaks().unwinding() && a.control.stop_at < (1u << 21)) {
      static_cast<void>(Reach(a, a.root, a.control.stop_at));
      ++checks;
    }
    EXPECT_EQ(a.BrokeWith(), GraphBreakKind::kTooLong);
    EXPECT_GT(checks, 2u);
    EXPECT_EQ(a.breaks().record()->position.executed, a.control.executed);
  });
  At("f(1)", [](Attempt& a) {  // a re-run that is to stop later goes on
    PyCodeObject* code = frame_ops::Code(a.root.frame);
    a.breaks().StopAt({.executed = 1u << 22, .code = RefOf<PyCodeObject>::Create(code), .instruction = 0});
    while (!a.breaks().unwinding() && a.control.executed < (1u << 22))
      static_cast<void>(Reach(a, a.root, a.control.stop_at));
    EXPECT_FALSE(a.BrokeWith());
    EXPECT_TRUE(a.breaks().stopped());
  });
}

TEST_F(BreakControllerTest, ABreakApartEndsOnlyWhatIsApart) {
  At("f(1)", [](Attempt& a) {
    a.control.executed = 7;
    const std::uint64_t stop = a.control.stop_at;
    const Control kept = a.breaks().BeginApart();
    a.control.executed = 99;
    EXPECT_FALSE(a.breaks().Break(GraphBreakKind::kAutograd, "in a backward"));
    const std::optional<GraphBreakReason> reason = a.breaks().EndApart(kept);
    ASSERT_TRUE(reason);
    EXPECT_EQ(reason->context, "in a backward");
    EXPECT_FALSE(a.breaks().unwinding());
    EXPECT_FALSE(a.breaks().record());
    EXPECT_EQ(PyErr_Occurred(), nullptr);
    EXPECT_EQ(a.control.executed, 7u);
    EXPECT_EQ(a.control.stop_at, stop);
    EXPECT_FALSE(a.breaks().EndApart(a.breaks().BeginApart()));
  });
}

TEST_F(BreakControllerTest, ABreakBelowFramesThatAreLeftOutNeedsThem) {
  At("f(1)", [](Attempt& a) {
    a.breaks().BeginWithoutFrames();
    a.breaks().BeginWithoutFrames();
    a.breaks().EndWithoutFrames();
    EXPECT_FALSE(a.breaks().Break(GraphBreakKind::kExplicit, ""));
    EXPECT_TRUE(a.breaks().needs_frames());
  });
  At("f(1)", [](Attempt& a) {
    a.breaks().BeginWithoutFrames();
    a.breaks().EndWithoutFrames();
    EXPECT_FALSE(a.breaks().Break(GraphBreakKind::kExplicit, ""));
    EXPECT_FALSE(a.breaks().needs_frames());
  });
  At("f(1)", [](Attempt& a) {  // something could see that they are missing
    EXPECT_FALSE(a.breaks().NeedFrames());
    EXPECT_TRUE(a.breaks().needs_frames());
    EXPECT_TRUE(a.breaks().unwinding());
    EXPECT_FALSE(a.breaks().record());
  });
}

TEST_F(BreakControllerTest, AnUnconfirmedErrorIsNoBreak) {
  At("f(1)", [](Attempt& a) {
    a.breaks().NoteUnconfirmed("it raised");
    ASSERT_TRUE(a.breaks().unconfirmed_error());
    EXPECT_EQ(a.breaks().unconfirmed_error()->context, "it raised");
    EXPECT_FALSE(a.breaks().unwinding());
    EXPECT_FALSE(a.breaks().record());
  });
}

TEST_F(BreakControllerTest, AModeThatStaysOnIsSeenAtTheBreakAndAtTheEnd) {
  At("f(1)", [](Attempt& a) {
    EXPECT_FALSE(a.breaks().left_modes());
    a.journals.modes().NotePush();
    EXPECT_FALSE(a.breaks().Break(GraphBreakKind::kExplicit, ""));
    a.journals.modes().NotePop();  // while the run unwinds
    EXPECT_TRUE(a.breaks().left_modes());
  });
  At("f(1)", [](Attempt& a) {
    a.journals.modes().NotePush();
    a.journals.modes().NotePop();
    a.breaks().EndRun();
    EXPECT_FALSE(a.breaks().left_modes());
    a.journals.modes().NotePush();
    a.breaks().EndRun();
    a.journals.modes().NotePop();
    EXPECT_TRUE(a.breaks().left_modes());
  });
}

TEST_F(BreakControllerTest, WhatNoGraphForAnFxBackendCanHoldBreaks) {
  At("f(1)", [](Attempt& a) {
    EXPECT_TRUE(a.breaks().Journalled(""));
    EXPECT_FALSE(a.BrokeWith());
    EXPECT_FALSE(a.breaks().Journalled("no form"));
    EXPECT_EQ(a.BrokeWith(), GraphBreakKind::kAutograd);
  });
}

TEST_F(BreakControllerTest, BackwardFunctionsReadOnlyWhatDoesNotChange) {
  At("f(1)", [](Attempt& a) {
    BackwardPhase& backward = a.journals.backward();
    EXPECT_FALSE(backward.running());
    EXPECT_TRUE(backward.MayRead(SourceKind::kItem));
    EXPECT_TRUE(backward.MayWrite());
    {
      const BackwardPhase::Scope scope(backward);
      EXPECT_TRUE(backward.running());
      EXPECT_TRUE(backward.MayRead(SourceKind::kConstant));
      EXPECT_FALSE(a.BrokeWith());
      EXPECT_FALSE(backward.MayRead(SourceKind::kItem));
      EXPECT_EQ(a.BrokeWith(), GraphBreakKind::kAutograd);
    }
    EXPECT_FALSE(backward.running());
  });
  At("f(1)", [](Attempt& a) {
    {
      const BackwardPhase::Scope scope(a.journals.backward());
      EXPECT_FALSE(a.journals.backward().MayWrite());
    }
    EXPECT_EQ(a.BrokeWith(), GraphBreakKind::kAutograd);
    EXPECT_TRUE(a.journals.backward().MayWrite());
  });
}

}  // namespace
}  // namespace framefuse
