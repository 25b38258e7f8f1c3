"""The zoo's judge itself: systems that are wrong in one known way must be seen, and the model as it is must pass.

Invariant: the judge knows no mutant; they are systems like any other.
"""

import contextlib
import os
import signal
import time

import pytest
import torch

from zoo import command_line, judge, one_model, systems
from zoo.one_model import (
    CRASH,
    ERROR,
    MISSED,
    NOTHING,
    OK,
    ROUNDING,
    TIMEOUT,
    TOLD,
    WRONG,
    SingleDraws,
    double_reference,
    reference,
    run_model,
    run_system,
    told_that_it_compiles,
)
from zoo.process import End, Limits, run_children
from zoo.roundings import RoundedOtherwise
from zoo.shrink import small
from zoo.zoo_model import Built, Skip, ZooModel


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)

    def forward(self, x):
        hidden = torch.nn.functional.dropout(self.norm(self.first(x)).relu(), 0.2, self.training)
        return {"logits": self.last(hidden), "hidden": [hidden], "kind": "small"}


def built():
    torch.manual_seed(0)
    x = torch.randn(8, 6)
    return Built(Small(), lambda batch, training: ((x[:batch],), {}))


class Mutant(systems.Eager):
    """Wraps each call; says that it compiled something at the first one."""

    def __init__(self, change, operations=3, captures=(1, 0, 1)):
        self._change, self._operations, self._captures = change, operations, list(captures)

    def compile(self, model):
        return lambda *args: self._change(model, *args)

    @contextlib.contextmanager
    def watch(self):
        captures = self._captures.pop(0)
        yield systems.Seen(captures=captures, operations=self._operations, graphs=1)


def judged(change, training, **settings):
    model = built()
    eager, double = reference(model, training), double_reference(model, training)
    return run_system(Mutant(change, **settings), model, training, eager, double)


def same(model, x):
    return model(x)


def off_by_a_little(model, x):
    out = model(x)
    return {**out, "logits": out["logits"] * 1.001}


def lost_key(model, x):
    out = model(x)
    return {k: v for k, v in out.items() if k != "hidden"}


def other_type(model, x):
    out = model(x)
    return {**out, "logits": out["logits"].double()}


def other_text(model, x):
    return {**model(x), "kind": "large"}


def cut_gradient(model, x):
    out = model(x)
    return {**out, "logits": out["logits"] + 0 * model.last.bias.detach() - model.last.bias + model.last.bias.detach()}


def forgotten_buffer(model, x):
    before = model.norm.running_mean.clone()
    out = model(x)
    model.norm.running_mean.data.copy_(before)
    return out


def not_a_number(model, x):
    out = model(x)
    return {**out, "logits": out["logits"].index_fill(0, torch.tensor([0]), float("nan"))}


def test_the_model_itself_passes():
    for training in (False, True):
        row = judged(same, training)
        assert row["status"] == OK, row


@pytest.mark.parametrize("change", [off_by_a_little, lost_key, other_type, other_text, not_a_number])
def test_wrong_results_are_seen(change):
    for training in (False, True):
        assert judged(change, training)["status"] == WRONG


@pytest.mark.parametrize("change", [cut_gradient, forgotten_buffer])
def test_wrong_training_is_seen(change):
    assert judged(change, True)["status"] == WRONG


def test_wrong_in_the_second_call_only_is_seen():
    calls = []

    def stale(model, x):
        calls.append(x)
        return off_by_a_little(model, x) if len(calls) == 2 else model(x)

    row = judged(stale, False)
    assert row["status"] == WRONG and all("call 2" in text for text in row["details"][:-1])


def test_rounding_passes():
    def in_another_order(model, x):
        out = model(x)
        return {**out, "logits": model.last(out["hidden"][0].flip(-1).flip(-1) * 3) / 3 + model.last.bias * (2 / 3)}

    assert judged(in_another_order, True)["status"] == OK


