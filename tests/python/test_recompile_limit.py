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


def scaled(x, n):
    return x * n


def test_many_compiled_objects_have_a_limit_together():
    framefuse.reset()
    with framefuse.config.patch(accumulated_recompile_limit=3), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiled = [framefuse.compile(scaled, dynamic=False) for _ in range(6)]
        before = framefuse.statistics()
        for n, f in enumerate(compiled, 2):
            assert torch.equal(f(torch.ones(2), n), torch.full((2,), float(n)))
        assert change(before, "captures", "eager_fallbacks.recompile_limit") == [3, 3]
        before = framefuse.statistics()
        for n in range(2, 5):  # what is there serves all of them
            assert torch.equal(compiled[-1](torch.ones(2), n), torch.full((2,), float(n)))
        assert change(before, "captures", "hits") == [0, 3]
    texts = [str(w.message) for w in caught if "accumulated_recompile_limit" in str(w.message)]
    assert len(texts) == 3 and all("which counts for all compiled objects, is 3" in text for text in texts)


def test_modules_of_many_classes_are_not_one_place():
    """They share the code of torch's wrapper, which is not the user's."""
    framefuse.reset()
    modules = [type(f"Net{i}", (torch.nn.Module,), {"forward": eval(f"lambda self, x: x + {i}")})() for i in range(5)]
    with framefuse.config.patch(accumulated_recompile_limit=2):
        before = framefuse.statistics()
        for i, module in enumerate(modules):
            assert torch.equal(framefuse.compile(module)(torch.ones(2)), torch.ones(2) + i)
        assert change(before, "captures", "eager_fallbacks") == [5, 0]


def test_the_warning_names_the_guard_that_failed_most():
    def f(x, n, kind):
        return x * n + len(kind)

    framefuse.reset()
    compiled = framefuse.compile(f, dynamic=False, recompile_limit=4)
    with pytest.warns(RuntimeWarning, match="The guard that failed most: L\\['n'\\] == ") as caught:
        for n, kind in [(2, "a"), (3, "a"), (4, "a"), (4, "bc"), (5, "a")]:
            compiled(torch.ones(2), n, kind)
    (text,) = [str(w.message) for w in caught if "recompile_limit is 4" in str(w.message)]
    assert "failures" in text and __file__ in text


def test_the_limit_can_be_an_error():
    framefuse.reset()
    compiled = framefuse.compile(scaled, dynamic=False, name="the scaler")
    with framefuse.config.patch(recompile_limit=2, fail_on_recompile_limit_hit=True):
        for n in 2, 3:
            compiled(torch.ones(2), n)
        for _ in range(2):
            with pytest.raises(framefuse.Unsupported, match="of the scaler would run as Python: config.recompile_limit is 2.*L\\['n'\\]"):
                compiled(torch.ones(2), 4)
        assert torch.equal(compiled(torch.ones(2), 3), torch.full((2,), 3.0))


def test_a_stance_that_raises_says_which_guard_failed():
    framefuse.reset()
    compiled = framefuse.compile(scaled, dynamic=False)
    compiled(torch.ones(2), 2)
    with framefuse.set_stance("fail_on_recompile"):
        assert torch.equal(compiled(torch.ones(2), 2), torch.full((2,), 2.0))
        with pytest.raises(RuntimeError, match="stance fail_on_recompile: .*L\\['n'\\]"):
            compiled(torch.ones(2), 3)
    with framefuse.config.patch(error_on_recompile=True), pytest.raises(RuntimeError, match="config.error_on_recompile: .*L\\['n'\\]"):
        compiled(torch.ones(2), 3)
    with framefuse.set_stance("eager_on_recompile"):
        before = framefuse.statistics()
        assert torch.equal(compiled(torch.ones(2), 3), torch.full((2,), 3.0))
        assert torch.equal(compiled(torch.ones(2), 2), torch.full((2,), 2.0))
        assert change(before, "captures", "hits") == [0, 1]
    with framefuse.set_stance("force_eager"):
        assert torch.equal(compiled(torch.ones(2), 3), torch.full((2,), 3.0))
    assert torch.equal(compiled(torch.ones(2), 3), torch.full((2,), 3.0))


