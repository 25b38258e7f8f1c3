"""Finds ff_guards_testing in the build folder (FF_BUILD_DIR, or build/ in the root)."""

import os
import pathlib
import sys

root = pathlib.Path(__file__).resolve().parents[2]
build = pathlib.Path(os.environ.get("FF_BUILD_DIR", root / "build"))
sys.path[:0] = [str(build / "tests" / "guards"), str(pathlib.Path(__file__).parent)]
