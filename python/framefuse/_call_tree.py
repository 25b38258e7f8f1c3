"""What a package's call takes and gives: tensors and constants in tuples, lists and dicts, as JSON.

A tree is {"tensor": number}, {"value": constant}, {"float": text}, {"tuple": [tree]}, {"list": [tree]} or {"dict": [[key, tree]]}.
"""

from collections.abc import Callable
from typing import Any

import torch

Tree = dict[str, Any]
_PLAIN = (torch.Tensor, torch.nn.Parameter)


def is_plain(value: Any) -> bool:
    """Whether it is a tensor without a class of the user's own."""
    return type(value) in _PLAIN


def tree_of(value: Any, path: str, tensors: "Callable[[torch.Tensor, str], int]") -> Tree:
    """The tree of `value`; `tensors` gives the number of a tensor and is told its path. Raises `TypeError` for what has none."""
    if is_plain(value):
        return {"tensor": tensors(value, path)}
    if type(value) in (type(None), bool, int, str):
        return {"value": value}
    if type(value) is float:
        return {"float": value.hex()}
    if type(value) in (tuple, list):
        return {type(value).__name__: [tree_of(item, f"{path}[{i}]", tensors) for i, item in enumerate(value)]}
    if type(value) is dict and all(type(key) in (str, int) for key in value):
        return {"dict": [[key, tree_of(item, f"{path}[{key!r}]", tensors)] for key, item in value.items()]}
    raise TypeError(f"{path} is a {type(value).__name__}; packages know tensors, None, bool, int, float and str, in tuples, lists and dicts")


def with_dicts(value: Any) -> Any:
    """The value with a dict in the place of each object of a class derived from that, as transformers' ModelOutput."""
    if isinstance(value, dict):
        return {key: with_dicts(item) for key, item in value.items()}
    return type(value)(map(with_dicts, value)) if type(value) in (tuple, list) else value


def has_tensor(tree: Tree) -> bool:
    """Whether there is one in it."""
    [(kind, inside)] = tree.items()
    if kind in ("tuple", "list"):
        return any(map(has_tensor, inside))
    return any(has_tensor(item) for _, item in inside) if kind == "dict" else kind == "tensor"


def build(tree: Tree, tensors: "list[torch.Tensor]") -> Any:
    """The value that a tree describes."""
    [(kind, inside)] = tree.items()
    if kind == "tensor":
        return tensors[inside]
    if kind == "value":
        return inside
    if kind == "float":
        return float.fromhex(inside)
    if kind == "dict":
        return {key: build(item, tensors) for key, item in inside}
    items = [build(item, tensors) for item in inside]
    return tuple(items) if kind == "tuple" else items


def match(tree: Tree, value: Any, path: str, tensors: "dict[int, torch.Tensor]") -> None:
    """Put the tensors of `value` at their numbers, where it is as the tree says. Raises `TypeError` or `ValueError` where it is not."""
    [(kind, inside)] = tree.items()
    if kind == "tensor":
        if not is_plain(value):
            raise TypeError(f"{path}: expected a tensor, given {_name(value)}")
        tensors[inside] = value
    elif kind in ("value", "float"):
        expected = build(tree, [])
        if type(value) is not type(expected) or (value.hex() != inside if kind == "float" else value != expected):
            raise ValueError(f"{path}: expected {expected!r}, as when it was exported, given {_shown(value)}")
    elif type(value).__name__ != kind or type(value) not in (tuple, list, dict):
        raise TypeError(f"{path}: expected a {kind}, given {_name(value)}")
    elif kind == "dict":
        keys = [key for key, _ in inside]
        if list(value) != keys:
            raise ValueError(f"{path}: expected the keys {keys}, in this order, given {list(value)}")
        for key, item in inside:
            match(item, value[key], f"{path}[{key!r}]", tensors)
    else:
        if len(value) != len(inside):
            raise ValueError(f"{path}: expected {len(inside)} items, given {len(value)}")
        for i, item in enumerate(inside):
            match(item, value[i], f"{path}[{i}]", tensors)


def _name(value):
    return "None" if value is None else f"a value of type {type(value).__name__}"


def _shown(value):
    return repr(value) if type(value) in (type(None), bool, int, float, str) else _name(value)
