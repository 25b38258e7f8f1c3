// Tests of what versions/ reads of dicts and instances behind Python's back: attributes that lie in the object, the
// version of a dict, the hashes that it keeps.
#include <gtest/gtest.h>

#include <string>

#include "frame_eval/versions/dict_reads.h"
#include "frame_eval/versions/dict_watch.h"
#include "frame_eval/versions/frame_ops.h"
#include "frame_eval/versions/lru_cache.h"
#include "frame_eval/versions/private_api.h"
#include "tests/frame_eval/python_environment.h"

namespace framefuse {
namespace {

using testing::Eval;
using testing::Execute;
using testing::IsTrue;

class InstanceReads : public ::testing::Test {
 protected:
  void SetUp() override {
    Execute(
        "class Plain:\n  def __init__(self):\n    self.x = 1\n    self.y = 2\n"
        "class Slotted:\n  __slots__ = ('x',)\n"
        "class Number(int): pass\n");
  }
};

long AttrOf(const Ref& object, const char* name) {
  const Ref key = Ref::Steal(PyUnicode_InternFromString(name));
  PyObject* value = frame_ops::RawInstanceAttr(object, key);
  return value == nullptr ? -1 : PyLong_AsLong(value);
}

TEST_F(InstanceReads, AttributesAreReadWithoutMakingADict) {
  Execute("o = Plain()");
  const Ref o = Eval("o");
  EXPECT_TRUE(frame_ops::HasInstanceAttrs(o));
  EXPECT_EQ(AttrOf(o, "x"), 1);
  EXPECT_EQ(AttrOf(o, "y"), 2);
  EXPECT_EQ(AttrOf(o, "z"), -1);
  Execute("del o.x\no.y = 5\no.z = 6");
  EXPECT_EQ(AttrOf(o, "x"), -1);
  EXPECT_EQ(AttrOf(o, "y"), 5);
  EXPECT_EQ(AttrOf(o, "z"), 6);
}

TEST_F(InstanceReads, AttributesAreReadOfAnyKindOfDict) {
  Execute("o = Plain()\nd = o.__dict__");
  const Ref o = Eval("o");
  EXPECT_EQ(frame_ops::RawInstanceDict(o), Eval("d").get());
  EXPECT_EQ(frame_ops::InlineManagedDict(o), Eval("d").get());
  EXPECT_EQ(AttrOf(o, "x"), 1);
  Execute("o.x = 7");
  EXPECT_EQ(AttrOf(o, "x"), 7);
  Execute("d['y'] = 8\nd['new'] = 9");
  EXPECT_EQ(AttrOf(o, "y"), 8);
  EXPECT_EQ(AttrOf(o, "new"), 9);
  Execute("for i in range(40): setattr(o, f'a{i}', i)");  // more than an object holds itself
  EXPECT_EQ(AttrOf(o, "a39"), 39);
  EXPECT_EQ(AttrOf(o, "x"), 7);
  Execute("o.__dict__ = {'x': 10}");
  EXPECT_EQ(AttrOf(o, "x"), 10);
  EXPECT_EQ(AttrOf(o, "y"), -1);
  Execute("n = Number(3)\nn.x = 11");
  EXPECT_EQ(AttrOf(Eval("n"), "x"), 11);
  const Ref slotted = Eval("Slotted()");
  EXPECT_FALSE(frame_ops::HasInstanceAttrs(slotted));
}

// Equal versions mean equal contents, however the contents change.
TEST_F(InstanceReads, VersionsOfInstanceDictsTellEachChange) {
  Execute("o = Plain()\nd = o.__dict__");
  const Ref d = Eval("d");
  for (const char* change : {"o.x = 100", "d['x'] = 101", "del o.x", "o.x = 102", "o.y += 1", "o.new = 103",
                             "for i in range(40): setattr(o, f'a{i}', i)", "o.x = 104", "d['x'] = 105"}) {
    const std::uint64_t before = frame_ops::InlineDictVersion(d);
    Execute(change);
    EXPECT_TRUE(before == 0 || frame_ops::InlineDictVersion(d) != before) << change;
  }
  // Once the object is gone its dict is one like any other.
  Execute("del o");
  EXPECT_EQ(frame_ops::InlineDictVersion(d) != 0, frame_ops::kDictsHaveVersions);
  EXPECT_EQ(frame_ops::InlineDictVersion(d), frame_ops::InlineDictVersion(d));
}

int changes_told = 0;

// Of the dict `d` of the object `o`; a dict that cannot be watched says so.
void ExpectChangesTold() {
  const Ref d = Eval("d");
  if (!frame_ops::WatchDict(d)) return;
  for (const char* change : {"o.x = 100", "del o.x", "o.x = 101", "o.new = 102", "d['x'] = 103", "store(o, 50)"}) {
    changes_told = 0;
    Execute(change);
    EXPECT_GT(changes_told, 0) << change;
  }
}

TEST_F(InstanceReads, WatchersHearOfStoresToTheAttributes) {
  if (!frame_ops::StartDictWatcher([](PyObject*, bool) { ++changes_told; })) {
    GTEST_SKIP() << "this Python does not tell of changes";
  }
  Execute("def store(o, n):\n  for i in range(n): o.x = i + 1000\n");
  for (const char* make : {"o = Plain()", "o = Plain()\nfor i in range(40): setattr(o, f'a{i}', i)"}) {
    Execute(make);
    Execute("d = o.__dict__");
    ExpectChangesTold();
  }
  const Ref d = Eval("d");
  EXPECT_TRUE(frame_ops::WatchDict(d));  // too many for the object to hold
}

TEST(DictReads, IterationGivesTheHashThatTheDictKeeps) {
  Execute(
      "class Key:\n  def __init__(self, h): self.h = h\n  def __hash__(self): return self.h\n"
      "k = Key(77)\nmixed = {'a': 1, 5: 2, k: 3, (1, 2): 4}\nk.h = 78\n"
      "class P:\n  def __init__(self):\n    self.b = 1\n    self.a = 2\n"
      "p = P()\ndicts = [mixed, {'x': 1, 'y': 2}, p.__dict__, {}]\n"
      "hashes = [[hash('a'), 5, 77, hash((1, 2))], [hash('x'), hash('y')], [hash('b'), hash('a')], []]\n");
  for (int i = 0; i < 4; ++i) {
    const std::string at = "[" + std::to_string(i) + "]";
    const Ref dict = Eval("dicts" + at), hashes = Eval("hashes" + at), keys = Eval("list(dicts" + at + ")");
    Py_ssize_t position = 0, count = 0;
    PyObject *key = nullptr, *value = nullptr;
    Py_hash_t hash = 0;
    while (private_api::DictNext(dict, &position, &key, &value, &hash)) {
      ASSERT_LT(count, PyList_GET_SIZE(keys.get()));
      EXPECT_EQ(key, PyList_GET_ITEM(keys.get(), count));
      EXPECT_EQ(hash, PyLong_AsSsize_t(PyList_GET_ITEM(hashes.get(), count))) << at << count;
      ++count;
    }
    EXPECT_EQ(count, PyList_GET_SIZE(keys.get()));
  }
}

TEST(TypeReads, VersionsOfTypesTellEachChange) {
  Execute("class T: x = 1");
  const Ref type = Eval("T");
  auto* t = reinterpret_cast<PyTypeObject*>(type.get());
  const std::uint32_t first = frame_ops::TypeVersion(t);
  EXPECT_NE(first, 0u);
  EXPECT_EQ(frame_ops::TypeVersion(t), first);
  Execute("T.x = 2");
  EXPECT_NE(frame_ops::TypeVersion(t), first);
  EXPECT_EQ(private_api::MethodWrapperType(), Py_TYPE(Eval("(1).__add__").get()));
}

TEST(LruCacheReads, ResultsAreReadPastTheCall) {
  Execute(
      "import functools\n@functools.lru_cache(maxsize=4)\ndef f(a): return a * 2\nf(300)\n"
      "info = f.cache_info()\nhit = (300,)\nmiss = (301,)\n");
  const Ref f = Eval("f"), hit = Eval("hit"), miss = Eval("miss");
  ASSERT_TRUE(frame_ops::CanReadLruCache(f));
  const Ref key = frame_ops::LruCacheKey(f, hit, nullptr), other = frame_ops::LruCacheKey(f, miss, nullptr);
  PyObject* result = frame_ops::LruCachedResult(f, key);
  ASSERT_NE(result, nullptr);
  EXPECT_EQ(PyLong_AsLong(result), 600);
  EXPECT_EQ(frame_ops::LruCachedResult(f, other), nullptr);
  EXPECT_EQ(frame_ops::LruCacheMaximum(f), 4);
  EXPECT_TRUE(IsTrue("f.cache_info() == info"));
}

TEST(LruCacheReads, AResultIsKeptWithoutRunningTheFunction) {
  Execute(
      "import functools\nran = []\n@functools.lru_cache(maxsize=2)\ndef f(a, b=0): ran.append(a); return a * 2\n"
      "f(300)\nf(301)\nargs = (302,)\nnames = {'b': 5}\nmade = ['made']\n");
  const Ref f = Eval("f"), args = Eval("args"), names = Eval("names"), made = Eval("made");
  const Ref droppable = frame_ops::LruCacheDroppable(f);
  ASSERT_TRUE(droppable);
  EXPECT_EQ(PyList_GET_SIZE(droppable.get()), 4);
  ASSERT_TRUE(frame_ops::KeepInLruCache(f, args, names, made));
  EXPECT_TRUE(IsTrue("f(302, b=5) is made and ran == [300, 301]"));
  EXPECT_TRUE(IsTrue("f.cache_info()[:2] == (1, 3) and f.cache_info().currsize == 2"));
  EXPECT_TRUE(IsTrue("f(303) == 606 and ran == [300, 301, 303]"));
}

TEST(LruCacheReads, WhatEndsAsAResultIsKeptCallsTheFunctionItself) {
  Execute(
      "import functools\nfound = []\n"
      "class Loud:\n def __del__(self): found.append(g(7))\n"
      "@functools.lru_cache(maxsize=1)\ndef g(a): return Loud() if a == 1 else a * 2\n"
      "g(1)\nargs = (2,)\nmade = ['made']\n");
  const Ref g = Eval("g"), args = Eval("args"), made = Eval("made");
  ASSERT_TRUE(frame_ops::KeepInLruCache(g, args, nullptr, made));
  EXPECT_TRUE(IsTrue("found == [14]"));
  EXPECT_TRUE(IsTrue("g(3) == 6"));
}

}  // namespace
}  // namespace framefuse
