"""set_logs, FRAMEFUSE_LOGS and capture_logs: what is on is written, what is wrong is answered with the list; each artifact prints
something useful; records go through Python's logging."""

import contextlib
import io
import logging
import os
import re
import subprocess
import sys
import threading

import framefuse
import pytest
import torch
from framefuse import _C, _fx


@pytest.mark.compiles_nothing("about settings and names")
def test_every_artifact_is_documented():
    logs = framefuse.list_logs()
    assert {"bytecode", "guards", "recompiles", "graph_breaks", "graph", "output_code"} <= set(logs)
    assert all(logs.values())


@pytest.mark.compiles_nothing("about settings and names")
def test_capture_collects_what_is_on():
    with framefuse.capture_logs("guards") as records:
        _C.write_log("guards", "x is y")
        _C.write_log("cache", "hit")
    assert records == [("guards", "x is y")]


@pytest.mark.compiles_nothing("about settings and names")
def test_switches():
    framefuse.set_logs(all=False, cache=True)
    with framefuse.capture_logs() as records:
        _C.write_log("guards", "x is y")
        _C.write_log("cache", "hit")
    assert records == [("cache", "hit")]
    framefuse.set_logs(all=True, cache=False)
    with framefuse.capture_logs() as records:
        _C.write_log("guards", "x is y")
        _C.write_log("cache", "hit")
    assert records == [("guards", "x is y")]


@pytest.mark.compiles_nothing("about settings and names")
def test_written_to_stderr(capfd):
    framefuse.set_logs(guards=True)
    _C.write_log("guards", "x is y")
    assert capfd.readouterr().err == "[framefuse guards] x is y\n"


@pytest.mark.compiles_nothing("wrong arguments are refused before anything is compiled")
def test_wrong_arguments():
    with pytest.raises(ValueError, match="unknown log artifact 'guard'; the artifacts are: bytecode, .*guards.* and all"):
        framefuse.set_logs(guard=True)
    with pytest.raises(TypeError, match=r"set_logs\(guards=…\) takes True or False"):
        framefuse.set_logs(guards=1)
    with pytest.raises(ValueError, match="unknown log artifact 'x'"), framefuse.capture_logs("x"):
        pass


@pytest.mark.compiles_nothing("about settings and names")
def test_nothing_is_switched_by_a_wrong_call():
    framefuse.set_logs(all=False)
    with pytest.raises(ValueError):
        framefuse.set_logs(all=True, guard=True)
    assert _C.get_log_mask() == 0


@pytest.mark.compiles_nothing("runs in a process of its own")
def test_environment(fresh_python):
    program = "import framefuse; print(framefuse._C.get_log_mask() != 0)"
    assert fresh_python(program, FRAMEFUSE_LOGS="graph_breaks,-bugs") == "True\n"
    program = """
try:
    import framefuse
except ValueError as error:
    print(error)
"""
    assert fresh_python(program, FRAMEFUSE_LOGS="guard").startswith("FRAMEFUSE_LOGS: unknown log artifact 'guard'")


# ---------------------------------------------------------------- what each artifact prints

HISTORY = []


def program(x, weight, n):
    y = torch.sin(x).mm(weight).relu() * n
    HISTORY.append(3)
    print("between")
    return (y + 1).sum()


async def generates(x):
    yield x + 1


def run_program():
    """A program of everything: a break, a write, gradients, sizes and numbers that change, a generator, two captures."""
    weight = torch.ones(4, 5, requires_grad=True)
    compiled = framefuse.compile(program)
    for rows, n in ((3, 2), (6, 3), (7, 4)):
        compiled(torch.ones(rows, 4), weight, n).backward()
    framefuse.compile(generates)(torch.ones(2)).aclose().close()


