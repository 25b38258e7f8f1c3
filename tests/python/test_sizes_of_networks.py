"""Recurrent networks by sequences of any length and batches of any size: two captures, or one with all sizes symbolic, with eager's results."""

import framefuse
import pytest
import torch
from torch import nn

SIZES = ((3, 5), (2, 7), (4, 9), (6, 3), (7, 2), (5, 12))


@pytest.fixture(autouse=True)
def nothing_compiled_before():
    framefuse.reset()


def _compare(network, call, dynamic, captures, sizes=SIZES, whole=True):
    compiled = framefuse.compile(call, dynamic=dynamic, fullgraph=whole)
    before = framefuse.statistics()["captures"]
    for batch, length in sizes:
        torch.manual_seed(batch * 100 + length)
        given = torch.randn(batch, length, 6)
        results = []
        for f in (compiled, call):
            x = given.clone().requires_grad_()
            outputs = torch.utils._pytree.tree_leaves(f(x))
            gradients = torch.autograd.grad(sum(o.square().sum() for o in outputs), [x, *network.parameters()])
            results.append(([o.detach() for o in outputs], [o.stride() for o in outputs], gradients))
        assert results[0][1] == results[1][1]
        torch.testing.assert_close(results[0], results[1], rtol=1e-4, atol=1e-5)
        with torch.no_grad():
            torch.testing.assert_close(compiled(given), call(given), rtol=1e-5, atol=1e-6)
    assert framefuse.statistics()["captures"] - before <= captures


NETWORKS = [nn.LSTM, nn.GRU, nn.RNN, lambda *sizes, **settings: nn.RNN(*sizes, nonlinearity="relu", **settings)]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("bidirectional, layers", [(False, 1), (True, 1), (False, 2), (True, 2)])
@pytest.mark.parametrize("make", NETWORKS)
def test_networks(make, batch_first, bidirectional, layers, dynamic):
    network = make(6, 5, layers, batch_first=batch_first, bidirectional=bidirectional)
    # With gradients and without.
    _compare(network, lambda x: network(x if batch_first else x.transpose(0, 1)), dynamic, 2 if dynamic else 4)


@pytest.mark.parametrize("make", [nn.LSTM, nn.GRU])
def test_given_states_and_no_biases(make):
    network = make(6, 5, bias=False, batch_first=True)
    kind = nn.LSTM

    def call(x):
        state = x.new_ones(1, x.shape[0], 5)
        return network(x, (state, state * 2) if make is kind else state)

    _compare(network, call, True, 2)


def test_within_a_model():
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.read, self.score = nn.LSTM(6, 8, 2, batch_first=True, bidirectional=True), nn.Linear(16, 3)

        def forward(self, x):
            return self.score(self.read(x.tanh())[0]).log_softmax(-1)

    model = Tagger()
    _compare(model, model, True, 2)


@pytest.mark.parametrize("make", [nn.LSTMCell, nn.GRUCell, nn.RNNCell, lambda *sizes: nn.RNNCell(*sizes, nonlinearity="relu")])
def test_cells(make):
    cell = make(6, 5)
    _compare(cell, lambda x: cell(x[:, 0]), None, 4)


@pytest.mark.parametrize("make", [nn.LSTM, nn.GRU])
def test_packed_sequences_break(make):
    network = make(6, 5, batch_first=True)

    def call(x):
        lengths = torch.tensor([max(1, x.shape[1] - i % 3) for i in range(x.shape[0])])
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        result, state = network(packed)
        return nn.utils.rnn.pad_packed_sequence(result, batch_first=True)[0], state

    _compare(network, call, None, 100, whole=False)


def test_dropout_between_layers_is_drawn_as_in_eager():
    network = nn.GRU(6, 5, 2, batch_first=True, dropout=0.5)
    compiled = framefuse.compile(network, dynamic=True)
    for length in (4, 7, 9):
        x = torch.randn(3, length, 6)
        results = []
        for f in (compiled, network):
            torch.manual_seed(1)
            results.append(f(x))
        torch.testing.assert_close(*results)


def test_a_second_derivative():
    network = nn.GRU(6, 5, batch_first=True)
    compiled = framefuse.compile(network, dynamic=True)
    for length in (4, 7):
        x = torch.randn(3, length, 6, requires_grad=True)
        results = []
        for f in (compiled, network):
            (gradient,) = torch.autograd.grad(f(x)[0].square().sum(), x, create_graph=True)
            results.append(torch.autograd.grad(gradient.square().sum(), x)[0])
        torch.testing.assert_close(*results, rtol=1e-4, atol=1e-6)
