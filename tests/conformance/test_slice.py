"""The slice of the truth machine that every test run takes, the same programs each time.

Programs listed in open.txt are known to be wrong on framefuse: they are reported by the nightly run and the page, not
here, so that this run fails as soon as one that was right is so no more. The ways fullgraph and leaks are the nightly run's;
of the way breaks, the fuzzer's seeds, the rewritten programs and CPython's tests a few are taken.

Each program runs in one worker process after the other, so that a crash fails one test and not the session. Invariant:
where framefuse can't be imported everything skips with that reason; nothing passes without having run.
"""

import pathlib

import pytest

from conformance import lib_tests
from conformance.fuzz.run_in_workers import fuzz
from conformance.judge import BROKE, CRASH, LESS, WRONG
from conformance.program import all_programs
from conformance.rewrites import REWRITES, rewritten
from conformance.runner import SystemChoice, run_jobs
from conformance.systems import why_not_available

_WAYS = ("alone", "twice", "between", "inlined", "thread")

pytestmark = pytest.mark.skipif(why_not_available("framefuse") is not None, reason=str(why_not_available("framefuse")))


def known_open():
    lines = pathlib.Path(__file__).with_name("open.txt").read_text(encoding="utf-8").splitlines()
    return {line.split(":")[0] for line in lines if line}


def known_open_in(way):
    """A line `name [way]: reason` says that the program is wrong in that way only."""
    return known_open() | {name.removesuffix(f" [{way}]") for name in known_open()}


def jobs_of_topic(topic):
    """The topic's programs that were right so far, in the ways that matter most."""
    open_in = {way: known_open_in(way) for way in _WAYS}
    programs = [p for p in all_programs() if p.topic == topic]
    return [(p.name, way) for p in programs for way in _WAYS if way not in p.not_ways and p.name not in open_in[way]]


def complaints(verdicts):
    bad = [v for v in verdicts if v.status in (LESS, WRONG, CRASH)]
    return "\n".join(f"{v.status} {v.program} [{v.way}]: {v.details[:2]}" for v in bad)


@pytest.mark.parametrize("topic", sorted({p.topic for p in all_programs()}))
def test_programs(topic):
    verdicts = run_jobs(jobs_of_topic(topic), SystemChoice("framefuse", "aten"))
    assert not complaints(verdicts), complaints(verdicts)


def test_programs_by_the_default_backend():
    # Whole models are left out: their rounding adds up to more than the judge allows.
    programs = [p for p in all_programs() if p.topic != "models" and p.name not in known_open()]
    jobs = [(p.name, way) for p in programs for way in ("alone", "twice") if way not in p.not_ways]
    verdicts = run_jobs(jobs, SystemChoice("framefuse", "fuse"))
    assert len(verdicts) > 1000
    assert not complaints(verdicts), complaints(verdicts)


def test_programs_with_symbolic_sizes():
    """All sizes are symbolic; the program is called with tensors of other sizes, too."""
    programs = [p for p in all_programs() if "sizes" not in p.not_ways and p.name not in known_open_in("sizes")]
    verdicts = run_jobs([(p.name, "sizes") for p in programs], SystemChoice("framefuse", "fuse"))
    assert len(verdicts) > 1000
    assert not complaints(verdicts), complaints(verdicts)


def test_a_break_before_every_instruction():
    # A whole model takes a minute or more: a thousand and more runs, each with a graph or two of its own.
    taken = [p for p in all_programs() if p.topic != "models"][3::16]
    programs = [p for p in taken if p.name not in known_open_in("breaks") and "breaks" not in p.not_ways]
    assert len(programs) > 30
    verdicts = run_jobs([(p.name, "breaks") for p in programs], SystemChoice("framefuse", "aten"))
    assert not complaints(verdicts), complaints(verdicts)


def test_programs_by_a_backend_in_python():
    """torch runs the FX graph that the capture gives it; each graph is compared with the capture, too."""
    programs = [p for p in all_programs() if p.name not in known_open_in("fx")]
    verdicts = run_jobs([(p.name, "fx") for p in programs], SystemChoice("framefuse", "aten"))
    assert len(verdicts) > 500
    assert not complaints(verdicts), complaints(verdicts)


