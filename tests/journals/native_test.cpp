// NativeArguments and NativeBoundary: what C code may see, and what is found when it comes back.
#include "symbolic/journals/native_arguments.h"
#include "symbolic/journals/native_boundary.h"
#include "tests/journals/attempt.h"

namespace framefuse {
namespace {

using testing::Attempt;
using testing::Eval;
using testing::Execute;
using testing::IsTrue;
using testing::Set;

class NativeTest : public testing::InAttempt {
 protected:
  void SetUp() override {
    Execute(
        "def f(x, y=None):\n  return x\n"
        "class C:\n  def m(self): pass\n"
        "class Loud:\n  def __call__(self, *a): return 1\n");
  }
};

TEST_F(NativeTest, WhatCCodeReadsIsFilledToAnyDepth) {
  Execute("inner = [5]\nx = [inner, {'k': inner}]");
  At("f(x)", [](Attempt& a) {
    const Value x = a.Load(0);
    EXPECT_TRUE(a.arguments().PrepareNative(x));
    Set("shadow", x.object);
    EXPECT_TRUE(IsTrue("shadow == [[5], {'k': [5]}] and shadow[0] is shadow[1]['k'] and shadow[0] is not inner"));
    EXPECT_TRUE(a.GuardsHold());
    Execute("inner.append(6)");
    EXPECT_FALSE(a.GuardsHold());
  });
}

TEST_F(NativeTest, AContainerInItselfHasAnEnd) {
  Execute("x = []\nx.append(x)");
  At("f(x)", [](Attempt& a) {
    const Value x = a.Load(0);
    EXPECT_TRUE(a.arguments().PrepareNative(x));
    EXPECT_EQ(PyList_GET_ITEM(x.object.get(), 0), x.object.get());
  });
}

TEST_F(NativeTest, ItemsThatOnlyMoveAreNotLookedThrough) {
  Execute("inner = [5]\nx = [inner]");
  At("f(x)", [](Attempt& a) {
    EXPECT_TRUE(a.arguments().PrepareOuter(a.Load(0)));
    EXPECT_TRUE(a.Track(0)->realised);
    EXPECT_FALSE(a.objects().FindByOriginal(Eval("inner"))->realised);
    Execute("inner.append(6)");
    EXPECT_TRUE(a.GuardsHold());
    Execute("x.append(6)");
    EXPECT_FALSE(a.GuardsHold());
  });
}

TEST_F(NativeTest, WhatCCodeWouldActOnPastCaptureBreaks) {
  const struct {
    const char* object;
    bool allow_instances, prepared;
  } cases[] = {
      {"C()", true, true},
      {"C()", false, false},  // its text would read attributes
      {"[C()]", false, false},
      {"10**639", true, true},
      {"10**641", true, false},  // whether it may become text is a setting
      {"[].append", true, false},
      {"C().m", true, true},
      {"C().m", false, false},
      {"C", false, true},
      {"f", false, true},
      {"range(3)", true, true},
      {"iter([1])", true, false},
      {"types.SimpleNamespace()", true, false},
      {"type('L', (), {'__len__': Loud()})()", true, false},
  };
  for (const auto& one : cases) {
    Execute(std::string("x = ") + one.object);
    At("f(x)", [&](Attempt& a) {
      EXPECT_EQ(a.arguments().PrepareNative(a.Load(0), one.allow_instances), one.prepared) << one.object;
      if (one.prepared) {
        EXPECT_FALSE(a.BrokeWith()) << one.object;
      } else {
        EXPECT_EQ(a.BrokeWith(), GraphBreakKind::kOpaqueObject) << one.object;
      }
    });
  }
}

// C code may compare it with another one.
TEST_F(NativeTest, ObjectsThatCCodeGetsAreCompared) {
  Execute("c = C()\nother = C()");
  At("f(c, other)", [](Attempt& a) {
    const Value values[] = {a.Load(0), a.Load(1)};
    EXPECT_TRUE(a.arguments().PrepareAll({{values[0], values[1]}}));
    EXPECT_TRUE(a.Track(0)->compared);
    a.objects().GuardDistinctObjects();
    EXPECT_TRUE(a.GuardsHold());
    a.SetNext(1, "c");
    EXPECT_FALSE(a.GuardsHold());
  });
}

TEST_F(NativeTest, LeavesAreConsumed) {
  At("f(1000)", [](Attempt& a) {
    EXPECT_TRUE(a.arguments().PrepareNative(a.Load(0)));
    a.SetNext(0, "2000");
    EXPECT_FALSE(a.GuardsHold());
  });
}

TEST_F(NativeTest, DepthIsThatOfTheFrame) {
  At("f(1)", [](Attempt& a) {
    NativeBoundary& boundary = a.boundary();
    boundary.RunAsLeaf(true, [&] {
      EXPECT_EQ(boundary.depth().native, 1);
      EXPECT_EQ(boundary.depth().leaf, 1);
      const NativeBoundary::Depth outer = boundary.Enter();  // a frame that it calls
      EXPECT_EQ(boundary.depth().native, 0);
      EXPECT_EQ(boundary.depth().leaf, 0);
      boundary.RunAsLeaf(false, [&] {
        EXPECT_EQ(boundary.depth().native, 1);
        EXPECT_EQ(boundary.depth().leaf, 0);
        return 0;
      });
      boundary.Leave(outer);
      EXPECT_EQ(boundary.depth().leaf, 1);
      return 0;
    });
    EXPECT_EQ(boundary.depth().native, 0);
    EXPECT_EQ(boundary.depth().leaf, 0);
    EXPECT_FALSE(boundary.catching());
    EXPECT_EQ(boundary.Catching([&] { return boundary.catching(); }), true);
    EXPECT_FALSE(boundary.catching());
  });
}

TEST_F(NativeTest, AResultCountsOnlyIfTheRunGoesOn) {
  At("f(1)", [](Attempt& a) {
    const Value one = a.boundary().Wrap(Eval("1"));
    EXPECT_TRUE(one);
    EXPECT_EQ(one.source, kNoSource);
    EXPECT_FALSE(a.breaks().Break(GraphBreakKind::kExplicit, ""));
    PyErr_SetString(PyExc_StopIteration, "C code raises another error in its place");
    EXPECT_FALSE(a.boundary().Check());
    EXPECT_FALSE(PyErr_ExceptionMatches(PyExc_Exception));
    PyErr_Clear();
    EXPECT_FALSE(a.boundary().Wrap(Eval("1")));
    EXPECT_NE(PyErr_Occurred(), nullptr);
  });
}

TEST_F(NativeTest, AnErrorOfTheProgramsIsNoBreakAndOneAboutFakesIs) {
  At("f(1)", [](Attempt& a) {
    PyErr_SetString(PyExc_RuntimeError, "the program's own");
    EXPECT_TRUE(a.boundary().Check());
    EXPECT_FALSE(a.BrokeWith());
  });
  Execute("t = torch.ones(2)");
  At("f(t)", [](Attempt& a) {
    const tracing::Tracer::Scope scope(a.journals.tracer());
    const Value t = a.Load(0);
    const Ref bytes = Ref::Steal(a.boundary().Run([&] { return PyObject_CallMethod(t.object, "numpy", nullptr); }));
    EXPECT_FALSE(bytes);
    EXPECT_FALSE(a.boundary().Check());
    EXPECT_EQ(a.BrokeWith(), GraphBreakKind::kTensorToPython);
  });
}

TEST_F(NativeTest, ABreakThatTheTracerNotedEndsTheAttempt) {
  Execute("t = torch.ones(1)");
  At("f(t)", [](Attempt& a) {
    const tracing::Tracer::Scope scope(a.journals.tracer());
    const Value t = a.Load(0);
    const Ref number = Ref::Steal(a.boundary().Run([&] { return PyObject_CallMethod(t.object, "item", nullptr); }));
    PyErr_Clear();  // code that catches what it raises cannot hide it
    EXPECT_FALSE(a.boundary().Check());
    EXPECT_EQ(a.BrokeWith(), GraphBreakKind::kTensorToPython);
  });
}

TEST_F(NativeTest, ARefusedNodeBreaks) {
  Execute("t = torch.ones(2)");
  CaptureOptions options;
  options.refused_node = 1;
  options.why_refused = "it is not wanted";
  At(
      "f(t)",
      [](Attempt& a) {
        const tracing::Tracer::Scope scope(a.journals.tracer());
        const Value t = a.Load(0);
        const auto call = [&](const char* method) {
          return a.boundary().Wrap(
              Ref::Steal(a.boundary().Run([&] { return PyObject_CallMethod(t.object, method, nullptr); })));
        };
        EXPECT_TRUE(call("sin"));
        EXPECT_FALSE(call("cos"));
        ASSERT_EQ(a.BrokeWith(), GraphBreakKind::kUnsupportedOperator);
        EXPECT_EQ(a.breaks().record()->reason.context, "it is not wanted");
      },
      options);
}

}  // namespace
}  // namespace framefuse
