"""framefuse-report: one page out of a trace, or a short text.

    FRAMEFUSE_TRACE=traces python train.py
    framefuse-report traces [-o page.html] [--text]        (or: python -m framefuse.report traces)

Without -o the page is TRACE_DIR/report.html; its name is printed. --text prints what to act on first, and writes no page. The exit
status is 2 where there is no trace.
"""

import argparse
import pathlib
import sys

from framefuse import _report_page, _trace


def main(arguments: "list[str] | None" = None) -> int:
    """Run the command line; returns its exit status."""
    parser = argparse.ArgumentParser(prog="framefuse-report", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", metavar="TRACE_DIR", help="the folder that FRAMEFUSE_TRACE named, or one of its files")
    parser.add_argument("-o", "--output", metavar="PAGE", type=pathlib.Path, help="where the page is written to")
    parser.add_argument("--text", action="store_true", help="print a short text, and write no page")
    options = parser.parse_args(arguments)
    try:
        processes = _trace.read(options.trace)
    except (OSError, ValueError) as error:
        print(f"framefuse-report: {error}", file=sys.stderr)
        return 2
    if options.text:
        print(_report_page.text(processes), end="")
        return 0
    folder = pathlib.Path(options.trace)
    page = options.output or (folder.parent if folder.is_file() else folder) / "report.html"
    page.write_text(_report_page.page(processes, pathlib.Path(options.trace).name), encoding="utf-8")
    print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
