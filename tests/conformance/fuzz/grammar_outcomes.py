"""Statements that give a counted kind the outcome that other words seldom give it.

An effect is not applied where a plan fails before its first write: PLACE moves at each call, and leaves what it indexes.
A guard of views fails where a view moves between calls. Invariant: what a statement needs is made by its own definitions.
"""

from conformance.fuzz.vocabulary import Topic

SUPPORT = {
    "PLACE": "\nPLACE = torch.tensor([0, 1])\n",
    "WEIGHT": "\nWEIGHT = leaf(4)\n",
    "KEPT": "\nKEPT = types.SimpleNamespace(n=1, row=[1], names={'a': 1}, left={1, 2}, queue=collections.deque([1]), sized=vector(4))\n",
    "CONTEXT": "\nCONTEXT = contextvars.ContextVar('fuzzed', default=1)\n",
    "LOGGER": "\nLOGGER = logging.Logger('fuzzed')\nLOGGER.addHandler(logging.NullHandler())\n",
    "OVER": '''
class Over:
    """Two tensors that are parts of one, or not."""

    def __init__(self):
        self.base = torch.arange(8.0)
        self.a = self.base[:3]
        self.b = vector(3)


OVER = Over()
''',
    "holed": '''
def holed():
    """A function with a variable of a closure that comes and goes, what fills it and what empties it."""
    hole = 1

    def made(r):
        try:
            return r + hole
        except NameError:
            return r - 1

    def fill(n):
        nonlocal hole
        hole = n

    def dig():
        nonlocal hole
        del hole

    return made, fill, dig


HOLED, FILL, DIG = holed()
''',
    "Scaled": '''
class Scaled(torch.autograd.Function):
    """Its arguments are bound by their names."""

    @staticmethod
    def forward(x, by=2):
        return x * by

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.by = inputs[1]

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.by, None
''',
    "forget": '''
def forget(n):
    """Leaves no trace of a global of the module."""
    global FUZZED
    FUZZED = n
    del FUZZED
''',
    "unheard": '''
def unheard(r):
    """Has an instruction that no Python knows."""
    return r + 1


unheard.__code__ = unheard.__code__.replace(
    co_code=unheard.__code__.co_code[:2] + bytes((230, 0)) + unheard.__code__.co_code[2:]
)
''',
}

# What a plan that then fails has not done, and Python's own run has.
_BEFORE_THE_FAILURE = (
    ["KEPT.m = {k}", "del KEPT.m"],
    ["KEPT.n = {k}"],
    ["KEPT.__dict__.pop('gone', None)", "KEPT.gone = 1", "del KEPT.gone"],
    ["KEPT.names['d'] = {k}", "del KEPT.names['d']"],
    ["KEPT.names['d'] = {k}", "KEPT.names.pop('d')", "KEPT.names['a'] = {k}"],
    ["KEPT.row.append({k})"],
    ["KEPT.row.extend([{k}, 2])"],
    ["KEPT.row[:] = [{k}, 1]"],
    ["KEPT.left.add({k})", "KEPT.left.discard(1)"],
    ["KEPT.queue.append({k})"],
    ["r = r + cached({k})"],
    ["WEIGHT.grad = None"],
    ["WEIGHT.grad = torch.ones(4)"],
    ["WEIGHT.grad = None", "(WEIGHT * {k}).sum().backward()"],
    ["FILL({k})"],
    ["with torch.no_grad():", "    WEIGHT.mul_(2)"],
    ["CONTEXT.set({k})"],
    ["KEPT.sized.resize_({k})", "KEPT.sized = vector(4)"],
    ["forget({k})"],
)
_FAILURES = (
    ["r = r + vector(4)[PLACE].sum()", "PLACE.add_(2)"],
    ["r = r + WEIGHT.detach().index_select(0, PLACE).sum()", "PLACE.add_(3)"],
)

