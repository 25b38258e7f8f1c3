"""Limits belong to the compiled object and the user's function."""

import warnings

import framefuse
import pytest
import torch


def change(before, *names):
    after = framefuse.statistics()
    return [after[name] - before[name] for name in names]


def test_each_compiled_module_has_a_limit_of_its_own():
    """All modules share torch's `_wrapped_call_impl`: the ninth used to run as Python."""
    framefuse.reset()
    classes = [type(f"Net{i}", (torch.nn.Linear,), {"forward": lambda self, x, i=i: torch.nn.Linear.forward(self, x) * i}) for i in range(12)]
    modules = [cls(3, 3) for cls in classes]
    compiled = [framefuse.compile(module) for module in modules]
    x = torch.ones(2, 3)
    before = framefuse.statistics()
    for _ in range(3):
        for module, twin in zip(modules, compiled, strict=True):
            torch.testing.assert_close(twin(x), module(x))
    assert change(before, "captures", "hits", "eager_fallbacks") == [12, 24, 0]


def test_the_limit_holds_for_each_compiled_object():
    def f(x, n):
        return x + n

    framefuse.reset()
    with framefuse.config.patch(recompile_limit=2), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        first, second = framefuse.compile(f, dynamic=False), framefuse.compile(f, dynamic=False)
        before = framefuse.statistics()
        for n in range(4):
            assert torch.equal(first(torch.ones(2), n), torch.ones(2) + n)
        assert change(before, "captures", "eager_fallbacks.recompile_limit") == [2, 2]
        before = framefuse.statistics()
        for n in range(6):  # two of the first one's, two of its own
            assert torch.equal(second(torch.ones(2), n), torch.ones(2) + n)
        assert change(before, "captures", "hits", "eager_fallbacks.recompile_limit") == [2, 2, 2]
        assert torch.equal(first(torch.ones(2), 3), torch.ones(2) + 3)
    limits = [str(w.message) for w in caught if "recompile_limit" in str(w.message)]
    assert len(limits) == 2 and all("test_the_limit_holds_for_each_compiled_object.<locals>.f (" in text for text in limits)


def test_the_warning_names_the_users_class():
    class Net(torch.nn.Module):
        def forward(self, x, n):
            return x + n

    framefuse.reset()
    net = framefuse.compile(Net(), dynamic=False)
    with framefuse.config.patch(recompile_limit=1), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(3):
            net(torch.ones(2), n)
    (text,) = [str(w.message) for w in caught if "recompile_limit" in str(w.message)]
    assert "Net.forward (" in text and __file__ in text and "_wrapped_call_impl" not in text


def test_callees_of_a_frame_at_its_limit_are_not_compiled_in_its_place():
    def helper(x, n):
        return x * n

    def f(x, n):
        return helper(x, n) + helper(x, n + 1)

    framefuse.reset()
    with framefuse.config.patch(recompile_limit=2), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = framefuse.compile(f, dynamic=False)
        for n in range(2):
            compiled(torch.ones(2), n)
        before = framefuse.statistics()
        for n in range(2, 8):
            assert torch.equal(compiled(torch.ones(2), n), torch.full((2,), 2.0 * n + 1))
        captures, limit, below = change(
            before, "captures", "eager_fallbacks.recompile_limit", "eager_fallbacks.below_recompile_limit"
        )
    assert captures == 0 and limit == 6 and below == 12


def test_past_the_limit_fullgraph_raises():
    def f(x, n):
        return x + n

    framefuse.reset()
    whole = framefuse.compile(f, fullgraph=True, dynamic=False)
    with framefuse.config.patch(recompile_limit=2):
        for n in range(2):
            whole(torch.ones(2), n)
        with pytest.raises(framefuse.Unsupported, match="config.recompile_limit is 2"):
            whole(torch.ones(2), 2)
        assert torch.equal(whole(torch.ones(2), 1), torch.full((2,), 2.0))
