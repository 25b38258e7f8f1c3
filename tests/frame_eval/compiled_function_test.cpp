// Tests of the vectorcall wrapper that users call.
#include "frame_eval/compiled_function.h"

#include <gtest/gtest.h>

#include <utility>

#include "tests/frame_eval/python_environment.h"

namespace framefuse {
namespace {

using testing::Eval;
using testing::Execute;
using testing::IsTrue;
using testing::Set;

// Calls what it wraps.
class Forward : public CallTarget {
 public:
  explicit Forward(BorrowedRef callable, int* alive = nullptr) : callable_(Ref::Create(callable)), alive_(alive) {}
  ~Forward() override {
    if (alive_ != nullptr) --*alive_;
  }
  Ref Call(BorrowedRef, PyObject* const* args, std::size_t nargsf, PyObject* kwnames) override {
    return Ref::Steal(PyObject_Vectorcall(callable_, args, nargsf, kwnames));
  }
  int Traverse(visitproc visit, void* arg) override {
    Py_VISIT(callable_.get());
    return 0;
  }
  void Clear() override { callable_.reset(); }

 private:
  Ref callable_;
  int* alive_;
};

Ref Wrap(BorrowedRef callable, int* alive = nullptr) {
  return NewCompiledFunction(callable, std::make_unique<Forward>(callable, alive));
}

class CompiledFunctionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Execute(
        "def f(a, b=2, *, c=3):\n  'what it does'\n  return (a, b, c)\n"
        "f.tag = 'kept'\n");
    Set("w", Wrap(Eval("f")));
  }
};

TEST_F(CompiledFunctionTest, CallsWithAllKindsOfArguments) {
  EXPECT_TRUE(IsTrue("w(1) == (1, 2, 3)"));
  EXPECT_TRUE(IsTrue("w(1, 5, c=7) == (1, 5, 7)"));
  EXPECT_TRUE(IsTrue("w(*[1], **{'b': 4}) == (1, 4, 3)"));
  Execute("try: w()\nexcept TypeError as e: text = str(e)");
  EXPECT_TRUE(IsTrue("text.startswith('f() missing 1 required')"));
}

TEST_F(CompiledFunctionTest, ShowsTheWrappedAttributes) {
  EXPECT_TRUE(
      IsTrue("w.__wrapped__ is f and w.__name__ == 'f' and w.__qualname__ == 'f' and w.__doc__ == 'what it does'"));
  EXPECT_TRUE(IsTrue("w.__module__ == f.__module__ and w.tag == 'kept' and w.__code__ is f.__code__"));
  EXPECT_TRUE(IsTrue("w.__defaults__ == (2,) and not hasattr(w, 'missing')"));
  Execute("import inspect\nassert inspect.signature(w) == inspect.signature(f)");
  EXPECT_TRUE(IsTrue("type(w).__name__ == 'CompiledFunction' and type(w).__module__ == 'framefuse._C'"));
  EXPECT_TRUE(IsTrue("'compiled function f' in repr(w)"));
}

TEST_F(CompiledFunctionTest, HasAttributesOfItsOwn) {
  Execute("w.mine = 1\nw.__name__ = 'other'\nw.__doc__ = None");
  EXPECT_TRUE(IsTrue("w.mine == 1 and not hasattr(f, 'mine') and w.__dict__['mine'] == 1"));
  EXPECT_TRUE(IsTrue("w.__name__ == 'other' and f.__name__ == 'f' and w.__doc__ is None"));
  Execute("del w.__name__");
  EXPECT_TRUE(IsTrue("w.__name__ == 'f'"));
}

TEST_F(CompiledFunctionTest, BindsLikeAFunction) {
  Execute("def method(self, x=1): return (self, x)");
  Set("m", Wrap(Eval("method")));
  Execute("class C: m = m\nc = C()");
  EXPECT_TRUE(IsTrue("c.m() == (c, 1) and c.m(5) == (c, 5) and C.m(c, x=3) == (c, 3)"));
  EXPECT_TRUE(IsTrue("C.m is m and c.m.__self__ is c and c.m.__func__ is m"));
}

TEST_F(CompiledFunctionTest, TakesWeakReferencesAndIsCollected) {
  int alive = 1;
  Execute("def h(): return holder\nholder = {}\n");
  Set("x", Wrap(Eval("h"), &alive));
  Execute("holder['x'] = x\nh.back = x\nr = weakref.ref(x)\ndel x, holder, h\nimport gc\ngc.collect()\n");
  EXPECT_TRUE(IsTrue("r() is None"));
  EXPECT_EQ(alive, 0);
}

