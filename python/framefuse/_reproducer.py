"""Writes a graph that fails as a program of its own: torch and framefuse, no pickle. Inputs are made from a seed where they
still fail, else they are saved beside the program (`_saved_tensors`)."""

import pathlib
import subprocess
import sys


from framefuse import _saved_tensors
from framefuse._accuracy import ALLOWED, Finding

_PROGRAM = '''"""{title}

Written by framefuse-doctor. It ends with an error as long as framefuse and eager do not agree.
"""

import pathlib

import framefuse
import torch
{imports}
{body}


LAYOUTS = {layouts}


{inputs}


def check(compiled, eager):
    for got, want in zip(compiled, eager, strict=True):
        {tolerance}
        torch.testing.assert_close(got, want, rtol=rtol, atol=atol, equal_nan=True, check_stride=False)


if __name__ == "__main__":
    with torch.no_grad():
        check({compiled}(inputs()), {eager}(inputs()))
    print("framefuse and eager agree")
'''
_TOLERANCE = f"""rtol, largest = {ALLOWED}.get(want.dtype, (0, 0))
        atol = largest * float(want[want.isfinite()].abs().max()) if want.isfinite().any() else 0"""
_SEEDED = '''def inputs():
    torch.manual_seed(0)
    tensors = []
    for dtype, sizes, strides, elements, device in LAYOUTS:
        flat = torch.randn(elements).to(dtype) if dtype.is_floating_point or dtype.is_complex else torch.randint(0, 2, (elements,)).to(dtype)
        tensors.append(flat.to(device).as_strided(sizes, strides))
    return tensors'''
_SAVED = '''def inputs():
    data, at, tensors = bytearray(pathlib.Path(__file__).with_suffix(".bin").read_bytes()), 0, []
    for dtype, sizes, strides, elements, device in LAYOUTS:
        flat = torch.frombuffer(data, dtype=dtype, count=elements, offset=at).clone() if elements else torch.empty(0, dtype=dtype)
        at += elements * flat.element_size()
        tensors.append(flat.to(device).as_strided(sizes, strides))
    return tensors'''


def write(finding: Finding, file: pathlib.Path) -> bool:
    """Write FILE, and beside it FILE.bin where inputs cannot come from a seed; returns whether it fails as was found.

    The graph is a Python function where that fails, too; else it is compiled from its text.
    """
    data = file.with_suffix(".bin")
    layouts = _saved_tensors.write(finding.inputs, data)
    for as_text in (False, True):
        for saved in (False, True):
            file.write_text(_program(finding, layouts, as_text, saved), encoding="utf-8")
            if _fails(file, finding):
                if not saved:
                    data.unlink()
                return True
    return False


def _fails(file, finding):
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return False
    expected = "Mismatched elements" if finding.kind == "difference" else finding.detail.splitlines()[0][:40]
    return expected in done.stderr or (finding.kind == "difference" and "not close" in done.stderr) or done.returncode < 0


def _program(finding, layouts, as_text, saved):
    graph = finding.graph
    if as_text:
        body, imports = f'GRAPH = r"""{graph}"""', "from framefuse import graph\n\n"
        compiled, eager = 'graph.compile(GRAPH, "fuse", verify=False)', 'graph.compile(GRAPH, "aten", verify=False)'
    else:
        body, imports = graph.python("program"), "\n"
        compiled, eager = "(lambda given: framefuse.compile(program)(*given))", "(lambda given: program(*given))"
    title = finding.description.replace("\\", "/").replace('"""', "'''")
    lines = [f"(torch.{n['dtype']}, {n['sizes']}, {n['strides']}, {n['elements']}, {n['device']!r})," for n in layouts]
    return _PROGRAM.format(
        title=f"{title}: {'framefuse computes something else than eager' if finding.kind == 'difference' else 'framefuse raises an error'}.",
        imports=imports,
        body=body,
        layouts="\n    ".join(["[", *lines]) + "\n]",
        inputs=_SAVED if saved else _SEEDED,
        tolerance=_TOLERANCE,
        compiled=compiled,
        eager=eager,
    )
