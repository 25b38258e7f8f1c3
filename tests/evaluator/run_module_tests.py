"""Runs one module of CPython's own test-suite and writes each test's outcome as JSON.

usage: run_module_tests.py MODULE OUTPUT [--evaluator DIRECTORY]

With --evaluator, every Python frame of the process from the import of the test module on is executed by framefuse's
evaluator; DIRECTORY holds the ff_evaluator_testing module.
"""

import argparse
import importlib
import json
import os
import sys
import unittest


class Recorder(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.outcomes = {}

    def _record(self, test, outcome):
        key = test.id()
        # A test with failed subtests is recorded by its worst outcome.
        if self.outcomes.get(key, "ok") == "ok":
            self.outcomes[key] = outcome

    def addSuccess(self, test):
        self._record(test, "ok")

    def addError(self, test, err):
        self._record(test, f"error {err[0].__name__}: {str(err[1])[:2000]}")

    def addFailure(self, test, err):
        self._record(test, f"failure: {str(err[1])[:2000]}")

    def addSkip(self, test, reason):
        self._record(test, "skip")

    def addExpectedFailure(self, test, err):
        self._record(test, "expected failure")

    def addUnexpectedSuccess(self, test):
        self._record(test, "unexpected success")

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self._record(test, f"subtest {err[0].__name__}: {str(err[1])[:2000]}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("module")
    parser.add_argument("output")
    parser.add_argument("--evaluator")
    options = parser.parse_args()

    from test import support
    from test.support import os_helper

    evaluator = None
    if options.evaluator:
        sys.path.insert(0, options.evaluator)
        import ff_evaluator_testing as evaluator

        sys.path.pop(0)
    recorder = Recorder()
    stats = None
    # Some tests read sys.argv or write to the working directory.
    del sys.argv[1:]
    with os_helper.temp_cwd(f"framefuse_{os.getpid()}"):
        if evaluator is not None:
            evaluator.enable()
        try:
            module = importlib.import_module("test." + options.module)
            loader = unittest.defaultTestLoader
            loader.loadTestsFromModule(module).run(recorder)
        finally:
            if evaluator is not None:
                stats = evaluator.stats()
                evaluator.disable()
    with open(options.output, "w") as file:
        json.dump({"outcomes": recorder.outcomes, "stats": stats}, file)
    sys.stdout.flush()
    os._exit(0)


main()