TEST_F(CompiledFunctionTest, SurvivesBeingDroppedByItsOwnCall) {
  Execute("def drop():\n  global d\n  d = None\n  return 4\n");
  Set("d", Wrap(Eval("drop")));
  EXPECT_TRUE(IsTrue("d() == 4"));
}

// Compares the slots with the locals that a real call has.
class BindTest : public ::testing::Test {
 protected:
  // Binds function(*args, **kwargs); the result is the slots as a list (unbound ones are left out), or None.
  static Ref Bind(const char* function, const char* arguments, const char* keywords) {
    Ref f = Eval(function), args = Eval(arguments), kwargs = Eval(keywords);
    std::vector<PyObject*> values;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args.get()); ++i) values.push_back(PyTuple_GET_ITEM(args.get(), i));
    Ref names = Ref::Steal(PyTuple_New(PyDict_GET_SIZE(kwargs.get())));
    Py_ssize_t position = 0, i = 0;
    PyObject *key = nullptr, *value = nullptr;
    while (PyDict_Next(kwargs, &position, &key, &value)) {
      PyTuple_SET_ITEM(names.get(), i++, Py_NewRef(key));
      values.push_back(value);
    }
    BoundArguments bound;
    const bool ok =
        BindSimple(reinterpret_cast<PyFunctionObject*>(f.get()), values.data(),
                   static_cast<std::size_t>(PyTuple_GET_SIZE(args.get())), i > 0 ? names.get() : nullptr, &bound);
    EXPECT_EQ(PyErr_Occurred(), nullptr);
    if (!ok) return Ref::Create(Py_None);
    const FrameView view = bound.View(reinterpret_cast<PyFunctionObject*>(f.get()));
    Ref list = Ref::Steal(PyList_New(0));
    for (int s = 0; s < view.slot_count; ++s) {
      if (view.slots[s] != nullptr) PyList_Append(list, view.slots[s]);
    }
    return list;
  }
  static void Expect(const char* function, const char* arguments, const char* keywords, const char* expected) {
    Set("got", Bind(function, arguments, keywords));
    EXPECT_TRUE(IsTrue(std::string("got == ") + expected)) << function << arguments << keywords;
  }
};

TEST_F(BindTest, FitsLikeARealCall) {
  Execute(
      "def p(a, b, c=3, d=4):\n  local = 1\n  return [a, b, c, d]\n"
      "def only(a, /, b=2): return [a, b]\n");
  const char* calls[][2] = {{"(1, 2)", "{}"},
                            {"(1, 2, 5)", "{}"},
                            {"(1, 2, 5, 6)", "{}"},
                            {"(1,)", "{'b': 9}"},
                            {"()", "{'b': 9, 'a': 8}"},
                            {"(1, 2)", "{'d': 7}"},
                            {"(1,)", "{''.join(['', 'b']): 9, 'd': 0}"}};
  for (auto& [args, kwargs] : calls) {
    Expect("p", args, kwargs, (std::string("p(*") + args + ", **" + kwargs + ")").c_str());
  }
  Expect("only", "(1,)", "{'b': 5}", "[1, 5]");
}

TEST_F(BindTest, RefusesWhatACallRefuses) {
  Execute("def p(a, b, c=3): return [a, b, c]\ndef only(a, /, b=2): return [a, b]\ndef none(): return []\n");
  for (auto& [args, kwargs] : {std::pair("()", "{}"),
                               {"(1,)", "{}"},
                               {"(1, 2, 3, 4)", "{}"},
                               {"(1, 2)", "{'a': 1}"},
                               {"(1, 2)", "{'zz': 1}"},
                               {"(1,)", "{'c': 1}"}}) {
    Expect("p", args, kwargs, "None");
  }
  Expect("only", "()", "{'a': 1}", "None");
  Expect("none", "(1,)", "{}", "None");
  Expect("none", "()", "{}", "[]");
}

TEST_F(BindTest, LeavesOtherSignaturesToPython) {
  Execute(
      "def star(*a): pass\ndef kwargs(**k): pass\ndef kwonly(*, a=1): pass\n"
      "def cell(a):\n  return lambda: a\n"
      "def gen(a): yield a\n"
      "async def coro(a): pass\n"
      "free = cell(1)\n");
  Expect("star", "()", "{}", "None");
  Expect("kwargs", "()", "{}", "None");
  Expect("kwonly", "()", "{}", "None");
  Expect("cell", "(1,)", "{}", "None");
  Expect("gen", "(1,)", "{}", "None");
  Expect("coro", "(1,)", "{}", "None");
  Expect("free", "()", "{}", "None");
}

}  // namespace
}  // namespace framefuse