def test_programs_by_a_backend_in_python_that_takes_sizes():
    programs = [p for p in all_programs() if p.name not in known_open_in("fx-sizes")][1::4]
    verdicts = run_jobs([(p.name, "fx-sizes") for p in programs], SystemChoice("framefuse", "aten"))
    assert len(verdicts) > 400
    assert not complaints(verdicts), complaints(verdicts)


@pytest.mark.parametrize(("way", "backend", "taken"), [("kept", "fuse", slice(2, None, 4)), ("fx-kept", "aten", slice(5, None, 12))])
def test_programs_inside_of_a_checkpoint(way, backend, taken):
    """Hooks for saved tensors keep what graphs save; the backward runs the program again."""
    programs = [p for p in all_programs() if p.name not in known_open_in(way) and way not in p.not_ways][taken]
    assert len(programs) > 200
    verdicts = run_jobs([(p.name, way) for p in programs], SystemChoice("framefuse", backend))
    assert not complaints(verdicts), complaints(verdicts)


def test_a_backend_in_python_and_a_break_before_every_instruction():
    taken = [p for p in all_programs() if p.topic != "models"][7::32]
    programs = [p for p in taken if p.name not in known_open_in("fx-breaks") and "fx-breaks" not in p.not_ways]
    assert len(programs) > 15
    verdicts = run_jobs([(p.name, "fx-breaks") for p in programs], SystemChoice("framefuse", "aten"))
    assert not complaints(verdicts), complaints(verdicts)


def test_fuzzer(tmp_path):
    """The backends aten, fuse and one in Python in turn."""
    outcome = fuzz(SystemChoice("framefuse"), 0, 4000, tmp_path, lambda text: None)
    assert not outcome.failures, outcome.failures
    assert outcome.calls >= 4000
    # A slice is short: the long run meets nearly every kind, this one most of them.
    assert len(outcome.coverage.counts) > 150
    # Eight are of a GPU: pools of images, batch norms as cuDNN has them, their gradients, and three rewrites for devices. Five are of losses, of
    # casts behind views, of gradients of slices, and of sums over dimensions apart, which so few programs do not have. Three are
    # of warnings that an entry says: the fuzzer's programs do not warn. One is of frames that wait: none of them is compiled.
    # The rest goes by what is drawn: each new statement of a grammar draws other programs.
    assert len(outcome.coverage.missing()) < 115, sorted(outcome.coverage.missing())


def test_the_fuzzer_fails_a_compiler_that_compiles_nothing(tmp_path):
    outcome = fuzz(SystemChoice("identity"), 0, 200, tmp_path, lambda text: None)
    assert [text.partition(":")[0] for text in outcome.failures] == ["work"]


def test_rewrites():
    programs = [p for p in all_programs() if p.name not in known_open()][::40]
    others = [other for p in programs for name in REWRITES if (other := rewritten(p, name)) is not None]
    assert len(others) > len(programs)
    verdicts = run_jobs([(p.name, "twice") for p in others], SystemChoice("framefuse", "aten"))
    assert not complaints(verdicts), complaints(verdicts)
    # What is captured whole as it is stays so in other words.
    verdicts = run_jobs([(p.name, "fullgraph") for p in programs + others], SystemChoice("framefuse", "aten"))
    broke = {v.program for v in verdicts if v.status == BROKE}
    assert not {name for name in broke if "~" in name and name.partition("~")[0] not in broke}
    assert not complaints(verdicts), complaints(verdicts)


@pytest.mark.parametrize("file", ["bool", "generators", "with", "slice"])
def test_cpython_tests(file):
    if not lib_tests.existing_files([file]):
        pytest.skip("this Python was installed without its own tests")
    row = lib_tests.run_file(file, SystemChoice("framefuse", "aten"))
    assert row.tests > 0
    assert row.same == row.tests and not row.crashed, row.different
