"""A slice of the zoo that needs no package: the models written here, in both modes, under all backends."""

import pytest
import torch

from zoo.one_model import INFERENCE, MISSED, OK, TRAINING, run_model
from zoo.process import Limits
from zoo.sets_own import all_models

WHOLE = ("decoder", "image encoder", "residual net", "recurrent")


@pytest.fixture(autouse=True)
def one_thread():
    """A forked child waits for ever for the threads of its parent's OpenMP pool."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("entry", all_models(), ids=lambda entry: entry.name)
def test_own_models(entry):
    rows = []
    run_model(entry, [INFERENCE, TRAINING], ["fuse", "aten", "fx"], Limits(), rows.append)
    assert len(rows) == 6
    for row in rows:
        assert row["status"] in (OK, MISSED), row
        assert not row["bugs"], row
        if entry.name in WHOLE:
            assert row["status"] == OK and row["breaks"] == 0, row