# artifact → what its records must have
PRINTS = {
    "bytecode": [r"program \(.*test_logs.py:\d+\): captured up to a graph break", r"\| +\d+  LOAD_GLOBAL torch", r"live in this frame", r"y = graph_output\[0\]"],
    "trace": [r"test_logs.py:\d+ in program: +\d+ LOAD_CONST 'between'", r"\[.*Tensor Float\[3, ?5\]"],
    "guards": [r"def program\(L, G, B, function\):", r"is_tensor\(L\['x'\]"],
    "recompiles": [r"recompiling program \(.*test_logs.py:\d+\)", r"size mismatch at dim 0: expected 3, actual 6"],
    "dynamic": [r"s\d.*at .*test_logs.py:\d+", r"s\d is L\['x'\]\.size\(0\)"],
    "graph_breaks": [r"graph break at .*test_logs.py:\d+ in program: print\(\"between\"\)", r"builtins.print", r"hint: print outside"],
    "fallbacks": [r"generates \(.*\) runs as Python: an async generator function", r"hint: compile the functions that it calls"],
    "graph": [r"aten.sin", r"aten.mm"],
    "graph_code": [r"program \(.*\): \d+ calls", r"# .*test_logs.py:\d+ in program: y = torch.sin", r"torch.*sin", r"Tensor.mm"],
    "aot": [r"joint graph", r"saved for backward", r"backward graph"],
    "effects": [r"G\['HISTORY'\].extend\(\[3\]\)", r"return graph_output\[0\]"],
    "fusion": [r"pointwise: relu, mul", r"aten.mm \(.*\) is ATen's: no kernel of framefuse's computes it"],
    "output_code": [r"bytes of machine code", r"reduce_sum"],
    "cache": [r"miss: pointwise: relu, mul .*: no kernel in this process", r"hit: row: add, sum .*: a kernel of this process"],
    "perf": [r"program \(.*test_logs.py:\d+\): capture \d+\.\d+ ms in \d+ runs, backend", r"partition +\d+\.\d+ ms", r"fusion of graph.forward\n  pass number_operands +\d+\.\d+ ms"],
    "bugs": [r"plain \(.*\): .*; the frame runs as Python"],
}


def plain(x):
    return x * 2


@pytest.mark.compiles_nothing("reads the list of artifacts")
def test_all_artifacts_are_tested():
    assert set(PRINTS) == set(framefuse.list_logs())


@pytest.mark.parametrize("name", PRINTS)
def test_each_artifact_prints_something_useful(name, monkeypatch, capsys):
    framefuse.reset()
    with framefuse.capture_logs("-all", name) as records:
        if name == "bugs":
            framefuse.config.raise_on_bug = False
            monkeypatch.setattr(_fx, "build_graph_module", lambda *_: 1 / 0)
            framefuse.compile(plain, backend=lambda gm, _: gm.forward)(torch.ones(2))
        else:
            run_program()
            framefuse.reset()
            run_program()
    assert {artifact for artifact, _ in records} == {name}
    text = "\n".join(text for _, text in records)
    for part in PRINTS[name]:
        assert re.search(part, text), f"{part!r} is not in\n{text}"
    assert not re.search(r" at 0x[0-9a-f]{6}", text) or name in ("guards", "recompiles", "trace")


class Block(torch.nn.Module):
    def forward(self, x):
        y = x.relu()
        print("between")
        return y * 2


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()

    def forward(self, x):
        factor = x.sin()
        return self.block(x + 1) * factor


def test_bytecode_of_a_module_is_the_programs(capsys):
    framefuse.reset()
    with framefuse.capture_logs("-all", "bytecode") as records:
        framefuse.compile(Model())(torch.ones(2))
    texts = [text for _, text in records]
    first = texts[0]
    assert not any("_wrapped_call_impl" in text or "_call_impl" in text for text in texts), texts
    listings, live = re.split("  resumes after: .*builtins.print", first)
    outer, inner = listings.split("  inlined ")
    assert re.match(r"Model.forward \(.*test_logs.py:\d+\): captured up to a graph break\n", outer)
    assert re.match(r"Block.forward \(.*test_logs.py:\d+\)\n", inner)
    assert re.search(r"\| +\d+  LOAD_FAST.* x", outer) and len(re.findall(r"\n      > ", first)) == 2
    # What lives on, by the name that the program has for it.
    assert re.search(r"live in Model.forward at \d+:(\n +\w.* = .*)*\n +factor = graph_output\[\d\]", live), live
    assert re.search(r"live in Block.forward at \d+:(\n +\w.* = .*)*\n +y = graph_output\[\d\]", live), live
    rest = next(text for text in texts[1:] if text.startswith("Block.forward"))
    assert "captured to its end" in rest and re.search(r"\| +\d+  RETURN_VALUE", rest) and not re.search(r"\| +\d+  LOAD_GLOBAL", rest)


def test_instructions_without_a_line_are_traced_at_the_functions_head():
    framefuse.reset()

    def closes(x):
        return [v + x for v in (x, x)]  # x is a cell: its instruction has no line

    with framefuse.capture_logs("-all", "trace") as records:
        framefuse.compile(closes)(torch.ones(2))
    assert records and not [text for _, text in records if re.search(r":-?[01] in ", text)]


