"""The program's lines in the nodes of FX graphs, and in the tracebacks of errors that come out of such graphs.

Each node has `meta["stack_trace"]`, as torch's tracers give it: the frames of the program that called it, outermost first.
"""

import re
import types

from torch import fx

_FRAME = re.compile(r'^  File "(.*)", line (\d+), in (.*)$', re.MULTILINE)


def stack_text(rows):
    """`meta["stack_trace"]` of rows (file, line, function, text of the line)."""
    return "".join(f'  File "{file}", line {line}, in {function}\n    {text}\n' for file, line, function, text in rows)


def show_program(error):
    """Replace the traceback of `error`, raised by a node of an FX graph, by the frames of the program that the node stands for."""
    frames = [(file, int(line), function) for file, line, function in _FRAME.findall(_stack_of_node(error))]
    if not frames:
        return
    shown = None
    for file, line, function in reversed(frames):
        frame = _frame_at(file, line, function)
        shown = types.TracebackType(shown, frame, frame.f_lasti, line)
    error.__traceback__ = shown


def _stack_of_node(error):
    """`meta["stack_trace"]` of the innermost node that `error` came through; "" where that is not known."""
    text, last = "", error.__traceback__
    while last is not None:
        module = last.tb_frame.f_locals.get("self") if last.tb_frame.f_code.co_filename.startswith("<eval_with_key>") else None
        if isinstance(module, fx.GraphModule):
            text = _stack_at(module, last.tb_frame.f_code, last.tb_lineno) or text
        last = last.tb_next
    return text


def _stack_at(module, code, line):
    """Of the node at a line of the module's generated code, or None."""
    lines = getattr(module, "_lineno_map", None)
    if lines is None or getattr(type(module).forward, "__code__", None) is not code:  # the graph was changed since
        return None
    index = lines.get(line - module._prologue_start)
    nodes = list(module.graph.nodes)
    return nodes[index].meta.get("stack_trace") if index is not None and index < len(nodes) else None


def _frame_at(file, line, function):
    """A frame that stands at a line of the program's: tracebacks hold frames, and no frame of the program's ever ran that line."""
    code = compile("\n" * (line - 1) + "raise ValueError", file, "exec").replace(co_name=function, co_qualname=function)
    try:
        exec(code, {})
    except ValueError as raised:
        return raised.__traceback__.tb_next.tb_frame
