"""The linter's own rules: what they must complain about, and that the table of includes is one that can be."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "cmake"))
import function_lengths  # noqa: E402
import include_rules  # noqa: E402
import lint  # noqa: E402


@pytest.mark.parametrize(
    "path, include, allowed",
    [
        ("backends/runtime/x.cpp", "backends/fusion/group.h", False),
        ("backends/runtime/x.cpp", "backends/graph/graph.h", True),
        ("frame_eval/hook.cpp", "guards/guard.h", False),
        ("frame_eval/bytecode/x.cpp", "frame_eval/versions/frame_ops.h", True),
        ("symbolic/tracing/x.h", "symbolic/capture/capture.h", False),
        ("symbolic/capture/x.h", "backends/fusion/group.h", False),
        ("symbolic/capture/journals/x.cpp", "symbolic/capture/calls/call_evaluator.h", False),
        ("symbolic/capture/journals/x.cpp", "symbolic/capture/protocols/items.h", False),
        ("symbolic/capture/journals/x.cpp", "symbolic/capture/journals/read_journal.h", True),
        ("symbolic/capture/journals/x.cpp", "symbolic/capture/tracked.h", True),
        ("symbolic/capture/protocols/x.cpp", "symbolic/capture/calls/call_evaluator.h", True),
        ("symbolic/capture/protocols/x.cpp", "symbolic/capture/calls/class_calls.h", False),
        ("symbolic/capture/calls/x.cpp", "symbolic/capture/journals/read_journal.h", True),
        ("symbolic/capture/calls/x.cpp", "symbolic/capture/protocols/iteration.h", True),
        ("symbolic/capture/calls/x.cpp", "symbolic/capture/protocols/items.h", False),
        ("symbolic/capture/capture_protocols.h", "symbolic/capture/protocols/items.h", True),
        ("common/x.h", "frame_eval/ref.h", False),
        ("tests/graph/x.cpp", "backends/fusion/group.h", True),
        ("common/x.h", "absl/types/span.h", True),
    ],
)
def test_includes(path, include, allowed):
    found = list(include_rules.violations(path, ["// x", f'#include "{include}"']))
    assert found == [] if allowed else [number for number, _ in found] == [2]


def test_what_leads_to_a_part(tmp_path):
    files = {
        "calls/a.cpp": "tracked.h",
        "calls/b.cpp": "attempt.h",
        "calls/c.cpp": "journals/read_journal.h",
        "tracked.h": "recipe.h",
        "recipe.h": "tracked.h",
        "attempt.h": "capture.h",
        "capture.h": "journals/read_journal.h",
        "journals/read_journal.h": "tracked.h",
    }
    for name, include in files.items():
        file = tmp_path / "symbolic/capture" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f'#include "symbolic/capture/{include}"\n')
    found = list(include_rules.leads_to_a_part(tmp_path))
    assert len(found) == 1 and found[0].startswith("symbolic/capture/calls/b.cpp includes a header that leads to ")


def test_the_table_has_no_ring(monkeypatch):
    assert include_rules.cycle() == []
    monkeypatch.setitem(include_rules.MAY_INCLUDE, "common", {"python"})
    assert "common" in include_rules.cycle()


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
        ("symbolic/a.cpp", "int x;\n", "no comment"),
        ("symbolic/a.cpp", "// A file.\n" + "int x;\n" * 500, "the limit is 500"),
        ("symbolic/a_utils.cpp", "// A file.\n", "says nothing"),
        ("symbolic/a.cpp", "// A file.\n#include <torch/" "extension.h>\n", "does not belong"),
        ("symbolic/a.cpp", "// A file.\n// TODO: more\n", "a note to do"),
        ("common/a.cpp", '// A file.\n#include "guards/guard.h"\n', "may not include"),
        ("common/a.cpp", "// A file.\nvoid Long() {\n" + "  F();\n" * 60 + "}\n", "Long has 61 lines"),
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
