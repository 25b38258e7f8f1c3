// ReadJournal: what was read has a guard, and no more than that.
#include "symbolic/journals/read_journal.h"

#include "tests/journals/attempt.h"

namespace framefuse {
namespace {

using testing::Attempt;
using testing::Eval;
using testing::Execute;
using testing::Name;

class ReadJournalTest : public testing::InAttempt {
 protected:
  void SetUp() override { Execute("def f(x, y=None):\n  return x\n"); }
};

TEST_F(ReadJournalTest, ALeafIsGuardedWhenItIsConsumed) {
  At("f(1000)", [](Attempt& a) {
    const Value x = a.Load(0);
    a.SetNext(0, "'other'");
    EXPECT_TRUE(a.GuardsHold());
    a.reads().Consume(x);
    EXPECT_FALSE(a.GuardsHold());
    a.SetNext(0, "1000.0");  // equal, of another type
    EXPECT_FALSE(a.GuardsHold());
    a.SetNext(0, "10**3");
    EXPECT_TRUE(a.GuardsHold());
    const std::size_t count = a.guard_count();
    a.reads().Consume(x);
    EXPECT_EQ(a.guard_count(), count);
  });
}

TEST_F(ReadJournalTest, SingletonsAndNansAreGuardedAsObjects) {
  for (const char* value : {"None", "True", "Ellipsis"}) {
    Execute(std::string("value = ") + value);
    At("f(value)", [](Attempt& a) {
      a.reads().Consume(a.Load(0));
      EXPECT_EQ(a.reads().guards().guards().back().kind, GuardKind::kIdentity);
    });
  }
  Execute("nan = float('nan')");
  At("f(nan)", [](Attempt& a) {
    a.reads().Consume(a.Load(0));
    EXPECT_TRUE(a.GuardsHold());
    a.SetNext(0, "float('nan')");  // a container would not take it for the other
    EXPECT_FALSE(a.GuardsHold());
  });
}

TEST_F(ReadJournalTest, WhatIsNoLeafOrHasNoSourceIsNotConsumed) {
  Execute("items = [1]");
  At("f(items)", [](Attempt& a) {
    const Value list = a.Load(0);
    const std::size_t count = a.guard_count();
    a.reads().Consume(list);
    const Ref made = Eval("12345");
    a.reads().Consume(ValueView(made, kNoSource));
    a.reads().Consume(ValueView(made, a.reads().ConstantSource(made)));
    EXPECT_EQ(a.guard_count(), count);
    EXPECT_EQ(a.reads().SourceOfConsumed(made), kNoSource);
  });
}

TEST_F(ReadJournalTest, TheTypeOfALeafIsLessThanItsValue) {
  At("f(1000)", [](Attempt& a) {
    a.reads().GuardTypeOfLeaf(a.Load(0));
    a.SetNext(0, "2000");
    EXPECT_TRUE(a.GuardsHold());
    a.SetNext(0, "True");
    EXPECT_FALSE(a.GuardsHold());
  });
}

TEST_F(ReadJournalTest, LeavesThatMustBeThereAreNotedOnce) {
  At("f(1000)", [](Attempt& a) {
    const SourceId source = a.reads().sources().Item(a.reads().sources().Local(0), Name("k"));
    a.reads().NoteLeaf(source);
    a.reads().NoteLeaf(source);
    EXPECT_EQ(a.reads().leaves(), std::vector<SourceId>{source});
  });
}

TEST_F(ReadJournalTest, TheIdentityOfEqualLeavesIsAFactOfItsOwn) {
  Execute("big = 10**9\nother = int('1000000000')");
  At("f(big, big)", [](Attempt& a) {
    EXPECT_TRUE(a.reads().GuardLeafIdentity(a.Load(0), a.Load(1), /*same=*/true));
    EXPECT_TRUE(a.GuardsHold());
    a.SetNext(1, "other");
    EXPECT_FALSE(a.GuardsHold());
  });
  At("f(big, other)", [](Attempt& a) {
    EXPECT_TRUE(a.reads().GuardLeafIdentity(a.Load(0), a.Load(1), /*same=*/false));
    EXPECT_TRUE(a.GuardsHold());
    a.SetNext(1, "big");
    EXPECT_FALSE(a.GuardsHold());
  });
  At("f(7, 7)", [](Attempt& a) {  // there is one 7
    const std::size_t count = a.guard_count();
    EXPECT_TRUE(a.reads().GuardLeafIdentity(a.Load(0), a.Load(1), /*same=*/true));
    EXPECT_EQ(a.guard_count(), count);
  });
}

TEST_F(ReadJournalTest, AConsumedLeafIsStillKnownByWhereItCameFrom) {
  Execute("big = 10**9\nother = int('1000000000')");
  At("f(big)", [](Attempt& a) {
    const Value x = a.Load(0);
    a.reads().Consume(x);
    EXPECT_EQ(a.reads().SourceOfConsumed(x.object), x.source);
    const ValueView lost(x.object, kNoSource);
    EXPECT_TRUE(a.reads().GuardLeafIdentity(lost, lost, /*same=*/true));
    a.SetNext(0, "other");
    EXPECT_FALSE(a.GuardsHold());
  });
  At("f(big)", [](Attempt& a) {  // one from outside, one made here: a later call may bring the one made before
    const Value x = a.Load(0);
    const Ref made = Eval("int('1000000000')");
    EXPECT_FALSE(a.reads().GuardLeafIdentity(x, ValueView(made, kNoSource), /*same=*/false));
    EXPECT_EQ(a.BrokeWith(), GraphBreakKind::kOpaqueObject);
  });
}

TEST_F(ReadJournalTest, ALookUpInAClassIsGuarded) {
  Execute("class Base:\n  def m(self): pass\nclass C(Base): pass\n");
  At("f(C())", [](Attempt& a) {
    auto* cls = reinterpret_cast<PyTypeObject*>(Eval("C").get());
    EXPECT_EQ(a.reads().LookupInType(cls, "m").get(), Eval("Base.m").get());
    EXPECT_FALSE(a.reads().LookupInType(cls, "absent"));
    const std::size_t count = a.guard_count();
    a.reads().LookupInType(cls, "m");
    a.reads().LookupInType(&PyList_Type, "append");
    EXPECT_EQ(a.guard_count(), count);
    EXPECT_TRUE(a.GuardsHold());
    Execute("C.absent = 1");
    EXPECT_FALSE(a.GuardsHold());
    Execute("del C.absent");
    EXPECT_TRUE(a.GuardsHold());
    Execute("C.m = len");
    EXPECT_FALSE(a.GuardsHold());
    Execute("del C.m");
  });
}

TEST_F(ReadJournalTest, SpecialMethodsThatCCodeWouldCallAreGuarded) {
  Execute("class C:\n  def __eq__(self, other): return True\n");
  At("f(C())", [](Attempt& a) {
    auto* cls = reinterpret_cast<PyTypeObject*>(Eval("C").get());
    EXPECT_TRUE(a.reads().GuardProtocolMethods(cls));
    const std::size_t count = a.guard_count();
    EXPECT_TRUE(a.reads().GuardProtocolMethods(cls));
    EXPECT_EQ(a.guard_count(), count);
    EXPECT_TRUE(a.GuardsHold());
    Execute("C.__len__ = lambda self: 3");
    EXPECT_FALSE(a.GuardsHold());
  });
  Execute("class Loud:\n  def __call__(self, *a): return 1\nclass D:\n  __len__ = Loud()\n");
  At("f(D())", [](Attempt& a) {
    EXPECT_FALSE(a.reads().GuardProtocolMethods(reinterpret_cast<PyTypeObject*>(Eval("D").get())));
    EXPECT_EQ(a.BrokeWith(), GraphBreakKind::kOpaqueObject);
  });
}

TEST_F(ReadJournalTest, AnErrorsTextDependsOnTheNamesOfClasses) {
  Execute("class Renamed: pass\nclass Quiet: pass\n");
  At("f(Renamed())", [](Attempt& a) {
    a.reads().LookupInType(reinterpret_cast<PyTypeObject*>(Eval("Renamed").get()), "x");
    a.reads().LookupInType(reinterpret_cast<PyTypeObject*>(Eval("Quiet").get()), "x");
    a.reads().GuardNamesIn(Eval("AttributeError(\"'Renamed' object has no attribute 'x'\")"));
    Execute("Quiet.__name__ = 'Loud'");
    EXPECT_TRUE(a.GuardsHold());
    Execute("Renamed.__name__ = 'Other'");
    EXPECT_FALSE(a.GuardsHold());
  });
}

TEST_F(ReadJournalTest, ThatNothingIsHandledIsGuarded) {
  At("f(1)", [](Attempt& a) {
    const std::size_t count = a.guard_count();
    a.reads().GuardNothingHandled();
    EXPECT_EQ(a.guard_count(), count + 1);
    EXPECT_TRUE(a.GuardsHold());
    const Ref error = Eval("ValueError()");
    PyErr_SetHandledException(error);
    EXPECT_FALSE(a.GuardsHold());
    PyErr_SetHandledException(nullptr);
  });
}

TEST_F(ReadJournalTest, NoGuardNamesAClassOfThisAttempt) {
  Execute("class Base:\n  def m(self): pass\n");
  At("f(1)", [](Attempt& a) {
    Execute("class Made(Base):\n  def own(self): pass\n");
    const Ref made = Eval("Made");
    a.made().NoteClass(made);
    const SourceId source = a.reads().ConstantSource(made);
    const std::size_t count = a.guard_count();
    a.reads().AddGuard(source, GuardKind::kIdentity, made);
    a.reads().AddGuard(a.reads().sources().Local(0), GuardKind::kIdentity, made);
    EXPECT_EQ(a.guard_count(), count);
    EXPECT_FALSE(a.reads().Rebase(source));
    // What it has from its base is guarded there.
    auto* cls = reinterpret_cast<PyTypeObject*>(made.get());
    EXPECT_EQ(a.reads().Rebase(a.reads().TypeAttr(cls, Name("m"))),
              a.reads().TypeAttr(reinterpret_cast<PyTypeObject*>(Eval("Base").get()), Name("m")));
    EXPECT_FALSE(a.reads().Rebase(a.reads().TypeAttr(cls, Name("own"))));
    // And so is what is read from there on.
    const auto code_of = [&](SourceId function) {
      return a.reads().sources().Intern(SourceKind::kFunctionField, function, 0, Name("__code__"));
    };
    EXPECT_EQ(a.reads().Rebase(code_of(a.reads().TypeAttr(cls, Name("m")))),
              code_of(a.reads().TypeAttr(reinterpret_cast<PyTypeObject*>(Eval("Base").get()), Name("m"))));
    EXPECT_FALSE(a.reads().Rebase(code_of(a.reads().TypeAttr(cls, Name("own")))));
    EXPECT_EQ(a.reads().Rebase(a.reads().sources().Local(0)), a.reads().sources().Local(0));
    Execute("del Made");
  });
}

}  // namespace
}  // namespace framefuse
