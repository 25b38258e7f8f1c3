"""The linter's own rules: what they must complain about, and that the table of includes is one that can be."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "cmake"))
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
