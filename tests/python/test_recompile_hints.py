"""The hint of each kind of failed guard: what it says of the code at hand, and that nothing is compiled again where it was followed."""

import framefuse
import numpy as np
import pytest
import torch
from test_messages import X
from torch import nn


@pytest.fixture(autouse=True)
def afresh():
    framefuse.reset()


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
    assert "is <code of <lambda> (test_recompile_hints.py:" in texts(lambda x, f: f(x), (X, lambda x: x + 1), (X, lambda x: x * 1))
    assert "tensor 'L['x']' dtype mismatch" in texts(Scales(), (X,), (X.double(),))  # forward's name for it