def test_what_torchs_call_of_a_module_reads_stands_at_its_forward(capsys):
    framefuse.reset()
    compiled = framefuse.compile(Model())
    with framefuse.capture_logs("-all", "recompiles", "dynamic", "guards") as records:
        for size in (2, 3):
            compiled(torch.ones(size))
    texts = {name: "\n".join(text for artifact, text in records if artifact == name) for name in ("recompiles", "dynamic", "guards")}
    line = Model.forward.__code__.co_firstlineno
    assert f"expected 2, actual 3 (test_logs.py:{line})" in texts["recompiles"]
    assert f" at test_logs.py:{line}" in texts["dynamic"]
    assert "module.py" not in texts["recompiles"] + texts["dynamic"] and "# module.py" not in texts["guards"]


def test_what_torchs_call_reads_of_hooks_stands_at_the_forward_too():
    framefuse.reset()
    module, seen = Model(), []
    module.register_forward_hook(lambda module, arguments, result: seen.append(len(arguments)))
    with framefuse.capture_logs("-all", "guards") as records:
        framefuse.compile(module)(torch.ones(2))
    texts = "\n".join(text for _, text in records)
    assert seen == [1] and "_forward_hooks" in texts and "# module.py" not in texts, texts


# ---------------------------------------------------------------- Python's logging


@pytest.mark.compiles_nothing("about settings and names")
def test_loggers_levels_and_caplog(caplog):
    framefuse.set_logs(guards=True)
    _C.write_log("guards", "x is y")
    _C.write_log("fallbacks", "f runs as Python: 100%s sure")
    found = [(r.name, r.levelno, r.getMessage()) for r in caplog.records]
    assert found == [("framefuse.guards", logging.INFO, "x is y"), ("framefuse.fallbacks", logging.WARNING, "f runs as Python: 100%s sure")]
    assert caplog.records[0].thread == threading.get_ident() and caplog.records[0].threadName == "MainThread"
    caplog.clear()
    with caplog.at_level(logging.ERROR, "framefuse.guards"):
        _C.write_log("guards", "x is y")
    assert caplog.records == []


def test_records_come_in_order_with_what_the_program_prints(caplog):
    framefuse.set_logs(all=False, graph_breaks=True)
    seen = []

    def f(x):
        seen.append(len(caplog.records))
        return x + 1

    def broken(x):
        y = x.sin()
        framefuse.disable(f)(y)
        return y * 2

    framefuse.reset()
    framefuse.compile(broken)(torch.ones(2))
    assert seen and seen[0] >= 1  # the break was told before the call that it is about ran
    assert all("graph break at" in r.getMessage() for r in caplog.records)


def test_redirect_stderr_and_the_users_own_handlers(monkeypatch):
    framefuse.set_logs(all=False, graph_breaks=True)

    def f(x):
        framefuse.graph_break()
        return x * 2

    framefuse.reset()
    with contextlib.redirect_stderr(io.StringIO()) as written:
        framefuse.compile(f)(torch.ones(2))
    assert re.match(r"\[framefuse graph_breaks\] \[\d+/0\] graph break at ", written.getvalue())
    handler = logging.StreamHandler(sys.stderr)
    logging.getLogger("framefuse").addHandler(handler)
    try:
        with contextlib.redirect_stderr(io.StringIO()) as written:
            handler.setStream(sys.stderr)
            _C.write_log("graph_breaks", "once")
        assert written.getvalue() == "once\n"
    finally:
        logging.getLogger("framefuse").removeHandler(handler)


class Raises(logging.Handler):
    def emit(self, record):
        raise ZeroDivisionError(record.getMessage())


class Computes(logging.Handler):
    def emit(self, record):
        inner = framefuse.compile(lambda x: x + 1)
        assert torch.equal(inner(torch.ones(2)), torch.full((2,), 2.0))
        framefuse.reset()


