// ObjectContents: what is read of containers and instances has a guard, also that something is absent.
#include "symbolic/journals/object_contents.h"

#include "tests/journals/attempt.h"

namespace framefuse {
namespace {

using testing::Attempt;
using testing::Eval;
using testing::Execute;
using testing::IsTrue;
using testing::Name;
using testing::Set;

class ObjectContentsTest : public testing::InAttempt {
 protected:
  void SetUp() override { Execute("def f(x, y=None):\n  return x\nclass C: pass\n"); }

  static Value Item(Attempt& a, const char* key) {
    const Ref k = Eval(key);
    std::optional<Value> found = a.contents().OneItem(*a.Track(0), ValueView(k, kNoSource));
    return found ? *std::move(found) : Value();
  }
  static long NumberOf(const Value& v) { return v ? PyLong_AsLong(v.object) : -1; }
  static void Realise(Attempt& a) {
    Tracked& t = *a.Track(0);
    EXPECT_TRUE(a.contents().Realise(t, true));
    Set("shadow", t.representative);
  }
};

TEST_F(ObjectContentsTest, ARealisedListHoldsRepresentatives) {
  Execute("inner = []\nx = [inner, 5]");
  At("f(x)", [](Attempt& a) {
    Realise(a);
    Tracked* inner = a.objects().FindByOriginal(Eval("inner"));
    ASSERT_NE(inner, nullptr);
    EXPECT_TRUE(IsTrue("len(shadow) == 2 and shadow[0] is not inner and shadow[1] == 5"));
    EXPECT_TRUE(a.GuardsHold());
    for (const char* change : {"x.append(1)", "x.pop()", "x[1] = 6", "x[0] = 'text'"}) {
      Execute("x[:] = [inner, 5]");
      EXPECT_TRUE(a.GuardsHold());
      Execute(change);
      EXPECT_FALSE(a.GuardsHold()) << change;
    }
  });
}

TEST_F(ObjectContentsTest, WhatWasAppendedStandsBehind) {
  Execute("x = [1, 2]");
  At("f(x)", [](Attempt& a) {
    EXPECT_TRUE(a.writes().AppendUnread(*a.Track(0), Eval("3")));
    Realise(a);
    EXPECT_TRUE(IsTrue("shadow == [1, 2, 3] and x == [1, 2]"));
    EXPECT_TRUE(a.Track(0)->replaced);
    Execute("x.append(9)");
    EXPECT_FALSE(a.GuardsHold());
  });
}

TEST_F(ObjectContentsTest, ARealisedDictKeepsOrderAndWrites) {
  Execute("x = {'a': 1, 'b': 2, 'c': 3}");
  At("f(x)", [](Attempt& a) {
    Tracked& t = *a.Track(0);
    EXPECT_TRUE(a.writes().Write(t, Name("b"), nullptr));
    EXPECT_TRUE(a.writes().Write(t, Name("d"), Eval("4")));
    EXPECT_TRUE(a.writes().Write(t, Name("b"), Eval("5")));  // it comes back, as the last
    Realise(a);
    EXPECT_TRUE(IsTrue("list(shadow.items()) == [('a', 1), ('c', 3), ('d', 4), ('b', 5)]"));
    EXPECT_TRUE(t.replaced);
    EXPECT_TRUE(t.writes.empty());
    EXPECT_TRUE(IsTrue("x == {'a': 1, 'b': 2, 'c': 3}"));
    EXPECT_TRUE(a.GuardsHold());
    Execute("x.update(a=x.pop('a'))");  // another order
    EXPECT_FALSE(a.GuardsHold());
  });
}

TEST_F(ObjectContentsTest, WhatCannotBeLookedThroughBreaks) {
  Execute("class Key:\n  def __eq__(self, other): return self is other\n  def __hash__(self): return 1\n");
  for (const char* x : {"{Key(): 1, Key(): 2}", "{torch.ones(1): 1}"}) {
    Execute(std::string("x = ") + x);
    At("f(x)", [&](Attempt& a) {
      EXPECT_FALSE(a.contents().Realise(*a.Track(0), /*consume_leaves=*/true)) << x;
      EXPECT_EQ(a.BrokeWith(), GraphBreakKind::kOpaqueObject) << x;
    });
  }
}

TEST_F(ObjectContentsTest, ASetIsGuardedAsAWhole) {
  Execute("x = {1, 2, 3}");
  At("f(x)", [](Attempt& a) {
    Realise(a);
    EXPECT_TRUE(IsTrue("shadow == x and list(shadow) == list(x) and shadow is not x"));
    EXPECT_TRUE(a.GuardsHold());
    Execute("x.add(4)");
    EXPECT_FALSE(a.GuardsHold());
  });
}

TEST_F(ObjectContentsTest, LeavesOfATupleAreConsumedWhereThatIsAsked) {
  Execute("x = (1000, 2000)");
  At("f(x)", [](Attempt& a) {
    EXPECT_TRUE(a.contents().Realise(*a.Track(0), /*consume_leaves=*/false));
    a.SetNext(0, "(1000, 3000)");
    EXPECT_TRUE(a.GuardsHold());
    EXPECT_TRUE(a.contents().Realise(*a.Track(0), /*consume_leaves=*/true));
    EXPECT_FALSE(a.GuardsHold());
  });
}

TEST_F(ObjectContentsTest, OneItemIsReadWithoutTheOthers) {
  Execute("x = [10**6, 'second', 3]");
  At("f(x)", [](Attempt& a) {
    const Value item = Item(a, "1");
    ASSERT_TRUE(item);
    a.reads().Consume(item);
    Execute("x[0] = None\nx.append(4)");
    EXPECT_TRUE(a.GuardsHold());
    Execute("x[1] = 'another'");
    EXPECT_FALSE(a.GuardsHold());
    EXPECT_FALSE(Item(a, "17"));
    EXPECT_FALSE(Item(a, "10**30"));
    EXPECT_EQ(PyErr_Occurred(), nullptr);
  });
  Execute("x = [1, 2, 3]");
  At("f(x)", [](Attempt& a) {  // from behind: the length says which one it is
    EXPECT_EQ(NumberOf(Item(a, "-1")), 3);
    EXPECT_TRUE(a.GuardsHold());
    Execute("x.append(4)");
    EXPECT_FALSE(a.GuardsHold());
  });
}

TEST_F(ObjectContentsTest, AnItemOfADictAndItsAbsence) {
  Execute("x = {'a': 1000}");
  At("f(x)", [](Attempt& a) {
    a.reads().Consume(Item(a, "'a'"));
    EXPECT_FALSE(Item(a, "'b'"));
    EXPECT_NE(PyErr_Occurred(), nullptr);
    EXPECT_TRUE(PyErr_ExceptionMatches(PyExc_KeyError));
    PyErr_Clear();
    Execute("x['c'] = 1");
    EXPECT_TRUE(a.GuardsHold());
    Execute("x['b'] = 1");
    EXPECT_FALSE(a.GuardsHold());
    Execute("del x['b']\nx['a'] = 1001");
    EXPECT_FALSE(a.GuardsHold());
  });
}

TEST_F(ObjectContentsTest, WritesAreReadFirst) {
  Execute("x = {'a': 1, 'b': 2}");
  At("f(x)", [](Attempt& a) {
    Tracked& t = *a.Track(0);
    const auto write = [&](const char* key, BorrowedRef value) {
      const Ref k = Eval(key);
      return a.contents().WriteDictItem(t, ValueView(k, kNoSource), ValueView(value, kNoSource));
    };
    const Ref seven = Eval("7");
    EXPECT_TRUE(write("'a'", seven));
    EXPECT_TRUE(write("'b'", nullptr));
    EXPECT_EQ(NumberOf(Item(a, "'a'")), 7);
    EXPECT_FALSE(Item(a, "'b'"));
    PyErr_Clear();
    Execute("x['a'] = 5");  // what was overwritten unread is no fact
    EXPECT_TRUE(a.GuardsHold());
    EXPECT_EQ(a.contents().Length(t), 1);
    EXPECT_TRUE(t.realised);
    EXPECT_TRUE(write("'c'", seven));
    EXPECT_EQ(a.contents().Length(t), 2);
    EXPECT_TRUE(IsTrue("x == {'a': 5, 'b': 2}"));
  });
}

TEST_F(ObjectContentsTest, LengthAloneIsGuardedAlone) {
  Execute("x = [1, 2]");
  At("f(x)", [](Attempt& a) {
    Tracked& t = *a.Track(0);
    EXPECT_EQ(a.contents().Length(t), 2);
    EXPECT_FALSE(t.realised);
    Execute("x[0] = None");
    EXPECT_TRUE(a.GuardsHold());
    Execute("x.append(3)");
    EXPECT_FALSE(a.GuardsHold());
  });
  Execute("c = C()");
  At("f(c)", [](Attempt& a) { EXPECT_EQ(a.contents().Length(*a.Track(0)), -1); });
}

TEST_F(ObjectContentsTest, AnAttributeAndItsAbsence) {
  Execute("c = C()\nc.n = 1000");
  At("f(c)", [](Attempt& a) {
    Tracked& c = *a.Track(0);
    const std::optional<Value> n = a.contents().OwnAttribute(c, Name("n"));
    ASSERT_TRUE(n);
    a.reads().Consume(*n);
    EXPECT_FALSE(a.contents().OwnAttribute(c, Name("absent")));
    EXPECT_EQ(PyErr_Occurred(), nullptr);
    EXPECT_TRUE(a.GuardsHold());
    Execute("c.absent = 1");
    EXPECT_FALSE(a.GuardsHold());
    Execute("del c.absent\nc.n = 1001");
    EXPECT_FALSE(a.GuardsHold());
  });
  At("f(c)", [](Attempt& a) {
    Tracked& c = *a.Track(0);
    EXPECT_TRUE(a.writes().Write(c, Name("n"), nullptr));
    EXPECT_FALSE(a.contents().OwnAttribute(c, Name("n")));
    EXPECT_TRUE(a.writes().Write(c, Name("m"), Eval("3")));
    EXPECT_EQ(NumberOf(a.contents().OwnAttribute(c, Name("m")).value_or(Value())), 3);
  });
}

TEST_F(ObjectContentsTest, ADisplayAddsToAShadow) {
  Execute("x = [1]");
  At("f(x)", [](Attempt& a) {
    const Value x = a.Load(0);
    EXPECT_TRUE(a.contents().PrepareTarget(x.object));
    EXPECT_TRUE(a.Track(0)->replaced);
    EXPECT_TRUE(a.Track(0)->realised);
    EXPECT_TRUE(a.contents().PrepareTarget(Eval("[]")));  // made here: nothing is to do
  });
}

}  // namespace
}  // namespace framefuse
