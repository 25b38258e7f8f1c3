"""Finds the built ff_evaluator_testing module: on sys.path (as CTest sets it), or in FF_EVALUATOR_TESTING_DIR."""

import importlib
import os
import sys
import unittest


def load():
    folder = os.environ.get("FF_EVALUATOR_TESTING_DIR")
    if folder and folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        return importlib.import_module("ff_evaluator_testing")
    except ImportError as error:
        raise unittest.SkipTest(f"ff_evaluator_testing is not built for this Python: {error}")
