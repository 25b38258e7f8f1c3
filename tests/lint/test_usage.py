"""./dev says what it can do."""

import pathlib
import subprocess

DEV = pathlib.Path(__file__).parents[2] / "dev"


def test_help():
    for word in ("--help", "-h", "help"):
        done = subprocess.run([DEV, word], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and "  demo " in done.stdout and "  lint " in done.stdout and done.stderr == ""
