"""What a graph's operators raise where the data is bad: eager's type and text, and the state that eager leaves."""

import framefuse
import pytest
import torch
import torch.nn.functional as F

INF = float("inf")

# Name, function, data that eager refuses.
BAD_DATA = {
    "one_hot high": (lambda x: F.one_hot(x, 3), torch.tensor([0, 3])),
    "one_hot neg": (lambda x: F.one_hot(x, 3), torch.tensor([0, -1])),
    "one_hot auto neg": (lambda x: F.one_hot(x), torch.tensor([0, -1])),
    "multinomial neg": (lambda x: torch.multinomial(x, 2), torch.tensor([0.5, -1.0])),
    "multinomial inf": (lambda x: torch.multinomial(x, 1), torch.tensor([0.5, INF])),
    "multinomial zero": (lambda x: torch.multinomial(x, 2), torch.tensor([0.0, 0.0])),
    "multinomial repl zero": (lambda x: torch.multinomial(x, 2, True), torch.tensor([0.0, 0.0])),
    "embedding": (lambda x: F.embedding(x, torch.ones(3, 2)), torch.tensor([0, 3])),
    "embedding neg": (lambda x: F.embedding(x, torch.ones(3, 2)), torch.tensor([0, -1])),
    "embedding_bag": (lambda x: F.embedding_bag(x, torch.ones(3, 2), torch.tensor([0])), torch.tensor([0, 3])),
    "cross_entropy": (lambda x: F.cross_entropy(torch.ones(2, 3), x), torch.tensor([0, 3])),
    "cross_entropy neg": (lambda x: F.cross_entropy(torch.ones(2, 3), x), torch.tensor([0, -1])),
    "nll": (lambda x: F.nll_loss(torch.ones(2, 3), x), torch.tensor([0, 5])),
    "nll2d": (lambda x: F.nll_loss(torch.ones(1, 3, 2, 1), x.view(1, 2, 1)), torch.tensor([0, 5])),
    "multi_margin": (lambda x: F.multi_margin_loss(torch.ones(2, 3), x), torch.tensor([0, 5])),
    "bincount neg": (lambda x: torch.bincount(x), torch.tensor([0, -1])),
    "index_select": (lambda x: torch.ones(3, 2).index_select(0, x), torch.tensor([0, 3])),
    "index_select dim1": (lambda x: torch.ones(3, 2).index_select(1, x), torch.tensor([0, 3])),
    "gather": (lambda x: torch.ones(3, 2).gather(0, x.view(1, 2)), torch.tensor([0, 3])),
    "gather neg": (lambda x: torch.ones(3, 2).gather(0, x.view(1, 2)), torch.tensor([0, -1])),
    "take": (lambda x: torch.ones(3, 2).take(x), torch.tensor([0, 9])),
    "repeat_interleave neg": (lambda x: torch.ones(2).repeat_interleave(x), torch.tensor([1, -1])),
    "scatter": (lambda x: torch.ones(3, 2).scatter(0, x.view(1, 2), 1.0), torch.tensor([0, 3])),
    "scatter_add": (lambda x: torch.ones(3, 2).scatter_add(0, x.view(1, 2), torch.ones(1, 2)), torch.tensor([0, 3])),
    "scatter_reduce": (
        lambda x: torch.ones(3, 2).scatter_reduce(0, x.view(1, 2), torch.ones(1, 2), "sum"),
        torch.tensor([0, 3]),
    ),
    "index": (lambda x: torch.ones(3, 2)[x], torch.tensor([0, 3])),
    "index neg": (lambda x: torch.ones(3, 2)[x], torch.tensor([0, -4])),
    "index_put": (lambda x: torch.ones(3, 2).index_put((x, ), torch.zeros(2)), torch.tensor([0, 3])),
    "index_add": (lambda x: torch.ones(3, 2).index_add(0, x, torch.ones(2, 2)), torch.tensor([0, 3])),
    "index_copy": (lambda x: torch.ones(3, 2).index_copy(0, x, torch.ones(2, 2)), torch.tensor([0, 3])),
    "index_fill": (lambda x: torch.ones(3, 2).index_fill(0, x, 1.0), torch.tensor([0, 3])),
    "bernoulli": (lambda x: torch.bernoulli(x), torch.tensor([0.5, 1.5])),
    "normal": (lambda x: torch.normal(x, -1.0), torch.tensor([0.5, 1.5])),
    "poisson": (lambda x: torch.poisson(x), torch.tensor([0.5, -1.5])),
    "binary_cross_entropy": (lambda x: F.binary_cross_entropy(x, torch.ones(2)), torch.tensor([0.5, 1.5])),
    "histc2": (lambda x: torch.histc(x, 4), torch.tensor([0.5, INF])),
    "cholesky": (lambda x: torch.linalg.cholesky(x.view(2, 2)), torch.tensor([1.0, 2, 2, 1])),
    "inv": (lambda x: torch.linalg.inv(x.view(2, 2)), torch.tensor([0.0, 0, 0, 0])),
    "solve": (lambda x: torch.linalg.solve(x.view(2, 2), torch.ones(2)), torch.tensor([0.0, 0, 0, 0])),
    "searchsorted": (
        lambda x: torch.searchsorted(torch.tensor([0.0, 1]), x, sorter=torch.tensor([0, 7])),
        torch.tensor([0.5]),
    ),
    "bucketize": (lambda x: torch.bucketize(x, torch.ones(2, 2)), torch.tensor([0.5])),
    "int div": (lambda x: x//torch.tensor([0, 1]), torch.tensor([1, 1])),
    "int rem": (lambda x: x%torch.tensor([0, 1]), torch.tensor([1, 1])),
    "quantile": (lambda x: torch.quantile(torch.tensor([1.0, 2]), x), torch.tensor([1.5])),
    "max_unpool": (lambda x: F.max_unpool1d(torch.ones(1, 1, 2), x.view(1, 1, 2), 2), torch.tensor([1, 9])),
    "put": (lambda x: torch.ones(3, 2).put(x, torch.ones(2)), torch.tensor([0, 9])),
    "categorical": (lambda x: torch.distributions.Categorical(probs=x, validate_args=True), torch.tensor([0.5, -1.0])),
    "normal distribution": (lambda x: torch.distributions.Normal(0.0, x, validate_args=True), torch.tensor([0.5, -1.0])),
    "segment": (lambda x: torch.segment_reduce(torch.ones(3), "sum", lengths=x), torch.tensor([1, 5])),
    "multilabel": (lambda x: F.multilabel_margin_loss(torch.ones(1, 2), x.view(1, 2)), torch.tensor([0, 5])),
    "embedding max_norm": (lambda x: F.embedding(x, torch.ones(3, 2), max_norm=1.0), torch.tensor([0, 5])),
}


def outcome(f, x):
    torch.manual_seed(0)
    try:
        f(x)
    except Exception as error:  # what it is, is what is compared
        return type(error).__name__, str(error), torch.rand(1).item()
    return "no error"


@pytest.mark.parametrize("backend", ["aten", "fuse"])
@pytest.mark.parametrize("name", BAD_DATA)
def test_bad_data_raises_eagers_error(name, backend):
    f, bad = BAD_DATA[name]
    expected = outcome(f, bad)
    assert expected != "no error"
    assert outcome(framefuse.compile(f, backend=backend), bad) == expected
    # The same from a graph that ran well before.
    framefuse.reset()
    compiled = framefuse.compile(f, backend=backend)
    outcome(compiled, torch.zeros_like(bad) + (0.5 if bad.is_floating_point() else 0))
    assert outcome(compiled, bad) == expected


def written_before(b, x):
    b.add_(1)
    return F.one_hot(x, 3)


def written_before_and_after(b, x):
    b.add_(1)
    result = F.one_hot(x, 3)
    b.mul_(2)
    return result


def drawn_before(b, x):
    return torch.rand(3), F.one_hot(x, 3)


def dropped_before(b, x):
    return F.dropout(b, 0.5), F.one_hot(x, 3) * torch.rand(2, 3)


def drawn_and_written_before(b, x):
    b.add_(1)
    return torch.rand(2), F.one_hot(x, 3)


def caught(b, x):
    b.add_(torch.rand(3))
    try:
        return F.one_hot(x, 3)
    except RuntimeError as error:
        return str(error), torch.rand(1)


@pytest.mark.parametrize("backend", ["aten", "fuse"])
@pytest.mark.parametrize("bad", [[0, 3], [0, -1]])
@pytest.mark.parametrize(
    "f", [written_before, written_before_and_after, drawn_before, dropped_before, drawn_and_written_before, caught]
)
def test_what_ran_before_the_error_has_run_once(f, bad, backend):
    def run(f):
        b, x = torch.ones(3), torch.tensor(bad)
        torch.manual_seed(0)
        try:
            result = str(f(b, x))
        except RuntimeError as error:
            result = error.args
        return result, b.tolist(), b._version, torch.rand(1).item()

    framefuse.reset()
    compiled = framefuse.compile(f, backend=backend)
    assert run(compiled) == run(f)
    compiled(torch.ones(3), torch.tensor([0, 2]))
    assert run(compiled) == run(f)
