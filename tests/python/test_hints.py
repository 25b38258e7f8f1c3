"""The hint of each kind of graph break is for the code at hand: who does what it says sees no break any more.

A program is what broke, what the log must say of it, and the program after the advice was followed. The mistakes of
docs/messages.md are in test_messages.py.
"""

import contextlib
import datetime
import io
import itertools
import random
import re
import threading
import time

import framefuse
import numpy as np
import pytest
import torch
from test_messages import CALLS, X, check, outcome
from torch import nn

LOCK = threading.Lock()
STEP = [1.0]


@pytest.fixture(autouse=True)
def afresh():
    framefuse.reset()


def test_the_largest_of_tensors():
    def wrong(x):
        return max(x[0], x[1]) + min(x[2], x[3])

    def right(x):
        return torch.maximum(x[0], x[1]) + torch.stack([x[2], x[3]]).amin(0)

    check(wrong, ["max() of tensors", "torch.maximum(a, b)", "min() of tensors", "torch.stack(values).amin(0)"], right)


def test_sorting_tensors():
    def wrong(x):
        return sorted(list(x))[0]

    def right(x):
        return torch.sort(x).values[0]

    check(wrong, ["sorted() of tensors", "torch.sort()"], right)


def test_a_tensor_in_a_list():
    def wrong(x):
        return x if x[0] in [x[1], x[2]] else -x

    def right(x):
        return torch.where((torch.stack([x[1], x[2]]) == x[0]).any(), x, -x)

    check(wrong, ["`in` asks for the values of tensors", "(torch.stack(values) == x).any()"], right)


def test_a_tensor_of_tensors():
    def wrong(x):
        return torch.tensor([x[0].item(), x[1].item()])

    def right(x):
        return torch.stack([x[0], x[1]])

    check(wrong, ["torch.tensor([x[0].item(), x[1].item()])", "torch.stack(values)"], right)


def test_how_often_a_loop_runs():
    def wrong(x):
        for _ in range(int(x[1])):
            x = x * 2
        return x

    def right(x):
        count = x[1]
        for step in range(3):
            x = torch.where(step < count, x * 2, x)
        return x

    check(wrong, ["range(int(x[1]))", "how often the loop runs depends on a value"], right)
    assert torch.equal(right(X), wrong(X))


def test_a_loop_that_values_end():
    def wrong(x):
        while x.sum() < 50:
            x = x * 2
        return x

    def right(x):
        for _ in range(4):
            x = torch.where(x.sum() < 50, x * 2, x)
        return x

    check(wrong, ["while x.sum() < 50", "a loop that values end", "do a fixed number of steps"], right)
    assert torch.equal(right(X), wrong(X))


@pytest.mark.parametrize("word", ["and", "or"])
def test_conditions_on_several_tensors(word):
    def both(x):
        if x.sum() > 0 and x.mean() < 9:
            return x + 1
        return x - 1

    def either(x):
        if x.sum() < 0 or x.mean() < 9:
            return x + 1
        return x - 1

    def right(x):
        first = x.sum() > 0
        second = x.mean() < 9
        return torch.where(first & second if word == "and" else ~first | second, x + 1, x - 1)

    check(both if word == "and" else either, ["and, or, not ask each tensor for its truth", "torch.logical_and"], right)


def test_comparing_whole_tensors():
    def wrong(x):
        return x + 1 if torch.equal(x, x * 1) else x

    def wrong_too(x):
        return x + 1 if torch.allclose(x, x * 1) else x

    def right(x):
        return torch.where((x == x * 1).all(), x + 1, x)

    def right_too(x):
        return torch.where(torch.isclose(x, x * 1).all(), x + 1, x)

    check(wrong, ["torch.equal(x, x * 1)", "(a == b).all() stays a tensor"], right)
    framefuse.reset()
    check(wrong_too, ["torch.allclose(x, x * 1)", "torch.isclose(a, b).all() stays a tensor"], right_too)


