"""load: a package that framefuse.export wrote, as a callable (docs/export.md)."""

import inspect
import json
import os
from typing import Any

import torch

from framefuse import _C, _call_tree, _graph_module

FORMAT_ERROR = "its call is described in a way that this framefuse does not know"


class LoadedPackage:
    """A captured function with its weights, without its Python code. Call it as the function was called.

    It takes arguments as they were exported: tensors of the dtypes, devices, strides and sizes in `signature`, and constants equal to
    those of the export, which may be left out. It raises `ValueError` or `TypeError` for others. There are no gradients.
    """

    def __init__(self, package: "_C.LoadedPackage"):
        texts = package.texts
        try:
            call = json.loads(texts["call"])
            self._parameters = [(row["name"], row["kind"], row["tree"]) for row in call["parameters"]]
            self._result = call["result"]
            self.__signature__ = _signature(self._parameters)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(FORMAT_ERROR) from error
        self._package = package

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _call_tree.build(self._result, self._package.run(self._tensors_of(args, kwargs)))

    def _tensors_of(self, args, kwargs):
        given = self.__signature__.bind(*args, **kwargs).arguments
        tensors: "dict[int, Any]" = {}
        for name, _, tree in self._parameters:
            if name in given:
                _call_tree.match(tree, given[name], name, tensors)
            elif _call_tree.has_tensor(tree):  # of *args or **kwargs
                raise TypeError(f"{name}: expected as many as when it was exported, given none")
        return [tensors[i] for i in range(len(tensors))]

    @property
    def signature(self) -> str:
        """Arguments, results and what sizes must meet, a line each."""
        return self._package.signature

    @property
    def graph(self) -> str:
        """The graph as text."""
        return self._package.texts["graph"]

    def graph_module(self) -> torch.fx.GraphModule:
        """The graph as an `fx.GraphModule` of ATen's operators.

        It takes the tensors of `signature` one by one, in that order, and returns the tuple of its results. It checks neither, and has no
        gradients of weights: they are this package's own tensors, as parameters and buffers under their names. Raises `ValueError` for a size
        whose formula torch.fx has no function for.
        """
        return _graph_module.graph_module(self._package.texts, self._package.weights)

    def exported_program(self, *args: Any, **kwargs: Any) -> "torch.export.ExportedProgram":
        """`torch.export` of that graph module, with this package's symbolic sizes; the arguments are those of a call of the package.

        Raises what `torch.export.export` raises where it has no such graph: for one, where a size follows from values.
        """
        return _graph_module.exported_program(self._package.texts, self._package.weights, self._tensors_of(args, kwargs))

    @property
    def guards(self) -> str:
        """What held when it was exported, as a readable Python function. What is not in `signature` is part of the package."""
        return self._package.texts["guards"]

    @property
    def made_by(self) -> str:
        """The versions that made it."""
        return self._package.texts.get("made_by", "")

    def __repr__(self) -> str:
        return f"<framefuse package, {self.made_by}\n{self.signature}>"


def _signature(parameters):
    """Constants are defaults, where no tensor that must be given stands behind them."""
    rows: "list[inspect.Parameter]" = []
    optional = True
    for name, kind, tree in reversed(parameters):
        kind = inspect._ParameterKind[kind]
        positional = kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        variable = kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        constant = not variable and not _call_tree.has_tensor(tree)
        if positional:
            optional = optional and constant
        default = _call_tree.build(tree, []) if constant and (optional or not positional) else inspect.Parameter.empty
        rows.insert(0, inspect.Parameter(name, kind, default=default))
    return inspect.Signature(rows)


def load(path: "str | os.PathLike[str]", *, sha256: "str | None" = None) -> LoadedPackage:
    """Read a package that `framefuse.export(f)(…).package(path)` wrote, and make its kernels.

    Nothing of the file is executed but its graph's operators: it holds no pickle and no machine code. `sha256` is what `package` returned;
    a file with another one is refused. Raises `ValueError` for a file that is damaged, refused or of another version, `OSError` for none.
    """
    return LoadedPackage(_C.load_package(os.fspath(path), "" if sha256 is None else sha256.lower()))
