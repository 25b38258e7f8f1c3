"""Small programs with the usual mistakes: the message names the place and the way out, and who takes it sees nothing more.

docs/messages.md shows them beside torch.compile's. A program is what a new user writes, what the message must say, and the program
after the advice was followed.
"""

import logging
import math
import random
import zlib

import framefuse
import numpy as np
import pytest
import torch
from torch import nn

X = torch.arange(1.0, 7.0)
LOGGER = logging.getLogger("framefuse_messages")
CALLS = 4


@pytest.fixture(autouse=True)
def afresh():
    framefuse.reset()


def outcome(function, calls, **options):
    """(breaks and recompiles of the calls, their log)."""
    compiled = framefuse.compile(function, **options)
    before = framefuse.statistics()
    with framefuse.capture_logs("graph_breaks", "recompiles", "fallbacks") as records:
        for args in calls:
            compiled(*args)
    after = framefuse.statistics()
    changes = sum(after[name] - before[name] for name in ("graph_breaks", "recompiles"))
    return changes, "\n".join(text for _, text in records)


def check(wrong, says, right, calls=((X,),) * CALLS, right_calls=None, **options):
    """`says`: what the log must have of reason, place and hint; `right` has neither break nor recompile."""
    changes, text = outcome(wrong, calls, **options)
    assert changes > 0
    for part in says:
        assert part in text
    framefuse.reset()
    changes, text = outcome(right, calls if right_calls is None else right_calls, **options)
    assert (changes, text) == (0, "")


def test_print():
    def wrong(x):
        y = x.sin()
        print("sum", y.sum())
        return y * 2

    def right(x):
        y = x.sin()
        if not torch.compiler.is_compiling():
            print("sum", y.sum())
        return y * 2

    check(wrong, ["builtins.print", 'print("sum", y.sum())', "in wrong", "if not torch.compiler.is_compiling(): print"], right)


def test_item():
    def wrong(x):
        return x * x.sum().item()

    def right(x):
        return x * x.sum()

    assert outcome(wrong, ((X,),) * CALLS) == (0, "")  # the graph computes it
    check(wrong, ["turned into a Python number", "x.sum().item()", "leave out .item()"], right, dynamic=False)


def test_branch_on_a_value():
    def wrong(x):
        if x.sum() > 0:
            return x * 2
        return x - 1

    def right(x):
        return torch.where(x.sum() > 0, x * 2, x - 1)

    def right_too(x):
        return framefuse.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))

    says = ["a branch on the value of a tensor", "if x.sum() > 0:", "torch.where(condition, a, b)", "framefuse.cond"]
    check(wrong, says, right)
    framefuse.reset()
    check(wrong, says, right_too)


def test_numpy():
    def wrong(x):
        return torch.as_tensor(np.unique(x.numpy())) + 1

    def right(x):
        return torch.unique(x) + 1

    check(wrong, ["np.unique(x.numpy())", "unique", "use torch's function in the place of NumPy's"], right)


def test_writing_a_file(tmp_path):
    path = tmp_path / "log.txt"

    def wrong(x):
        y = x.sin()
        with open(path, "a") as file:
            file.write("a row\n")
        return y * 2

    def right(x):
        y = x.sin()
        return y * 2, "a row\n"

    check(wrong, ["io.open", "open(path", "open the file outside", "_io.TextIOWrapper.write", "read and write the file outside"], right)


def test_a_mask_as_an_index():
    def wrong(x):
        return x[x > 2].sum()

    def right(x):
        return torch.where(x > 2, x, 0).sum()

    assert outcome(wrong, ((X,),) * CALLS) == (0, "")  # the graph computes the size
    check(wrong, ["x[x > 2]", "torch.where(mask, x, 0)"], right, dynamic=False)


def test_a_growing_list():
    history = []

    def wrong(x):
        history.append(x.mean())
        return torch.stack(history).sum()

    def right(x, total):
        return total + x.mean()

    total = torch.zeros(())
    check(wrong, ["len(", "each length of a container is compiled for itself"], right, right_calls=((X, total),) * CALLS)


def test_an_int_that_counts_up():
    def wrong(x, step):
        return x * math.factorial(step)

    def right(x, factor):
        return x * factor

    says = ["step'] == 0 failed: 1", "pass it as a tensor"]
    check(wrong, says, right, [(X, step) for step in range(CALLS)], [(X, torch.tensor(math.factorial(step))) for step in range(CALLS)])


def test_a_new_string_each_call():
    def wrong(x, name):
        return x + len(name)

    def right(x, length):
        return x + length

    calls = [(X, f"row {'x' * n}") for n in range(CALLS)]
    check(wrong, ["'row '", "each string is compiled for itself"], right, calls, [(X, torch.tensor(len(name))) for _, name in calls])


FLAG = False


