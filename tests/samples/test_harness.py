"""The harness itself: compilers that are wrong in one known way must be seen, and the identity must pass.

Invariant: the harness knows no mutant; they are systems like any other.
"""

import argparse
import os
import signal

import pytest
import torch

from samples import judge, page, results
from samples.command_line import run_database
from samples.observation import Observation, copied, nudged_inputs
from samples.one_entry import NOTHING, OK, Runner, selected
from samples.systems import Identity
from zoo import device


class Mutant(Identity):
    """Runs each function through `change`, and says that it compiled something."""

    def __init__(self, change):
        super().__init__()
        self._change = change

    def compile(self, function):
        self.last.nodes = 1
        return lambda *args, **kwargs: self._change(function, *args, **kwargs)


def statuses(change, only="=exp", database="op", dtype=torch.float32, most=4):
    """The status by form."""
    replies = []
    for entry, found in selected(database, [dtype], [only], 0, 1):
        Runner(lambda name: Mutant(change), most).run(database, entry, found, ["mutant"], [], replies.append)
    return {row["form"]: row["status"] for row in replies if "status" in row}


def same(function, *args, **kwargs):
    return function(*args, **kwargs)


def changed(change):
    def called(function, *args, **kwargs):
        return change(function(*args, **kwargs))

    return called


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.complex64])
def test_eager_itself_passes(dtype):
    for only in ("=add", "=sort", "=nn.functional.dropout", "=empty_like"):
        found = statuses(same, only, dtype=dtype)
        assert found or only not in ("=add", "=empty_like")
        assert set(found.values()) <= {OK, NOTHING}, (only, found)


def test_the_identity_compiled_nothing():
    replies = []
    [(entry, dtype)] = selected("op", [torch.float32], ["=exp"], 0, 1)
    Runner(lambda name: Identity()).run("op", entry, dtype, ["eager"], [], replies.append)
    assert {row["status"] for row in replies if "status" in row} == {NOTHING}


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t * 1.001,
        lambda t: t.double(),
        lambda t: t[None],
        lambda t: (t,),
        lambda t: torch.full_like(t, float("nan")),
        lambda t: t.new_empty(t.shape + (2,))[..., 0].copy_(t.detach()) if t.dim() else t + 1,
    ],
)
def test_wrong_results_are_seen(change):
    assert statuses(changed(change))["function"] == "wrong"


def test_a_lost_gradient_is_seen():
    found = statuses(changed(lambda t: t.detach().requires_grad_() if t.requires_grad else t))
    assert found["function backward"] == "wrong" and found["function"] == NOTHING


def test_another_name_of_a_history_is_seen():
    found = statuses(changed(lambda t: t * 1 if t.requires_grad else t))
    assert found["function backward"] == "wrong" and found["function"] == NOTHING


def test_a_wrong_gradient_is_seen():
    found = statuses(changed(lambda t: t * 2 - t.detach() if t.requires_grad else t))
    assert found["function backward"] == "wrong" and found["function"] == NOTHING


def test_a_lost_write_is_seen():
    def on_copies(function, *args, **kwargs):
        return function(*copied(args), **copied(kwargs))

    found = statuses(on_copies)
    assert found["in-place"] == found["out="] == "wrong" and found["function"] == NOTHING


def test_lost_identity_is_seen():
    found = statuses(changed(torch.clone))
    assert found["in-place"] == found["out="] == "wrong" and found["function"] == NOTHING


def test_other_random_numbers_are_seen():
    def draws(function, *args, **kwargs):
        torch.rand(1)
        return function(*args, **kwargs)

    assert statuses(draws)["function"] == "wrong"


def test_what_eager_does_not_repeat_is_compared_without_its_values():
    assert statuses(changed(lambda t: t.fill_(5)), "=empty_like")["function"] == NOTHING
    assert statuses(changed(lambda t: t[..., None]), "=empty_like")["function"] == "wrong"


def test_rounding_passes():
    assert statuses(changed(lambda t: t * (1 + 2e-7)))["function"] == NOTHING


def test_luck_of_a_sum_that_cancels_passes():
    """Eager is on the truth here, and off it by 0.02 from other cotangents: 0.01 is no worse, 0.03 is."""

    def seen(value, dtype=torch.bfloat16):
        observation = Observation()
        observation.add("gradient", torch.tensor(value, dtype=dtype))
        return observation

    def judged(ours):
        others = [(seen(3.0), seen(3.02, torch.float64))]
        return judge.judge(seen(ours), seen(0.0), lambda: [seen(0.0)], lambda: seen(0.0, torch.float64), lambda: others)

    assert judged(0.01) is None
    assert judged(0.03)[0] == "wrong"


