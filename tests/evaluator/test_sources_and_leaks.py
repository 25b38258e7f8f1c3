"""Sources travel with their values through slots and stack; nothing is leaked by runs, pauses and errors."""

import gc
import os
import sys
import unittest

import evaluator_module
import programs
from test_pause import plain_run

evaluator = evaluator_module.load()


def quietly(function):
    try:
        function([])
    except Exception:
        pass


def resident_kilobytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4


class SourcesTest(unittest.TestCase):
    def test_sources_travel_with_values(self):
        operands = 0
        for function in programs.PROGRAMS:
            with self.subTest(program=function.__name__):
                expected = plain_run(function)
                log = []
                evaluator.enable(check_sources=True)
                try:
                    value = ("returned", repr(function(log)))
                except Exception as error:
                    value = ("raised", type(error).__name__)
                finally:
                    evaluator.disable()
                stats = evaluator.stats()
                self.assertEqual(0, stats["wrong_sources"])
                self.assertEqual(expected[1], repr(log))
                self.assertEqual(expected[0][0], value[0])
                operands += stats["sourced_operands"]
        self.assertGreater(operands, 800)

    def test_sources_after_pauses(self):
        for function in programs.PROGRAMS:
            for every in (1, 5):
                with self.subTest(program=function.__name__, every=every):
                    evaluator.enable(check_sources=True, pause_at=every, pause_every=every, continue_with="evaluate")
                    quietly(function)
                    evaluator.disable()
                    self.assertEqual(0, evaluator.stats()["wrong_sources"])
                    if every > 1:  # a pause at each instruction leaves no time for sources to travel
                        self.assertGreater(evaluator.stats()["sourced_operands"], 0)


class LeaksTest(unittest.TestCase):
    MODES = (
        {},
        {"check_sources": True},
        {"pause_at": 5, "continue_with": "default"},
        {"pause_at": 5, "pause_every": 1, "continue_with": "evaluate"},
    )

    def run_programs(self, how):
        for function in programs.PROGRAMS:
            evaluator.enable(**how)
            quietly(function)
            evaluator.disable()

    def test_reference_counts_of_arguments(self):
        class Marker:
            pass

        def use(value, *args, **kwargs):
            kept = [value, args, kwargs]
            for item in kept:
                try:
                    with memoryview(b"abc") as view:
                        if item is value:
                            raise ValueError(item, view[0])
                except ValueError as error:
                    kept = [error.args[0], lambda: value]
            generator = (value for _ in range(3))
            next(generator)
            return kept[1]()

        for how in self.MODES:
            marker = Marker()
            before = sys.getrefcount(marker)
            for _ in range(200):
                evaluator.enable(**how)
                use(marker, marker, key=marker)
                evaluator.disable()
            gc.collect()
            self.assertEqual(before, sys.getrefcount(marker), how)

    def test_reference_counts_of_code_and_functions(self):
        def simple(x):
            return x

        def generator(x):
            yield x

        def raises(x):
            raise KeyError(x)

        objects = [simple, simple.__code__, generator, generator.__code__, raises, raises.__code__, None, True, KeyError]
        for how in self.MODES:
            before = [sys.getrefcount(o) for o in objects[:6]]
            for _ in range(300):
                evaluator.enable(**how)
                simple(1)
                list(generator(2))
                try:
                    raises(3)
                except KeyError:
                    pass
                evaluator.disable()
            gc.collect()
            self.assertEqual(before, [sys.getrefcount(o) for o in objects[:6]], how)

    def test_objects_and_memory_do_not_grow(self):
        rounds = 300
        for how in self.MODES:
            growth = []
            # Free lists and type caches take a while to fill, in the plain interpreter as well: a leak shows in each
            # of the windows.
            for _ in range(4):
                gc.collect()
                before = len(gc.get_objects()), sys.getallocatedblocks(), resident_kilobytes()
                for _ in range(rounds):
                    self.run_programs(how)
                gc.collect()
                after = len(gc.get_objects()), sys.getallocatedblocks(), resident_kilobytes()
                growth.append([b - a for a, b in zip(before, after)])
            # A single object lost by a single program in each run would be `rounds`.
            self.assertLess(min(objects for objects, _, _ in growth), rounds // 2, how)
            self.assertLess(min(blocks for _, blocks, _ in growth), rounds // 2, how)
            if "libasan" not in os.environ.get("LD_PRELOAD", ""):  # it keeps what is freed, in quarantine
                self.assertLess(min(kilobytes for _, _, kilobytes in growth), 200, how)

    def test_code_objects_die_with_their_bytecode(self):
        import weakref

        for _ in range(50):
            namespace = {}
            exec("def f(x):\n    return [i for i in range(x)]\n", namespace)
            evaluator.enable()
            namespace["f"](3)
            evaluator.disable()
            dead = weakref.ref(namespace["f"].__code__)
            namespace.clear()
            gc.collect()
            self.assertIsNone(dead())


if __name__ == "__main__":
    unittest.main()
