"""Golden texts: golden/*.txt hold a program, a line of dashes, and what capture makes of its calls: graphs, guards, effects and
what is rebuilt after a break. FF_UPDATE_GOLDEN=1 rewrites the second half; the difference is then for a human to read."""

import os
import pathlib
import re
import sys

import framefuse
import pytest
import torch

FOLDER = pathlib.Path(__file__).parent / "golden"
DASHES = "--------\n"


def rebuilt(text):
    """Of the log `bytecode`: without the instructions, which are each version's own."""
    lines = [line for line in text.splitlines() if not re.match(r" {6}[|> ] *\d* ", line) and not re.fullmatch(r" +\d+ *", line)]
    return re.sub(r" at \d+:", ":", "\n".join(lines))


def readable(name, text):
    if name == "bytecode":
        text = rebuilt(text)
    if name == "guards":
        text = re.sub(r"(if not torch_state\(\): return False).*", r"\1", text)  # which state there is is torch's own
        text = re.sub(r".*, called from .*\n", "", text)  # and so is what its code reads
    if name == "graph":
        text = text.partition("\n")[2]
    return re.sub(r" at 0x[0-9a-f]+", "", text).rstrip()


def captured(source, name):
    """Runs the program: `calls` is what it does; each capture as text, in order."""
    framefuse.reset()
    torch.manual_seed(0)
    space = {"torch": torch, "framefuse": framefuse, "__name__": name}
    exec(compile(source, name + ".py", "exec"), space)
    program = framefuse.compile(space["program"], backend="aten")
    with framefuse.capture_logs("graph", "guards", "effects", "bytecode") as records:
        space["calls"](program)
    return "".join(f"# {log}\n{readable(log, text)}\n\n" for log, text in records).rstrip() + "\n"


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="other versions of Python read the same things in another order")
@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda p: p.stem)
def test_golden(path):
    source, separator, expected = path.read_text(encoding="utf-8").partition(DASHES)
    found = captured(source, path.stem)
    if "FF_UPDATE_GOLDEN" in os.environ:
        path.write_text(source + DASHES + found, encoding="utf-8")
        expected = found
    assert separator or "FF_UPDATE_GOLDEN" in os.environ, "no expected text yet: run with FF_UPDATE_GOLDEN=1 and read it"
    assert found == expected
