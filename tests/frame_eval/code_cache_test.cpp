// Tests of the per-code cache: owners, sites, order of use, what is dropped when.
#include "frame_eval/code_cache.h"

#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "tests/frame_eval/python_environment.h"

namespace framefuse {
namespace {

using testing::Eval;
using testing::Execute;

class FakeEntry : public Entry {
 public:
  FakeEntry(int number, int* alive, Ref held = {}) : number_(number), alive_(alive), held_(std::move(held)) {
    ++*alive_;
  }
  ~FakeEntry() override { --*alive_; }
  bool IsDead() const override { return dead; }
  std::string Explain(const FrameView&) const override { return ""; }
  bool dead = false;
  int number() const { return number_; }

 private:
  int number_;
  int* alive_;
  Ref held_;
};

RefOf<PyCodeObject> CodeOf(const char* function) {
  Ref f = Eval(function);
  return RefOf<PyCodeObject>::Create(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(f.get())));
}

constexpr MakerId kMaker = 1, kOtherMaker = 2;

std::shared_ptr<Entry> FindNumber(Site& site, int number) {
  return site.Find(kMaker, [&](const Entry& e) { return static_cast<const FakeEntry&>(e).number() == number; });
}

class CodeCacheTest : public ::testing::Test {
 protected:
  void SetUp() override { Execute("def f(): pass\ndef g(): pass"); }
  void TearDown() override {
    CodeCache::Reset();
    Execute("f = g = None");
    EXPECT_EQ(alive_, 0);
  }
  int alive_ = 0;
};

TEST_F(CodeCacheTest, DeadEntriesAreRemoved) {
  RefOf<PyCodeObject> f = CodeOf("f");
  std::shared_ptr<Site> site = CodeCache::Get(f, *Owner::Intern("a"), 0);
  auto first = std::make_shared<FakeEntry>(1, &alive_);
  site->Install(first, kMaker);
  site->Install(std::make_shared<FakeEntry>(2, &alive_), kMaker);
  site->RemoveDead();
  EXPECT_EQ(site->size(), 2u);
  first->dead = true;
  site->RemoveDead();
  EXPECT_EQ(site->size(), 1u);
  EXPECT_EQ(FindNumber(*site, 1), nullptr);
  EXPECT_NE(FindNumber(*site, 2), nullptr);
}

TEST_F(CodeCacheTest, OwnersWithEqualKeysAreOne) {
  auto a = Owner::Intern("aten|default"), b = Owner::Intern("aten|default"), c = Owner::Intern("fuse|default");
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
  EXPECT_NE(a, Owner::MakePrivate("aten|default"));
  std::weak_ptr<Owner> old = a;
  a.reset();
  b.reset();
  EXPECT_TRUE(old.expired());
  EXPECT_EQ(Owner::Intern("aten|default")->key(), "aten|default");
}

TEST_F(CodeCacheTest, OwnerKeepsItsObjectAlive) {
  Execute("class Backend: pass\nbackend = Backend()\nseen = weakref.ref(backend)");
  auto owner = Owner::Intern("py", Eval("backend"));
  Execute("del backend");
  EXPECT_TRUE(testing::IsTrue("seen() is not None"));
  owner.reset();
  EXPECT_TRUE(testing::IsTrue("seen() is None"));
}

TEST_F(CodeCacheTest, SitesAreKeyedByCodeOwnerAndOffset) {
  auto a = Owner::Intern("a"), b = Owner::Intern("b");
  auto f = CodeOf("f"), g = CodeOf("g");
  EXPECT_EQ(CodeCache::Find(f, *a, 0), nullptr);
  auto site = CodeCache::Get(f, *a, 0);
  EXPECT_EQ(CodeCache::Find(f, *a, 0), site);
  EXPECT_EQ(CodeCache::Peek(f, *a, 0), site.get());
  EXPECT_EQ(CodeCache::Find(f, *a, 4), nullptr);
  EXPECT_EQ(CodeCache::Find(f, *b, 0), nullptr);
  EXPECT_EQ(CodeCache::Find(g, *a, 0), nullptr);
  CodeCache::Get(f, *a, 12)->Install(std::make_shared<FakeEntry>(1, &alive_), kMaker);
  site->Install(std::make_shared<FakeEntry>(2, &alive_), kMaker);
  EXPECT_EQ(CodeCache::CountEntries(f, *a), 2u);
  EXPECT_EQ(CodeCache::CountEntries(f, *b), 0u);
  EXPECT_EQ(CodeCache::Offsets(f, *a), (std::vector<int>{0, 12}));
}

TEST_F(CodeCacheTest, TheLastHitIsTriedFirst) {
  auto owner = Owner::Intern("a");
  auto site = CodeCache::Get(CodeOf("f"), *owner, 0);
  for (int i = 1; i <= 3; ++i) site->Install(std::make_shared<FakeEntry>(i, &alive_), kMaker);
  std::vector<int> tried;
  const auto order = [&] {
    tried.clear();
    site->Find(kMaker, [&](const Entry& e) {
      tried.push_back(static_cast<const FakeEntry&>(e).number());
      return false;
    });
    return tried;
  };
  EXPECT_EQ(order(), (std::vector<int>{3, 2, 1}));
  EXPECT_NE(FindNumber(*site, 1), nullptr);
  EXPECT_EQ(order(), (std::vector<int>{1, 3, 2}));
  EXPECT_EQ(FindNumber(*site, 7), nullptr);
}

TEST_F(CodeCacheTest, EntriesDieWithTheCode) {
  auto owner = Owner::Intern("a");
  CodeCache::Get(CodeOf("f"), *owner, 0)->Install(std::make_shared<FakeEntry>(1, &alive_), kMaker);
  EXPECT_EQ(alive_, 1);
  Execute("f = None");
  EXPECT_EQ(alive_, 0);
}

TEST_F(CodeCacheTest, EntriesDieWithTheLastOwner) {
  auto a = Owner::Intern("a"), same = Owner::Intern("a"), b = Owner::Intern("b");
  CodeCache::Get(CodeOf("f"), *a, 0)->Install(std::make_shared<FakeEntry>(1, &alive_), kMaker);
  CodeCache::Get(CodeOf("g"), *a, 0)->Install(std::make_shared<FakeEntry>(2, &alive_), kMaker);
  CodeCache::Get(CodeOf("f"), *b, 0)->Install(std::make_shared<FakeEntry>(3, &alive_), kMaker);
  a.reset();
  EXPECT_EQ(alive_, 3);
  same.reset();
  EXPECT_EQ(alive_, 1);
  EXPECT_EQ(CodeCache::CountEntries(CodeOf("f"), *b), 1u);
}

TEST_F(CodeCacheTest, ResetDropsFlagsAndEntriesButNotWhatRuns) {
  auto owner = Owner::Intern("a");
  auto code = CodeOf("f");
  auto site = CodeCache::Get(code, *owner, 0);
  site->Install(std::make_shared<FakeEntry>(1, &alive_), kMaker);
  for (int i = 0; i < 3; ++i) site->retries.NoteFailure("why");
  std::shared_ptr<Entry> running = FindNumber(*site, 1);
  CodeCache::Reset();
  EXPECT_EQ(CodeCache::Find(code, *owner, 0), nullptr);
  site.reset();
  EXPECT_EQ(alive_, 1);
  running.reset();
  EXPECT_EQ(alive_, 0);
  EXPECT_TRUE(CodeCache::Get(code, *owner, 0)->retries.MayTry());
}

TEST_F(CodeCacheTest, AMakersOwnEntriesComeFirst) {
  auto owner = Owner::Intern("a");
  auto site = CodeCache::Get(CodeOf("f"), *owner, 0);
  site->Install(std::make_shared<FakeEntry>(1, &alive_), kMaker);
  site->Install(std::make_shared<FakeEntry>(2, &alive_), kOtherMaker);
  const auto first_of = [&](MakerId maker) {
    return static_cast<const FakeEntry&>(*site->Find(maker, [](const Entry&) { return true; })).number();
  };
  EXPECT_EQ(first_of(kMaker), 1);
  EXPECT_EQ(first_of(kOtherMaker), 2);
  EXPECT_EQ(first_of(kMaker), 1);
  EXPECT_EQ(site->CountOf(kMaker), 1u);
  EXPECT_TRUE(site->NoteLimit(kMaker));
  EXPECT_FALSE(site->NoteLimit(kMaker));
  EXPECT_TRUE(site->NoteLimit(kOtherMaker));
}

TEST_F(CodeCacheTest, AtALimitTheOneUsedLeastRecentlyLeaves) {
  auto owner = Owner::Intern("a");
  auto site = CodeCache::Get(CodeOf("f"), *owner, 0);
  for (int i = 1; i <= 3; ++i) site->Install(std::make_shared<FakeEntry>(i, &alive_), kMaker);
  const Site::Kin kin = {kMaker, nullptr};
  const auto calls_until_it_may = [&] {
    int calls = 1;
    while (!site->MayReplace(kin)) {
      EXPECT_NE(FindNumber(*site, 1), nullptr);
      ++calls;
    }
    return calls;
  };
  const auto replace = [&](int number) {
    auto entry = std::make_shared<FakeEntry>(number, &alive_);
    EXPECT_TRUE(site->Replace(kin, entry));
    site->Install(std::move(entry), kMaker);
  };
  EXPECT_EQ(calls_until_it_may(), 64);
  replace(4);
  EXPECT_EQ(FindNumber(*site, 2), nullptr);
  EXPECT_NE(FindNumber(*site, 1), nullptr);
  EXPECT_EQ(calls_until_it_may(), 64);
  replace(5);  // the 4 was of no use
  EXPECT_EQ(calls_until_it_may(), 128);
  EXPECT_FALSE(site->MayReplace({kOtherMaker, nullptr}));
}

TEST(RetriesTest, WaitsLongerAfterEachFailureButNotForEver) {
  Retries retries;
  const auto calls_until_tried = [&] {
    int calls = 0;
    while (!retries.MayTry()) ++calls;
    return calls;
  };
  std::vector<int> waited;
  for (int i = 0; i < 15; ++i) {
    waited.push_back(calls_until_tried());
    retries.NoteFailure("why");
  }
  EXPECT_EQ(waited, (std::vector<int>{0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 512, 512}));
  retries.NoteSuccess();
  EXPECT_EQ(calls_until_tried(), 0);
}

TEST_F(CodeCacheTest, RemoveTakesOneEntryOut) {
  auto owner = Owner::Intern("a");
  auto site = CodeCache::Get(CodeOf("f"), *owner, 0);
  site->Install(std::make_shared<FakeEntry>(1, &alive_), kMaker);
  site->Install(std::make_shared<FakeEntry>(2, &alive_), kMaker);
  site->Remove(FindNumber(*site, 1).get());
  EXPECT_EQ(alive_, 1);
  EXPECT_EQ(FindNumber(*site, 1), nullptr);
  EXPECT_NE(FindNumber(*site, 2), nullptr);
}

// An entry whose death runs Python that uses the cache again.
TEST_F(CodeCacheTest, ADyingEntryMayUseTheCache) {
  auto owner = Owner::Intern("a");
  auto code = CodeOf("f"), other = CodeOf("g");
  static std::function<void()> at_death;
  static PyMethodDef method = {"at_death",
                               [](PyObject*, PyObject*) -> PyObject* {
                                 at_death();
                                 Py_RETURN_NONE;
                               },
                               METH_NOARGS, nullptr};
  at_death = [&] {
    CodeCache::Get(other, *owner, 0)->Install(std::make_shared<FakeEntry>(5, &alive_), kMaker);
    CodeCache::Reset();
    CodeCache::Get(code, *owner, 0)->Install(std::make_shared<FakeEntry>(6, &alive_), kMaker);
  };
  testing::Set("at_death", Ref::Steal(PyCFunction_New(&method, nullptr)));
  Execute("class Last:\n  def __del__(self): at_death()\n");
  for (int i = 0; i < 3; ++i) {
    CodeCache::Get(code, *owner, i)
        ->Install(std::make_shared<FakeEntry>(i, &alive_, i == 1 ? Eval("Last()") : Ref()), kMaker);
  }
  CodeCache::Reset();
  EXPECT_EQ(CodeCache::CountEntries(code, *owner), 1u);
  EXPECT_EQ(CodeCache::CountEntries(other, *owner), 0u);
  EXPECT_EQ(alive_, 1);
}

}  // namespace
}  // namespace framefuse