def test_a_global_flag():
    global FLAG

    def wrong(x):
        return x * 2 if FLAG else x * 3

    def right(x, scale):
        return x * scale

    compiled = framefuse.compile(wrong)
    with framefuse.capture_logs("recompiles") as records:
        for FLAG in (False, True, False, True):
            compiled(X)
    assert len(records) == 1 and "G['FLAG'] is False failed: True" in records[0][1]
    assert "both values of a flag are compiled for themselves: that is once each" in records[0][1]
    assert outcome(right, [(X, torch.tensor(n)) for n in (3, 2, 3, 2)]) == (0, "")


def test_dtypes():
    def wrong(x):
        return x.sin() * 2

    mixed = [(X,), (X.double(),), (X,), (X.double(),)]
    converted = [(x.float(),) for (x,) in mixed]
    check(wrong, ["dtype mismatch", "convert the tensor before the call"], wrong, mixed, converted)


def test_train_and_eval():
    model = nn.Sequential(nn.Linear(6, 3), nn.Dropout(0.5))
    compiled = framefuse.compile(model)
    with framefuse.capture_logs("recompiles") as records:
        for training in (True, False, True, False):
            model.train(training)
            compiled(X)
    assert len(records) == 1 and "train() and eval() are compiled for themselves: that is once each" in records[0][1]


def test_a_function_of_c():
    def wrong(x):
        return x * 2 * len(zlib.compress(b"abc"))

    def right(x, number):
        return x * 2 * number

    number = len(zlib.compress(b"abc"))
    check(wrong, ["zlib.compress", "call it before the compiled function and pass its result"], right, right_calls=((X, number),) * CALLS)


def test_a_function_of_c_that_makes_tensors():
    @torch.library.custom_op("framefuse_messages::unwrapped", mutates_args=())
    def make_unwrapped(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(np.unwrap(x.numpy()))

    @make_unwrapped.register_fake
    def _(x):
        return torch.empty_like(x)

    def wrong(x):
        return torch.from_numpy(np.unwrap((x * 2).numpy())) + 1

    def right(x):
        return make_unwrapped(x * 2) + 1

    check(wrong, ["np.unwrap", "call NumPy outside"], right)


def test_a_tensor_as_a_key():
    table = {}

    def function(x):
        table[x] = 1
        return x * table[x]

    changes, text = outcome(function, ((X,),) * CALLS)
    assert changes == 1  # the table is empty in the first call alone: nothing to change
    assert "list(" in text and "that is once, unless they go on changing" in text


def test_an_optimizer_that_reads_values():
    weight = nn.Parameter(torch.ones(6))
    optimizer = torch.optim.LBFGS([weight])

    def loss_of(x):
        return ((weight * x) ** 2).sum()

    def wrong(x):
        def closure():
            optimizer.zero_grad()
            loss = loss_of(x)
            loss.backward()
            return loss

        return optimizer.step(closure)

    changes, text = outcome(wrong, ((X,),))
    assert changes > 0
    assert "this optimizer reads the values of tensors as it goes" in text and "in wrong" in text  # Dynamo, once used, disables step
    framefuse.reset()
    compiled = framefuse.compile(loss_of, fullgraph=True)

    def closure():
        optimizer.zero_grad()
        loss = compiled(X)
        loss.backward()
        return loss

    before = framefuse.statistics()
    optimizer.step(closure)
    after = framefuse.statistics()
    assert [after[name] - before[name] for name in ("graph_breaks", "recompiles")] == [0, 0]
    assert after["captures"] == before["captures"] + 1


def test_numbers_of_python_that_are_random():
    def wrong(x):
        return x * random.choice([1.0, 2.0])

    def right(x):
        return x * torch.rand(())

    check(wrong, ["state of a random number generator", "draw with torch"], right)


def test_a_break_in_a_loop_of_a_library_follows_from_another():
    class Prints(nn.Module):
        def forward(self, x):
            if prints:
                print(x.sum())
            return x * 2

    model = nn.Sequential(Prints(), Prints())
    prints = True
    report = framefuse.explain(model)(X)
    hints = [reason.hint for reason in report.break_reasons if reason.user_stack[-1].filename.endswith("container.py")]
    assert hints[:1] == ["it follows from the graph break inside of the loop: without that one it goes, too"]
    prints = False
    assert framefuse.explain(model)(X).graph_break_count == 0


def test_seeds():
    def wrong(x):
        torch.manual_seed(0)
        return x + torch.rand(6)

    def right(x):
        return x + torch.rand(6)

    check(wrong, ["torch.manual_seed(0)", "called from", "seed outside of the compiled function"], right)


def test_logging_is_left_alone():
    def function(x):
        LOGGER.debug("a row of %s", x)
        return x.sin()

    LOGGER.debug("keeps its level")  # from the first call on
    assert outcome(function, ((X,),) * CALLS)[0] == 0


def test_a_place_in_a_library_names_the_users_line():
    def train(x):
        torch.manual_seed(0)
        return x + 1

    with pytest.raises(framefuse.Unsupported) as error:
        framefuse.compile(train, fullgraph=True)(X)
    assert "torch/" in str(error.value) and f"called from {__file__}" in str(error.value)
    stack = framefuse.explain(train)(X).break_reasons[0].user_stack
    assert stack[0].name == "train" and len(stack) > 1 and stack[0].line == "torch.manual_seed(0)"
