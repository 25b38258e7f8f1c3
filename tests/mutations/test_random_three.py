"""Three of the planted bugs, another three each day: every test run sees that its killers still kill.

Each is one source compiled and one program linked into a temporary folder; neither the tree nor the build is written to.
Invariant: a test run on one day and tree takes the same three; FF_MUTATION_SEED chooses others.
"""

import datetime
import os
import random
import shutil

import pytest
from mutations.build_folder import BuildFolder, default_build
from mutations.mutation import all_mutations
from mutations.results import MACHINE, NOT_HERE, UNIT
from mutations.trial import Trials

COUNT = 3

pytestmark = pytest.mark.skipif(
    not (default_build() / "compile_commands.json").exists() or shutil.which("ninja") is None,
    reason="no build folder to link from",
)


def seed():
    return os.environ.get("FF_MUTATION_SEED") or datetime.datetime.now(datetime.timezone.utc).date().isoformat()


def test_three_are_killed(capsys):
    chosen = random.Random(seed()).sample(all_mutations(), COUNT)
    with capsys.disabled():
        print(f"\nFF_MUTATION_SEED={seed()}: {', '.join(m.name for m in chosen)}")
    told = []
    trials = Trials(BuildFolder(default_build()))
    trials.show = told.append
    broken = trials.check_killers(chosen, 1)
    outcomes = trials.try_all(chosen, 1)
    assert not broken, told
    assert all(outcome.status in (MACHINE, UNIT, NOT_HERE) for outcome in outcomes), "\n".join(told)
