"""Random programs on tensors by the default backend (tensor_programs.py), and programs that they found.

FF_FUZZ_PROGRAMS programs from FF_FUZZ_SEED on; the nightly test makes 4,000."""

import os

import framefuse
import pytest
import tensor_programs
import torch
from tensor_programs import Program

_BACKENDS = ["aten", "fuse"]


@pytest.fixture(autouse=True)
def fresh_state():
    framefuse.reset()
    yield
    framefuse.reset()


def _check(seeds, backend):
    for seed in seeds:
        program = tensor_programs.make(seed)
        wrong = tensor_programs.differences(program, backend)
        text = "\n".join(f"{what}: {str(a)[:300]} is {str(b)[:300]}" for what, (a, b) in wrong.items())
        assert not wrong, f"seed {seed}, {program.inputs}\n{program.source()}{text}"
        if seed % 50 == 0:
            framefuse.reset()


@pytest.mark.parametrize("backend", _BACKENDS)
def test_random_programs(backend):
    start, count = int(os.environ.get("FF_FUZZ_SEED", "0")), int(os.environ.get("FF_FUZZ_PROGRAMS", "120"))
    _check(range(start, start + count), backend)


@pytest.mark.nightly
@pytest.mark.parametrize("backend", _BACKENDS)
def test_many_random_programs(backend):
    _check(range(4000), backend)