def test_a_list_of_values():
    def wrong(x):
        return x * sum(x.tolist())

    def right(x):
        return x * x.sum()

    check(wrong, ["x.tolist()", "leave out .tolist() and use torch's own functions"], right)


def test_texts_of_tensors():
    def wrong(x):
        with contextlib.redirect_stdout(STREAM):
            print(f"{x.mean():.3f}", str(x))
        return x * 2

    def right(x):
        if not torch.compiler.is_compiling():
            print(f"{x.mean():.3f}", str(x))
        return x * 2

    says = ['f"{x.mean():.3f}"', "formatting a tensor", "called from", "make the text outside of the compiled function"]
    check(lambda x: (f"{x.mean():.3f}", str(x), x * 2), ["make the text outside", "called from"], right)
    framefuse.reset()
    changes, text = outcome(lambda x: (f"{x.mean():.3f}", x * 2), ((X,),))
    assert changes == 1 and says[1] in text and says[3] in text


STREAM = io.StringIO()


def test_time():
    def wrong(x):
        time.sleep(0)
        return x * 2, str(datetime.datetime.now())

    def right(x, now):
        return x * 2, now

    says = ["time.sleep(0)", "wait outside of the compiled function", "datetime.datetime.now", "take the time outside"]
    check(wrong, says, right, right_calls=((X, "now"),) * CALLS)


def test_random_numbers_of_numpy():
    def wrong(x):
        return x * np.random.rand()

    def right(x):
        return x * torch.rand(())

    np.random.rand()  # that is when numpy.random is imported
    check(wrong, ["np.random.rand()", "numpy.random.RandomState.rand", "draw with torch"], right)


def test_seeds_of_others():
    def wrong(x):
        random.seed(0)
        np.random.seed(0)
        return x * 2

    def right(x):
        return x * 2

    np.random.seed(0)  # that is when numpy.random is imported
    changes, text = outcome(wrong, ((X,),))
    assert changes == 2
    assert [line for line in text.splitlines() if "  hint: " in line and "see the" not in line] == ["  hint: seed outside of the compiled function"] * 2
    framefuse.reset()
    check(wrong, ["random.seed(0)", "np.random.seed(0)"], right)


def test_locks_and_threads():
    def wrong(x):
        with LOCK:
            y = x * 2
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()
        return y

    def right(x):
        return x * 2

    check(wrong, ["with LOCK:", "take the lock outside of the compiled function", "thread.start()", "start threads"], right)


def test_searching_texts():
    def wrong(x, name):
        return x * int(re.match("[a-z]+([0-9]+)", name).group(1))

    def right(x, number):
        return x * number

    says = ["re.match(", "search texts outside of the compiled function, and pass what was found"]
    check(wrong, says, right, ((X, "row3"),) * CALLS, ((X, 3),) * CALLS)


def test_files(tmp_path):
    path = str(tmp_path / "x.pt")
    torch.save(X, path)

    def wrong(x):
        torch.save(x, path)
        return x + torch.load(path)

    def right(x, loaded):
        return x + loaded

    check(wrong, ["torch.save(x, path)", "torch.load(path)", "save and load outside of the compiled function"], right, right_calls=((X, X),) * CALLS)
    (tmp_path / "scale").write_text("2")

    def reads(x):
        return x * float(open(tmp_path / "scale").read())

    framefuse.reset()
    check(reads, ["open the file outside of the compiled function: pass what is read"], lambda x, scale: x * scale, right_calls=((X, 2.0),) * CALLS)


@pytest.mark.compiles_nothing("compiles in a process of its own")
def test_writing_to_the_standard_streams(fresh_python, tmp_path):
    program = """
import sys, torch, framefuse
def wrong(x):
    sys.stdout.write("a row\\n")
    return x * 2
def right(x):
    if not torch.compiler.is_compiling():
        sys.stdout.write("a row\\n")
    return x * 2
report, after = framefuse.explain(wrong)(torch.ones(2)), framefuse.explain(right)(torch.ones(2))
print({reason.hint for reason in report.break_reasons}, after.graph_break_count)
"""
    hint = "write it outside of the compiled function, or only where it is not captured: if not torch.compiler.is_compiling(): …"
    (tmp_path / "program.py").write_text(program)
    assert fresh_python("import program") == f"a row\n{ {hint} } 0\n"


