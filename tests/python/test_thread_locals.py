"""A threading.local is read in the thread that calls a compiled function."""

import threading

import torch

import framefuse


def in_a_thread(function):
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def test_each_thread_reads_its_own():
    settings = threading.local()
    settings.scale = 2.0

    @framefuse.compile
    def f(x):
        return x * getattr(settings, "scale", 0.5) + hasattr(settings, "other")

    x = torch.arange(4.0)

    def elsewhere():
        first = f(x)
        settings.scale = 3.0
        settings.other = True
        return first, f(x)

    for _ in range(3):
        assert torch.equal(f(x), x * 2)
        before, after = in_a_thread(elsewhere)
        assert torch.equal(before, x * 0.5) and torch.equal(after, x * 3 + 1)
    assert torch.equal(f(x), x * 2) and not hasattr(settings, "other")


def test_equal_values_in_two_threads():
    settings = threading.local()

    @framefuse.compile(fullgraph=True)
    def f(x):
        return x * settings.scale

    def call():
        settings.scale = 2.0
        return f(torch.ones(3))

    assert torch.equal(call(), in_a_thread(call))


def test_each_thread_writes_its_own():
    settings = threading.local()
    settings.count = 0

    @framefuse.compile(fullgraph=True)
    def f(x):
        settings.count += 1
        settings.last = x + 1
        return x * settings.count

    x = torch.ones(3)

    def elsewhere():
        settings.count = 10
        result = f(x)
        return result, settings.count, settings.last

    assert torch.equal(f(x), x)
    result, count, last = in_a_thread(elsewhere)
    assert count == 11 and torch.equal(result, x * 11) and torch.equal(last, x + 1)
    assert settings.count == 1 and torch.equal(f(x), x * 2) and settings.count == 2
