"""A slice of the zoo that needs no package: the models written here, in both modes, under all backends."""

import pytest

from zoo.one_model import INFERENCE, MISSED, OK, TRAINING, run_model
from zoo.process import Limits
from zoo.sets_own import all_models

# Not in every run: on the states of this day a child was seen to hang.
pytestmark = pytest.mark.nightly

WHOLE = ("decoder", "image encoder", "residual net", "recurrent")


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
