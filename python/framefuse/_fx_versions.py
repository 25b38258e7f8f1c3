"""Version counters where ATen operators stand for a call of torch's: what the call did beyond the operators that were recorded.

A call may change the sizes of its own result in place (`squeeze_`), which counts. It was recorded as a view, which does not. Such results are
counted up where they leave the graph, if no operator writes them after the view: autograd has saved by then what eager's saved, and both are
older than the counter, or neither. Else the graph differs, and is refused (fx_graph.h).
"""

import torch


def overload_of(name):
    """torch.ops' object for "aten.add.Tensor", or "aten.relu" for an overload without a name."""
    namespace, packet, *rest = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), rest[0] if rest else "default")


class Versions:
    """Of values that ATen operators made, by number."""

    def __init__(self):
        self._roots = {}  # value that an operator made → the first one that has its memory
        self._writes = {}  # root → how often operators wrote it
        self._viewed = set()  # roots
        self._written_late = set()  # roots that an operator wrote after a view was made

    def note(self, overload, args, results):
        """An operator with `args` and `results` as the recording has them: tuples of one number are values."""
        viewed = None
        for arg, parameter in zip(args, overload._schema.arguments):
            root = self._roots.get(arg[0]) if isinstance(arg, tuple) else None
            if root is None or parameter.alias_info is None:
                continue
            if not parameter.alias_info.is_write:
                viewed = root
                continue
            self._writes[root] = self._writes.get(root, 0) + 1
            if root in self._viewed:
                self._written_late.add(root)
        if viewed is not None:
            self._viewed.add(viewed)
        for value in numbers(results):
            self._roots[value] = value if viewed is None else viewed

    def note_call(self, target, fakes, value_of):
        """A call that the graph has as it is: what it counts up, it counts up there."""
        name = target if isinstance(target, str) else getattr(target, "__name__", "")
        if name.endswith("_") or name.startswith(("i", "__i")):
            for fake in fakes:
                self._written_late.add(self._roots.get(value_of(fake)))

    def missing(self, value, version):
        """How often eager has counted a result up that the operators do not, where its counter says `version`."""
        root = self._roots.get(value)
        if root is None or root in self._written_late:
            return 0
        return max(0, version - self._writes.get(root, 0))


def numbers(results):
    """Of the values among an operator's results."""
    if isinstance(results, tuple):
        return {results[0]} if results[0] >= 0 else set()
    return set().union(*map(numbers, results)) if results else set()


def is_made_by_autograd(row, after, used):
    """Whether the operator of a row is a copy that autograd makes of what the next row's operator writes: it is made anew with that."""
    if row[0] != "aten.clone" or after is None or after[0] == "number":
        return False
    _, args, _, results = row
    writes = overload_of(after[0])._schema.arguments
    is_written = bool(writes) and writes[0].alias_info is not None and writes[0].alias_info.is_write
    return is_written and bool(after[1]) and after[1][0] == args[0] and not (numbers(results) & used)


def values_in(arg):
    """Numbers of the values in an argument."""
    if isinstance(arg, tuple):
        return {arg[0]} if isinstance(arg[0], int) else set()
    return set().union(*map(values_in, arg)) if isinstance(arg, list) and arg else set()