def test_rounding_of_what_cancels_passes_in_double_precision():
    """A gradient that is zero but for rounding: as far off as the last bits of the inputs put eager, and no further."""

    def seen(value, dtype=torch.float64):
        observation = Observation()
        observation.add("gradient", torch.tensor(value, dtype=dtype))
        return observation

    def judged(ours, dtype=torch.float64):
        runs = [seen(2e-17, dtype), seen(-3e-17, dtype)]
        eager = seen(0.0, dtype)
        return judge.judge(seen(ours, dtype), eager, lambda: [eager], lambda: seen(1e-17), list, lambda: runs)

    assert judged(1e-17) is None
    assert judged(5e-17)[0] == "wrong"
    assert judged(2e-16, torch.float32)[0] == "wrong"


def test_inputs_are_nudged_by_a_bit():
    x = torch.tensor([1.0, -2.0, 3.0] * 9, dtype=torch.float64, requires_grad=True)
    with nudged_inputs(0):
        near = copied((x, torch.ones(3)))
    assert near[0].requires_grad and not torch.equal(near[0], x) and torch.equal(near[1], torch.ones(3))
    assert float(((near[0] - x) / x).detach().abs().max()) < 3e-16
    assert torch.equal(copied(x), x)


def test_exceptions_are_seen():
    def raises(function, *args, **kwargs):
        raise IndexError("bad")

    def swallows(function, *args, **kwargs):
        try:
            return function(*args, **kwargs)
        except Exception:
            return None

    assert statuses(raises)["function"] == "error"
    assert statuses(swallows, "=cat")["errors"] == "missing error"
    assert statuses(raises, "=cat")["errors"] == "other error"


@pytest.mark.parametrize("database, only", [("module", "=nn.Linear"), ("optim", "=SGD")])
def test_modules_and_optimizers(database, only):
    def off(function, *args, **kwargs):
        with torch.no_grad():
            for number in args:
                number.mul_(1.01)
        return function(*args, **kwargs)

    assert set(statuses(same, only, database).values()) == {NOTHING}
    assert "wrong" in statuses(off, only, database).values()


def test_a_child_that_dies_is_a_row_and_the_next_form_is_run():
    def dies(function, *args, **kwargs):
        if "out" in kwargs:
            os.kill(os.getpid(), signal.SIGSEGV)
        return function(*args, **kwargs)

    chosen = argparse.Namespace(part="0/1", dtype="float32", only="=exp", backend="mutant", seconds=60, gigabytes=6)
    chosen.jobs, chosen.samples, chosen.save = 1, 2, False
    rows = {row["form"]: row for row in run_database("op", chosen, lambda name: Mutant(dies))}
    assert rows["out="]["status"] == "crash" and "SIGSEGV" in rows["out="]["detail"]
    assert all(row["status"] == NOTHING for form, row in rows.items() if form != "out=") and len(rows) > 4


def test_copies_keep_strides_identity_and_shared_memory():
    base = torch.arange(12.0).view(3, 4)
    trees = [base.t(), base.t(), base[1:], base[0].expand(2, 4), torch.Generator(), 3]
    trees.append(trees[0])
    one, two, three, four, generator, number, again = copied(trees)
    assert one.stride() == (1, 4) and four.stride() == (0, 1) and one is again and one is not two and number == 3
    one.mul_(0)
    assert three.sum() == 0 and four.sum() == 0 and base.sum() == 66
    assert copied([base, torch.float32], wide=True)[0].dtype == torch.float64


def test_rows_are_kept_as_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    about = {"db": "op", "entry": "exp", "dtype": "float32", "form": "function", "samples": 3, "right": 3, "whole": 3}
    about["build"] = results.versions()
    good = [{**about, "of": 3, "backend": name, "status": "ok", "reasons": {}} for name in ("fuse", "aten", "fx")]
    kept = [*good[:2], {**good[2], "status": "wrong", "right": 2, "detail": "sample 1: off"}]
    kept += [{**row, "form": "out=", "whole": 1, "status": "not whole", "reasons": {"why": 2}} for row in good]
    results.add(kept)
    assert sorted(results.tidy(), key=results.key_of) == sorted(kept, key=results.key_of)
    results.add(good[2:])
    results.tidy()
    assert sorted(results.read(), key=results.key_of) == sorted(good + kept[3:], key=results.key_of)


def test_rows_of_a_gpu_stand_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    monkeypatch.setattr(page, "GPU_PAGE", tmp_path / "page.md")
    row = {"db": "op", "entry": "exp", "dtype": "float32", "form": "function", "backend": "fuse", "status": "ok"}
    row |= {"samples": 3, "of": 3, "right": 3, "whole": 3, "reasons": {}}
    results.add([row])
    on_cpu = results.read()
    monkeypatch.setattr(device, "name", "cuda")
    assert results.read() == []
    results.add([{**row, "status": "wrong", "right": 2, "detail": "sample 1: off"}])
    text = page.write().read_text()
    assert "1 wrong" in text and "sample 1: off" in text
    monkeypatch.setattr(device, "name", "cpu")
    assert results.read() == on_cpu and [r["status"] for r in on_cpu] == ["ok"]