TOPICS = {
    "not applied": Topic(
        [before + failure for before in _BEFORE_THE_FAILURE for failure in _FAILURES]
        + [
            ["WEIGHT.grad = None", "(WEIGHT[PLACE] * 2).sum().backward()", "r = r + WEIGHT.grad.sum()", "PLACE.add_(2)"],
            ["WEIGHT.grad = None", "q = (WEIGHT[PLACE] * 2).sum()", "q.backward()", "r = r + q.detach()", "PLACE.add_(2)"],
            ["try:", "    KEPT.row.append(vector(4)[PLACE].sum())", "except IndexError:", "    KEPT.row.clear()", "PLACE.add_(2)"],
        ],
        ["PLACE.fill_({k})", "PLACE.fill_(7)", "PLACE.zero_()", "KEPT.n = {k} + 4", "KEPT.row.clear()", "WEIGHT.grad = None"],
        weight=7,
    ),
    "views that move": Topic(
        [
            ["OVER.a.add_(1)", "r = r + OVER.b.sum()"],
            ["OVER.a.mul_(2)", "OVER.b.add_(1)", "r = r + OVER.base.sum()"],
            ["OVER.b.copy_(OVER.a)", "r = r + OVER.a.sum()"],
            ["a, b = OVER.a, OVER.b", "a.zero_()", "r = r + (a + b).sum()", "OVER.b = OVER.base[2:5]"],
            ["OVER.base[1:4] = {k}", "r = r + OVER.a.sum() + OVER.b.sum()", "OVER.a = OVER.base[{k}:][:3]"],
            ["r = r + (3 if OVER.a is OVER.b else 4)", "OVER.b = OVER.a"],
            ["r = r + torch.as_strided(OVER.a, (2,), (1,), 1).sum()"],
            ["r = r + OVER.b.as_strided((2,), (1,), 0).sum()", "OVER.b = OVER.base[{k}:][:3]"],
            ["r = r + OVER.a[1:].as_strided((1,), (1,), {k}).sum()", "OVER.a = OVER.base[{k} + 1 :][:3]"],
            ["torch.as_strided(OVER.base, (3,), (1,), {k}).add_(1)", "r = r + OVER.a.sum()"],
            ["torch.as_strided(OVER.a, (2,), (1,), {k}).mul_(3)", "r = r + OVER.base.sum()"],
        ],
        [
            "OVER.b = OVER.base[{k}:][:3]",
            "OVER.b = OVER.base[2:5]",
            "OVER.a = OVER.base[{k}:][:3]",
            "OVER.b = vector(3)",
            "OVER.b = OVER.a",
            "OVER.a = OVER.base[5:]",
            "OVER.a = OVER.base[::2][:3]",
        ],
        weight=5,
    ),
    "cells": Topic(
        [
            ["r = HOLED(r)"],
            ["r = HOLED(r)", "FILL({k})", "r = HOLED(r)"],
            ["FILL({k})", "r = HOLED(r)"],
            ["DIG()", "FILL({k})", "r = HOLED(r)"],
            ["r = HOLED(HOLED(r))"],
        ],
        ["FILL({k})", "DIG()", "DIG()"],
        weight=3,
    ),
    "rare kinds": Topic(
        [
            ["r = r + (torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.PROXY) is None)"],
            ["r = r + (torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is None)"],
            ["token = CONTEXT.set({k})", "r = r + CONTEXT.get()", "CONTEXT.reset(token)"],
            ["token = CONTEXT.set({k})", "print(CONTEXT.get())", "CONTEXT.reset(token)", "r = r + CONTEXT.get()"],
            ["LOGGER.warning('said %d', {k})", "r = r + 1"],
            ["LOGGER.debug('said')", "LOGGER.info('%s', {k})", "r = r + 1"],
            ["try:", "    r = r + torch.from_numpy([1.0]).sum()", "except TypeError:", "    r = r + {k}"],
            ["q = torch.ones(2)", "q.note = {k}", "r = r + copy.deepcopy(q).sum()"],
            ["r = r + torch.as_tensor(memoryview(bytes([{k}, 1])), dtype=torch.uint8).sum()"],
            ["torch._dynamo.mutation_guard.GenerationTracker.tag(nn.Identity())", "r = r + 1"],
            ["try:", "    torch.autograd.forward_ad.exit_dual_level()", "except RuntimeError:", "    r = r + {k}"],
            ["r = Scaled.apply(r, {k})"],
            ["r = Scaled.apply(r)"],
            ["r = r + len(inspect.unwrap(len).__name__)"],
            ["r = r + len(inspect.unwrap(wrapped(torch.sin)).__name__)"],
            ["try:", "    r = unheard(r)", "except SystemError:", "    r = r + 2"],
            ["r = torch.cat([vector(4).cos() * {k}, vector(4) + 1]).sin().sum() + r"],
            ["a = torch.cat([r.reshape(-1)[:1].expand(4), vector(4)]).sin() * 2", "r = r + a.sum()"],
            ["a = torch.cat([torch.cat([vector(8), vector(4) * 2]).sin(), vector(4)]).cos()", "r = r + a[{k}]"],
            ["a = torch.cat([matrix(2, 4), matrix(3, 4) * r.sum()]).tanh() + 1", "r = r + a.mean()"],
            ["made = type('Made', (int,), dict(n={k}), of=1) if {k} > 1 else type('Made', (int,), dict(n={k}))", "r = r + made.n"],
            ["try:", "    made = type('Made', (NoisyType, Watched), {{}})", "except TypeError:", "    r = r + 1"],
            ["made = type('Made', (NoisyType,), dict(n={k}))", "r = r + made.n"],
            ["try:", "    made = type('Made', 3, {{}})", "except TypeError as error:", "    r = r + len(str(error))"],
            ["class Within(metaclass=NoisyMeta):", "    n = {k}", "", "r = r + Within.n"],
            ["class Within(NoisyType):", "    n = {k}", "", "r = r + Within.n"],
            ["@dataclasses.dataclass(slots=True)", "class Within:", "    n: int = {k}", "", "r = r + Within().n"],
            ["def later():", "    async def inner():", "        return {k}", "", "    return inner()", "", "c = later()", "c.close()", "r = r + 1"],
            ["async def numbers():", "    yield {k}", "", "g = numbers()", "try:", "    g.__anext__().send(None)", "except StopIteration as stop:", "    r = r + stop.value"],
            ["torch.default_generator.manual_seed({k})", "r = r + torch.rand(1)"],
            ["r = r + torch.default_generator.initial_seed() * 0"],
            ["random.seed({k})", "r = r + random.random() + random.getrandbits(2)"],
        ],
        weight=8,
    ),
}
