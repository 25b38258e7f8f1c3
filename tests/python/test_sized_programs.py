"""Random programs whose sizes change from call to call, through one compiled plan (sized_programs.py), and programs that they found.

FF_FUZZ_PROGRAMS programs from FF_FUZZ_SEED on, ten calls each; the nightly test makes 2,500.
"""

import os

import framefuse
import pytest
import sized_programs
import torch
from sized_programs import SizedProgram

_BACKENDS = ["aten", "fuse"]


@pytest.fixture(autouse=True)
def fresh_state():
    framefuse.reset()
    yield
    framefuse.reset()


def _check(seeds, backend):
    for seed in seeds:
        program = sized_programs.make(seed)
        wrong, _ = sized_programs.differences(program, backend)
        text = "\n".join(f"{what}: {str(a)[:300]} is {str(b)[:300]}" for what, (a, b) in wrong.items())
        assert not wrong, f"seed {seed}, {program.inputs}\n{program.sizes}\n{program.source()}{text}"
        if seed % 50 == 0:
            framefuse.reset()


@pytest.mark.parametrize("backend", _BACKENDS)
def test_random_programs_at_random_sizes(backend):
    start, count = int(os.environ.get("FF_FUZZ_SEED", "0")), int(os.environ.get("FF_FUZZ_PROGRAMS", "60"))
    _check(range(start, start + count), backend)


@pytest.mark.nightly
@pytest.mark.parametrize("backend", _BACKENDS)
def test_many_random_programs_at_random_sizes(backend):
    _check(range(2500), backend)


_F64 = torch.float64
# name: (statements, layouts and shapes of the inputs, results, sizes of the calls)
_FOUND = {
    "a row of one beside a stride of the first call": (
        ["x0[1:].mul_(2)"], [("transposed", (2, "m", "n"), False, _F64)], [], [{"n": 8, "m": 7}, {"n": 8, "m": 33}, {"n": 3, "m": 9}],
    ),
    "a piece that is cloned and written": (
        ["v = x0[x0.shape[0] // 2 :]", "w = v.clone()", "w.copy_(v)"], [("plain", ("m", "n"), False, _F64)], ["w"], [{"n": 4, "m": 5}, {"n": 6, "m": 9}],
    ),
    "a batch norm of what is transposed": (
        ["v = F.batch_norm(x0, None, None, training=True)", "w = v * 2"], [("transposed", ("n", "n", "m"), True, _F64)], ["w"], [{"n": 6, "m": 4}, {"n": 3, "m": 9}],
    ),
}  # fmt: skip


@pytest.mark.parametrize("backend", _BACKENDS)
@pytest.mark.parametrize("name", _FOUND)
def test_programs_that_were_found(name, backend):
    body, inputs, returned, sizes = _FOUND[name]
    assert not sized_programs.differences(SizedProgram(body, inputs, returned, sizes=sizes), backend)[0]


_GENERAL = {
    "pointwise": ["v = torch.sin(x0) * x1 + x0.shape[0]"],
    "reductions": ["v = x0.sum(0) + x1.mean((0, 1))"],
    "softmax": ["v = torch.softmax(x0, -1) * x1"],
    "a product": ["v = x0 @ x1.transpose(-1, -2)"],
    "views": ["v = x0.view(x0.shape[0] * x0.shape[1]) + x1.reshape(-1)"],
    "halves": ["v = x0[: x0.shape[0] // 2].sum(0) + x1[x0.shape[0] // 2 :].sum(0)"],
    "a write": ["v = x0 * 1", "v.mul_(x1)", "v[1:] += 1"],
    "a cat": ["v = torch.cat([x0, x1, x0.new_zeros(1, x0.shape[1])])"],
}


@pytest.mark.parametrize("backend", _BACKENDS)
@pytest.mark.parametrize("name", _GENERAL)
def test_one_capture_for_all_sizes(name, backend):
    sizes = [{"n": n, "m": m} for n, m in [(5, 4), (4, 3), (33, 7), (8, 8), (300, 2), (7, 65), (4, 5), (17, 16)]]
    inputs = [("plain", ("n", "m"), True, _F64), ("plain", ("n", "m"), True, _F64)]
    wrong, captures = sized_programs.differences(SizedProgram(_GENERAL[name], inputs, ["v"], sizes=sizes), backend)
    assert not wrong and captures == 1