@pytest.mark.parametrize(("ours", "status"), [(0.4, OK), (0.6, ROUNDING)])
def test_a_kink_that_only_we_cross_is_rounding_unless_eager_crosses_one_as_large(monkeypatch, ours, status):
    """Eager, a rounding off, has another tensor off by 0.5; in double precision the compiled model is right."""

    def gave(first, second):
        return [one_model.Call([], [(".first", torch.tensor([1.0, first])), (".second", torch.tensor([1.0, second]))], [])] * 3

    def run(first, second):
        calls = gave(first, second)
        monkeypatch.setattr(one_model, "call", lambda *args, **kwargs: calls[0])
        monkeypatch.setattr(one_model, "_same_in_double", lambda *args: True)
        return run_system(Mutant(same), built(), True, gave(0.1, 0.1), [one_model.Call([], wide(gave(0.1, 0.1)[0]), [])] * 3)

    def wide(one):
        return [(name, tensor.double()) for name, tensor in one.gradients]

    monkeypatch.setattr(one_model, "reference", lambda *args, **kwargs: gave(0.6, 0.1))
    assert run(0.1, 0.1 + ours)["status"] == status


class Decides(torch.nn.Module):
    """Compares two results that lie one rounding apart, whatever its parameter is."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(()))

    def forward(self, x):
        lower = (x * self.scale).exp()
        higher = torch.nextafter(lower, torch.tensor(torch.inf)) / torch.ones(())
        return torch.where(higher > lower / torch.ones(()), 1.0, 5.0)


@pytest.mark.parametrize(("first", "status"), [(5.0, {OK}), (100.0, {WRONG, ROUNDING})])
def test_a_choice_between_results_one_rounding_apart(first, status):
    def merged(model, x):
        out = model(x)
        return torch.where(torch.arange(out.numel()).view(out.shape) == 0, first * torch.ones(()), out)

    model = Built(Decides(), lambda batch, training: ((torch.linspace(0, 1, 8 * batch),), {}))
    eager, double = reference(model, False), double_reference(model, False)
    row = run_system(Mutant(merged), model, False, eager, double)
    assert row["status"] in status, row["details"]


def test_operations_round_otherwise_by_one_step():
    x = torch.linspace(-2, 2, 900)
    exact = x.exp()
    with RoundedOtherwise(1):
        moved, copied = x.exp(), torch.cat([x, x]).clone()
        x.exp_()
    steps = (moved.view(torch.int32) - exact.view(torch.int32)).unique().tolist()
    assert steps == [-1, 0, 1]
    assert torch.equal(x, exact) and copied.shape == (1800,) and torch.equal(copied[:900].exp(), exact)


def test_the_identity_compiler_compiled_nothing():
    model = built()
    row = run_system(systems.Eager(), model, False, reference(model, False), None)
    assert row["status"] == NOTHING


class AsksWhetherCompiled(Small):
    def forward(self, x):
        out = super().forward(x)
        return {**out, "logits": out["logits"] * (2 if torch.compiler.is_compiling() else 1)}


def test_what_the_model_itself_does_otherwise_is_told_apart():
    def as_told(model, x):
        with told_that_it_compiles():
            return model(x)

    def further(model, x):
        return off_by_a_little(model, x)

    model = built()
    model.model = AsksWhetherCompiled()
    eager, double = reference(model, True), double_reference(model, True)
    for change, status in ((as_told, TOLD), (further, WRONG)):
        assert run_system(Mutant(change), model, True, eager, double)["status"] == status


def test_a_second_capture_is_seen():
    assert judged(same, False, captures=(1, 1, 1))["status"] == MISSED


def test_exceptions_are_seen():
    def raises(model, x):
        raise IndexError("bad")

    row = judged(raises, False)
    assert row["status"] == ERROR and "IndexError: bad" in row["details"][0]


def run_with(change, monkeypatch, seconds=60.0):
    monkeypatch.setattr(systems, "make_system", lambda name: Mutant(change))
    rows = []
    run_model(ZooModel("test", "small", built), ["training"], ["mutant"], Limits(seconds), rows.append)
    return rows


def test_a_child_that_dies_is_a_crash(monkeypatch):
    [row] = run_with(lambda model, x: os.kill(os.getpid(), signal.SIGSEGV), monkeypatch)
    assert row["status"] == CRASH and row["details"][0].startswith("SIGSEGV")


def test_a_child_that_exits_is_a_crash(monkeypatch):
    [row] = run_with(lambda model, x: os._exit(3), monkeypatch)
    assert row["status"] == CRASH and "exit status 3" in row["details"][0]


def test_a_child_that_hangs_is_a_timeout(monkeypatch):
    [row] = run_with(lambda model, x: time.sleep(60), monkeypatch, seconds=0.3)
    assert row["status"] == TIMEOUT


def test_memory_is_limited():
    def eat(reply):
        kept = [bytearray(b"x") * 50_000_000 for _ in range(40)]
        time.sleep(10)
        reply(len(kept))

    [(_, end)] = run_children([("eater", eat)], Limits(60, 1e9))
    assert isinstance(end, End) and end.kind == "memory"


def test_a_model_that_cannot_be_built_is_skipped():
    def refuse():
        raise Skip("too large")

    rows = []
    run_model(ZooModel("test", "none", refuse), ["inference"], ["eager"], Limits(), rows.append)
    assert rows[0]["status"] == "skipped" and "too large" in rows[0]["details"][0]


def test_double_precision_draws_the_same():
    torch.manual_seed(3)
    single = [torch.rand(5), torch.nn.functional.dropout(torch.ones(20), 0.5), torch.randn(4), torch.empty(3).uniform_()]
    torch.manual_seed(3)
    with SingleDraws():
        wide = [torch.rand(5, dtype=torch.float64), torch.nn.functional.dropout(torch.ones(20, dtype=torch.float64), 0.5)]
        wide += [torch.randn(4, dtype=torch.float64), torch.empty(3, dtype=torch.float64).uniform_()]
    for one, other in zip(single, wide, strict=True):
        assert other.dtype == torch.float64 and torch.equal(one.double(), other)


def test_double_precision_acquits_and_convicts():
    exact = torch.tensor([1.0, 2.0], dtype=torch.float64)
    eager, near, far = (exact + 1e-3).float(), (exact - 2e-3).float(), (exact - 1e-2).float()
    for ours, count in ((near, 0), (far, 1)):
        verdict = judge.Verdict()
        judge.compare("outputs", [("", ours)], [("", eager)], [("", exact)], verdict)
        assert len(verdict.differences) == count


def test_operations_in_a_graph_are_counted():
    assert systems.count_operations("f (a.py:3)\ngraph \"g\"\ninput %0: f32[3]\noutput %0 user") == 0
    assert systems.count_operations("%1: f32[3], %2: f32[3] = aten.foo.bar(%0)\naten.add_.Tensor(%1, %2)\n") == 2


def test_settings_are_made_small_by_name():
    assert small("hidden_size", 768) == 32 and small("num_attention_heads", 12) == 4 and small("num_hidden_layers", 12) == 2
    assert small("hidden_sizes", [64, 128, 320, 512]) == [8, 16, 40, 64] and small("layer_norm_eps", 1) == 1


@pytest.mark.parametrize("count", ["0", "-2"])
def test_no_jobs_are_refused(count):
    """They would run nothing, and nothing looks like success."""
    with pytest.raises(SystemExit):
        command_line.main(["--set", "own", "--jobs", count])


@pytest.mark.parametrize("change", [lambda a: a + 1, lambda a: a.astype("float64"), lambda a: a.T.copy().T, lambda a: a.sum()])
def test_arrays_are_judged(change):
    numpy = pytest.importorskip("numpy")
    array = numpy.arange(6, dtype="float32").reshape(2, 3).copy()
    verdicts = []
    for ours in (array.copy(), change(array)):
        verdict = judge.Verdict()
        judge.compare("outputs", judge.kept([ours]), judge.kept([array]), None, verdict)
        verdicts.append(bool(verdict.differences))
    assert verdicts == [False, True]
    number = judge.Verdict()
    judge.compare("outputs", judge.kept(numpy.float32(1)), judge.kept(numpy.float64(1)), None, number)
    assert number.differences


def test_idioms_can_be_built_and_called():
    from zoo import sets_idioms

    models = sets_idioms.all_models()
    assert len({m.name for m in models}) == len(models) > 100
    for model in models[::9]:
        built = model.build()
        args, kwargs = built.inputs(2, False)
        assert torch.equal(args[0], built.inputs(2, False)[0][0])
        built.model(*args, **kwargs)
