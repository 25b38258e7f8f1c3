"""Parts of tensors from outside are written by index, as caches of keys and values are: the graph writes their memory itself.

What raises, and what reads the old elements, finds what eager finds.
"""

import torch

from conformance.program import Args, Case, program
from conformance.sample import matrix


def _cases(step, caches, positions, **options):
    """`step(caches, position, x)` at each position in turn; what it raised, and the caches."""

    def run(position, x):
        try:
            return step(caches, position, x)
        except (IndexError, RuntimeError) as error:
            return type(error).__name__

    x = matrix(2, 3)
    then = [lambda p=p, i=i: Args(p, x + i) for i, p in enumerate(positions[1:])]
    return Case(run, positions[0], x, then=then, observe=caches, **options)


def _numbers(*values):
    return torch.tensor(values)


def _copied(cache, position, x):
    return cache.index_copy_(1, position, x[:, None, :].expand(2, len(position), 3))


def _attention(caches, position, x):
    keys, values = (_copied(c, position, x * (i + 1)) for i, c in enumerate(caches))
    weights = torch.softmax((keys @ x[:, :, None]).squeeze(-1), -1)
    return (weights[:, None] @ values).squeeze(1)


def _two(*sizes):
    return [torch.zeros(2, n, 3) for n in sizes]


@program
def keys_and_values_at_a_position():
    return _cases(_attention, _two(5, 5), [_numbers(0), _numbers(1), _numbers(4), _numbers(2)])


@program
def keys_and_values_at_several_positions():
    return _cases(_attention, _two(5, 5), [_numbers(0, 1, 2), _numbers(3), _numbers(4, 4)])


@program
def positions_that_are_not_there():
    def step(caches, position, x):
        return _copied(caches[0], position, x) * 2

    return _cases(step, _two(5), [_numbers(0, 1), _numbers(1, 9), _numbers(2, -1), _numbers(3, 4)])


@program
def the_second_cache_is_shorter():
    return _cases(_attention, _two(5, 3), [_numbers(0), _numbers(4), _numbers(2), _numbers(1, 4)])


def _put(caches, position, x):
    keys, values = caches
    keys[:, position] = x[:, None]
    values.index_put_((torch.arange(2)[:, None], position), x[:, None] * 2)
    return keys.sum(1) + values.sum(1)


@program
def subscripts_of_both_signs():
    return _cases(_put, _two(5, 5), [_numbers(0), _numbers(-1), _numbers(3, -2), _numbers(-6), _numbers(5), _numbers(4)])


@program
def old_elements_are_read_after_the_write():
    def step(caches, position, x):
        (cache,) = caches
        before = cache * 2
        _copied(cache, position, x)
        return before.sum() + (before * cache).sum(), before

    return _cases(step, _two(5), [_numbers(0), _numbers(1), _numbers(8), _numbers(0)])


@program
def an_operator_behind_the_write_raises():
    def step(caches, position, x):
        (cache,) = caches
        _copied(cache, position, x)
        return x.flatten().index_select(0, position * 2) + cache[:, 0, 0].sum()

    return _cases(step, _two(5), [_numbers(0), _numbers(1), _numbers(4), _numbers(2)])


@program
def the_write_is_of_a_view():
    def step(caches, position, x):
        (cache,) = caches
        part = cache[:, 1:4]
        part.index_copy_(1, position, x[:, None])
        return part.sum(1) + cache.sum(1)

    return _cases(step, _two(5), [_numbers(0), _numbers(2), _numbers(3), _numbers(1)])


@program
def two_names_of_one_cache():
    def step(caches, position, x):
        first, second = caches
        _copied(first, position, x)
        read = second.sum()
        _copied(second, position, x + 1)
        return read, first.sum()

    cache = torch.zeros(2, 5, 3)
    return _cases(step, [cache, cache.view(2, 5, 3)], [_numbers(0), _numbers(3), _numbers(5), _numbers(1)])


@program
def written_twice_and_scattered():
    def step(caches, position, x):
        first, second = caches
        _copied(first, position, x)
        _copied(first, position, x * 2)
        second.scatter_(1, position[None, :, None].expand(2, 1, 3), x[:, None])
        second.index_add_(1, position, x[:, None])
        return first.sum(1) * second.sum(1)

    return _cases(step, _two(5, 5), [_numbers(0), _numbers(1), _numbers(6), _numbers(1)])


@program(whole=False)
def a_node_of_eager_has_saved_the_cache():
    def run(position, x):
        cache = torch.zeros(2, 5, 3)
        w = x.detach().clone().requires_grad_()
        product = (w[:, None] * cache).sum()
        torch._dynamo.graph_break()
        with torch.no_grad():
            _copied(cache, position, x)
        torch._dynamo.graph_break()
        try:
            product.backward()
        except RuntimeError as error:
            return str(error)[:60], cache, cache._version
        return w.grad

    return Case(run, _numbers(1), matrix(2, 3), forward_only=True)


@program
def what_is_written_has_a_history():
    def run(position, x, cache):
        kept = cache.clone()
        _copied(kept, position, x)
        return (kept * kept).sum()

    return Case(run, _numbers(1), matrix(2, 3).requires_grad_(), torch.ones(2, 5, 3))
