"""Compiled generator and coroutine functions: captured between their suspensions (docs/architecture/suspended_frames.md)."""

import asyncio
import gc
import inspect
import warnings

import framefuse
import pytest
import torch

X = torch.linspace(-1, 1, 5)


def change(before, *names):
    after = framefuse.statistics()
    return [after[name] - before[name] for name in names]


async def doubled(x):
    return x.cos() * 2


async def waits(x):
    y = x.sin() + 1
    await asyncio.sleep(0)
    z = y * 2 + x
    w = await doubled(z)
    try:
        await asyncio.sleep(0)
        w = w.relu() + z
    finally:
        w = w + 1
    return w.sum() - z


def steps(x):
    a = x.sin() + 1
    sent = yield a
    b = a * 2 if sent is None else a * sent
    yield b.relu()
    return b.sum()


def all_of(generator, *sent):
    values = [next(generator)]
    try:
        for value in sent:
            values.append(generator.send(value))
    except StopIteration as stop:
        values.append(stop.value)
    return values


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("backend", ["fuse", "aten", lambda module, inputs: module.forward])
def test_a_coroutine_is_captured_between_its_awaits(fullgraph, backend):
    compiled = framefuse.compile(waits, fullgraph=fullgraph, backend=backend)
    before = framefuse.statistics()
    for _ in range(3):
        torch.testing.assert_close(asyncio.run(compiled(X)), asyncio.run(waits(X)))
    assert change(before, "graphs", "graph_breaks", "eager_fallbacks", "recompiles") == [4, 0, 0, 0]
    captures = change(before, "captures")
    torch.testing.assert_close(asyncio.run(compiled(X + 1)), asyncio.run(waits(X + 1)))
    assert change(before, "captures") == captures


@pytest.mark.parametrize("fullgraph", [False, True])
def test_a_generator_is_captured_between_its_yields(fullgraph):
    compiled = framefuse.compile(steps, fullgraph=fullgraph)
    before = framefuse.statistics()
    for sent in (None, None, 3.0, 3.0):
        torch.testing.assert_close(all_of(compiled(X), sent, None), all_of(steps(X), sent, None))
    assert change(before, "graphs", "graph_breaks", "eager_fallbacks") == [4, 0, 0]


def test_gradients_go_through_suspensions():
    def parts(x):
        y = x.sin()
        yield y
        yield (y * x).exp()

    grads = []
    for f in (parts, framefuse.compile(parts)):
        x = X.clone().requires_grad_()
        sum(part.sum() for part in f(x)).backward()
        grads.append(x.grad)
    torch.testing.assert_close(*grads)


def test_effects_stand_in_their_order():
    def f(x, seen):
        seen.append("first")
        y = x + 1
        yield y
        seen.append("second")
        x.mul_(2)
        yield x + y
        seen.append("end")

    results = []
    for g in (f, framefuse.compile(f)):
        x, seen, parts = X.clone(), [], []
        for part in g(x, seen):
            parts.append((part.clone(), x.clone()))
            seen.append("outside")
        results.append((parts, seen))
    torch.testing.assert_close(results[0][0], results[1][0])
    assert results[0][1] == results[1][1] == ["first", "outside", "second", "outside", "end"]


def test_breaks_between_suspensions_are_breaks():
    async def f(x):
        y = x + 1
        framefuse.graph_break()
        await asyncio.sleep(0)
        return y * 2

    before = framefuse.statistics()
    assert torch.equal(asyncio.run(framefuse.compile(f)(X)), (X + 1) * 2)
    assert change(before, "graph_breaks") == [1]
    with pytest.raises(framefuse.Unsupported, match="graph_break"):
        asyncio.run(framefuse.compile(f, fullgraph=True)(X))


def test_errors_and_what_is_thrown():
    async def fails(x):
        y = x + 1
        await asyncio.sleep(0)
        return y @ torch.ones(7)

    with pytest.raises(RuntimeError, match="size"):
        asyncio.run(framefuse.compile(fails)(X))

    async def cancelled(x):
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            return x * 2

    async def cancels(f):
        task = asyncio.create_task(f(X))
        await asyncio.sleep(0)
        task.cancel()
        return await task

    assert torch.equal(asyncio.run(cancels(framefuse.compile(cancelled))), X * 2)

    def closed(x, seen):
        try:
            yield x + 1
        finally:
            seen.append(x * 2)

    seen = []
    generator = framefuse.compile(closed)(X, seen)
    next(generator)
    generator.close()
    assert torch.equal(seen[0], X * 2) and inspect.getgeneratorstate(generator) == inspect.GEN_CLOSED


def test_several_run_at_once():
    async def f(x, n):
        for i in range(n):
            x = x.sin() + i
            await asyncio.sleep(0)
        return x

    async def all_together(g):
        return await asyncio.gather(*(g(X + k, k + 1) for k in range(4)))

    for mine, theirs in zip(asyncio.run(all_together(framefuse.compile(f))), asyncio.run(all_together(f))):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.compiles_nothing("what is returned never runs")
def test_they_are_what_python_makes():
    coroutine_function, generator_function = framefuse.compile(waits), framefuse.compile(steps)
    assert asyncio.iscoroutinefunction(coroutine_function) and not asyncio.iscoroutinefunction(generator_function)
    coroutine, generator = coroutine_function(X), generator_function(X)
    assert inspect.iscoroutine(coroutine) and coroutine.__name__ == "waits" and coroutine.__qualname__ == "waits"
    assert inspect.isgenerator(generator) and generator.__name__ == "steps"
    with pytest.raises(TypeError, match="can't send non-None value to a just-started generator"):
        generator.send(1)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        coroutine_function()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del coroutine
        gc.collect()
    assert [str(w.message) for w in caught] == ["coroutine 'waits' was never awaited"]


def test_they_run_as_python_where_capture_is_off():
    compiled = framefuse.compile(steps)
    with framefuse.set_stance("force_eager"):
        torch.testing.assert_close(all_of(compiled(X), None, None), all_of(steps(X), None, None))
    generator = compiled(X)
    first = next(generator)
    with framefuse.set_stance("force_eager"):
        second = next(generator)
    torch.testing.assert_close([first, second], all_of(steps(X), None))
