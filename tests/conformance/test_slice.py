"""The slice of the truth machine that every test run takes: about four minutes, the same programs each time.

Each program runs in one worker process after the other, so that a crash fails one test and not the session. Invariant:
where framefuse can't be imported everything skips with that reason; nothing passes without having run.
"""

import pytest

from conformance.fuzz.run_in_workers import fuzz
from conformance.judge import CRASH, WRONG
from conformance.program import all_programs
from conformance.runner import SystemChoice, run_jobs
from conformance.systems import why_not_available

_BREAKS_A_TOPIC = 3
_FUZZ_CALLS = 3000
_EVERY_TIME = ("alone", "fullgraph", "twice")
_IN_TURN = ("between", "inlined", "thread", "leaks")

pytestmark = pytest.mark.skipif(why_not_available("framefuse") is not None, reason=str(why_not_available("framefuse")))


def jobs_of_topic(topic):
    """All programs of the topic in the ways that matter most, and each in one of the others in turn."""
    jobs = []
    for number, program in enumerate(p for p in all_programs() if p.topic == topic):
        ways = [*_EVERY_TIME, _IN_TURN[number % len(_IN_TURN)]]
        jobs += [(program.name, way) for way in ways if way not in program.not_ways]
    return jobs


def complaints(verdicts):
    bad = [v for v in verdicts if v.status in (WRONG, CRASH)]
    return "\n".join(f"{v.status} {v.program} [{v.way}]: {v.details[:2]}" for v in bad)


@pytest.mark.parametrize("topic", sorted({p.topic for p in all_programs()}))
def test_programs(topic):
    verdicts = run_jobs(jobs_of_topic(topic), SystemChoice("framefuse", "aten"))
    assert not complaints(verdicts), complaints(verdicts)


def test_breaks_everywhere():
    """The first programs of each topic, every break in turn."""
    by_topic = {}
    for program in all_programs():
        if "breaks" not in program.not_ways:
            by_topic.setdefault(program.topic, []).append(program)
    jobs = [(p.name, "breaks") for programs in by_topic.values() for p in programs[:_BREAKS_A_TOPIC]]
    verdicts = run_jobs(jobs, SystemChoice("framefuse", "aten"))
    assert not complaints(verdicts), complaints(verdicts)


def test_fuzzed_programs(tmp_path):
    outcome = fuzz(SystemChoice("framefuse", "aten"), 0, _FUZZ_CALLS, tmp_path, print)
    assert outcome.failures == [], "\n".join(outcome.failures)
    assert outcome.calls >= _FUZZ_CALLS
