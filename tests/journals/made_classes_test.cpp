// MadeClasses: no guard names a class that the attempt made, and it ends with the attempt.
#include "symbolic/journals/made_classes.h"

#include "tests/journals/attempt.h"

namespace framefuse {
namespace {

using testing::Attempt;
using testing::Eval;
using testing::Execute;
using testing::IsTrue;
using testing::Name;

class MadeClassesTest : public testing::InAttempt {
 protected:
  void SetUp() override { Execute("def f(x):\n  return x\nclass Base:\n  def m(self): pass\nclass Other: pass\n"); }
};

TEST_F(MadeClassesTest, WhatIsLookedUpIsItsOwnOrGuardedInABase) {
  At("f(1)", [](Attempt& a) {
    Execute("class Made(Other, Base):\n  def own(self): pass\n");
    auto* cls = reinterpret_cast<PyTypeObject*>(Eval("Made").get());
    a.made().NoteClass(Eval("Made"));
    EXPECT_TRUE(a.made().IsMade(cls));
    EXPECT_FALSE(a.made().IsMade(Eval("Base")));
    std::size_t count = a.guard_count();
    EXPECT_EQ(a.reads().LookupInType(cls, "own").get(), Eval("Made.own").get());
    EXPECT_EQ(a.guard_count(), count);
    EXPECT_EQ(a.reads().LookupInType(cls, "m").get(), Eval("Base.m").get());
    EXPECT_TRUE(a.GuardsHold());
    Execute("Other.m = 1");  // it would be found first
    EXPECT_FALSE(a.GuardsHold());
    Execute("del Other.m");
    EXPECT_TRUE(a.GuardsHold());
    Execute("Base.m = len");
    EXPECT_FALSE(a.GuardsHold());
    EXPECT_EQ(a.made().NearestKnown(Eval("Made")).get(), Eval("Other").get());
    EXPECT_EQ(a.made().NearestKnown(Eval("Base")).get(), Eval("Base").get());
    Execute("del Made");
  });
}

TEST_F(MadeClassesTest, WhatStandsInAClassIsPartOfIt) {
  At("f(1)", [](Attempt& a) {
    Execute(
        "def getter(self): return 1\n"
        "def method(self): return 1\n"
        "outside = lambda: 1\n"
        "class Made:\n  p = property(getter)\n  s = staticmethod(method)\n");
    a.made().NoteClass(Eval("Made"));
    EXPECT_TRUE(a.made().IsPart(Eval("getter")));
    EXPECT_TRUE(a.made().IsPart(Eval("method")));
    EXPECT_FALSE(a.made().IsPart(Eval("outside")));
    EXPECT_FALSE(a.reads().Rebase(a.reads().ConstantSource(Eval("getter"))));
    EXPECT_TRUE(a.reads().Rebase(a.reads().ConstantSource(Eval("outside"))));
    EXPECT_TRUE(a.made().IsRebuildable(Eval("Made")));
    a.made().Close(Eval("Made"));
    EXPECT_FALSE(a.made().IsRebuildable(Eval("Made")));
    EXPECT_FALSE(a.made().IsRebuildable(Eval("Base")));
    Execute("del Made, getter, method");
  });
}

TEST_F(MadeClassesTest, CodeOfTheLibraryIsKnownWithTheCodeInIt) {
  At("f(1)", [](Attempt& a) {
    Execute("code = compile('def outer():\\n  def inner(): pass\\n', 'made', 'exec')\ninside = code.co_consts[0]");
    a.made().NoteCode(Eval("code"));
    EXPECT_TRUE(a.made().IsMadeCode(reinterpret_cast<PyCodeObject*>(Eval("inside").get())));
    EXPECT_FALSE(a.made().IsMadeCode(reinterpret_cast<PyCodeObject*>(Eval("f.__code__").get())));
  });
}

TEST_F(MadeClassesTest, TheFirstNameIsTakenOut) {
  At("f(1)", [](Attempt& a) {
    testing::Set("first", MadeClasses::FirstKey());
    Execute("Made = type('Made', (), {first: 1, 'other': 2})");
    a.made().NoteClass(Eval("Made"));
    EXPECT_TRUE(IsTrue("first not in Made.__dict__ and Made.other == 2"));
    Execute("del Made");
  });
}

TEST_F(MadeClassesTest, AClassEndsWithTheAttempt) {
  At("f(1)", [](Attempt& a) {
    Execute("class Made(Base):\n  def own(self): return __class__\n");
    a.made().NoteClass(Eval("Made"));
    Execute("del Made");
    EXPECT_TRUE(IsTrue("len(Base.__subclasses__()) == 1"));
    EXPECT_FALSE(a.made().empty());
  });
  EXPECT_TRUE(IsTrue("Base.__subclasses__() == []"));
}

TEST_F(MadeClassesTest, OneThatIsKeptIsCounted) {
  const std::int64_t before = MadeClasses::Leaked();
  At("f(1)", [](Attempt& a) {
    Execute("class Made: pass\n");
    a.made().NoteClass(Eval("Made"));
  });
  EXPECT_EQ(MadeClasses::Leaked(), before + 1);
  Execute("del Made");
}

}  // namespace
}  // namespace framefuse