def test_one_entry_for_any_number_and_size_is_enough():
    framefuse.reset()
    compiled = framefuse.compile(scaled, recompile_limit=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = framefuse.statistics()
        for n in range(2, 20):
            assert torch.equal(compiled(torch.ones(n), n), torch.full((n,), float(n)))
        assert change(before, "captures", "eager_fallbacks") == [2, 0]


def _broken_in_two(x):
    y = x.sin()
    framefuse.graph_break()
    return _through(y)


def _through(y):
    return y.cos()


@pytest.mark.parametrize("function", [lambda x: x.sin() + 1, _broken_in_two], ids=["whole", "broken"])
def test_stances_hold_for_the_first_call_as_torchs_do(function):
    framefuse.reset()
    compiled, x = framefuse.compile(function), torch.ones(3)
    before = framefuse.statistics()
    with framefuse.set_stance("eager_on_recompile"):
        torch.testing.assert_close(compiled(x), function(x))
    for _ in range(2):
        with framefuse.set_stance("fail_on_recompile"), pytest.raises(RuntimeError, match="^compilation of .*nothing of it is compiled yet"):
            compiled(x)
    assert change(before, "captures") == [0]
    compiled(x)
    before = framefuse.statistics()
    for stance in ("fail_on_recompile", "eager_on_recompile"):
        with framefuse.set_stance(stance):
            torch.testing.assert_close(compiled(x), function(x))
    assert change(before, "captures", "eager_fallbacks") == [0, 0]


@pytest.mark.parametrize("stance", ["fail_on_recompile", "eager_on_recompile"])
def test_what_has_no_tensor_work_runs_under_any_stance(stance):
    framefuse.reset()
    said = []

    def note(text):
        said.append(text)

    def function(x):
        y = x.sin()
        framefuse.graph_break()
        note("half")
        return y.cos()

    compiled, x = framefuse.compile(function), torch.ones(3)
    compiled(x)
    with framefuse.set_stance(stance):
        torch.testing.assert_close(compiled(x), function(x))
    assert said == ["half"] * 3

def calls_of(compiled, values):
    """Captures and fallbacks at the limit, over these calls, each of which has to be right."""
    before = framefuse.statistics()
    for n in values:
        assert torch.equal(compiled(torch.ones(2), n), torch.full((2,), float(n)))
    return change(before, "captures", "eager_fallbacks.recompile_limit")


@pytest.fixture
def quiet():
    framefuse.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_entries_that_are_used_no_more_leave_for_others(quiet):
    compiled = framefuse.compile(scaled, dynamic=False, recompile_limit=2)
    assert calls_of(compiled, [2, 3] * 50) == [2, 0]
    captures, fallbacks = calls_of(compiled, [4, 5] * 200)
    assert captures == 2 and fallbacks < 300
    assert calls_of(compiled, [4, 5] * 50) == [0, 0]


def test_values_that_never_come_again_take_few_captures(quiet):
    compiled = framefuse.compile(scaled, dynamic=False, recompile_limit=2)
    captures, fallbacks = calls_of(compiled, range(3000))
    assert captures < 10 and fallbacks > 2900


def test_an_entry_in_use_stays(quiet):
    compiled = framefuse.compile(scaled, dynamic=False, recompile_limit=2)
    assert calls_of(compiled, [2, 3, 4] * 200) == [2, 200]  # the least recent use of each is two calls ago
    values = [v for n in range(10, 1010) for v in (2, n)]
    captures, _ = calls_of(compiled, values)
    assert captures < 8
    before = framefuse.statistics()
    calls_of(compiled, [2] * 5)
    assert change(before, "hits") == [5]


def test_entries_of_many_compiled_objects_leave_too(quiet):
    with framefuse.config.patch(accumulated_recompile_limit=3):
        compiled = [framefuse.compile(scaled, dynamic=False) for _ in range(6)]
        for n, f in enumerate(compiled, 2):
            f(torch.ones(2), n)
        captures, fallbacks = calls_of(compiled[-1], [7] * 100)
        assert captures == 1 and fallbacks < 70
        assert calls_of(compiled[0], [7] * 3) == [0, 0]


def test_a_general_entry_serves_at_the_limit(quiet):
    """The one for a size that the code looks at leaves, the one for any size does not."""

    @framefuse.compile(recompile_limit=3)
    def f(x):
        return x * len(str(x.shape[0])) if x.shape[0] < 100 else x + 1

    sizes = [5, 7, 200, 300, 11, 400]
    for size in sizes:
        f(torch.ones(size))
    before = framefuse.statistics()
    for i in range(600):
        size = 20 + i % 60 if i % 2 else 101 + i
        assert torch.equal(f(torch.ones(size)), torch.ones(size) * 2)
    captures, hits = change(before, "captures", "hits")
    assert captures < 6 and hits >= 300


@pytest.mark.filterwarnings("ignore:framefuse. :RuntimeWarning")
def test_a_compiled_function_below_one_at_its_limit():
    """It has a limit of its own, and fullgraph of its own: nobody told it to run as Python."""
    inner = framefuse.compile(lambda x: x * 2, fullgraph=True)

    def f(x, n):
        return inner(x) + n

    framefuse.reset()
    with framefuse.config.patch(recompile_limit=1):
        outer = framefuse.compile(f, dynamic=False)
        outer(torch.ones(2), 0)
        before = framefuse.statistics()
        for n in range(1, 4):
            assert torch.equal(outer(torch.ones(2), n), torch.full((2,), 2.0 + n))
        captures, hits, limit, below = change(
            before, "captures", "hits", "eager_fallbacks.recompile_limit", "eager_fallbacks.below_recompile_limit"
        )
    assert (captures, hits, limit, below) == (1, 2, 3, 0)
