// What guards compare and print: immutables, sources, dict look-ups, the epoch of dicts.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "frame_eval/versions/dict_reads.h"
#include "guards/dict_epoch.h"
#include "guards/dict_lookup.h"
#include "guards/immutable.h"
#include "guards/source.h"
#include "guards/text.h"
#include "tests/frame_eval/python_environment.h"

namespace framefuse {
namespace {

using testing::Eval;
using testing::Execute;

TEST(Immutable, SameMeansEqualTypeAndBits) {
  const std::vector<std::vector<const char*>> classes = {{"1", "int('1')"},
                                                         {"True"},
                                                         {"1.0", "float('1')"},
                                                         {"0.0"},
                                                         {"-0.0"},
                                                         {"float('nan')", "float('nan')"},
                                                         {"'a'", "chr(97)"},
                                                         {"b'a'"},
                                                         {"(1, 'a')", "tuple([1, 'a'])"},
                                                         {"(True, 'a')"},
                                                         {"2**100", "4**50"},
                                                         {"complex(0, -0.0)"},
                                                         {"0j"},
                                                         {"None"},
                                                         {"range(0, 4, 2)", "range(0, 4, 2)"},
                                                         {"range(0, 3, 2)"},
                                                         {"slice(1, None)", "slice(1, None)"},
                                                         {"frozenset({1})", "frozenset([1])"},
                                                         {"frozenset({True})"}};
  for (std::size_t i = 0; i < classes.size(); ++i) {
    for (const char* a : classes[i]) {
      const Ref x = Eval(a);
      EXPECT_TRUE(IsImmutable(x)) << a;
      for (std::size_t j = 0; j < classes.size(); ++j) {
        for (const char* b : classes[j]) {
          const Ref y = Eval(b);
          EXPECT_EQ(SameImmutable(x, y), i == j) << a << ' ' << b;
          if (i != j) continue;
          EXPECT_EQ(HashImmutable(x), HashImmutable(y)) << a << ' ' << b;
        }
      }
    }
  }
  for (const char* other : {"[]", "{}", "(1, [])", "object()", "set()", "type('T', (tuple,), {})()"}) {
    EXPECT_FALSE(IsImmutable(Eval(other))) << other;
  }
}

TEST(SourceTable, EqualSourcesAreOne) {
  SourceTable table;
  const SourceId self = table.Local(0);
  EXPECT_EQ(table.Local(0), self);
  EXPECT_NE(table.Local(1), self);
  EXPECT_EQ(table.Item(self, Eval("(1, 'k')")), table.Item(self, Eval("tuple([1, 'k'])")));
  EXPECT_NE(table.Item(self, Eval("1")), table.Item(self, Eval("True")));
  const Ref list = Eval("[]"), other = Eval("[]");
  const auto constant = [&](BorrowedRef o) { return table.Intern(SourceKind::kConstant, kNoSource, 0, o); };
  EXPECT_EQ(constant(list), constant(list));
  EXPECT_NE(constant(list), constant(other));
  const Ref one = Eval("''.join(['a', 'b'])"), two = Eval("''.join(['a', 'b'])");
  EXPECT_NE(constant(one), constant(two));  // a constant is that very object
}

TEST(SourceTable, PrintsAsPython) {
  SourceTable table;
  const std::vector<std::string> names = {"self", "x"};
  const auto name = [](const char* text) { return Ref::Steal(PyUnicode_FromString(text)); };
  const auto print = [&](SourceId id) { return table.Print(id, names); };
  const SourceId self = table.Local(0);
  const SourceId modules = table.InstanceAttr(self, name("_modules"));
  EXPECT_EQ(print(table.Item(modules, name("fc"))), "L['self']._modules['fc']");
  EXPECT_EQ(print(table.Item(table.Intern(SourceKind::kGlobals, 0, 0, nullptr), name("torch"))), "G['torch']");
  EXPECT_EQ(print(table.Local(2)), "stack[0]");
  EXPECT_EQ(
      print(table.Intern(SourceKind::kCellContents, table.Intern(SourceKind::kClosureCell, 0, 1, nullptr), 0, nullptr)),
      "function.__closure__[1].cell_contents");
  const SourceId type = table.Intern(SourceKind::kType, self, 0, nullptr);
  EXPECT_EQ(print(table.Intern(SourceKind::kTypeAttr, type, 0, name("forward"))), "type(L['self']).forward");
  EXPECT_EQ(print(table.Intern(SourceKind::kTensorGrad, table.Local(1), 0, nullptr)), "L['x'].grad");
  EXPECT_EQ(print(table.Item(self, Eval("(1, None)"))), "L['self'][(1, None)]");
}

TEST(Text, NamesObjectsWithoutTheirRepr) {
  Execute(
      "class Loud:\n  def __repr__(self): raise RuntimeError\nclass Pair(tuple):\n  __slots__ = ()\n  __repr__ = "
      "Loud.__repr__\n");
  EXPECT_NE(ReprText(Eval("Loud()")).find("Loud object at"), std::string::npos);
  EXPECT_NE(ReprText(Eval("Pair((1, 'a'))")).find("Pair((1, 'a'))"), std::string::npos);
  EXPECT_NE(ReprText(Eval("(Pair((1,)), 2)")).find("Pair((1,))"), std::string::npos);
  EXPECT_EQ(ReprText(Eval("'a' * 1000")).size(), 203u);
  EXPECT_EQ(ReprText(Eval("len")), "len");
  EXPECT_EQ(ReprText(Eval("gc")), "gc");
  EXPECT_EQ(ReprText(Eval("gc.collect")), "gc.collect");
  EXPECT_EQ(ReprText(Eval("dict.fromkeys")), "dict.fromkeys");
  EXPECT_EQ(ReprText(Eval("str.upper")), "str.upper");
  EXPECT_EQ(ReprText(Eval("(lambda: 0).__code__")).find("<code of <lambda> ("), 0u);
  EXPECT_EQ(ReprText(Eval("int")), "int");
  EXPECT_EQ(PyErr_Occurred(), nullptr);
}

TEST(DictLookup, FindsAsPythonDoesOrSaysUnknown) {
  Execute(
      "class Same:\n"
      "  def __hash__(self): return hash('k')\n"
      "  def __eq__(self, other): raise RuntimeError\n"
      "class Plain: pass\n"
      "plain = Plain()\n"
      "dicts = [{'k': 1, 'j': 2}, {1: 2, 'k': 3}, {True: 1}, {1.0: 4}, {Same(): 5}, {Same(): 5, 'z': 1}, {plain: 6}, "
      "{}]\n");
  const auto find = [](const char* dict, const char* key) {
    PyObject* value = nullptr;
    const Lookup result = FindInDict(Eval(dict), DictKey(Eval(key)), &value);
    EXPECT_EQ(PyErr_Occurred(), nullptr);
    return result == Lookup::kFound ? static_cast<int>(PyLong_AsLong(value)) : result == Lookup::kAbsent ? 0 : -1;
  };
  EXPECT_EQ(find("dicts[0]", "'k'"), 1);
  EXPECT_EQ(find("dicts[0]", "'x'"), 0);
  EXPECT_EQ(find("dicts[0]", "5"), 0);
  EXPECT_EQ(find("dicts[1]", "'k'"), 3);
  EXPECT_EQ(find("dicts[1]", "1"), 2);
  EXPECT_EQ(find("dicts[1]", "True"), 2);
  EXPECT_EQ(find("dicts[2]", "1"), 1);
  EXPECT_EQ(find("dicts[3]", "1"), 4);
  EXPECT_EQ(find("dicts[4]", "'k'"), -1);
  EXPECT_EQ(find("dicts[4]", "'j'"), 0);
  EXPECT_EQ(find("dicts[5]", "'z'"), 1);
  EXPECT_EQ(find("dicts[6]", "plain"), 6);
  EXPECT_EQ(find("dicts[6]", "Plain()"), 0);
  EXPECT_EQ(find("dicts[7]", "()"), 0);
}

TEST(DictEpoch, MovesIfAndOnlyIfADictChanged) {
  Execute("d = {'a': 1}");
  const Ref d = Eval("d"), value = Eval("2"), other = Eval("3");
  PyDict_SetItemString(d, "a", value);
  EXPECT_EQ(KeepInEpoch(d), EpochFollowsKeptDicts());
  const std::uint64_t first = DictEpoch();
  EXPECT_EQ(DictEpoch(), first);
  EXPECT_EQ(DictEpoch(), first);
  PyDict_SetItemString(d, "a", value);  // the same value: no change
  EXPECT_EQ(DictEpoch(), first);
  const std::uint64_t version = frame_ops::InlineDictVersion(d);
  PyDict_SetItemString(d, "a", other);
  EXPECT_EQ(frame_ops::InlineDictVersion(d) != version, frame_ops::kDictsHaveVersions);
  const std::uint64_t second = DictEpoch();
  EXPECT_NE(second, first);
  EXPECT_EQ(DictEpoch(), second);
  PyDict_DelItemString(d, "a");
  EXPECT_NE(DictEpoch(), second);
}

// A dict that is always written would move the epoch for all programs.
TEST(DictEpoch, FollowsNoDictThatChangesOften) {
  if (!EpochFollowsKeptDicts()) GTEST_SKIP() << "this Python does not tell of changes";
  Execute("often = {}; seldom = {}");
  const Ref often = Eval("often"), seldom = Eval("seldom");
  EXPECT_TRUE(KeepInEpoch(often));
  EXPECT_TRUE(KeepInEpoch(seldom));
  for (int i = 0; i < 20; ++i) {
    const Ref number = Ref::Steal(PyLong_FromLong(1000 + i));
    PyDict_SetItemString(often, "a", number);
  }
  const std::uint64_t epoch = DictEpoch();
  EXPECT_FALSE(KeepInEpoch(often));
  PyDict_SetItemString(often, "a", Py_None);
  EXPECT_EQ(DictEpoch(), epoch);
  EXPECT_TRUE(KeepInEpoch(seldom));
  PyDict_SetItemString(seldom, "a", Py_None);
  EXPECT_NE(DictEpoch(), epoch);
}

TEST(DictEpoch, MovesWhenADictEnds) {
  if (!EpochFollowsKeptDicts()) GTEST_SKIP() << "this Python does not tell of changes";
  Ref d = Ref::Steal(PyDict_New());
  EXPECT_TRUE(KeepInEpoch(d));
  const std::uint64_t epoch = DictEpoch();
  d.reset();
  EXPECT_NE(DictEpoch(), epoch);
}

}  // namespace
}  // namespace framefuse
