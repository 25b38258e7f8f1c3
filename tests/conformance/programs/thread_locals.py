"""Attributes of threading.local objects: each thread has its own, and a class of them may have more."""

import threading

import torch

from conformance.program import Args, Case, program
from conformance.sample import vector


@program
def settings_of_a_thread():
    settings = threading.local()
    settings.scale, settings.names = 3.0, ["a", "b"]

    def f(x):
        scale = getattr(settings, "scale", 0.5)
        names = getattr(settings, "names", ())
        return x * scale + len(names) + hasattr(settings, "other")

    def change():
        settings.scale = 4.0

    def add():
        settings.other = 1

    return Case(f, vector(8), then=[lambda: change(), lambda: add(), lambda: None])


@program
def another_thread_has_its_own():
    settings = threading.local()
    settings.scale = 3.0
    seen = []

    def f(x):
        return x * getattr(settings, "scale", 0.5)

    def elsewhere():
        thread = threading.Thread(target=lambda: seen.append((hasattr(settings, "scale"), getattr(settings, "scale", 0.25))))
        thread.start()
        thread.join()

    def g(x):
        return f(x) + 1

    return Case(g, vector(8), then=[lambda: elsewhere(), lambda: settings.__dict__.update(scale=5.0), lambda: None])


@program
def a_stack_of_a_thread():
    class Stack(threading.local):
        depth = 0

        @property
        def doubled(self):
            return self.depth * 2

    stack = Stack()

    def f(x):
        stack.depth += 1
        try:
            return x * stack.depth + stack.doubled
        finally:
            stack.last = stack.depth
            stack.depth -= 1

    def deeper():
        stack.depth = 4

    return Case(f, vector(8), then=[lambda: None, lambda: deeper(), lambda: None])


@program
def missing_attribute_of_a_thread():
    settings = threading.local()

    def f(x):
        try:
            return x * settings.scale
        except AttributeError as error:
            return x + len(str(error))

    def give():
        settings.scale = 2.0

    return Case(f, vector(8), then=[lambda: None, lambda: give(), lambda: None])


@program
def attributes_as_a_dict():
    settings = threading.local()
    settings.scale = 2.0

    def f(x):
        settings.count = len(vars(settings))
        return x * sum(settings.__dict__.values())

    return Case(f, vector(8), then=[lambda: None, lambda: None])


@program
def tensors_kept_by_a_thread():
    cache = threading.local()

    def f(x):
        if not hasattr(cache, "table"):
            cache.table = torch.arange(8.0)
        return x + cache.table

    return Case(f, vector(8), then=[lambda: Args(vector(8)), lambda: None])


@program(whole=False)
def class_that_begins_in_each_thread():
    class Settings(threading.local):
        def __init__(self):
            self.scale = 3.0

    settings = Settings()

    def f(x):
        return x * settings.scale

    return Case(f, vector(8), then=[lambda: None])


@program(whole=False)
def deleted_attribute_of_a_thread():
    settings = threading.local()

    def f(x):
        settings.scale = 2.0
        y = x * settings.scale
        del settings.scale
        return y, hasattr(settings, "scale")

    return Case(f, vector(8), then=[lambda: None])


@program(whole=False)
def a_number_for_each_thread():
    numbers = [4.0, 3.0, 2.0, 1.0]

    class Settings(threading.local):
        def __init__(self):
            self.scale = numbers.pop()

    settings = Settings()

    def f(x):
        return x * settings.scale

    def g(x):
        return x * getattr(settings, "scale", 0.5)

    def both(x):
        settings.scale  # noqa: B018 (makes it for this thread)
        return f(x), g(x)

    return Case(both, vector(8), then=[lambda: None, lambda: None])
