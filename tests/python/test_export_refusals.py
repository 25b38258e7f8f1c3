"""What framefuse.export refuses with a line, and results that come back as another class."""

import collections

import framefuse
import pytest
import torch
from exported_models import saved


def test_a_branch_on_values_is_refused_with_its_line():
    def f(x):
        return x + 1 if x.all() else x - 1

    with pytest.raises(framefuse.Unsupported, match=rf"the values of tensors decide what it does \({__file__}:\d+\)"):
        framefuse.export(f)(torch.ones(2))


def test_a_result_of_a_class_of_dicts_is_a_dict(tmp_path):
    class Output(collections.OrderedDict):
        pass

    def f(x):
        return Output(logits=x * 2, hidden=(x + 1, Output(last=x - 1)))

    loaded = saved(framefuse.export(f)(torch.ones(2)), tmp_path)
    x = torch.tensor([1.0, 3.0])
    result = loaded(x)
    assert type(result) is dict and list(result) == ["logits", "hidden"] and type(result["hidden"][1]) is dict
    assert torch.equal(result["logits"], x * 2) and torch.equal(result["hidden"][1]["last"], x - 1)
