"""A slice of torch's samples: some operators, modules and optimizers, one dtype, all three backends."""

import argparse

from samples.command_line import run_database
from samples.one_entry import RIGHT


def rows_of(database, **settings):
    chosen = {"part": "0/1", "dtype": "float32", "only": "", "backend": "fuse,aten,fx", "seconds": 60, "gigabytes": 6}
    return run_database(database, argparse.Namespace(**{**chosen, "jobs": 2, "samples": 3, "save": False, **settings}))


def assert_right(rows):
    assert rows
    bad = [row for row in rows if row["status"] not in RIGHT]
    assert not bad, bad[:5]


def test_operators():
    rows = rows_of("op", part="7/25")
    assert_right(rows)
    assert len({row["entry"] for row in rows}) > 20 and sum(row["whole"] for row in rows) > 0.6 * sum(row["samples"] for row in rows)


def test_modules():
    assert_right(rows_of("module", only="=nn.Linear,=nn.BatchNorm2d,=nn.MultiheadAttention,=nn.GRUCell"))


def test_optimizers():
    assert_right(rows_of("optim", only="=SGD,=Adam,=RMSprop", samples=2))
