"""Arguments that eager's kernels refuse and torch's kernels for metadata let pass: the program gets eager's error, whether its
result is read or not."""

import framefuse
import pytest
import torch
import torch.nn.functional as F

_FORMS = {
    "lerp of two types": lambda x, y: torch.lerp(x, y.double(), 0.5),
    "lerp in place": lambda x, y: x.lerp_(y.double(), y),
    "a weight that is not of the normalized shape": lambda x, y: F.layer_norm(x, (4,), y[0, :1]),
    "a bias that is not of the normalized shape": lambda x, y: F.layer_norm(x, (4,), y[0], y[0, :1]),
    "statistics of another type": lambda x, y: F.batch_norm(x, y[0].double(), y[0].double()),
    "weights of another type": lambda x, y: F.batch_norm(x, None, None, y[0].double(), y[0].double(), training=True),
    "a quotient of integers": lambda x, y: torch.addcdiv(x, y.long(), y.long()),
    "a product of two types": lambda x, y: x @ y.double(),
    "a cross product of two types": lambda x, y: torch.cross(x[:, :3], y[:, :3].double(), dim=1),
    "targets of another type": lambda x, y: F.binary_cross_entropy(x.sigmoid(), y.sigmoid().double()),
    "parts of two types": lambda x, y: torch.complex(x, y.double()),
    "rows chosen by no integers": lambda x, y: x.index_select(0, y[0]),
    "integers modulo zero": lambda x, y: x.long() % 0,
    "integers over zero": lambda x, y: x.long() // 0,
    "integers modulo zero in place": lambda x, y: x.long().fmod_(0),
    "values of another type": lambda x, y: x.index_put_((torch.tensor([0, 1]),), y[:2].double()),
    "values that do not fit": lambda x, y: x.index_put_((torch.tensor([0, 1]),), y[:3]),
    "a mask that does not fit": lambda x, y: x.masked_fill_(y[None] > 0, 1),
    "a source of another type": lambda x, y: x.masked_scatter_(y > 0, y.double()),
    "the largest of bools": lambda x, y: (x > 0).argmax(-1),
    "a logit of integers": lambda x, y: x.long().logit_(),
    "a detached view": lambda x, y: x.detach_(),
}
_NARROW = lambda x, y: F.batch_norm(x.bfloat16(), y[0].abs(), y[0].abs(), y[0], y[0])


def _result(function, *args):
    try:
        return function(*args)
    except Exception as e:
        return type(e), str(e).split("\n")[0]


@pytest.mark.parametrize("backend", ["aten", "fuse"])
@pytest.mark.parametrize("dead", [False, True])
@pytest.mark.parametrize("name", _FORMS)
def test_eagers_error(name, dead, backend):
    form = _FORMS[name]

    def f(x, y):
        torch.rand(3)
        result = form(x, y)
        return x * 1 if dead else (x * 1, result)

    framefuse.reset()
    found = []
    for function in f, framefuse.compile(f, backend=backend):
        torch.manual_seed(0)
        base, y = torch.randn(5, 4), torch.randn(4, 4)
        found.append((_result(function, base[1:], y), base.tolist(), torch.rand(2).tolist()))
    assert found[0] == found[1]
    assert issubclass(found[0][0][0], Exception)


@pytest.mark.parametrize("backend", ["aten", "fuse"])
def test_wide_parameters_of_a_narrow_input(backend):
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    expected, report = _NARROW(x, y), framefuse.explain(_NARROW, backend=backend)(x, y)
    assert report.graph_break_count == 0
    torch.testing.assert_close(framefuse.compile(_NARROW, backend=backend)(x, y), expected, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("backend", ["aten", "fuse"])
def test_a_product_that_gives_its_input_other_sizes(backend):
    def f(x, y):
        z = x.clone()
        z.addbmm_(y, y)
        return z.sin()

    x, y = torch.randn(1), torch.randn(2, 3, 3)
    torch.testing.assert_close(framefuse.compile(f, backend=backend)(x, y), f(x, y))
