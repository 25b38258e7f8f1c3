// WriteJournal: no object that existed before is changed, and what may end is looked at before.
#include "symbolic/journals/write_journal.h"

#include "tests/journals/attempt.h"

namespace framefuse {
namespace {

using testing::Attempt;
using testing::Eval;
using testing::Execute;
using testing::IsTrue;
using testing::Name;

class WriteJournalTest : public testing::InAttempt {
 protected:
  void SetUp() override {
    Execute(
        "def f(x, y=None):\n  return x\n"
        "class C: pass\n"
        "class Loud:\n  def __del__(self): pass\n");
  }
};

TEST_F(WriteJournalTest, AWriteGoesToTheOverlay) {
  Execute("c = C()\nc.n = 1");
  At("f(c)", [](Attempt& a) {
    Tracked& c = *a.Track(0);
    ASSERT_TRUE(a.writes().Write(c, Name("n"), Eval("2")));
    ASSERT_TRUE(a.writes().Write(c, Name("n"), Eval("3")));
    ASSERT_TRUE(a.writes().Write(c, Name("gone"), nullptr));
    EXPECT_TRUE(IsTrue("c.__dict__ == {'n': 1}"));
    ASSERT_EQ(c.writes.size(), 2u);
    EXPECT_EQ(PyLong_AsLong(c.FindWrite(Name("n"))->value), 3);
    EXPECT_FALSE(c.FindWrite(Name("gone"))->value);
    EXPECT_EQ(a.writes().count(), 3u);
  });
  EXPECT_TRUE(IsTrue("c.__dict__ == {'n': 1}"));
}

TEST_F(WriteJournalTest, OnlyContainersAreReplaced) {
  Execute("items = [1]\nc = C()");
  At("f(items, c)", [](Attempt& a) {
    Tracked& list = *a.Track(0);
    Tracked& instance = *a.Track(1);
    EXPECT_TRUE(a.writes().Replace(list));
    EXPECT_TRUE(list.replaced);
    EXPECT_TRUE(a.writes().Replace(instance));
    EXPECT_FALSE(instance.replaced);
    EXPECT_TRUE(IsTrue("items == [1]"));
  });
}

TEST_F(WriteJournalTest, AnUnreadListIsAppendedToWithoutALook) {
  Execute("items = [1, 2]");
  At("f(items)", [](Attempt& a) {
    Tracked& list = *a.Track(0);
    EXPECT_TRUE(WriteJournal::AppendsUnread(list));
    const std::size_t count = a.guard_count();
    EXPECT_TRUE(a.writes().AppendUnread(list, Eval("3")));
    EXPECT_TRUE(WriteJournal::AppendsUnread(list));
    EXPECT_TRUE(a.writes().AppendUnread(list, Eval("4")));
    EXPECT_EQ(a.guard_count(), count);
    EXPECT_EQ(list.appended_from, 0);
    testing::Set("shadow", list.representative);
    EXPECT_TRUE(IsTrue("shadow == [3, 4] and items == [1, 2]"));
    EXPECT_TRUE(a.contents().Realise(list, true));
    EXPECT_FALSE(WriteJournal::AppendsUnread(list));
  });
}

// The attempt holds what the program drops, so what would run at the end of an object breaks before.
TEST_F(WriteJournalTest, AnObjectWhoseEndRunsCodeIsNotOverwritten) {
  const struct {
    const char* held;
    bool breaks;
  } cases[] = {
      {"Loud()", true},
      {"[Loud()]", true},       // dies with the list
      {"[kept]", false},        // somebody else holds it
      {"C()", false},           // nothing runs
      {"watched.pop()", true},  // a weak reference with a callback
      {"watched_quietly.pop()", false},
  };
  for (const auto& one : cases) {
    Execute(
        "kept = Loud()\nwatched = [C()]\nwatched_quietly = [C()]\n"
        "callback = weakref.ref(watched[0], lambda r: None)\nquiet = weakref.ref(watched_quietly[0])\nc = C()\n");
    Execute(std::string("c.n = ") + one.held);
    At("f(c)", [&](Attempt& a) {
      const Tracked& t = *a.Track(0);  // after a break nothing is adopted
      EXPECT_EQ(a.writes().Write(*a.Track(0), Name("n"), Eval("1")), !one.breaks) << one.held;
      EXPECT_EQ(a.BrokeWith().has_value(), one.breaks) << one.held;
      if (one.breaks) {
        EXPECT_EQ(a.BrokeWith(), GraphBreakKind::kFinaliser);
        EXPECT_TRUE(t.writes.empty());
      }
    });
    Execute("del c");
  }
}

TEST_F(WriteJournalTest, DictsCellsAndContentsThatAreReplacedAreLookedThrough) {
  Execute("d = {'k': Loud()}");
  At("f(d)", [](Attempt& a) {
    EXPECT_TRUE(a.writes().Write(*a.Track(0), Name("other"), Eval("1")));
    EXPECT_FALSE(a.writes().Write(*a.Track(0), Name("k"), Eval("1")));
  });
  Execute("cell = types.CellType(Loud())");
  At("f(cell)", [](Attempt& a) { EXPECT_FALSE(a.writes().Write(*a.Track(0), nullptr, Eval("1"))); });
  Execute("items = [Loud()]");
  At("f(items)", [](Attempt& a) {
    Tracked& list = *a.Track(0);
    list.realised = true;  // the shadow is known, and takes the original's place
    EXPECT_FALSE(a.writes().Replace(list));
    EXPECT_FALSE(list.replaced);
  });
}

TEST_F(WriteJournalTest, ALocalThatIsDroppedIsLookedAt) {
  At("f(Loud())", [](Attempt& a) {
    EXPECT_TRUE(a.writes().BeforeDrop(ValueView(Eval("1"), kNoSource)));
    EXPECT_FALSE(a.writes().BeforeDrop(a.Load(0)));
    EXPECT_EQ(a.BrokeWith(), GraphBreakKind::kFinaliser);
  });
  Execute("c = C()\nc.loud = Loud()");
  At("f(c)", [](Attempt& a) {  // what was read from another object stays in that
    const std::optional<Value> loud = a.contents().OwnAttribute(*a.Track(0), Name("loud"));
    ASSERT_TRUE(loud);
    EXPECT_TRUE(a.writes().BeforeDrop(*loud));
  });
  Execute("watched = C()\nquiet = weakref.ref(watched)");
  At("f(watched)", [](Attempt& a) {
    const Value v = a.Load(0);
    EXPECT_FALSE(a.writes().AnyMayHaveEnded());
    EXPECT_TRUE(a.writes().BeforeDrop(v));
    EXPECT_TRUE(a.writes().AnyMayHaveEnded());
  });
}

TEST_F(WriteJournalTest, GlobalsAreKeptByTheirDict) {
  Execute("g = {'n': 1}\nh = {}");
  At("f(1)", [](Attempt& a) {
    const Ref g = Eval("g"), h = Eval("h");
    EXPECT_EQ(a.writes().FindGlobal(g, Name("n")), nullptr);
    EXPECT_TRUE(a.writes().WriteGlobal(g, Name("n"), Eval("2")));
    EXPECT_TRUE(a.writes().WriteGlobal(h, Name("n"), Eval("3")));
    EXPECT_TRUE(a.writes().WriteGlobal(g, Name("m"), Eval("4")));
    EXPECT_TRUE(a.writes().WriteGlobal(g, Name("n"), nullptr));
    EXPECT_TRUE(IsTrue("g == {'n': 1} and h == {}"));
    ASSERT_EQ(a.writes().globals().size(), 2u);
    EXPECT_EQ(a.writes().globals()[0].first.get(), g.get());
    EXPECT_EQ(a.writes().globals()[0].second.size(), 2u);
    ASSERT_NE(a.writes().FindGlobal(g, Name("n")), nullptr);
    EXPECT_FALSE(a.writes().FindGlobal(g, Name("n"))->value);
    EXPECT_EQ(PyLong_AsLong(a.writes().FindGlobal(h, Name("n"))->value), 3);
    EXPECT_EQ(a.writes().FindGlobal(h, Name("m")), nullptr);
  });
}

TEST_F(WriteJournalTest, EachEffectIsCounted) {
  Execute("c = C()\nitems = [1]");
  At("f(c, items)", [](Attempt& a) {
    Tracked& c = *a.Track(0);
    Tracked& items = *a.Track(1);
    WriteJournal::Counts last = a.writes().CountEffects();
    EXPECT_TRUE(last == a.writes().CountEffects());
    const auto changed = [&] {
      const WriteJournal::Counts now = a.writes().CountEffects();
      const bool differs = !(now == last);
      last = now;
      return differs;
    };
    EXPECT_TRUE(a.writes().Write(c, Name("n"), Eval("1")));
    EXPECT_TRUE(changed());
    EXPECT_TRUE(a.writes().Write(c, Name("n"), Eval("2")));
    EXPECT_TRUE(changed());
    EXPECT_TRUE(a.writes().AppendUnread(items, Eval("2")));
    EXPECT_TRUE(changed());
    EXPECT_TRUE(a.writes().WriteGlobal(Eval("{}"), Name("n"), Eval("1")));
    EXPECT_TRUE(changed());
    a.writes().AddCall(CachedCall{});
    EXPECT_TRUE(changed());
    a.writes().EnterRange();
    EXPECT_TRUE(changed());
    EXPECT_EQ(a.writes().open_ranges(), 1);
    a.writes().LeaveRange();
    EXPECT_EQ(a.writes().open_ranges(), 0);
    EXPECT_TRUE(changed());
    EXPECT_FALSE(changed());
  });
}

}  // namespace
}  // namespace framefuse
