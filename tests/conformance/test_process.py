"""What needs a process of its own: fork, exit, interrupt, many threads, a thousand calls.

Each scenario is a script that a fresh interpreter runs with a system's name; plain Python runs them too, which shows
that the scripts are right. Invariant: a script prints `done` only after all its assertions held.
"""

import os
import pathlib
import subprocess
import sys

import pytest

from conformance.systems import why_not_available

_PRELUDE = """
import gc, os, signal, sys, threading, time
import torch
from conformance.systems import make_system
system = make_system(sys.argv[1])

def f(x, n):
    y = torch.sin(x) * n
    if n > 2:
        y = y + x
    return y
compiled = system.compile(f)
x = torch.arange(4.0)
assert torch.equal(compiled(x, 1), f(x, 1))
"""

_SCENARIOS = {
    "fork": """
child = os.fork()
if child == 0:
    code = 1
    try:
        same = torch.equal(compiled(x, 1), f(x, 1)) and torch.equal(compiled(x, 5), f(x, 5))
        other = system.compile(lambda v: v * 3 + 1)
        code = 0 if same and torch.equal(other(x), x * 3 + 1) else 2
    finally:
        os._exit(code)
_, status = os.waitpid(child, 0)
assert status == 0, status
assert torch.equal(compiled(x, 7), f(x, 7))
""",
    "exit_with_compiled_objects_alive": """
class Holder:
    def __init__(self):
        self.call = system.compile(self.go)
    def go(self, v):
        return v * 2
keep = [Holder() for _ in range(3)]
assert all(torch.equal(h.call(x), x * 2) for h in keep)
sys.modules["kept_for_exit"] = keep
def numbers():
    yield compiled(x, 1)
    yield compiled(x, 2)
half = numbers()
next(half)
""",
    "interrupt": """
def endless(v, log):
    while True:
        log.append(1)
        v = v + 1
        if len(log) > 10**9:
            return v
        if len(log) % 1000 == 0:
            time.sleep(0.001)
log = []
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    system.compile(endless)(x, log)
    raise AssertionError("not interrupted")
except KeyboardInterrupt:
    pass
assert log
assert torch.equal(compiled(x, 3), f(x, 3))
""",
    "threads": """
failures = []
state = threading.local()
def g(v, local):
    return v * local.n + len(local.items)
shared = system.compile(g)
def work(number):
    try:
        state.n, state.items = number, list(range(number))
        for turn in range(100):
            if turn == 50:
                state.items.append(0)
            assert torch.equal(shared(x, state), g(x, state)), (number, turn)
            assert torch.equal(compiled(x, turn % 4), f(x, turn % 4))
    except BaseException as error:
        failures.append(error)
threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
[t.start() for t in threads]
[t.join() for t in threads]
assert not failures, failures
""",
    "a_thousand_calls": """
class State:
    def __init__(self):
        self.n = 1
        self.items = []
s = State()
def g(v):
    s.n += 1
    s.items = [v * 2]
    return s.items[0] + len(s.items)
many = system.compile(g)
for _ in range(100):
    many(x); compiled(x, 1); compiled(x, 3)
gc.collect()
before, references = len(gc.get_objects()), sys.getrefcount(x)
for _ in range(1000):
    many(x); compiled(x, 1); compiled(x, 3)
gc.collect()
assert len(gc.get_objects()) - before < 20, len(gc.get_objects()) - before
assert sys.getrefcount(x) == references
""",
    "compile_objects_are_freed": """
import weakref
def build():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(4))
        def forward(self, v):
            return v * self.w
    model = Model()
    call = system.compile(model)
    assert torch.equal(call(x), x)
    return weakref.ref(model), weakref.ref(model.w)
references = [build() for _ in range(5)]
system.reset()
gc.collect()
assert all(m() is None and w() is None for m, w in references), references
""",
}


@pytest.mark.parametrize("scenario", _SCENARIOS)
@pytest.mark.parametrize("system", ["python", "framefuse"])
def test_scenario(system, scenario):
    reason = why_not_available(system)
    if reason:
        pytest.skip(reason)
    tests_folder = pathlib.Path(__file__).parents[1]
    paths = os.pathsep.join([str(tests_folder), os.environ.get("PYTHONPATH", "")])
    script = _PRELUDE + _SCENARIOS[scenario] + "\nprint('done', flush=True)\n"
    done = subprocess.run(
        [sys.executable, "-c", script, system],
        env=dict(os.environ, PYTHONPATH=paths),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == "done\n" and done.returncode == 0, (done.returncode, done.stdout, done.stderr[-2000:])
    assert "Error" not in done.stderr, done.stderr[-2000:]
