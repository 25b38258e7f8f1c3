"""The hint of each kind of graph break is for the code at hand: who does what it says sees no break any more.

A program is what broke, what the log must say of it, and the program after the advice was followed. The mistakes of
docs/messages.md are in test_messages.py.
"""

import copy
import datetime
import functools
import itertools
import random
import re
import threading
import time
import uuid

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
        return torch.tensor([x[0].item(), x[1].item()], dtype=torch.int64)

    def right(x):
        return torch.stack([x[0], x[1]]).long()

    check(wrong, ["torch.tensor([x[0].item(), x[1].item()], dtype=torch.int64)", "torch.stack(values)"], right)


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
    """In a loop that changes them; one comparison of what came in is guarded."""

    def wrong(x):
        for _ in range(3):
            x = x + 1
            if torch.equal(x, x * 1):
                x = x * 2
        return x

    def wrong_too(x):
        for _ in range(3):
            x = x + 1
            if torch.allclose(x, x * 1):
                x = x * 2
        return x

    def right(x):
        for _ in range(3):
            x = x + 1
            x = torch.where((x == x * 1).all(), x * 2, x)
        return x

    def right_too(x):
        for _ in range(3):
            x = x + 1
            x = torch.where(torch.isclose(x, x * 1).all(), x * 2, x)
        return x

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
        return f"{x.mean():.3f}", str(x), x * 2

    def right(x):
        if not torch.compiler.is_compiling():
            return f"{x.mean():.3f}", str(x), x * 2
        return x * 2

    says = ['f"{x.mean():.3f}"', "formatting a tensor", "called from", "make the text outside of the compiled function"]
    check(wrong, says, right)


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
        return x * np.random.choice([1.0, 2.0])

    def right(x):
        return x * torch.rand(())

    np.random.rand()  # that is when numpy.random is imported
    check(wrong, ["np.random.choice(", "numpy.random.RandomState.choice", "draw with torch"], right)


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
        return x * int(re.compile("[a-z]+([0-9]+)").scanner(name).match().group(1))

    def right(x, number):
        return x * number

    says = [".scanner(", "search texts outside of the compiled function, and pass what was found"]
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


def test_calls_that_end_in_a_library():
    def wrong(x):
        return x + len(str(uuid.uuid4()))

    def right(x, length):
        return x + length

    hint = "hint: do it outside of the compiled function, and pass what it gives: uuid.uuid4()"
    check(wrong, ["called from", hint], right, right_calls=((X, 36),) * CALLS)


def test_numbers_in_texts_and_rounded():
    def wrong(x):
        return x * 2, "loss %.2f" % x.mean(), f"loss {x.mean().item():.2f}"

    def wrong_too(x):
        return x * round(x.mean().item(), int(x[0]))

    def right(x):
        return x * torch.round(x.mean(), decimals=1)

    _, text = outcome(wrong, ((X,),))
    hints = [line for line in text.splitlines() if line.startswith("  hint: ")]
    assert len(hints) == 2 and all("make the text outside of the compiled function" in hint for hint in hints)
    framefuse.reset()
    check(wrong_too, ["round(x.mean().item(), int(x[0]))", "torch.round(x, decimals=n)"], right)


def test_what_is_made_in_the_function():
    batches = torch.utils.data.DataLoader(torch.ones(4, 6), batch_size=2)

    def trains(x):
        for batch in batches:
            x = x + batch.sum()
        return x

    def makes(x):
        return nn.Linear(6, 2)(x)

    def copies(x):
        return copy.deepcopy(LAYER)(x)

    def right(x, batch):
        return x + LAYER(batch)

    given = ((X[:2], torch.ones(2, 6)[0]),) * CALLS
    check(trains, ["take the batches outside of the compiled function, and pass each"], right, right_calls=given)
    framefuse.reset()
    check(makes, ["make and copy modules and parameters outside of the compiled function"], right, right_calls=given)
    framefuse.reset()
    check(copies, ["make and copy modules and parameters outside of the compiled function"], right, right_calls=given)


LAYER = nn.Linear(6, 2)


@functools.lru_cache
def doubled(x):
    return x * 2


def test_a_cache_of_tensors():
    def wrong(x):
        return doubled(x)

    def right(x):
        return doubled.__wrapped__(x)

    check(wrong, ["function.__wrapped__"], right)


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


def marked(x):
    framefuse.mark_dynamic(x, 0)
    return x + 1


def test_a_mark_inside():
    def as_torch_spells_it(x):
        y = x.sin()
        torch._dynamo.mark_dynamic(y, 0, min=2, max=9)
        return y * 2

    def right(x):
        return x.sin() * 2

    says = ["a Python attribute set on a tensor: framefuse._control.mark_dynamic", "mark the tensor before"]
    check(as_torch_spells_it, [*says, "torch._dynamo.mark_dynamic(y, 0", "test_hints.py", "in as_torch_spells_it"], right)
    framefuse.reset()
    before = framefuse.statistics()["graph_breaks"]
    x = torch.ones(3)
    assert torch.equal(framefuse.compile(marked)(x), x + 1) and x._dynamo_dynamic_indices == {0}
    assert framefuse.statistics()["graph_breaks"] == before + 1
    (told,) = framefuse.explain(marked)(torch.ones(3)).break_reasons
    assert "mark_dynamic" in str(told) and "test_hints.py" in str(told)
    with pytest.raises(framefuse.Unsupported, match="mark_dynamic") as refused:
        framefuse.compile(marked, fullgraph=True)(torch.ones(3))
    assert all(part in str(refused.value) for part in ("in marked", "framefuse.mark_dynamic(x, 0)", "mark the tensor before"))
