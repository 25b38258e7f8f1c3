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

    def note(self, name, args, kwargs, results):
        """An operator with arguments and results as the recording has them: tuples of one number are values."""
        viewed = None
        parameters = {p.name: p for p in overload_of(name)._schema.arguments}
        for arg, parameter in [*zip(args, parameters.values()), *((arg, parameters[key]) for key, arg in kwargs.items())]:
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

    def note_call(self, target, values, rows):
        """A call that the graph has as it is, with these values and operators: what it counts up, it counts up there."""
        name = target if isinstance(target, str) else getattr(target, "__name__", "")
        if name.endswith("_"):  # it may change sizes
            self._written_late.update(map(self._roots.get, values))
        for row in rows:
            if row is not None and row[0] != "number":
                self.note(row[0], row[1], row[2], [])

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
    """Whether nobody uses the result of a row's operator, and autograd makes it anew with its neighbour: what is saved of a result
    (`detach`), and a copy of what the next row's operator writes."""
    if row[0] not in ("aten.clone", "aten.detach") or numbers(row[3]) & used:
        return False
    if row[0] == "aten.detach":
        return True
    if after is None or after[0] == "number" or not after[1] or after[1][0] != row[1][0]:
        return False
    written = overload_of(after[0])._schema.arguments[0].alias_info
    return written is not None and written.is_write


def values_in(arg):
    """Numbers of the values in an argument."""
    if isinstance(arg, tuple):
        return {arg[0]} if isinstance(arg[0], int) else set()
    return set().union(*map(values_in, arg)) if isinstance(arg, list) and arg else set()
