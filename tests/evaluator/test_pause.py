"""A run that is paused before any of its instructions, and goes on in CPython's evaluator or in ours, does what an
undisturbed run does: results, effects in order, exceptions with their context and traceback positions."""

import sys
import traceback
import unittest

import evaluator_module
import programs

evaluator = evaluator_module.load()


def describe(error, depth=0):
    if error is None or depth > 4:
        return None
    entries = []
    for entry in traceback.extract_tb(error.__traceback__):
        # The entries of this file are the harness.
        if entry.filename != __file__:
            entries.append((entry.filename, entry.name, entry.lineno, entry.colno, entry.end_colno))
    return (
        type(error).__name__,
        str(error),
        entries,
        describe(error.__cause__, depth + 1),
        describe(error.__context__, depth + 1),
    )


def plain_run(function):
    log = []
    try:
        result = ("returned", repr(function(log)))
    except Exception as error:
        result = ("raised", describe(error))
    return result, repr(log), describe(sys.exception() if hasattr(sys, "exception") else sys.exc_info()[1])


def evaluated_run(function, **how):
    log = []
    try:
        evaluator.enable(**how)
        try:
            value = function(log)
        finally:
            evaluator.disable()
        result = ("returned", repr(value))
    except Exception as error:
        result = ("raised", describe(error))
    return result, repr(log), describe(sys.exception() if hasattr(sys, "exception") else sys.exc_info()[1])


class PauseTest(unittest.TestCase):
    maxDiff = None

    def check_all(self, make_settings):
        for function in programs.PROGRAMS:
            expected = plain_run(function)
            # Twice: first uses import, compile and fill caches.
            self.assertEqual(expected, evaluated_run(function))
            self.assertEqual(expected, evaluated_run(function))
            # The call of disable() is not evaluated: its caller runs natively.
            count = evaluator.stats()["instructions"]
            self.assertGreater(count, 3)
            for settings in make_settings(count):
                with self.subTest(program=function.__name__, **settings):
                    self.assertEqual(expected, evaluated_run(function, **settings))
                    self.assertGreater(evaluator.stats()["pauses"], 0)

    def test_continue_with_default_evaluator(self):
        self.check_all(lambda count: [{"pause_at": at, "continue_with": "default"} for at in range(count)])

    def test_continue_with_our_evaluator(self):
        self.check_all(lambda count: [{"pause_at": at, "continue_with": "evaluate"} for at in range(count)])

    def test_pause_before_every_instruction(self):
        self.check_all(
            lambda count: [
                {"pause_at": start, "pause_every": every, "continue_with": "evaluate"}
                for every in (1, 2, 3, 7)
                for start in range(every)
            ]
        )

    def test_instructions_completed_by_hand(self):
        """The frame is left in the middle of an instruction and goes on behind it with the result pushed."""
        interrupts = 0
        for function in programs.PROGRAMS:
            expected = plain_run(function)
            for continue_with in ("default", "evaluate"):
                for every in range(1, 12):
                    settings = {"interrupt_every": every, "continue_with": continue_with}
                    with self.subTest(program=function.__name__, **settings):
                        self.assertEqual(expected, evaluated_run(function, **settings))
                    interrupts += evaluator.stats()["interrupts"]
        self.assertGreater(interrupts, 2500)  # 3.12 to 3.14 need fewer instructions for the same programs


if __name__ == "__main__":
    unittest.main()
