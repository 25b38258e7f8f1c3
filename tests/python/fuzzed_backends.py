"""Random FX backends that misbehave: each call gives Python's result or raises an error that names the backend.

`python fuzzed_backends.py SEED COUNT` tries COUNT backends and prints what they did, one line for each kind. Every way to misbehave is one
row of `_WHEN_COMPILING` or `_WHEN_CALLED`. Invariant: nothing but a failed check or a signal gives this process another exit status than 0.
"""

import collections
import gc
import random
import sys

import framefuse
import torch


class Odd(Exception):
    pass


# ---------------------------------------------------------------- programs


def plain(t, w):
    return torch.sin(t) * w + 1


def many_results(t, w):
    return t + 1, {"a": [w * 2, (t * w).sum()]}, 3


def breaks(t, w):
    a = t * 2
    framefuse.graph_break()
    return a + w


def breaks_in_blocks(t, w, log):
    for i in range(2):
        try:
            with torch.no_grad():
                t = t * 2
                framefuse.graph_break()
                t = t + i
        finally:
            log.append(i)
    return t * w


def _helper(t):
    t = t + 1
    framefuse.graph_break()
    return t * 2


def breaks_inlined(t, w):
    return [_helper(t), _helper(w)]


def writes(t, w):
    t.add_(w)
    return t * 2


def writes_and_breaks(t, w):
    t.mul_(2)
    framefuse.graph_break()
    t += w
    return t.sum()


def passes(t, w):
    """With a backward pass inside, whose gradient the graph reads."""
    leaf = (t + w.detach()).requires_grad_()
    (leaf * leaf).sum().backward()
    return leaf.grad * 2


def passes_to_an_argument(t, w):
    if not w.requires_grad:
        return t + w
    (t * w).square().sum().backward()
    framefuse.graph_break()
    return w.grad + t


def asks_for_gradients(t, w):
    if not w.requires_grad:
        return t * w
    (gradient,) = torch.autograd.grad((w * t).sin().sum(), w)
    return gradient + t


def looks_at_a_number(t, w):
    total = t.sum()
    return w * total if total > 0 else w


class _Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        ctx.save_for_backward(t)
        return t * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0]


def with_an_own_function(t, w):
    return _Doubled.apply(w * t) + torch.vmap(lambda row: row.sin())(t)


PROGRAMS = (
    plain, many_results, breaks, breaks_in_blocks, breaks_inlined, writes, writes_and_breaks, passes, passes_to_an_argument,
    asks_for_gradients, looks_at_a_number, with_an_own_function,
)  # fmt: skip


# ---------------------------------------------------------------- what a backend does


class Backend:
    """Behaves until its n-th compilation, or the n-th call of what it compiled; then does `deed` once, or from then on."""

    def __init__(self, rng):
        self.deed = rng.choice(sorted(_WHEN_COMPILING) + sorted(_WHEN_CALLED))
        self.at = rng.choice([0, 0, 0, 1, 2])
        self.for_ever = rng.random() < 0.5
        self.compiled = None
        self.arguments = None
        self.compilations = self.calls = 0
        self.inside = False
        self.misbehaved = False

    def _is_time(self, count):
        return not self.inside and (count == self.at or (self.for_ever and count > self.at))

    def __call__(self, gm, examples):
        self.compilations += 1
        if self.deed in _WHEN_COMPILING and self._is_time(self.compilations - 1):
            bad, act = _WHEN_COMPILING[self.deed]
            self.misbehaved |= bad
            result = self._do(lambda: act(self, gm))
            if result is not None:
                return result[0]
        return lambda *inputs: self.run(gm, inputs)

    def run(self, gm, inputs):
        self.calls += 1
        if self.deed in _WHEN_CALLED and self._is_time(self.calls - 1):
            bad, act = _WHEN_CALLED[self.deed]
            self.misbehaved |= bad
            return self._do(lambda: act(self, gm, inputs))
        return gm.forward(*inputs)

    def _do(self, act):
        self.inside = True
        try:
            return act()
        finally:
            self.inside = False


def _raise(error):
    raise error


def _reenter(backend):
    f, arguments = backend.compiled, backend.arguments
    with torch.enable_grad():  # a graph with a pass in it is compiled, and runs, without
        f(*(a.detach().clone() if isinstance(a, torch.Tensor) else [] for a in arguments))


def _after(act):
    """First `act`, then what a good backend does."""

    def run(backend, gm, inputs):
        act(backend)
        return gm.forward(*inputs)

    return run


def _changed(change):
    def run(backend, gm, inputs):
        results = gm.forward(*inputs)
        if results:
            return change(results)
        backend.misbehaved = False  # a graph that only writes: there is nothing to be wrong
        return results

    return run


def _fake():
    return torch._subclasses.FakeTensorMode().from_tensor(torch.ones(3))


