// ObjectTable: one representative an object, with the guards that seeing it implies.
#include "symbolic/journals/object_table.h"

#include "symbolic/journals/fakes.h"
#include "tests/journals/attempt.h"

namespace framefuse {
namespace {

using testing::Attempt;
using testing::Eval;
using testing::Execute;
using testing::IsTrue;
using testing::Name;
using testing::Set;

class ObjectTableTest : public testing::InAttempt {
 protected:
  void SetUp() override { Execute("def f(x, y=None):\n  return x\nclass C: pass\nclass D: pass\n"); }
};

TEST_F(ObjectTableTest, KindsOfObjects) {
  const std::pair<const char*, TrackedKind> kinds[] = {
      {"torch.ones(1)", TrackedKind::kTensor},
      {"[]", TrackedKind::kList},
      {"()", TrackedKind::kTuple},
      {"collections.namedtuple('P', 'x')(1)", TrackedKind::kTuple},
      {"{}", TrackedKind::kDict},
      {"collections.OrderedDict()", TrackedKind::kDict},
      {"collections.defaultdict(list)", TrackedKind::kDict},
      {"{}.keys()", TrackedKind::kView},
      {"set()", TrackedKind::kSet},
      {"frozenset()", TrackedKind::kSet},
      {"collections.deque()", TrackedKind::kDeque},
      {"types.CellType(1)", TrackedKind::kCell},
      {"C()", TrackedKind::kInstance},
      {"types.SimpleNamespace()", TrackedKind::kInstance},
      {"f", TrackedKind::kFunction},
      {"gc", TrackedKind::kModule},
      {"C", TrackedKind::kType},
      {"len", TrackedKind::kCallable},
      {"types.MethodType(len, [])", TrackedKind::kCallable},
      {"functools.partial(len)", TrackedKind::kCallable},
      {"weakref.ref(C)", TrackedKind::kCallable},
      {"type('L', (list,), {})()", TrackedKind::kList},
      {"type('M', (dict,), {})()", TrackedKind::kDict},
      {"type('O', (collections.OrderedDict,), {})()", TrackedKind::kDict},
      {"type('E', (list,), {'__del__': len})()", TrackedKind::kOpaque},  // the end of its shadow would run code
      {"type('S', (set,), {})()", TrackedKind::kSet},
      {"type('T', (tuple,), {})()", TrackedKind::kTuple},
      {"type('U', (tuple,), {'__del__': len})()", TrackedKind::kOpaque},
      {"iter([])", TrackedKind::kOpaque},
      {"range(3)", TrackedKind::kOpaque},
  };
  for (const auto& [expression, kind] : kinds) EXPECT_EQ(ObjectTable::Classify(Eval(expression)), kind) << expression;
}

TEST_F(ObjectTableTest, OneRepresentativeAnObject) {
  Execute("items = [1]\nother = [1]");
  At("f(items, items)", [](Attempt& a) {
    const Value x = a.Load(0);
    const Value y = a.Load(1);
    EXPECT_NE(x.object.get(), Eval("items").get());
    EXPECT_EQ(x.object.get(), y.object.get());
    EXPECT_EQ(y.source, x.source);
    EXPECT_EQ(a.objects().tracked().all().size(), 1u);
    EXPECT_EQ(a.objects().FindByOriginal(Eval("items")), a.objects().Find(x.object));
    // A representative stands for itself.
    EXPECT_EQ(a.objects().Adopt(x.object, a.reads().sources().Local(0)).object.get(), x.object.get());
    EXPECT_TRUE(a.GuardsHold());
    a.SetNext(1, "other");
    EXPECT_FALSE(a.GuardsHold());
  });
}

TEST_F(ObjectTableTest, AContainersShadowIsEmptyAndOfItsType) {
  for (const char* made : {"[1, 2]", "{'a': 1}", "{1}", "collections.deque([1])", "collections.OrderedDict(a=1)",
                           "collections.defaultdict(list, a=[])"}) {
    Execute(std::string("x = ") + made);
    At("f(x)", [&](Attempt& a) {
      const Value x = a.Load(0);
      ASSERT_TRUE(x) << made;
      Set("shadow", x.object);
      EXPECT_TRUE(IsTrue("type(shadow) is type(x) and len(shadow) == 0 and len(x) > 0")) << made;
      EXPECT_FALSE(a.objects().Find(x.object)->realised);
      Execute("x.clear()");  // nothing was read of its contents
      EXPECT_TRUE(a.GuardsHold()) << made;
      a.SetNext(0, "'of another type'");
      EXPECT_FALSE(a.GuardsHold()) << made;
    });
  }
}

TEST_F(ObjectTableTest, ATupleIsMadeOfRepresentatives) {
  Execute("items = [1]\nx = (items, 5)");
  At("f(x)", [](Attempt& a) {
    const Value x = a.Load(0);
    Tracked* list = a.objects().FindByOriginal(Eval("items"));
    ASSERT_NE(list, nullptr);
    EXPECT_EQ(PyTuple_GET_ITEM(x.object.get(), 0), list->representative.get());
    a.SetNext(0, "([1], 6)");  // another list, a number that nothing used
    EXPECT_TRUE(a.GuardsHold());
    a.SetNext(0, "([1], 5, 6)");
    EXPECT_FALSE(a.GuardsHold());
  });
}

TEST_F(ObjectTableTest, LeavesAreNotTrackedAndMustBeThere) {
  Execute("items = ['a']");
  At("f(5)", [](Attempt& a) {
    const Value x = a.Load(0);
    EXPECT_EQ(x.source, a.reads().sources().Local(0));
    EXPECT_TRUE(a.reads().leaves().empty());  // a local that is there
    const SourceId item = a.reads().sources().Item(a.reads().sources().Local(1), Name("k"));
    EXPECT_TRUE(a.objects().Adopt(Eval("6"), item));
    EXPECT_EQ(a.reads().leaves(), std::vector<SourceId>{item});
    EXPECT_TRUE(a.objects().tracked().all().empty());
  });
}

TEST_F(ObjectTableTest, AnInstanceIsItselfAndGuardedByItsType) {
  Execute("c = C()");
  At("f(c)", [](Attempt& a) {
    EXPECT_EQ(a.Load(0).object.get(), Eval("c").get());
    a.SetNext(0, "C()");
    EXPECT_TRUE(a.GuardsHold());
    a.SetNext(0, "D()");
    EXPECT_FALSE(a.GuardsHold());
  });
}

TEST_F(ObjectTableTest, AFunctionIsGuardedByItsCode) {
  Execute("def g(): return 1\ndef h(): return 2\nfirst = g.__code__");
  At("f(g)", [](Attempt& a) {
    static_cast<void>(a.Load(0));
    EXPECT_TRUE(a.GuardsHold());
    Execute("g.__code__ = h.__code__");
    EXPECT_FALSE(a.GuardsHold());
    Execute("g.__code__ = first");
    EXPECT_TRUE(a.GuardsHold());
  });
}

TEST_F(ObjectTableTest, ModulesAndTypesAreGuardedAsObjects) {
  At("f(C, gc)", [](Attempt& a) {
    static_cast<void>(a.Load(0));
    static_cast<void>(a.Load(1));
    EXPECT_TRUE(a.GuardsHold());
    a.SetNext(0, "D");
    EXPECT_FALSE(a.GuardsHold());
    a.SetNext(0, "C");
    a.SetNext(1, "weakref");
    EXPECT_FALSE(a.GuardsHold());
  });
}

TEST_F(ObjectTableTest, AnObjectAndItsDictAreNotBothAdopted) {
  Execute("c = C()\nc.n = 1\nd = c.__dict__");
  At("f(c, d)", [](Attempt& a) {
    EXPECT_TRUE(a.Load(0));
    EXPECT_FALSE(a.Load(1));
    EXPECT_EQ(a.BrokeWith(), GraphBreakKind::kOpaqueObject);
  });
  At("f(d, c)", [](Attempt& a) {
    EXPECT_TRUE(a.Load(0));
    EXPECT_FALSE(a.Load(1));
    EXPECT_EQ(a.BrokeWith(), GraphBreakKind::kOpaqueObject);
  });
}

TEST_F(ObjectTableTest, NamespacesAndHiddenStateBreak) {
  for (const char* x : {"globals()", "gc.__dict__"}) {
    Execute(std::string("x = ") + x);
    At("f(x)", [&](Attempt& a) {
      EXPECT_FALSE(a.Load(0)) << x;
      EXPECT_EQ(a.BrokeWith(), GraphBreakKind::kOpaqueObject) << x;
    });
  }
}

TEST_F(ObjectTableTest, ADequeKeepsItsBound) {
  Execute("x = collections.deque([], 3)");
  At("f(x)", [](Attempt& a) {
    const Value shadow = a.Load(0);
    ASSERT_TRUE(shadow);
    const Ref bound = Ref::Steal(PyObject_GetAttrString(shadow.object, "maxlen"));
    EXPECT_EQ(PyLong_AsLong(bound), 3);
    EXPECT_NE(shadow.object.get(), Eval("x").get());
  });
}

TEST_F(ObjectTableTest, TensorsAreInputsInTheOrderOfTheirFirstLoad) {
  Execute("t = torch.ones(2, 3)\nu = torch.ones(4)");
  At("f(t, u)", [](Attempt& a) {
    const tracing::Tracer::Scope scope(a.journals.tracer());
    const Value u = a.Load(1);
    const Value t = a.Load(0);
    EXPECT_TRUE(IsFakeTensor(t.object));
    EXPECT_EQ(a.Load(0).object.get(), t.object.get());
    ASSERT_EQ(a.objects().tensor_inputs().size(), 2u);
    EXPECT_EQ(a.objects().tensor_inputs()[0].fake.get(), u.object.get());
    EXPECT_EQ(a.objects().tensor_inputs()[1].real.get(), Eval("t").get());
    EXPECT_FALSE(a.objects().has_history_from_outside());
  });
  Execute("t = torch.ones(2, requires_grad=True) * 2");
  At("f(t)", [](Attempt& a) {
    const tracing::Tracer::Scope scope(a.journals.tracer());
    static_cast<void>(a.Load(0));
    EXPECT_TRUE(a.objects().has_history_from_outside());
  });
}

TEST_F(ObjectTableTest, AWrittenObjectIsNoOtherOne) {
  Execute("c = C()\nd = C()");
  At("f(c, d)", [](Attempt& a) {
    Tracked& c = *a.Track(0);
    static_cast<void>(a.Load(1));
    EXPECT_TRUE(a.writes().Write(c, Name("n"), Eval("1")));
    a.objects().GuardDistinctObjects();
    EXPECT_TRUE(a.GuardsHold());
    a.SetNext(1, "c");
    EXPECT_FALSE(a.GuardsHold());
  });
  At("f(c, d)", [](Attempt& a) {  // nothing is written: they may be one
    static_cast<void>(a.Load(0));
    static_cast<void>(a.Load(1));
    a.objects().GuardDistinctObjects();
    a.SetNext(1, "c");
    EXPECT_TRUE(a.GuardsHold());
  });
}

TEST_F(ObjectTableTest, ADictIsNotThatOfAWrittenObject) {
  Execute("c = C()\nc.n = 1\nd = {}");
  At("f(c, d)", [](Attempt& a) {
    Tracked& c = *a.Track(0);
    static_cast<void>(a.Load(1));
    EXPECT_TRUE(a.writes().Write(c, Name("n"), Eval("2")));
    a.objects().GuardDistinctObjects();
    EXPECT_TRUE(a.GuardsHold());
    a.SetNext(1, "c.__dict__");
    EXPECT_FALSE(a.GuardsHold());
  });
}

TEST_F(ObjectTableTest, AnEmptyDictThatIsTestedNeedsNoRepresentative) {
  Execute("c = C()\nc.hooks = {}");
  At("f(c)", [](Attempt& a) {
    Tracked& c = *a.Track(0);
    const SourceId source = a.reads().sources().InstanceAttr(c.source, Name("hooks"));
    EXPECT_TRUE(a.objects().NoteEmptyDict(source, Eval("c.hooks")));
    EXPECT_EQ(a.objects().FindByOriginal(Eval("c.hooks")), nullptr);
    EXPECT_TRUE(a.objects().Adopt(Eval("c.hooks"), source));
    EXPECT_FALSE(a.objects().NoteEmptyDict(source, Eval("c.hooks")));
  });
}

TEST_F(ObjectTableTest, WhatTheAttemptMadeIsKnown) {
  At("f(1)", [](Attempt& a) {
    const Ref function = Eval("lambda: 1"), owner = Eval("C()"), dict = Eval("{}");
    EXPECT_FALSE(a.objects().IsFreshFunction(function));
    a.objects().NoteFreshFunction(function);
    EXPECT_TRUE(a.objects().IsFreshFunction(function));
    EXPECT_FALSE(a.objects().OwnerOfDict(dict));
    a.objects().NoteFreshDict(dict, owner);
    EXPECT_EQ(a.objects().OwnerOfDict(dict).get(), owner.get());
    a.objects().ClearFresh();
    EXPECT_FALSE(a.objects().OwnerOfDict(dict));
  });
}

TEST_F(ObjectTableTest, TheDictOfAnObjectIsOneWithIt) {
  Execute("c = C()\nc.n = 1");
  At("f(c)", [](Attempt& a) {
    Tracked& c = *a.Track(0);
    Tracked* dict = a.objects().InstanceDictOf(c);
    EXPECT_EQ(dict->kind, TrackedKind::kInstanceDict);
    EXPECT_EQ(dict->owner, &c);
    EXPECT_EQ(a.objects().InstanceDictOf(c), dict);
    EXPECT_TRUE(a.contents().WriteDictItem(*dict, ValueView(Name("n"), kNoSource), ValueView(Eval("2"), kNoSource)));
    ASSERT_NE(c.FindWrite(Name("n")), nullptr);  // an attribute of the object
    EXPECT_TRUE(IsTrue("c.n == 1"));
  });
}

}  // namespace
}  // namespace framefuse
