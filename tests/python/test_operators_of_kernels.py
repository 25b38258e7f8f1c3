"""Each operator that generated kernels cover, in each layout and dtype, with special values, against fp64 (integers: against eager)."""

import pathlib
import re
import sys
import warnings

import pytest
import torch

import framefuse

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import compare  # noqa: E402
import operator_cases  # noqa: E402

FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
LAYOUTS = [name for name, _, _ in operator_cases.layouts(torch.float32, "cpu")]
# Sums of terms that cancel: allowed are roundings of the largest result.
SUMS = re.compile(r"sum|mean|norm|softmax_backward|var")
# What halves and integers share with f32, or with each other, is not tried in every layout each time.
SOME = ("odd", "transposed", "channels_last", "no_rows")
SOMETIMES = [pytest.param(dtype, layout, marks=() if layout in SOME else pytest.mark.nightly) for dtype in FLOATS[1:] for layout in LAYOUTS]


def results(function, inputs):
    """None if eager refuses these inputs."""
    try:
        return compare.tensors_of(function(*inputs))
    except (RuntimeError, IndexError, ValueError):
        return None


def run_fused(cases, inputs):
    """The cases' results from one compiled program, and the names of the nodes in kernels."""

    def program(*inputs):
        return [function(*inputs) for _, function in cases]

    with warnings.catch_warnings(record=True) as warned:  # an operator that warns runs as Python
        warnings.simplefilter("always")
        program(*inputs)
    framefuse.reset()
    with framefuse.capture_logs("fusion") as records:
        got = framefuse.compile(program, backend="fuse", fullgraph=not warned)(*inputs)
    texts = [text for _, text in records]
    names = {name for text in texts if not text.startswith("ATen: ") for name in re.split(r", |: | \(", text)}
    return [compare.tensors_of(value) for value in got], names


def check(cases, inputs, why):
    """What `why(function, got, eager, roundings)` says of each case, in programs of a few cases."""
    cases = [(name, function, results(function, inputs)) for name, function in cases]
    cases = [case for case in cases if case[2] is not None]
    wrong = []
    for first in range(0, len(cases), 12):
        part = cases[first : first + 12]
        got, _ = run_fused([case[:2] for case in part], inputs)
        for (name, function, eager), own in zip(part, got):
            reason = why(function, own, eager, 64 if SUMS.search(name) else 0)
            if reason:
                wrong.append(f"{name}: {reason}")
    assert not wrong
    assert len(cases) > 10


def float_cases():
    for name, function, arity in operator_cases.operators():
        yield name, (lambda x, y, function=function: function(x)) if arity == 1 else function


@pytest.mark.parametrize("dtype, layout", [*((torch.float32, layout) for layout in LAYOUTS), *SOMETIMES], ids=str)
def test_floats(dtype, layout):
    torch.manual_seed(0)
    (inputs,) = ((x, y) for name, x, y in operator_cases.layouts(dtype, "cpu") if name == layout)
    wide = [t.double() for t in inputs]

    def why(function, got, eager, roundings):
        if dtype is torch.float64:  # where what is called exact is eager's
            roundings = 64
        reasons = (compare.mismatch(*each, roundings) for each in zip(got, eager, results(function, wide)))
        return next(filter(None, reasons), "") or ("number of results" if len(got) != len(eager) else "")

    check(float_cases(), inputs, why)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers(dtype):
    torch.manual_seed(0)
    for layout, *inputs in operator_cases.integer_layouts(dtype, "cpu"):
        if dtype is torch.int32 or layout in SOME:
            check(
                operator_cases.INTEGER.items(),
                inputs,
                lambda function, got, eager, roundings: "" if all(g.dtype == e.dtype and torch.equal(g, e) for g, e in zip(got, eager)) else "differs",
            )


NUMBERS = [0.3, 0.1, 0.7, 1.1, 2.3]  # none is a half; some are rounded up, some down
COMPARISONS = ["lt", "le", "gt", "ge", "eq", "ne"]
BACKWARDS = [torch.ops.aten.hardshrink_backward.default, torch.ops.aten.softshrink_backward.default, torch.ops.aten.threshold_backward.default]
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"))]


def around(numbers, dtype):
    """The numbers as halves, and what lies next to them."""
    halves = torch.tensor([sign * n for n in numbers for sign in (1, -1)]).to(dtype)
    return torch.cat([(halves.view(torch.int16) + step).view(dtype) for step in (-1, 0, 1)] * 3)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_halves_are_compared_with_numbers_as_their_type_holds_them(dtype, device):
    """Where eager's kernels have numbers in single precision instead, so have ours: the CPU's threshold."""
    x = around(NUMBERS, dtype).to(device)
    single, double = (torch.tensor(NUMBERS[0], dtype=t, device=device) for t in (torch.float32, torch.float64))

    def program(x, number, single, double):
        fixed = [getattr(x, name)(n) for name in COMPARISONS for n in NUMBERS]
        given = [getattr(x, name)(n) for name in COMPARISONS for n in (number, single, double)]
        computed = [getattr(x * 3, name)(3 * n) for name in COMPARISONS for n in NUMBERS]
        shrunk = [torch.nn.functional.hardshrink(x, n) for n in NUMBERS] + [torch.nn.functional.threshold(x, n, 20) for n in NUMBERS]
        backward = [function(x * 2, x, n) for function in BACKWARDS for n in NUMBERS]
        return fixed, given, computed, shrunk, backward, [torch.where(x > n, x, -x) for n in NUMBERS]

    compiled = framefuse.compile(program, backend="fuse", fullgraph=True)
    for number in NUMBERS:  # a constant at first, then one for all
        for got, eager in zip(compiled(x, number, single, double), program(x, number, single, double)):
            for own, expected in zip(got, eager):
                assert torch.equal(own, expected)


def test_the_list_is_complete():
    """Every operator that the backend has a pointwise form for is in some kernel of the programs above."""
    rows = "".join(page.read_text() for page in (ROOT / "backends/graph/operators").glob("*.def"))
    functions = dict(re.findall(r'FF_OP\((k\w+), "aten\.(\w+)', rows))
    table = (ROOT / "backends/fusion/pointwise_table.cpp").read_text().split("kRows{")[1]
    covered = {functions[name] for name in re.findall(r"\{(k\w+), ", table)}
    assert len(covered) > 60
    (x, y) = next((x, y) for name, x, y in operator_cases.layouts(torch.float32, "cpu") if name == "odd")
    _, names = run_fused(list(float_cases()), (x, y))
    _, more = run_fused(list(operator_cases.INTEGER.items()), (x.nan_to_num(1, 2, 3).int(), y.nan_to_num(1, 2, 3).int()))
    assert covered - names - more == set()