def test_the_next_of_an_iterator():
    numbers = itertools.count()

    def wrong(x):
        return x * next(numbers)

    def right(x, number):
        return x * number

    says = ["next(numbers)", "call next() before the compiled function, and pass what it gives"]
    check(wrong, says, right, right_calls=[(X, torch.tensor(n)) for n in range(CALLS)])


def test_a_generator_that_was_started():
    def wrong(x, parts):
        for part in parts:
            x = x + part
        return x

    calls = [(X, (n for n in (1, 2))) for _ in range(CALLS)]
    right_calls = [(X, [1, 2]) for _ in range(CALLS)]
    check(wrong, ["for part in parts:", "turn it into a list or tuple before the call"], wrong, calls, right_calls)


def test_a_loop_that_goes_on_after_a_break():
    def looped(x):
        for layer in layers:
            x = layer(x)
            if prints:
                print("layer")
        return x

    layers = nn.ModuleList([nn.Linear(6, 6), nn.Linear(6, 6)])
    prints = True
    report = framefuse.explain(looped)(X)
    hints = [reason.hint for reason in report.break_reasons if "left in the middle" in reason.reason]
    assert hints and set(hints) == {"it follows from the graph break inside of the loop: without that one it goes, too"}
    prints = False
    assert framefuse.explain(looped)(X).graph_break_count == 0


def test_other_devices():
    def wrong(x):
        return x * 2, x.to("meta")

    changes, text = outcome(wrong, ((X,),))
    assert changes > 0 and "tensors on the CPU and on CUDA are captured: move the others out" in text


def hints_of_recompiles(function, *calls, **options):
    compiled = framefuse.compile(function, **options)
    with framefuse.capture_logs("recompiles") as records:
        for args in calls:
            compiled(*args)
    return [[line.removeprefix("  hint: ") for line in text.splitlines() if line.startswith("  hint: ")] for _, text in records]


def test_a_size_that_changes():
    def function(x):
        return x * 2

    marked = torch.ones(3)
    framefuse.mark_dynamic(marked, 0)
    hint = "a size that changes becomes symbolic at its first change, unless dynamic=False is set; framefuse.mark_dynamic(x, dim) before the first call saves that capture, too"
    assert hints_of_recompiles(function, *[(torch.ones(n),) for n in (3, 4, 5, 6)]) == [[hint]]
    framefuse.reset()
    assert hints_of_recompiles(function, (marked,), *[(torch.ones(n),) for n in (4, 5, 6)]) == []
    framefuse.reset()
    assert hints_of_recompiles(function, *[(torch.ones(n),) for n in (3, 4, 5)], dynamic=False) == [[hint], [hint]]


def test_each_reason_of_a_recompilation_has_its_hint():
    def function(x, scale, mode):
        return x * scale if mode == "a" else x + scale

    calls = [(X, 2.0, "a"), (X, 2.0, "b"), (X, 3.0, "c"), (X, torch.ones(()), "a")]
    hints = hints_of_recompiles(function, *calls)
    assert [len(of_one) for of_one in hints] == [1, 2, 2]
    assert all("each string is compiled for itself" in " ".join(of_one) for of_one in hints[:2])
    assert "a number that changes becomes symbolic" in " ".join(hints[1]) and "it is a tensor in one call and none in another: pass a tensor always" in hints[2]
    framefuse.reset()
    assert hints_of_recompiles(function, *[(X, torch.ones(()), "a")] * 4) == []


def test_what_did_not_fit_is_said_once():
    def function(x, y):
        return x + y

    compiled = framefuse.compile(function)
    with framefuse.capture_logs("recompiles") as records:
        for x in (X, X.double(), X.half(), X.int()):
            compiled(x, x)
    lines = records[-1][1].splitlines()
    assert len(lines) == len(set(lines))


