"""Modules made where they are called, also once torch.compile was used: it notes each module that is made."""

import torch
from conformance.program import Case, program
from conformance.sample import matrix, vector
from torch import nn


def notes():
    """Where Dynamo keeps what it notes."""
    import torch._dynamo
    from torch._dynamo.mutation_guard import GenerationTracker

    return GenerationTracker


def noted_layers(tracker):
    class Layers(nn.ModuleList):
        def __init__(self, layers=()):
            super().__init__(layers)
            tracker.tag(self)

    return Layers


@program
def slice_of_layers():
    """What torch.compile makes of nn.Module.__init__."""
    layers = noted_layers(notes())([nn.Linear(3, 3) for _ in range(3)])
    with torch.no_grad():
        for number, p in enumerate(layers.parameters()):
            p.copy_(torch.linspace(-1, 1, p.numel()).reshape(p.shape) + 0.125 * number)

    def f(x):
        for layer in layers[:2]:
            x = layer(x)
        return x

    return Case(f, matrix(), observe=layers, then=[lambda: None])


@program
def module_that_is_kept():
    tracker, kept = notes(), []
    layers = noted_layers(tracker)

    def f(x):
        made = layers()
        layers()
        kept.append(made)
        return x * 2

    return Case(f, vector(), look=lambda: [tracker.check(made) for made in kept], then=[lambda: None])


@program
def module_that_is_a_result():
    tracker = notes()
    layers = noted_layers(tracker)
    results = []

    def f(x):
        made = layers([nn.Identity()])
        return made, made[0](x) + 1

    def call(x):
        made, y = f(x)
        results.append(made)
        return y

    return Case(call, vector(), look=lambda: [tracker.check(made) for made in results], then=[lambda: None])


@program
def module_from_outside():
    tracker = notes()
    module = nn.Identity()

    def f(x):
        tracker.tag(module)
        return module(x) * 2

    def forget():
        tracker.generation_values[module] = -1

    return Case(f, vector(), look=lambda: tracker.check(module), then=[forget, lambda: None])


@program(whole=False)
def module_noted_before_a_break():
    tracker = notes()
    layers = noted_layers(tracker)

    def f(x):
        made = layers()
        print("made")
        return x * 2 if tracker.check(made) else x * 3

    return Case(f, vector())


@program(whole=False)
def what_cannot_be_noted():
    """The note raises at its place: what comes after it is not done."""
    tracker = notes()
    done = []

    class Small:
        __slots__ = ("part",)

    def f(x):
        kept = Small()
        done.append(kept)
        try:
            tracker.tag(kept)
            done.append("noted")
        except TypeError as error:
            lines = 0
            at = error.__traceback__
            while at is not None:
                lines += at.tb_frame.f_code.co_name == "f"
                at = at.tb_next
            return x + 1, str(error), lines
        return x * 2

    return Case(f, vector(), look=lambda: [type(d).__name__ for d in done])
