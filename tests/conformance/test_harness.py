"""The judge itself: systems that are wrong in one known way must be seen, and plain Python must pass.

Each mutant breaks one thing that a user can see. Invariant: the judge knows no mutant; they are systems like any other.
"""

import contextlib
import dataclasses
import gc
import io
import signal
import warnings
import weakref

import pytest
import torch

from conformance.fuzz import run_in_workers, search
from conformance.fuzz.grammar import make_draft
from conformance.judge import BROKE, OK, WRONG, judge
from conformance.program import Args, Case, Program, all_programs
from conformance.systems import BreakProbe, PlainPython, System
from conformance.ways import WAYS


class Mutant(System):
    """Wraps each call with `change(f, args, kwargs)`."""

    name = "mutant"

    def __init__(self, change):
        self._change = change

    def compile(self, f, *, fullgraph=False):
        return lambda *args, **kwargs: self._change(f, args, kwargs)


def make_program(factory, **statements):
    settings = {"whole": True, "graphs": None, "rule": None, "not_ways": (), "known_bug": None}
    return Program("test/program", "test", factory, minimum_python=(3, 11), **(settings | statements))


def sample_case():
    x = torch.ones(2, 3, requires_grad=True)
    items = [1]

    def f(x, items):
        print("seen", len(items))
        warnings.warn("careful")
        items.append(len(items))
        return x * 2 + torch.rand(2, 3), items

    return Case(f, x, items, then=[lambda: items.append(7)])


def raising_case():
    def f(x):
        raise ValueError("bad") from KeyError("cause")

    return Case(f, torch.ones(2))


def replaced_result(change):
    def call(f, args, kwargs):
        value, items = f(*args, **kwargs)
        return change(value), items

    return call


def silent(f, args, kwargs):
    with contextlib.redirect_stdout(io.StringIO()):
        return f(*args, **kwargs)


