"""An FX backend that keeps the graphs it is given, and what tests of it share."""

import framefuse
import pytest
import torch

graphs = []


def run_graph(gm, examples):
    graphs.append(gm)
    return gm.forward


@pytest.fixture(autouse=True)
def no_graphs():
    graphs.clear()
    framefuse.reset()
    yield
    graphs.clear()


def targets():
    return [node.target for gm in graphs for node in gm.graph.nodes if node.op.startswith("call")]


def same(got, wanted):
    if isinstance(wanted, torch.Tensor):
        assert got.requires_grad == wanted.requires_grad
        torch.testing.assert_close(got, wanted, rtol=0, atol=0, equal_nan=True)
    elif isinstance(wanted, (list, tuple)):
        assert type(got) is type(wanted) and len(got) == len(wanted)
        for g, w in zip(got, wanted, strict=True):
            same(g, w)
    else:
        assert got == wanted
