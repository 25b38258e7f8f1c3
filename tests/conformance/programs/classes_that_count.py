"""Numbers of classes that change from call to call: a counter of what was made, a setting."""

import torch

from conformance.program import Args, Case, program
from conformance.sample import vector

NOTHING = [lambda: None] * 4


@program
def objects_are_numbered():
    class Part:
        made = 0

        def __init__(self):
            self.number = Part.made
            Part.made += 1

    def f(x):
        return x * Part().number, Part().number

    return Case(f, vector(), observe=Part, then=NOTHING)


@program
def a_setting_changes():
    class Settings:
        scale = 2.5
        steps = 3

    def f(x):
        return x * Settings.scale + Settings.steps

    changes = [lambda n=n: setattr(Settings, "steps", n) for n in (4, 5, 6)]
    changes += [lambda n=n: setattr(Settings, "scale", n) for n in (0.5, 1.5, 3)]
    return Case(f, vector(), then=changes)


@program
def a_number_becomes_something_else():
    class Base:
        scale = 7

    class Settings(Base):
        scale = 2

    class Three:
        def __get__(self, owner, cls=None):
            return 3

    def f(x):
        return x * Settings.scale, type(Settings.scale).__name__

    changes = [lambda v=v: setattr(Settings, "scale", v) for v in (2.0, True, Three(), 2)]
    return Case(f, vector(), then=[*changes, lambda: delattr(Settings, "scale"), lambda: setattr(Base, "scale", 8)])


@program
def a_number_is_written_where_another_stood():
    class Settings:
        scale = 2

    class Three:
        def __get__(self, owner, cls=None):
            return 3

    def f(x):
        Settings.scale = 5
        return x * Settings.scale

    changes = [lambda v=v: setattr(Settings, "scale", v) for v in (9, "text", Three())]
    return Case(f, vector(), observe=Settings, then=[*changes, lambda: delattr(Settings, "scale")])


@program
def it_is_returned_and_kept():
    class Settings:
        scale = 2

    kept = []

    def f(x):
        kept.append(Settings.scale)
        return x + 1, Settings.scale, [Settings.scale]

    changes = [lambda v=v: setattr(Settings, "scale", v) for v in (3, 4.0, 1000, True, None)]
    return Case(f, vector(), observe=kept, then=changes)


@program
def of_a_derived_class():
    class Base:
        n = 1

    class Derived(Base):
        pass

    def f(x, cls):
        cls.n += 1
        return x * cls.n + Base.n

    changes = [lambda c=c: Args(vector(), c) for c in (Derived, Base, Derived, Derived)]
    return Case(f, vector(), Base, observe=(Base, Derived), then=changes)


@program
def handles_of_hooks():
    torch.utils.hooks.RemovableHandle.next_id = 0
    layer = torch.nn.ReLU()

    def f(x):
        seen = []
        handle = layer.register_forward_hook(lambda m, i, o: seen.append(o.sum()))
        y = layer(x)
        handle.remove()
        return y, seen

    return Case(f, vector(), then=NOTHING, look=lambda: torch.utils.hooks.RemovableHandle.next_id)


@program
def a_setting_is_read_through_an_object():
    class Settings:
        scale = 2.5
        steps = 3

    settings = Settings()

    def f(x):
        return x * settings.scale + settings.steps, settings.steps + 1

    changes = [lambda n=n: setattr(Settings, "steps", n) for n in (4, 5, 6)]
    changes += [lambda n=n: setattr(Settings, "scale", n) for n in (0.5, 1.5, 3)]
    changes += [lambda: setattr(settings, "steps", 9), lambda: setattr(Settings, "steps", 1)]
    return Case(f, vector(), then=[*changes, lambda: delattr(settings, "steps")])


@program
def a_setting_of_a_base_is_hidden():
    class Base:
        scale = 2

    class Module(torch.nn.Module, Base):
        def forward(self, x):
            return x * self.scale

    module = Module()
    changes = [lambda n=n: setattr(Base, "scale", n) for n in (3, 4, 5.5)]
    changes += [lambda: setattr(Module, "scale", 7), lambda: setattr(Base, "scale", 8)]
    changes += [lambda: setattr(Module, "scale", property(lambda self: 11)), lambda: delattr(Module, "scale")]
    return Case(module, vector(), then=changes)
