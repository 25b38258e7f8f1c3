"""framefuse-doctor: runs a program under the trace and prints what to fix first.

    framefuse-doctor train.py [its arguments …]        (or: python -m framefuse.doctor train.py …)
    framefuse-doctor -o page.html train.py             # the whole report, too
    framefuse-doctor -m package.train                  # a module, as python -m runs it
    framefuse-doctor --accuracy train.py               # does each kernel compute what eager computes?
    framefuse-doctor --minify train.py                 # the same, and a failing graph is made small

The program runs as `python train.py` does, in a process of its own. The exit status is the program's; with --accuracy
or --minify it is 1 if the program ended well and a result differs from eager.
"""

import argparse
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile

from framefuse import _accuracy, _minify, _report_page, _reproducer, _trace


def main(arguments: "list[str] | None" = None) -> int:
    """Run the command line; returns the program's exit status."""
    options = _parser().parse_args(arguments)
    command = [sys.executable, *(["-m"] if options.module else []), options.program, *options.arguments]
    with tempfile.TemporaryDirectory() as folder:
        if options.accuracy or options.minify:
            status = _run(command, "FRAMEFUSE_ACCURACY", folder)
            return _report_accuracy(pathlib.Path(folder), options, status)
        status = _run(command, "FRAMEFUSE_TRACE", folder)
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


def _parser():
    parser = argparse.ArgumentParser(prog="framefuse-doctor", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", metavar="PAGE", type=pathlib.Path, help="where the page is written to")
    parser.add_argument("-m", dest="module", action="store_true", help="the program is a module")
    parser.add_argument("--accuracy", action="store_true", help="compare each kernel and each graph with eager")
    parser.add_argument("--minify", action="store_true", help="the same; what fails is made small")
    parser.add_argument("--write", metavar="FOLDER", type=pathlib.Path, default=pathlib.Path(), help="where a program that fails is written to")
    parser.add_argument("program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="of the program")
    return parser


def _run(command, variable, folder):
    return subprocess.run(command, env={**os.environ, variable: folder}, check=False).returncode


# ---------------------------------------------------------------- accuracy


def _report_accuracy(folder, options, status):
    compared, others = _accuracy.notes(folder)
    findings = _accuracy.findings(folder)
    for line in others:
        print(line)
    if not findings:
        what = f"{compared} kernels and graphs compute what eager computes" if compared else "nothing was compared; does the program call framefuse.compile?"
        print(f"framefuse-doctor: {what}")
        return status
    # Kernels ran before the graph that they are of.
    finding = findings[0]
    print(_text_of(finding))
    if findings[1:]:
        print(f"{len(findings) - 1} more kernels and graphs differ, some because of it")
    if options.minify:
        finding = _made_small(finding)
        print(f"the smallest graph found that fails\n{_indented(str(finding.graph))}")
    options.write.mkdir(parents=True, exist_ok=True)
    file = options.write / ("framefuse_minified.py" if options.minify else "framefuse_accuracy.py")
    fails = _reproducer.write(finding, file)
    print(f"{file}" + ("" if fails else ": alone it does not fail"))
    return status or 1


def _text_of(finding):
    lines = {
        "difference": "framefuse-doctor: the first result that differs from eager",
        "error": "framefuse-doctor: an error that eager does not raise",
    }
    what = "graph, where no kernel is wrong alone" if finding.whole and finding.kind == "difference" else "graph" if finding.whole else "kernel"
    text = f"{lines[finding.kind]}\n  {what}: {finding.description}\n  {finding.detail}"
    first = None
    with contextlib.suppress(RuntimeError, ValueError):  # of a value that cannot be computed alone
        first = _minify.first_failing(finding.graph, finding.inputs, _failure(finding))
    if first is not None:
        return f"{text}\n  first wrong: {first}"
    places = dict.fromkeys(node.place for node in finding.graph.nodes if node.place)
    return "\n".join([text, *(f"  {place}" for place in places)])


def _failure(finding):
    return _minify.differs if finding.kind == "difference" else _minify.raises(finding.detail)


def _made_small(finding):
    graph, inputs = finding.graph, finding.inputs
    with contextlib.suppress(RuntimeError, ValueError):
        graph, inputs = _minify.minify(graph, inputs, _failure(finding))
    return _accuracy.Finding(finding.kind, finding.description, finding.whole, finding.detail, graph, inputs)


def _indented(text):
    return "\n".join(f"  {line}" for line in text.splitlines())


if __name__ == "__main__":
    sys.exit(main())
