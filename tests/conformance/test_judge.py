"""The judge judged: each self-check passes, and each bug planted in the judge's text is found by one.

Invariant: all of it runs in this process, on copies of the judge's modules.
"""

import ast
import re
import warnings

import pytest

from conformance import checks_of_modes, checks_of_objects, checks_of_runs, global_state
from conformance.checks import CHECKS, failure, first_failure, machine, with_replacements
from conformance.planted_in_judge import NOT_SEEN_BY_CHECKS, deletions, source_of, table, without_entries

SOUND = machine()
PLANTED = [*table(), *without_entries(), *deletions()]


@pytest.fixture(autouse=True)
def global_state_put_back():
    """A planted bug may leave any of it changed."""
    before = global_state.modes()
    with global_state.protected():
        warnings.simplefilter("ignore")
        yield
    for name, (_, end) in checks_of_modes.LEFT.items():
        if end is not None and global_state.MODES[name].read() != before[name]:
            end()


def checks_for(bug):
    """All of them, those first whose names have most words of the bug's, and the slow ones of leaks last."""
    words = set(re.findall(r"[a-z]{3,}", bug.name.lower()))

    def place(check):
        common = words & set(re.findall(r"[a-z]{3,}", check.name.lower()))
        other_module = (check.build.__module__ == checks_of_objects.__name__) != (bug.module == "snapshot")
        return -len(common), check.way == "leaks", other_module

    return sorted(CHECKS.values(), key=place)


@pytest.mark.parametrize("name", CHECKS)
def test_the_judge_passes_its_checks(name):
    assert failure(SOUND, CHECKS[name]) is None


@pytest.mark.parametrize("bug", PLANTED, ids=[bug.name for bug in PLANTED])
def test_a_planted_bug_is_found(bug):
    assert first_failure(machine({bug.module: bug.text}), checks_for(bug)) is not None


def test_there_are_many():
    assert len(CHECKS) > 150
    assert len(PLANTED) > 200


def test_what_is_planted_must_be_there():
    with pytest.raises(ValueError, match="0 places"):
        with_replacements("snapshot", {"no such text": ""})


@pytest.mark.parametrize("statement", NOT_SEEN_BY_CHECKS)
def test_what_no_check_sees_is_there(statement):
    texts = [ast.unparse(ast.parse(source_of(name))) for name in ("snapshot", "observation", "global_state", "gradients")]
    assert any(ast.unparse(ast.parse(statement)) in text for text in texts)