@pytest.mark.parametrize("handler", [Raises(), Computes()], ids=["raises", "computes"])
def test_a_handler_breaks_nothing(handler, monkeypatch):
    framefuse.set_logs(all=False, graph_breaks=True, guards=True, perf=True)
    unraisable = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    logging.getLogger("framefuse").addHandler(handler)

    def f(x):
        y = x + 1
        framefuse.graph_break()
        try:
            return y / [].pop()
        except IndexError:
            return y * 3

    framefuse.reset()
    try:
        for _ in range(3):
            assert torch.equal(framefuse.compile(f)(torch.ones(2)), torch.full((2,), 6.0))
    finally:
        logging.getLogger("framefuse").removeHandler(handler)
    assert bool(unraisable) == isinstance(handler, Raises)
    assert all(u.exc_type is ZeroDivisionError and "a handler of the logger framefuse." in u.err_msg for u in unraisable)


def test_threads_that_log_at_once(caplog):
    framefuse.set_logs(all=False, perf=True)
    framefuse.reset()

    def work(n):
        for size in range(2, 6):
            framefuse.compile(lambda x: (x * n).sin().sum(), dynamic=False)(torch.ones(size, requires_grad=True)).backward()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    _C.deliver_logs()
    assert sum("capture" in r.getMessage() for r in caplog.records) >= 16


@pytest.mark.compiles_nothing("runs in a process of its own")
def test_what_is_written_at_the_end_is_not_lost(fresh_python):
    program = """
import framefuse, sys, threading, torch
sys.stderr = sys.stdout
framefuse.set_logs(all=False, perf=True)
x = torch.ones(3, requires_grad=True)
thread = threading.Thread(target=lambda: framefuse.compile(lambda x: x.sin().sum())(x).backward())
thread.start()
thread.join()
"""
    assert "[framefuse perf] " in fresh_python(program)
    assert "[framefuse perf rank 3] " in fresh_python(program, RANK="3")
    assert "INFO framefuse.perf: " in fresh_python(program, FRAMEFUSE_LOGS_FORMAT="%(levelname)s %(name)s: %(message)s")


@pytest.mark.compiles_nothing("runs in a process of its own")
def test_directly_to_stderr(tmp_path):
    program = """
import faulthandler, framefuse, logging, os
logging.getLogger("framefuse").addHandler(logging.FileHandler("records"))
framefuse.set_logs(guards=True)
framefuse._C.write_log("guards", "x is y")
os.abort()
"""
    environment = {**os.environ, "FRAMEFUSE_LOGS_DIRECT": "1"}
    result = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert result.stderr == "[framefuse guards] x is y\n" and (tmp_path / "records").read_text() == ""


# ---------------------------------------------------------------- levels and torch's names


@pytest.mark.compiles_nothing("about settings and names")
def test_levels():
    framefuse.set_logs("+recompiles,guards", all=False)
    with framefuse.capture_logs() as records:
        for name in framefuse.list_logs():
            _C.write_log(name, "x")
    assert [name for name, _ in records] == ["guards", "recompiles"]
    framefuse.set_logs("-recompiles")
    with pytest.raises(TypeError, match="takes names of artifacts, not 3"):
        framefuse.set_logs(3)


def test_longer_texts():
    def f(x, kind):
        return x + 1 if kind == "a" else x + 2

    texts = {}
    for name in ("recompiles", "+recompiles"):
        framefuse.reset()
        compiled = framefuse.compile(f)
        with framefuse.capture_logs("-all", name) as records:
            compiled(torch.ones(2), "a")
            compiled(torch.ones(2), "b")
        ((_, texts[name]),) = records
    assert "def guards(" in texts["+recompiles"] and "def guards(" not in texts["recompiles"]


@pytest.mark.compiles_nothing("about settings and names")
@pytest.mark.parametrize(
    ("theirs", "ours"),
    [("aot_graphs", "aot"), ("perf_hints", "fusion"), ("kernel_code", "output_code"), ("side_effects", "effects"), ("trace_bytecode", "trace")],
)
def test_names_of_torch(theirs, ours):
    for switch in (lambda: framefuse.set_logs(theirs), lambda: framefuse.set_logs(**{theirs: True})):
        framefuse.set_logs(all=False)
        switch()
        with framefuse.capture_logs() as records:
            for name in framefuse.list_logs():
                _C.write_log(name, "x")
        assert [name for name, _ in records] == [ours]


@pytest.mark.compiles_nothing("about settings and names")
def test_every_alias_leads_somewhere_and_is_a_name_of_torchs():
    import torch._logging._internal as theirs

    known = {*theirs.log_registry.artifact_names, *theirs.log_registry.log_alias_to_log_qnames}
    for alias, ours in _C.log_aliases():
        assert ours.lstrip("+") in framefuse.list_logs() and alias not in framefuse.list_logs()
        assert alias in known, alias