def without_warnings(f, args, kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return f(*args, **kwargs)


def lost_append(f, args, kwargs):
    value, items = f(*args, **kwargs)
    items.pop()
    return value, items


def advanced_random_state(f, args, kwargs):
    result = f(*args, **kwargs)
    torch.rand(1)
    return result


def without_gradient(f, args, kwargs):
    with torch.no_grad():
        return f(*args, **kwargs)


def left_mode_on(f, args, kwargs):
    result = f(*args, **kwargs)
    torch._C._set_grad_enabled(False)
    return result


SEEN = {
    "dtype": (replaced_result(lambda v: v.double()), "result"),
    "stride": (replaced_result(lambda v: v.t().contiguous().t()), "result"),
    "value": (replaced_result(lambda v: v + 1e-6), "result"),
    "identity of the list": (lambda f, a, k: (lambda r: (r[0], list(r[1])))(f(*a, **k)), "result"),
    "lost append": (lost_append, "result"),
    "stdout": (silent, "stdout"),
    "warnings": (without_warnings, "warnings"),
    "random state": (advanced_random_state, "rng"),
    "gradient": (without_gradient, "result"),
    "mode": (left_mode_on, "modes"),
}


def test_what_the_collector_decides_is_not_compared():
    """A frame and its exception hold a value in a cycle: whether it is alive depends on when the collector ran last."""

    class Held:
        pass

    def case():
        alive = []

        def f(x):
            held = Held()
            alive.append(weakref.ref(held))
            held.cycle = held
            return x * sum(reference() is not None for reference in alive)

        return Case(f, torch.ones(2), then=[lambda: None, lambda: None])

    def swept(f, args, kwargs):
        gc.collect()
        return f(*args, **kwargs)

    assert judge(make_program(case), "alone", Mutant(swept)).status == OK
    assert judge(make_program(case), "alone", Mutant(lambda f, args, kwargs: swept(f, args, kwargs) * 5)).status == WRONG


@pytest.mark.parametrize("mutant", SEEN)
def test_a_mutant_is_seen(mutant):
    change, kind = SEEN[mutant]
    verdict = judge(make_program(sample_case), "alone", Mutant(change))
    assert verdict.status == WRONG
    assert kind in verdict.kinds() or "state" in verdict.kinds(), verdict.details


def test_a_stale_result_is_seen_only_after_a_state_change():
    def make_memory():
        kept = []

        def call(f, args, kwargs):
            if not kept:
                kept.append(f(*args, **kwargs))
            return kept[0]

        return call

    def case():
        state = {"n": 2}

        def f(x):
            return x * state["n"]

        return Case(f, torch.ones(2), then=[lambda: state.update(n=3)])

    assert judge(make_program(case), "alone", Mutant(make_memory())).status == OK
    assert judge(make_program(case), "twice", Mutant(make_memory())).status == WRONG


def changed_exception(change):
    def call(f, args, kwargs):
        try:
            return f(*args, **kwargs)
        except ValueError as error:
            raise change(error) from None

    return call


def test_exceptions_are_compared_with_text_cause_and_lines():
    def other_text(error):
        return ValueError("other").with_traceback(error.__traceback__)

    for change in (other_text, lambda error: TypeError("bad"), lambda error: error):
        verdict = judge(make_program(raising_case), "alone", Mutant(changed_exception(change)))
        assert verdict.status == WRONG
        assert "raised" in verdict.kinds() or "traceback" in verdict.kinds()


def test_a_swallowed_exception_is_seen():
    def call(f, args, kwargs):
        with contextlib.suppress(ValueError):
            return f(*args, **kwargs)

    assert judge(make_program(raising_case), "alone", Mutant(call)).status == WRONG


READ = 1


@pytest.mark.parametrize("way", ["twice", "thread", "leaks"])
def test_names_that_a_program_writes_are_put_back(way):
    found = []

    def case():
        found.append((READ, "MADE" in globals()))

        def f(x):
            global READ, MADE
            READ = MADE = READ + 1
            return x * READ

        return Case(f, torch.ones(2))

    judge(make_program(case), way, PlainPython())
    assert len(found) > 1 and set(found) == {(1, False)}
    assert READ == 1 and "MADE" not in globals()


def test_a_leaked_tensor_is_seen():
    kept = []

    def call(f, args, kwargs):
        kept.append(torch.ones(1))
        return f(*args, **kwargs)

    def case():
        return Case(lambda x: x * 2, torch.ones(2))

    verdict = judge(make_program(case), "leaks", Mutant(call))
    assert verdict.status == WRONG and verdict.kinds() == ["leaks"]


def test_a_leaked_reference_is_seen():
    kept = []

    def call(f, args, kwargs):
        kept.append(args[0])
        return f(*args, **kwargs)

    def case():
        return Case(lambda x: x * 2, torch.ones(2))

    assert judge(make_program(case), "leaks", Mutant(call)).status == WRONG


def test_a_factory_that_raises_in_a_thread_is_seen():
    def case():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        judge(make_program(case), "thread", PlainPython())


class Refusing(PlainPython):
    """Cannot capture anything whole."""

    class Unsupported(Exception):
        pass

    def compile(self, f, *, fullgraph=False):
        def refuse(*args, **kwargs):
            raise Refusing.Unsupported("no")

        return refuse if fullgraph else f

    def is_unsupported(self, error):
        return isinstance(error, Refusing.Unsupported)


def test_a_refusal_counts_only_where_whole_is_stated():
    def case():
        return Case(lambda x: x * 2, torch.ones(2))

    assert judge(make_program(case), "fullgraph", Refusing()).status == BROKE
    assert judge(make_program(case, whole=False), "fullgraph", Refusing()).status == OK


class BreaksWrong(PlainPython):
    """Wrong only where the third instruction is forced to break."""

    def __init__(self):
        self._at = -1

    def forces_breaks(self):
        return True

    @contextlib.contextmanager
    def break_before(self, instruction):
        self._at = instruction
        yield BreakProbe(lambda: instruction < 5)
        self._at = -1

    def compile(self, f, *, fullgraph=False):
        return lambda x: f(x) + (self._at == 3)


def test_breaks_are_forced_one_after_another():
    def case():
        return Case(lambda x: x * 2, torch.ones(2))

    verdict = judge(make_program(case), "breaks", BreaksWrong())
    assert verdict.status == WRONG and verdict.details[0] == "break before instruction 3"


@pytest.mark.parametrize("way", [w for w in WAYS if not WAYS[w].breaks and not WAYS[w].fx])
def test_plain_python_passes_the_tutorial(way):
    for program in all_programs(["tutorial/", "known_bugs/"]):
        assert judge(program, way, PlainPython()).status == OK


def test_the_fuzzer_is_deterministic_and_plain_python_passes():
    for seed in range(20):
        assert make_draft(seed).render() == make_draft(seed).render()
    done = search.run(PlainPython(), 0, lambda s: s.programs >= 20)
    assert done.findings == []


class Stale(PlainPython):
    """Keeps the first result of each compiled function for ever."""

    def compile(self, f, *, fullgraph=False):
        kept = []

        def call(*args, **kwargs):
            if not kept:
                kept.append(f(*args, **kwargs))
            return kept[0]

        return call


def test_the_fuzzer_finds_stale_results_and_shrinks_them(tmp_path):
    done = search.run(Stale(), 0, lambda s: len(s.findings) >= 1 or s.programs > 50)
    finding = done.findings[0]
    original = make_draft(finding.draft.seed)
    assert len(finding.draft.changes) <= len(original.changes)
    assert len(finding.draft.changes) + len(finding.draft.statements) <= 2
    path = search.write_program(finding, tmp_path, Stale())
    names = {"__name__": "kept"}
    exec(compile(path.read_text(), str(path), "exec"), names)
    assert isinstance(names[f"seed_{finding.draft.seed}"](), Case)


def with_statement(line):
    """A draft whose function has one statement more."""
    draft = make_draft(0)
    return dataclasses.replace(draft, changes=[], statements=[[line]])


def test_a_program_that_reads_what_nobody_wrote_is_none():
    assert search._is_reproducible(with_statement("r = r + vector(4).cos().sum()"))
    assert not search._is_reproducible(with_statement("r = r + torch.empty(4096).view(torch.uint8).sum()"))


def test_a_program_that_kills_plain_python_is_no_finding(monkeypatch):
    assert not run_in_workers._kills_plain_python(0)
    monkeypatch.setattr(search, "verdict_of", lambda draft, system: signal.raise_signal(signal.SIGKILL))
    assert run_in_workers._kills_plain_python(0)


def test_arguments_of_a_change_replace_the_former():
    args = Args(1, 2, c=3)
    assert args.args == (1, 2) and args.kwargs == {"c": 3}
