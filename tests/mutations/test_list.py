"""The list of planted bugs is in order: each still applies, names killers that exist, and every area has its share.

Nothing is built here. Invariant: a change of the code under a mutation fails here, and not a month later in the nightly run.
"""

import collections
import re

import pytest
from mutations import killers, mutation, results
from mutations.mutation import AREAS, PLANTED, ROOT, Malformed, all_mutations, parse

MUTATIONS = all_mutations()
LEAST = 60
# Of the planted bugs so many must be killed by the machine alone: conformance programs, fuzzers, samples.
LEAST_BY_MACHINE = 0.95


@pytest.mark.parametrize("planted", MUTATIONS, ids=lambda m: m.name)
def test_applies_and_can_be_killed(planted):
    assert (ROOT / planted.file).is_file()
    assert planted.file.endswith((".cpp", ".c")) or planted.file.startswith("python/framefuse/")
    assert planted.mutated_text() != (ROOT / planted.file).read_text(encoding="utf-8")
    assert planted.machine or planted.unit
    assert all(killers.is_machine(killer) for killer in planted.machine)
    assert planted.needs in ("", "cuda")
    unknown = [name for killer in (*planted.machine, *planted.unit) for name in killers.unknown_names(killer)]
    assert not unknown


def test_there_are_enough_in_each_area():
    counts = collections.Counter(m.area for m in MUTATIONS)
    assert set(counts) == set(AREAS)
    assert {area: n for area, n in AREAS.items() if counts[area] < n} == {}
    assert len(MUTATIONS) >= LEAST


def test_names_and_sentences():
    names = [m.name for m in MUTATIONS]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z_0-9]+/[a-z_0-9]+", name) for name in names)
    assert [m.name for m in MUTATIONS if not m.about.endswith(".")] == []
    assert not [f for f in PLANTED.rglob("*") if f.is_file() and f.suffix != ".txt"]


def test_every_kind_of_guard_is_left_unchecked_once():
    header = (ROOT / "guards/guard.h").read_text(encoding="utf-8")
    body = re.search(r"enum class GuardKind[^{]*\{(.*?)\};", header, re.DOTALL)[1]
    kinds = set(re.findall(r"^\s*(k\w+),", body, re.MULTILINE))
    assert len(kinds) > 15
    planted = [kind for m in MUTATIONS for kind in m.guards if m.machine]
    assert set(planted) == kinds


def test_the_machine_alone_is_to_kill_nearly_all():
    assert sum(1 for m in MUTATIONS if m.machine) >= LEAST_BY_MACHINE * len(MUTATIONS)


def test_kept_results_are_of_what_is_planted():
    rows = results.read()
    assert set(rows) <= {m.name for m in MUTATIONS}
    assert not [name for name, row in rows.items() if row["status"] in (results.SURVIVED, results.ERROR)]


GOOD = "A sentence.\nfile: x.cpp\nmachine: programs a\n<<<<\nold\n====\nnew\n>>>>\n"


@pytest.mark.parametrize(
    "text",
    [
        GOOD.replace("file: x.cpp\n", ""),
        GOOD.replace("====\n", ""),
        GOOD.replace(">>>>\n", ""),
        GOOD.replace("new", "old"),
        GOOD.replace("machine:", "machines:"),
        GOOD + "more\n",
    ],
)
def test_what_is_malformed_is_refused(text):
    assert parse("a/b", GOOD).blocks == (("old\n", "new\n"),)
    with pytest.raises(Malformed):
        parse("a/b", text)


def test_old_text_must_be_there_once():
    planted = parse("a/b", GOOD)
    assert planted.applied("1\nold\n2\n") == "1\nnew\n2\n"
    for text in ("1\n", "old\nold\n"):
        with pytest.raises(Malformed):
            planted.applied(text)


def test_a_command_that_is_wrong_is_no_kill(tmp_path):
    for killer in ("pytest tests/mutations/nowhere.py", "walk"):
        with pytest.raises(killers.BadKiller):
            killers.run(killer, tmp_path, tmp_path, 100)


def test_one_without_end_is_ended(tmp_path):
    command = [killers.sys.executable, "-c", "import time; time.sleep(100)"]
    assert killers.run_limited(command, tmp_path, killers.environment_of(tmp_path), 1)[0] is None
    command = [killers.sys.executable, "-c", "import os; os.abort()"]
    assert killers.run_limited(command, tmp_path, killers.environment_of(tmp_path), 100)[0] < 0
    assert mutation.ROOT.is_dir()
