"""torch's structured trace (TORCH_TRACE=dir), read as tlparse reads it; and by tlparse where that is installed."""

import hashlib
import json
import re
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.compiles_nothing("compiles in a process of its own")

_LINE = re.compile(r"^[VIWEC]\d{4} \d\d:\d\d:\d\d\.\d{6} \d+ [^:]+:\d+\] (?P<json>.*)$")
_PROGRAM = """
import torch, framefuse

class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3, 4))

    def forward(self, x):
        y = (x @ self.weight.t()).relu()
        print("between")
        return y.sum()

model = framefuse.compile(torch.nn.Sequential(Scaled()))
for rows in (2, 5):
    model(torch.ones(rows, 4)).backward()

def fails(graph, inputs):
    raise ValueError("no")

try:
    framefuse.compile(lambda x: x + 1, backend=fails)(torch.ones(2))
except framefuse.BackendError:
    pass
"""


def entries(folder):
    """(metadata, payload or None) of each record, checked as tlparse checks them."""
    (file,) = folder.glob("dedicated_log_torch_trace_*.log")
    found, strings = [], {}
    lines = file.read_text().splitlines()
    position = 0
    while position < len(lines):
        match = _LINE.match(lines[position])
        assert match, lines[position]
        position += 1
        metadata, payload = json.loads(match["json"]), None
        if "has_payload" in metadata:
            begin = position
            while position < len(lines) and lines[position].startswith("\t"):
                position += 1
            payload = "\n".join(line[1:] for line in lines[begin:position])
            assert hashlib.md5(payload.encode(), usedforsecurity=False).hexdigest() == metadata["has_payload"]
        if "str" in metadata:
            text, number = metadata["str"]
            strings[number] = text
        found.append((metadata, payload))
    return found, strings


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    import os
    import sys

    folder = tmp_path_factory.mktemp("torch_trace")
    program = folder / "program.py"
    program.write_text(_PROGRAM)
    environment = {**os.environ, "TORCH_TRACE": str(folder / "trace")}
    result = subprocess.run([sys.executable, str(program)], env=environment, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert "Traceback" not in result.stderr and "[framefuse bugs]" not in result.stderr
    return folder


def named(found, kind, name=None):
    return [(m, p) for m, p in found if kind in m and (name is None or m[kind].get("name") == name)]


def test_each_compilation_is_told(folder):
    found, strings = entries(folder / "trace")
    ids = [(m["frame_id"], m["frame_compile_id"]) for m, _ in named(found, "dynamo_start")]
    assert ids == [(m["frame_id"], m["frame_compile_id"]) for m, _ in named(found, "compilation_metrics")]
    assert len(ids) == len(set(ids)) and {compiled for _, compiled in ids} >= {0, 1}
    stack = named(found, "dynamo_start")[0][0]["dynamo_start"]["stack"]
    assert strings[stack[0]["filename"]].endswith("program.py") and stack[-1]["name"] == "Sequential.forward"
    assert [(frame["name"], frame["loc"]) for frame in stack[:1]] == [("<module>", "model(torch.ones(rows, 4)).backward()")]


def test_places_are_lines_of_their_files(folder):
    found, strings = entries(folder / "trace")
    frames = [frame for m, _ in named(found, "dynamo_start") for frame in m["dynamo_start"]["stack"]]
    for frame in frames:
        with open(strings[frame["filename"]]) as file:
            assert 1 <= frame["line"] <= len(file.readlines()), frame


def test_graphs_guards_and_breaks(folder):
    found, _ = entries(folder / "trace")
    metadata, graph = named(found, "dynamo_output_graph")[0]
    assert metadata["dynamo_output_graph"]["sizes"]["%0"] == [2, 4] and "aten.mm" in graph
    guards = [guard["code"] for guard in json.loads(named(found, "dynamo_guards")[0][1])]
    assert any("Float[2, 4]" in guard for guard in guards)
    assert "def guards(" in named(found, "dynamo_cpp_guards_str")[0][1]
    _, text = named(found, "artifact", "dynamo_graph_break_reason")[0]
    for part in ('print("between")', "builtins.print", "hint: print outside", "module: 0 (Scaled)", "in <module>"):
        assert part in text
    (_, reasons), *_ = named(found, "artifact", "recompile_reasons")
    assert any("size mismatch at dim 0: expected 2, actual 5" in reason for reason in json.loads(reasons))
    assert "aten.mm" in named(found, "aot_joint_graph")[0][1]
    assert "threshold_backward" in named(found, "aot_backward_graph")[0][1] and "relu" in named(found, "aot_forward_graph")[0][1]
    assert "relu" in named(found, "artifact", "output_code")[0][1]


def test_metrics(folder):
    found, _ = entries(folder / "trace")
    metrics = [m["compilation_metrics"] for m, _ in named(found, "compilation_metrics")]
    first = metrics[0]
    assert first["co_name"] == "Scaled.forward" or first["co_name"].endswith("forward")
    assert first["guard_count"] > 0 and first["graph_node_count"] > 0 and first["entire_frame_compile_time_s"] > 0
    assert any("builtins.print" in reason for m in metrics for reason in m["restart_reasons"])
    events = [json.loads(payload) for _, payload in named(found, "chromium_event")]
    assert all(event["ph"] == "X" and event["dur"] > 0 for event in events)


def test_tlparse_reads_it(folder, tmp_path):
    command = shutil.which("tlparse")
    if command is None:
        pytest.skip("tlparse is not installed")
    (file,) = (folder / "trace").glob("*.log")
    done = subprocess.run([command, str(file), "-o", str(tmp_path / "out"), "--no-browser", "--strict"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    index = (tmp_path / "out" / "index.html").read_text()
    assert "dynamo_graph_break_reason" in index and "dynamo_output_graph" in index


def test_without_the_variable_nothing_is_made(fresh_python):
    program = "import framefuse, torch; framefuse.compile(lambda x: x + 1)(torch.ones(2)); print(framefuse._torch_trace._collector)"
    assert fresh_python(program) == "0\n"
