"""Each stance of torch's: as many captures, and the same errors, as torch.compile has compilations."""

import framefuse
import pytest
import torch

_STANCES = ["default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile", "aot_eager_then_compile"]
_CALLS = {
    "other sizes": [(4, 2), (5, 2), (6, 2), (7, 2)],
    "the same sizes first": [(4, 2), (4, 2), (5, 2), (6, 2)],
    "other numbers": [(4, 2), (4, 3), (4, 5), (4, 7)],
    "both": [(4, 2), (5, 3), (6, 5), (7, 7)],
}


def _make():
    return lambda x, n: (x * n).relu() + n


def _seen(call, counted, calls):
    seen = []
    for rows, n in calls:
        x = torch.ones(rows, 3)
        try:
            assert torch.equal(call(x, n), _make()(x, n))
            seen.append(counted())
        except RuntimeError:
            seen.append("raises")
    return seen


def _torchs(stance, calls):
    import torch._dynamo

    torch._dynamo.reset()
    torch._dynamo.eval_frame._EXAMPLE_INPUTS = None  # of other tests
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(_make(), backend=backend)
    with torch.compiler.set_stance(stance):
        seen = _seen(compiled, lambda: len(graphs), calls)
    torch._dynamo.reset()
    return seen


@pytest.mark.parametrize("calls", _CALLS)
@pytest.mark.parametrize("stance", _STANCES)
def test_as_many_captures_as_torch_has(stance, calls):
    # Its first call goes through graphs that only serve to see what changes: with us through Python, as the other's.
    expected = _torchs(stance.removeprefix("aot_"), _CALLS[calls])
    framefuse.reset()
    compiled = framefuse.compile(_make())
    before = framefuse.statistics()["captures"]
    count = lambda: framefuse.statistics()["captures"] - before  # noqa: E731
    with torch.compiler.set_stance(stance):
        assert _seen(compiled, count, _CALLS[calls]) == expected
    assert _seen(compiled, count, [(9, 11)])[0] >= 1  # the stance has ended


def test_the_second_call_of_eager_then_compile_knows_what_changes():
    framefuse.reset()
    compiled = framefuse.compile(lambda x, rest: x.sum() + sum(t.sum() for t in rest["more"]) * rest["n"])
    before = framefuse.statistics()
    with framefuse.set_stance("eager_then_compile"):
        for size in range(3, 9):
            more = [torch.ones(size), torch.ones(2, size + 1)]
            result = compiled(torch.ones(size), {"more": more, "n": size})
            assert result == size + (size + 2 * (size + 1)) * size
    after = framefuse.statistics()
    assert after["captures"] - before["captures"] == 1 and after["hits"] - before["hits"] == 4


def test_modules_and_callees_wait_for_their_second_call_too():
    framefuse.reset()

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 2)

        def forward(self, x):
            return self.linear(x).relu()

    net = Net()
    compiled = framefuse.compile(net, fullgraph=True)
    before = framefuse.statistics()["captures"]
    with framefuse.set_stance("eager_then_compile"):
        for rows in (2, 3, 4, 5):
            x = torch.randn(rows, 4)
            torch.testing.assert_close(compiled(x), net(x))
    assert framefuse.statistics()["captures"] - before == 1


def test_after_the_stance_calls_are_captured_at_once():
    framefuse.reset()
    compiled = framefuse.compile(_make())
    with framefuse.set_stance("eager_then_compile"):
        compiled(torch.ones(3), 2)
    before = framefuse.statistics()["captures"]
    compiled(torch.ones(3), 2)
    assert framefuse.statistics()["captures"] - before == 1
