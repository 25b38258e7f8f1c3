"""The linter's own rules: what they must complain about, and that the table of includes is one that can be."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "cmake"))
import class_sizes  # noqa: E402
import enum_switches  # noqa: E402
import function_lengths  # noqa: E402
import import_rules  # noqa: E402
import include_rules  # noqa: E402
import lint  # noqa: E402
import one_definition  # noqa: E402
import operator_names  # noqa: E402
import unwinding_tests  # noqa: E402


@pytest.mark.parametrize(
    "path, include, allowed",
    [
        ("backends/runtime/x.cpp", "backends/fusion/group.h", False),
        ("backends/runtime/x.cpp", "backends/graph/graph.h", True),
        ("frame_eval/hook.cpp", "guards/guard.h", False),
        ("frame_eval/bytecode/x.cpp", "frame_eval/versions/frame_ops.h", True),
        ("symbolic/tracing/x.h", "symbolic/capture/capture.h", False),
        ("symbolic/entry/x.h", "symbolic/journals/read_journal.h", False),
        ("symbolic/journals/x.h", "symbolic/entry/recipe.h", True),
        ("symbolic/capture/x.h", "backends/fusion/group.h", False),
        ("symbolic/journals/x.cpp", "symbolic/calls/call_evaluator.h", False),
        ("symbolic/journals/x.cpp", "symbolic/protocols/items.h", False),
        ("symbolic/journals/x.cpp", "symbolic/journals/read_journal.h", True),
        ("symbolic/journals/x.cpp", "symbolic/journals/tracked.h", True),
        ("symbolic/protocols/x.cpp", "symbolic/calls/call_evaluator.h", True),
        ("symbolic/protocols/x.cpp", "symbolic/calls/class_calls.h", False),
        ("symbolic/calls/x.cpp", "symbolic/journals/read_journal.h", True),
        ("symbolic/calls/x.cpp", "symbolic/protocols/iteration.h", True),
        ("symbolic/calls/x.cpp", "symbolic/protocols/items.h", False),
        ("symbolic/capture/capture_protocols.h", "symbolic/protocols/items.h", True),
        ("common/x.h", "frame_eval/ref.h", False),
        ("tests/graph/x.cpp", "backends/fusion/group.h", True),
        ("common/x.h", "absl/types/span.h", True),
    ],
)
def test_includes(path, include, allowed):
    found = list(include_rules.violations(path, ["// x", f'#include "{include}"']))
    assert found == [] if allowed else [number for number, _ in found] == [2]


def test_the_table_has_no_ring(monkeypatch):
    assert include_rules.cycle() == []
    monkeypatch.setitem(include_rules.MAY_INCLUDE, "common", {"python"})
    assert "common" in include_rules.cycle()


@pytest.mark.parametrize(
    "modules, found",
    [
        ({"_a": "from framefuse import _C, _b", "_b": "import framefuse._c", "_c": "import torch"}, []),
        ({"_a": "from framefuse import _b", "_b": "def f():\n    from framefuse._a import g"}, ["_a", "_b"]),
        ({"_a": "from . import _b", "_b": "import framefuse._c", "_c": "from ._b import f"}, ["_b", "_c"]),
        ({"_a": "import framefuse", "": "from framefuse import _a"}, []),
    ],
)
def test_rings_of_imports(modules, found):
    modules = {f"framefuse.{name}".removesuffix("."): text for name, text in modules.items()}
    assert import_rules.ring(modules) == [f"framefuse.{name}" for name in found]


def test_the_package_imports_in_no_ring():
    modules = import_rules.modules_of(ROOT / "python" / "framefuse")
    assert len(modules) > 20 and import_rules.ring(modules) == []


def test_every_folder_of_code_has_a_row():
    folders = {p.parent.relative_to(ROOT) for top in ("backends", "symbolic", "guards", "frame_eval", "common") for p in (ROOT / top).rglob("*.cpp")}
    assert [f for f in sorted(folders) if include_rules.folder_of(f / "x.cpp") is None] == []
    rows = {row for folder in include_rules.FOLDERS for row in [folder] if not any(folder in same for same in include_rules.SAME)}
    assert rows <= set(include_rules.MAY_INCLUDE)


@pytest.mark.parametrize(
    "name, text, complaint",
    [
        ("symbolic/a.cpp", "// A file.\n_PyObject_GetDictPtr(o);\n", "private API"),
        ("symbolic/a.cpp", "// A file.\n#if PY_VERSION_HEX > 3\n#endif\n", "version condition"),
        ("symbolic/a.cpp", "// A file.\nbool old = PY_VERSION_HEX < 3;\n", "version condition"),
        ("symbolic/a.cpp", "int x;\n", "no comment"),
        ("symbolic/a.cpp", "// A file.\n" + "int x;\n" * 500, "the limit is 500"),
        ("symbolic/a_utils.cpp", "// A file.\n", "says nothing"),
        ("symbolic/a.cpp", "// A file.\n#include <torch/" "extension.h>\n", "does not belong"),
        ("symbolic/a.cpp", "// A file.\n// TODO: more\n", "a note to do"),
        ("symbolic/a.cpp", "// A file. Owner:\n// symbolic.\n", "an owner"),
        ("common/a.cpp", '// A file.\n#include "guards/guard.h"\n', "may not include"),
        ("common/a.cpp", "// A file.\nvoid Long() {\n" + "  F();\n" * 60 + "}\n", "Long has 61 lines"),
        ("common/a.cpp", "// A file.\nclass Large {\n" + "  void F();\n" * 41 + "};\n", "Large has 41 methods"),
        ("common/a.cpp", "// A file.\nstruct Large {\n" + "  int x;\n" * 21 + "};\n", "and 21 members"),
        ("common/a.cpp", "// A file.\nint F(E e) {\n  switch (e) {\n    case E::kA:\n    default:\n  }\n}\n", "a `default` in a switch"),
    ],
)
def test_complaints(tmp_path, name, text, complaint):
    file = tmp_path / name
    file.parent.mkdir(parents=True)
    file.write_text(text)
    assert any(complaint in message for message in lint.violations(tmp_path, pathlib.Path(name)))
    file.write_text("// A file.\nint x;\n")
    if "util" not in name:
        assert list(lint.violations(tmp_path, pathlib.Path(name))) == []


@pytest.mark.parametrize(
    "text, found",
    [
        ("int F(int a) {\n  return a;\n}\n", [("F", 1, 2)]),
        ("namespace a {\nclass B : public C<int> {\n public:\n  B() : x_{1}, y_(2) {\n  }\n  int x_ = 0, y_;\n};\n}\n", [("B", 4, 1)]),
        ("class B {\n  int X() const { return x_; }\n};\nint B::Y() const noexcept\n{\n}\n", [("X", 2, 0), ("B::Y", 5, 1)]),
        ("constexpr int kRows[] = {\n    {1, F(2)},\n};\nenum class E : int { kA };\n", []),
        ("template <class T = A<int>>\nstruct B {\n  T F(C c = {}) {\n  }\n};\n", [("F", 3, 1)]),
        ("void F() {\n  const auto g = [&] {\n  };\n  for (;;) {\n  }\n}\nvoid G() {}\n", [("F", 1, 5), ("G", 7, 0)]),
        ('const char* kText = "{ (";\nvoid F() {  // }\n  A(\'{\', R"x(\n{{{)x");\n#define BRACE {\n}\n', [("F", 2, 4)]),
        ("bool operator==(A a, A b) {\n}\nstruct A F(struct B b) {\n}\n", [("operator==", 1, 1), ("F", 3, 1)]),
        ("std::vector<Row> F() {\n  return {{1, 2}, {3}};\n}\nextern \"C\" {\nint F() {\n}\n}\n", [("F", 1, 2), ("F", 5, 1)]),
    ],
)
def test_lengths_of_functions(text, found):
    assert list(function_lengths.functions(text)) == found


@pytest.mark.parametrize(
    "text, found",
    [
        ("class A {\n public:\n  A();\n  int F() const { return x_; }\n  virtual void G() = 0;\n private:\n  int x_ = 0;\n};", [("A", 1, 3, 1)]),
        ("struct B {\n  int a, b[2] = {1, 2}, c{3};\n  std::map<int, std::pair<int, int>> d;\n};", [("B", 1, 0, 4)]),
        ("class C : public D<int> {\n  C(const C&) = delete;\n  C() = default;\n  friend void F(C);\n  using T = int;\n};", [("C", 1, 0, 0)]),
        ("struct E {\n  std::function<void(int)> f;\n  int (*g)(int) = nullptr;\n  static constexpr int kA = 1;\n};", [("E", 1, 0, 2)]),
        ("class F {\n  explicit F(int a) : a_(a), b_{a} {\n    G();\n  }\n  ~F();\n  bool operator==(const F&) const;\n  int a_, b_;\n};", [("F", 1, 3, 2)]),
        ("struct G {\n  struct H {\n    int a;\n  };\n  enum class K { kA, kB };\n  H h;\n  template <class T>\n  T Get();\n};", [("G", 1, 1, 1), ("H", 2, 0, 1)]),
        ("enum class K { kA };\nclass L;\ntemplate <class T>\nvoid F(struct M m) {}", []),
    ],
)
def test_sizes_of_classes(text, found):
    assert list(class_sizes.classes(text)) == found


def test_debts_may_only_shrink():
    lines = ["class Large {", *["  void F();"] * 41, "};"]
    found = lambda debt: [m for _, m in class_sizes.violations("a.h", lines, {"a.h: Large": debt})]  # noqa: E731
    assert found((41, 0)) == []
    assert "may only shrink" in found((40, 0))[0] and "may only shrink" in found((42, 0))[0]
    small = ["class Large {", "  void F();", "};"]
    assert any("take it out" in m for _, m in class_sizes.violations("a.h", small, {"a.h: Large": (1, 0)}))
    switch = ["switch (e) {", "  case E::kA:", "    return 1;", "  default:", "    return 2;", "}"]
    assert list(enum_switches.violations("a.cpp", switch, {"a.cpp": 1})) == []
    assert "may only shrink" in list(enum_switches.violations("a.cpp", switch, {"a.cpp": 2}))[0][1]


def test_a_debt_of_nothing_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(lint.debts, "CLASSES", {"a.h: Gone": (41, 0), "b.h: Here": (41, 0)})
    monkeypatch.setattr(lint.debts, "DEFAULTS", {"c.cpp": 1})
    monkeypatch.setattr(lint.debts, "OPERATOR_NAMES", {})
    monkeypatch.setattr(lint.debts, "UNWINDING", {})
    (tmp_path / "b.h").write_text("class Here {};\n")
    assert list(lint.paid_debts(tmp_path)) == ["cmake/debts.py: there is no a.h: Gone", "cmake/debts.py: there is no c.cpp"]


@pytest.mark.parametrize(
    "text, lines",
    [
        ("switch (a) {\n  case A::kB:\n  default:\n}", [3]),
        ("switch (a) {\n  case kB:\n  default:\n}", [3]),
        ("switch (a) {\n  case 'b':\n  default:\n}\nswitch (a) {\n  case c10::ScalarType::kB:\n  default:\n}", []),
        ("switch (a) {\n  case A::kB:\n    switch (b) {\n      case 1:\n      default:\n    }\n}", []),
        ("switch (b) {\n  case 1:\n    switch (a) {\n      case A::kB:\n      default:\n    }\n  default:\n}", [5]),
        ("switch (a) {\n  case A::kB:\n  default:\n    FF_CHECK(false) << 1;\n}", []),
        ('switch (a) {\n  case A::kB:\n    F("default:");  // default:\n}', []),
    ],
)
def test_what_loses_a_case(text, lines):
    assert list(enum_switches.defaults(text)) == lines


@pytest.mark.parametrize(
    "line, count",
    [
        ('if (n.op->name() == "aten.mm") return;', 1),
        ('static const auto* names = new Names{"aten::add.Tensor", "prims.sum"};', 2),
        ('name.starts_with("aten.split")', 1),
        ("if (Is(n.op, OpName::kMm)) return;  // as \"aten.mm\" has it", 0),
        ('FindBackend("aten")', 0),
    ],
)
def test_names_of_operators(line, count):
    path = pathlib.Path("backends/fusion/x.cpp")
    assert len(list(operator_names.violations(path, [line], {}))) == count
    assert list(operator_names.violations(path, [line], {str(path): count})) == []
    assert len(list(operator_names.violations(path, [line], {str(path): count + 1}))) == 1
    assert list(operator_names.violations(pathlib.Path("backends/graph/operators.def"), [line], {})) == []


@pytest.mark.parametrize(
    "line, count",
    [
        ("  if (breaks_.unwinding()) return Value();", 1),
        ("  if (!v || control.unwinding) return breaks_.unwinding() ? 1 : 2;", 2),
        ("  return Value();  // the run is unwinding", 0),
        ('  Fail("unwinding");', 0),
        ("  if (result.outcome == Outcome::kUnwound) return;", 0),
    ],
)
def test_tests_of_unwinding(line, count):
    path = pathlib.Path("symbolic/calls/x.cpp")
    assert len(list(unwinding_tests.violations(path, [line], {}))) == count
    assert list(unwinding_tests.violations(path, [line], {str(path): count})) == []
    assert len(list(unwinding_tests.violations(path, [line], {str(path): count + 1}))) == 1
    assert list(unwinding_tests.violations(pathlib.Path("symbolic/evaluator/evaluator.cpp"), [line], {})) == []


CLASS = "namespace framefuse {{\n{}\nclass Kept {{\n  struct Own {{}};\n}};\n{}\n}}\n"


@pytest.mark.parametrize(
    "other, wrong",
    [
        (CLASS.format("", ""), True),
        ("namespace framefuse {\nstruct Kept { int n; };\n}\n", True),
        ("namespace framefuse {\nenum class Kept : int { kA };\n}\n", True),
        ("namespace framefuse {\ntemplate <class T>\nclass Kept {\n};\n}\n", True),
        (CLASS.format("namespace {", "}"), False),
        ("namespace framefuse::ir {\nclass Kept {\n};\n}\n", False),
        ("namespace framefuse {\nclass Kept;\nstruct Kept::Impl {\n};\n// class Kept {\n}\n", False),
        ("namespace framefuse {\nnamespace {\nint n;\n}\nvoid F() {\nstruct Kept {};\n}\n}\n", False),
        ("namespace framefuse {\nnamespace {\nint n;\n}\nclass Kept final {\n};\n}\n", True),
    ],
)
def test_a_name_has_one_definition(other, wrong):
    found = list(one_definition.violations({"a.h": CLASS.format("", ""), "b.h": other}))
    assert (len(found) == 1 and "framefuse::Kept is defined in a.h:3 and in b.h:" in found[0]) if wrong else found == []
