"""Finds ff_graph_testing in the build folder (FF_BUILD_DIR, or build/ in the root)."""

import importlib.util
import os
import pathlib
import sys

import torch  # noqa: F401  (its libraries come first)

root = pathlib.Path(__file__).resolve().parents[2]


def _load():
    build = pathlib.Path(os.environ.get("FF_BUILD_DIR", root / "build"))
    found = sorted((build / "tests" / "graph").glob("ff_graph_testing*.so"))
    if not found:
        raise ImportError(f"build the target ff_graph_testing first (looked in {build}; FF_BUILD_DIR names the folder)")
    spec = importlib.util.spec_from_file_location("ff_graph_testing", found[0])
    module = importlib.util.module_from_spec(spec)
    sys.modules["ff_graph_testing"] = module
    spec.loader.exec_module(module)
    return module


native = _load()