_F64, _F32 = torch.float64, torch.float32
# name: (statements, layouts and shapes of the inputs, results)
_FOUND = {
    "dropout whose result nobody reads": (["v = x0.cumsum(-1)", "w = F.dropout(v, 0.5)"], [("plain", (2, 3), True, _F64)], ["v"]),
    "a piece whose base is written": (["v = F.gelu(x0)", "w = v.split(2, -1)[0]", "v.mul_(2)"], [("plain", (6,), True, _F64)], ["v", "w"]),
    "bits of a float": (["v = x0.view(torch.int64)", "v.view(-1)[0] = 9"], [("plain", (2, 4), True, _F64)], ["x0"]),
    "pieces of an unsafe split": (["v, w = torch.unsafe_split(x0, 1)"], [("plain", (2, 4), True, _F64)], ["v", "w"]),
    "a loss of two types": (["v = x1.expand(3, 4)", "w = F.mse_loss(v - x0, v)"], [("plain", (3, 4), False, _F64), ("plain", (), True, _F32)], ["w"]),
    "a norm of two types": (["v = F.group_norm(x0.bfloat16()[None, :], 1, x1, x1)", "w = v.float().sin()"], [("plain", (4, 4), True, _F32), ("plain", (4,), True, _F32)], ["w"]),
    "an outer product of two types": (["v = torch.addr(x0, x1, x1)", "w = v * 2"], [("plain", (), True, _F64), ("plain", (4,), True, _F32)], ["v", "w"]),
    "a sum of one value": (["v = x0.sum()", "w = x0.sum(0)", "u = x0.sin().sum(0, dtype=torch.float64)"], [("expanded", (40, 3), False, _F64)], ["v", "w", "u"]),
    "a sum of one value in each row": (["v = x0.unsqueeze(-1).expand(5, 40)", "w = v.sum(-1)", "u = (v * 2).mean(-1)"], [("plain", (5,), True, _F64)], ["w", "u"]),
    "a view that was used after its base was written": (["v = x0 * x0", "w = v.view(-1)", "v.add_(1)"], [("no leaf", (3,), True, _F64)], ["w", "w * 2"]),
    "a leaf that is a view": (["v = torch.sin(x0).unsqueeze(-1)", "v.requires_grad_()"], [("plain", (3,), False, _F64)], ["v"]),
    "a leaf in an input's memory": (["v = x0.detach()", "v.requires_grad_()"], [("plain", (3,), False, _F64)], ["v"]),
    "a write to places that a view has twice": (["v = x0.unfold(-1, 2, 1)", "v.index_put_((torch.tensor([0]),), torch.ones(1), accumulate=True)"], [("plain", (4, 4), False, _F64)], ["x0"]),
    "a view of what an operator lays out otherwise": (
        ["x0.transpose_(0, -1)", "v = x0 * x0", "w, _ = v.split([1, v.shape[0] - 1])", "v.scatter_(0, v.long().abs() % v.shape[0], 2.5)", "w.uniform_()"],
        [("sliced", (3, 4), False, _F64)],
        ["w", "v"],
    ),
    "an input that is written and detached": (["x0.mul_(2)", "x0.detach_()", "v = x0 * 3"], [("no leaf", (3,), True, _F64)], ["x0", "v"]),
    "an input that is detached and written": (["x0.detach_()", "x0.mul_(2)"], [("no leaf", (3,), True, _F64)], ["x0"]),
    "data beside what it is the data of": (["v = x0.max(0)[0]", "w = v.data"], [("plain", (3, 4), True, _F64)], ["w", "v"]),
    "pieces of an input that was written twice": (["x0.mul_(2)", "x0.mul_(3)", "v, w = x0.split([1, 2])"], [("no leaf", (3, 4), True, _F64)], ["v"]),
    "pieces of an input whose data was written": (["x0.data.mul_(2)", "v, w = x0.split([1, 2])"], [("plain", (3, 4), True, _F64)], ["v"]),
    "a view whose base was written since": (["v = x0 * 2"], [("view of what was written", (4,), True, _F64)], ["v"]),
    "a view made without gradients": (["v = x1 * 2"], [("parameter", (3, 1), False, _F64), ("view of the first", (3, 1), True, _F64)], ["v"]),
    "a piece of an input that begins elsewhere": (["v = x0.split([1, x0.shape[0] - 1])[0]", "v.mul_(2)"], [("part", (4,), False, _F64)], []),
    "windows of an input that begins elsewhere": (["x0.add_(1)", "x0.unfold(0, 2, 2).mul_(7)", "x0.unbind(0)[0].mul_(3)"], [("part", (4, 3), False, _F64)], []),
    "the diagonal of an input that begins elsewhere": (["x0.fill_diagonal_(3)"], [("part", (3, 3), False, _F64)], ["x0 * 2"]),
    "places of an input that begins elsewhere": (["v = x0.as_strided((2,), (1,), 1)", "v.mul_(2)"], [("part", (4,), False, _F64)], ["v * 2"]),
    "places of memory that was written": (["x0.mul_(2)", "v = x0.as_strided((2, 2), (1, 2))", "v.mul_(3)"], [("plain", (2, 3), False, _F64)], ["v", "x0"]),
    "a mask larger than what it masks": (["x0.masked_fill_(x1 > 0, -1)"], [("plain", (3,), False, _F64), ("plain", (2, 3), False, _F64)], []),
    "a product of two types": (["v = x0 @ x1"], [("plain", (3, 4), False, _F64), ("plain", (4,), False, _F32)], ["v"]),
    "values that do not fit where they are put": (["x0[torch.tensor([0, 1])] = x1"], [("plain", (3, 4), False, _F64), ("plain", (3,), False, _F64)], []),
    "a view of an input that is written later": (["v = x0.view(-1)", "v.mul_(2)"], [("no leaf", (3, 4), True, _F64)], ["v"]),
    "what is detached, left and written": (["v = x0.sin()", "w = v.detach()", "u = v.exp()", "w.add_(u.sum().item())"], [("plain", (3,), True, _F64)], ["u", "v"]),
    "sums of columns in place": (["v = x0.t() * 1", "w = v.view_as(v)", "v.cumsum_(0)"], [("plain", (3, 4), False, _F64)], ["v", "w"]),
    "a rounded quotient of a transposed": (["v = torch.floor_divide(x0.t(), x1)"], [("plain", (3, 4), False, _F64), ("plain", (4, 3), False, _F64)], ["v"]),
    "a stride of one element": (["v = x0.view(x0.shape)", "w = v + v.stride(-1) + v.stride(0)"], [("transposed", (3, 1), False, _F64)], ["w"]),
    "columns times one of them": (["v = x0[..., 1]", "x0 *= v"], [("plain", (4, 4), False, _F64)], []),
    "rows added to the next": (["x0[:, 1:] += x0[:, :-1]"], [("plain", (4, 4), False, _F64)], []),
    "numbers compared where a stride reaches nothing": (["v = torch.where(x0 > 0, x0[:, None], 0.0)"], [("transposed", (3, 1), False, _F64)], ["v"]),
    "sums across a view of another shape": (["v = (x0 * 2).unflatten(-1, (2, -1))", "v.transpose(0, -1).cumsum_(0)"], [("plain", (1, 4), False, _F64)], ["v"]),
    "data written beside a view made without gradients": (["x0.data.mul_(2)", "v = x1.view(x1.shape)"], [("parameter", (3, 4), False, _F64), ("view of the first", (3, 4), False, _F64)], ["v", "x0"]),
    "data of a view made without gradients": (["x1.data.mul_(2)", "v = x1.select(0, 0)", "w = x0 * 2"], [("parameter", (3, 4), False, _F64), ("view of the first", (3, 4), False, _F64)], ["v", "w"]),
    "data of an input": (["x0.data.mul_(2)", "v = x0 * x0"], [("no leaf", (3, 4), True, _F64)], ["v"]),
    "an error that is handled after a write": (["x0.mul_(2)", "try:\n        v = (x0 > 0) @ (x0 > 0)\n    except RuntimeError:\n        v = x0"], [("sliced", (4, 4), False, _F64)], ["v"]),
    "sums of integers in place": (["v = x0.int()", "v.view(-1).cumsum_(0)", "w = v * 2"], [("plain", (2, 3), False, _F64)], ["v", "w"]),
}


