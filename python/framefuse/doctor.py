"""framefuse-doctor: runs a program under the trace and prints what to fix first.

    framefuse-doctor train.py [its arguments …]        (or: python -m framefuse.doctor train.py …)
    framefuse-doctor -o page.html train.py             # the whole report, too
    framefuse-doctor -m package.train                  # a module, as python -m runs it

The program runs as `python train.py` does, in a process of its own. The exit status is the program's.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

from framefuse import _report_page, _trace


def main(arguments: "list[str] | None" = None) -> int:
    """Run the command line; returns the program's exit status."""
    parser = argparse.ArgumentParser(prog="framefuse-doctor", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", metavar="PAGE", type=pathlib.Path, help="where the page is written to")
    parser.add_argument("-m", dest="module", action="store_true", help="the program is a module")
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="of the program")
    options = parser.parse_args(arguments)
    command = [sys.executable, *(["-m"] if options.module else []), options.program, *options.arguments]
    with tempfile.TemporaryDirectory() as folder:
        status = subprocess.run(command, env={**os.environ, "FRAMEFUSE_TRACE": folder}, check=False).returncode
        try:
            processes = _trace.read(folder)
        except ValueError:
            print("framefuse-doctor: nothing was compiled; does the program call framefuse.compile?", file=sys.stderr)
            return status
    print(_report_page.text(processes), end="")
    if options.output is not None:
        options.output.write_text(_report_page.page(processes, options.program), encoding="utf-8")
        print(options.output)
    return status


if __name__ == "__main__":
    sys.exit(main())
