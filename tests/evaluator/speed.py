"""Nanoseconds an instruction with NativeProtocols, against the plain interpreter.

usage: speed.py DIRECTORY   (which holds ff_evaluator_testing)
"""

import sys
import time

sys.path.insert(0, sys.argv[1])
import ff_evaluator_testing as evaluator  # noqa: E402


def arithmetic(n):
    i = 0
    x = 0
    while i < n:
        x = x ^ i
        i += 1
    return x


def calls(n):
    def f(a, b):
        return a

    for i in range(n):
        f(i, 2)


class Point:
    def __init__(self, x):
        self.x = x

    def moved(self, by):
        return Point(self.x + by)


def attributes(n):
    p = Point(0)
    for _ in range(n):
        p = p.moved(1)
    return p.x


def containers(n):
    table = {}
    for i in range(n):
        table[i % 100] = [i, (i, i)]
        a, (b, c) = table[i % 100]
    return sum(v[0] for v in table.values())


def exceptions(n):
    count = 0
    for i in range(n):
        try:
            if i % 4 == 0:
                raise ValueError(i)
        except ValueError as error:
            count += error.args[0]
    return count


def best(function, n):
    times = []
    for _ in range(7):
        start = time.process_time()
        function(n)
        times.append(time.process_time() - start)
    return min(times)


def main():
    print(f"{'program':12} {'instructions':>12} {'ns each':>8} {'plain':>8}")
    for function, n in ((arithmetic, 300_000), (calls, 100_000), (attributes, 60_000), (containers, 60_000), (exceptions, 60_000)):
        evaluator.enable()
        function(n)
        instructions = evaluator.stats()["instructions"]
        evaluator.disable()
        plain = best(function, n)
        evaluator.enable()
        ours = best(function, n)
        evaluator.disable()
        print(f"{function.__name__:12} {instructions:12} {ours / instructions * 1e9:8.1f} {plain / instructions * 1e9:8.1f}")


main()