def _compile_another(backend):
    framefuse.compile(lambda t: t * 3, backend=backend)(torch.ones(2))


_WHEN_COMPILING = {
    "compiling: raises": (True, lambda b, gm: _raise(Odd("no"))),
    "compiling: raises a TypeError": (True, lambda b, gm: gm.forward(1, 2, 3, 4, 5, 6, 7)),
    "compiling: raises StopIteration": (True, lambda b, gm: next(iter(()))),
    "compiling: returns None": (True, lambda b, gm: (None,)),
    "compiling: returns a number": (True, lambda b, gm: (3,)),
    "compiling: recurses without end": (True, lambda b, gm: (lambda f: f(f))(lambda f: f(f))),
    "compiling: resets": (False, lambda b, gm: framefuse.reset()),
    "compiling: calls the compiled function": (False, lambda b, gm: _reenter(b)),
    "compiling: compiles another function": (False, lambda b, gm: _compile_another(b)),
    "compiling: collects garbage": (False, lambda b, gm: (gc.collect(), None)[1]),
}
_WHEN_CALLED = {
    "called: raises": (True, lambda b, gm, inputs: _raise(Odd("no"))),
    "called: raises IndexError": (True, lambda b, gm, inputs: [][1]),
    "called: recurses without end": (True, lambda b, gm, inputs: (lambda f: f(f))(lambda f: f(f))),
    "called: too few results": (True, _changed(lambda r: tuple(r)[:-1])),
    "called: no results": (True, _changed(lambda r: ())),
    "called: too many results": (True, _changed(lambda r: [*r, *r])),
    "called: None": (True, _changed(lambda r: None)),
    "called: a tensor": (True, _changed(lambda r: r[0])),
    "called: a dict": (True, _changed(lambda r: dict(enumerate(r)))),
    "called: an iterator": (True, _changed(iter)),
    "called: numbers": (True, _changed(lambda r: [1.0] * len(r))),
    "called: Nones": (True, _changed(lambda r: [None] * len(r))),
    "called: lists": (True, _changed(lambda r: [t.tolist() for t in r])),
    "called: another type": (True, _changed(lambda r: [t.to(torch.float64) for t in r])),
    "called: another size": (True, _changed(lambda r: [t[None] for t in r])),
    "called: on another device": (True, _changed(lambda r: [t.to("meta") for t in r])),
    "called: fakes": (True, _changed(lambda r: [_fake() for _ in r])),
    "called: a list": (False, _changed(list)),
    "called: resets": (False, _after(lambda b: framefuse.reset())),
    "called: calls the compiled function": (False, _after(_reenter)),
    "called: compiles another function": (False, _after(_compile_another)),
    "called: collects garbage": (False, _after(lambda b: gc.collect())),
}


# ---------------------------------------------------------------- one backend


def arguments_for(program, requires_grad):
    w = torch.arange(3.0) + 2
    t = torch.arange(3.0)
    if requires_grad:
        w.requires_grad_()
    return (t, w, []) if program is breaks_in_blocks else (t, w)


def same(a, b):
    if isinstance(b, torch.Tensor):
        return isinstance(a, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(b, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in b)
    if isinstance(b, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return a == b


def try_one(rng):
    """What happened, after it was checked."""
    framefuse.reset()
    program = rng.choice(PROGRAMS)
    backend = Backend(rng)
    backend.compiled = framefuse.compile(program, backend=backend)
    requires_grad = rng.random() < 0.3
    seen = collections.Counter()
    for _ in range(4):
        mine, pythons = arguments_for(program, requires_grad), arguments_for(program, requires_grad)
        backend.arguments = mine
        backend.misbehaved = False
        try:
            got = backend.compiled(*mine)
        except framefuse.BackendError as error:
            assert backend.misbehaved, (program, backend.deed, error)
            assert error.backend == "Backend" and "'Backend'" in str(error), (backend.deed, error)
            if program is breaks_in_blocks:  # the blocks were left in order
                assert mine[2] == list(range(len(mine[2]))) and torch.is_grad_enabled()
            seen["errors"] += 1
            continue
        wanted = program(*pythons)
        assert not backend.misbehaved, (program, backend.deed, got)
        assert same(got, wanted) and same(mine, pythons), (program, backend.deed, got, wanted)
        assert same(mine[1].grad, pythons[1].grad), (program, backend.deed, mine[1].grad)
        seen["results"] += 1
        assert torch.is_grad_enabled()
    return backend.deed, seen


def main(seed, count):
    rng = random.Random(seed)
    framefuse.config.raise_on_bug = True
    outcomes = collections.defaultdict(collections.Counter)
    for _ in range(count):
        deed, seen = try_one(rng)
        outcomes[deed] += seen
    for deed in sorted(outcomes):
        print(f"{deed}: {outcomes[deed]['results']} results, {outcomes[deed]['errors']} errors")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