@pytest.mark.parametrize("backend", _BACKENDS)
@pytest.mark.parametrize("name", _FOUND)
def test_programs_that_were_found(name, backend):
    assert not tensor_programs.differences(Program(*_FOUND[name]), backend)


@pytest.mark.parametrize("backend", _BACKENDS)
@pytest.mark.parametrize("pieces", [lambda x: (x[..., :2], x[..., 2:]), lambda x: (x[::2], x[1::2]), lambda x: (x[0], x[1]), lambda x: (x, x.view(-1).view(x.shape))])
def test_pieces_that_do_not_meet_are_one_graph(pieces, backend):
    def f(x):
        a, b = pieces(x)
        a.mul_(b)
        return a + b

    x = torch.randn(4, 4)
    mine = x.clone()
    expected = f(x)
    assert framefuse.explain(f, backend=backend)(mine.clone()).graph_break_count == 0
    assert torch.equal(framefuse.compile(f, backend=backend)(mine), expected) and torch.equal(mine, x)


def _shift(x, k):
    x[:k].add_(x[1 : k + 1])
    return x * 2


def _halves(x, k):
    n = x.shape[0] // 2
    x[:n].mul_(x[n : 2 * n])
    return x + 1


def _draw(x, k):
    x[::2].normal_()
    return x


@pytest.mark.parametrize("backend", _BACKENDS)
@pytest.mark.parametrize("function", [_shift, _halves, _draw], ids=lambda f: f.__name__)
def test_writes_whose_places_change_with_sizes(function, backend):
    """Pieces that meet in one call and not in another; numbers that eager draws in another way once they are many."""
    compiled = framefuse.compile(function, backend=backend)
    for size, k in (8, 1), (9, 1), (10, 2), (11, 3), (20, 1), (60, 2), (90, 1):
        seen = []
        for f in function, compiled:
            x = torch.arange(float(size))
            torch.manual_seed(1)
            try:
                result = f(x, k).tolist()
            except RuntimeError as e:
                result = str(e).split("\n")[0]
            seen.append((result, x.tolist()))
        assert seen[0] == seen[1], (size, k)


@pytest.mark.compiles_nothing("compile is replaced by a wrong compiler")
def test_the_harness_sees_a_difference(monkeypatch):
    """With a compiler that gives `x + 1` for a program's first result."""
    compiled = lambda f, **_: lambda *args: [f(*args)[0] + 1, *f(*args)[1:]]
    monkeypatch.setattr(framefuse, "compile", compiled)
    assert "values" in tensor_programs.differences(Program(["v = x0.sin()"], [("plain", (3,), True, _F64)], ["v", "x0"]), "fuse")


_TYPED_WRITES = {
    "real_part": lambda x: torch.view_as_real(x).mul_(2),
    "conjugate": lambda x: x.conj().mul_(1j),
    "imaginary_part": lambda x: x.imag.fill_(3),
    "imaginary_part_of_a_conjugate": lambda x: x.conj().imag.add_(2),
    "row_of_the_real_part": lambda x: x.real[0].sub_(2),
}
_BIT_WRITES = {
    "as_complex": lambda x: torch.view_as_complex(x).mul_(1j),
    "signs": lambda x: x.view(torch.int32).bitwise_xor_(-(1 << 31)),
    "halves_of_words": lambda x: x.view(torch.int16)[0].fill_(0),
    "of_a_transposed": lambda x: x.t().view(torch.int32)[0].fill_(0),
    "bytes": lambda x: x.view(torch.uint8).add_(1),
}


@pytest.mark.parametrize("backend", _BACKENDS)
@pytest.mark.parametrize("dtype,name,write", [(torch.complex64, *w) for w in _TYPED_WRITES.items()] + [(_F32, *w) for w in _BIT_WRITES.items()])
def test_writes_to_views_of_another_type(dtype, name, write, backend):
    def f(x, write=write):
        write(x)
        y = x * 1
        write(y)
        return y

    x = torch.randn(3, 2, dtype=dtype)
    theirs, ours = x.clone(), x.clone()
    expected, got = f(theirs), framefuse.compile(f, backend=backend)(ours)
    torch.testing.assert_close((got, ours), (expected, theirs), rtol=0, atol=0, equal_nan=True)