class Scales(nn.Module):
    def forward(self, x, mask=None):
        return x * 2 if mask is None else x * mask


def with_hook():
    module = Scales()
    module.register_forward_hook(lambda *args: None)
    return module


def in_another_state(call):
    with torch.autocast("cpu"):
        return call(X)


TIMES = torch.ones(2, 3)
SAME = torch.ones(3)

# What is called; how it is called first, and then otherwise; what is said of that; how to call it instead of that.
RECOMPILES = {
    "functions": (lambda x, f: f(x), [(X, torch.sin), (X, torch.cos)], "each object is compiled for itself", [(X, torch.sin)] * 2),
    "code": (lambda x, f: f(x), [(X, lambda x: x + 1), (X, lambda x: x + 2)], "define it once, outside of the loop", [(X, torch.sin)] * 2),
    "dtypes": (lambda x, t: x.to(t), [(X, torch.float64), (X, torch.float16)], "each dtype is compiled for itself", [(X, torch.float64)] * 2),
    "devices": (lambda x, d: x.to(d), [(X, torch.device("cpu")), (X, "cpu")], "each device is compiled for itself", [(X, "cpu")] * 2),
    "strides": (lambda x: x * 2, [(TIMES,), (torch.ones(3, 2).t(),)], "contiguous() before the call", [(TIMES,), (torch.ones(3, 2).t().contiguous(),)]),
    "memory": (lambda x, y: x.add_(y), [(SAME, SAME.clone()), (SAME, SAME)], "tensors that share memory", [(SAME, SAME.clone())] * 2),
    "classes": (lambda x: x * 2, [(X,), (nn.Parameter(X),)], "each class of tensors", [(X,), (nn.Parameter(X).detach(),)]),
    "arrays": (lambda x, a: x * a[0], [(X, np.ones(2)), (X, np.zeros(2))], "torch.from_numpy(a)", [(X, torch.ones(2)), (X, torch.zeros(2))]),
    "arguments": (Scales(), [(X,), (X, X)], "call it always in the same way", [(X, X)] * 2),
    "none": (lambda x, m: x if m is None else x * m, [(X, None), (X, X)], "pass a tensor always", [(X, X)] * 2),
}


@pytest.mark.parametrize("name", RECOMPILES)
def test_what_a_recompilation_advises(name):
    function, calls, says, right_calls = RECOMPILES[name]
    hints = hints_of_recompiles(function, *calls)
    assert len(hints) == 1 and says in " ".join(hints[0])
    framefuse.reset()
    assert hints_of_recompiles(function, *right_calls) == []


def test_hooks_and_states_of_torch():
    module = Scales()
    compiled = framefuse.compile(module)
    with framefuse.capture_logs("recompiles") as records:
        compiled(X)
        module.register_forward_hook(lambda *args: None)
        compiled(X)
        in_another_state(compiled)
    texts = [text for _, text in records]
    assert len(texts) == 2 and "register hooks before the first call" in texts[0] and "each state of torch" in texts[1]
    framefuse.reset()
    in_one_state = with_hook()
    assert hints_of_recompiles(in_one_state, (X,), (X,)) == []


def test_what_a_recompilation_names():
    def texts(function, *calls):
        compiled = framefuse.compile(function)
        with framefuse.capture_logs("recompiles") as records:
            for args in calls:
                compiled(*args)
        return records[-1][1]

    assert "L['t'] == torch.float64 failed: torch.float16" in texts(lambda x, t: x.to(t), (X, torch.float64), (X, torch.float16))
    assert "L['f'] is torch.sin failed: torch.cos" in texts(lambda x, f: f(x), (X, torch.sin), (X, torch.cos))
    assert "is <code of <lambda> (test_hints.py:" in texts(lambda x, f: f(x), (X, lambda x: x + 1), (X, lambda x: x * 1))
    assert "tensor 'L['x']' dtype mismatch" in texts(Scales(), (X,), (X.double(),))  # forward's name for it
