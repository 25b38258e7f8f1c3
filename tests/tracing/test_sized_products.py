"""Products of matrices as the tracer writes them for sizes that are symbolic: the operators that torch calls, in its order."""

import pytest
import torch

from harness import native

LEFT = {
    "plain": lambda: torch.randn(2, 3, 6),
    "four dimensions": lambda: torch.randn(2, 3, 4, 6),
    "rows exchanged": lambda: torch.randn(3, 2, 6).transpose(0, 1),
    "columns exchanged": lambda: torch.randn(2, 6, 3).transpose(1, 2),
    "every second row": lambda: torch.randn(1, 4, 6)[:, ::2],
    "the first rows": lambda: torch.randn(2, 8, 6)[:, :3],
    "one of one": lambda: torch.randn(1, 3, 6),
    "one in the middle": lambda: torch.randn(2, 1, 4, 6),
    "a matrix": lambda: torch.randn(2, 6),
    "a vector": lambda: torch.randn(6),
    "no elements": lambda: torch.randn(0, 3, 6),
}
RIGHT = {
    "a matrix": lambda: torch.randn(6, 5),
    "a matrix, turned": lambda: torch.randn(5, 6).t(),
    "as many": lambda: torch.randn(2, 6, 5),
    "one": lambda: torch.randn(1, 6, 5),
    "lists of lists": lambda: torch.randn(2, 3, 6, 5),
    "lists of lists, exchanged": lambda: torch.randn(2, 6, 3, 5).transpose(1, 2),
    "lists of lists, turned": lambda: torch.randn(2, 3, 5, 6).mT,
    "a list of one": lambda: torch.randn(2, 1, 6, 5),
    "more than there are": lambda: torch.randn(3, 6, 5),
    "a vector": lambda: torch.randn(6),
    "no columns": lambda: torch.randn(2, 6, 0),
}


# What computes, copies, or decides how gradients add up. Torch makes some views twice.
TOLD = {f"aten::{name}" for name in ("mm", "bmm", "mv", "clone", "squeeze", "unsqueeze", "_unsafe_view")}


def calls_of(f, *args):
    """A dispatch mode would not do: torch squeezes lists of one matrix where there is one."""
    with torch.autograd.profiler.profile() as profile:
        result = f(*args)
    events = sorted(profile.function_events, key=lambda event: event.time_range.start)
    return [event.name for event in events if event.name in TOLD], result


@pytest.mark.parametrize("left", LEFT)
@pytest.mark.parametrize("right", RIGHT)
@pytest.mark.parametrize("grads", [(False, False), (True, False), (False, True), (True, True)])
def test_they_call_what_torch_calls(left, right, grads):
    x, y = (made().requires_grad_(grad) for made, grad in zip((LEFT[left], RIGHT[right]), grads))
    try:
        expected_names, expected = calls_of(torch.matmul, x, y)
    except RuntimeError:
        fits = False
    else:
        fits = True
    if not fits or max(x.dim(), y.dim()) < 3:
        assert native.multiply_as_torch(x, y) is None
        return
    names, result = calls_of(native.multiply_as_torch, x, y)
    assert torch.equal(result, expected) and result.stride() == expected.stride()
    assert names == expected_names or x.numel() == 0 or y.numel() == 0  # which way is taken then, nobody sees


def test_columns_that_do_not_fit_are_said_by_the_operator():
    x, y = torch.randn(2, 3, 6), torch.randn(2, 5, 4)
    with pytest.raises(RuntimeError, match="batch2"):
        native.multiply_as_torch(x, y)
