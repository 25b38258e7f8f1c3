"""The models of timm: the smallest variant of each module, with a small image."""

from __future__ import annotations

import re
from typing import Any

import torch

from zoo.zoo_model import Built, Skip, ZooModel, check_size, count_parameters

_SIDES = (64, 96, 128, 192, 224, 256)
# Words of a variant's name, smallest first.
_SMALL = ("test", "zepto", "atto", "femto", "pico", "nano", "xxtiny", "xxt", "xxs", "xtiny", "xs", "tiny", "mini", "small")


def all_models() -> list[ZooModel]:
    import timm

    entries = []
    for module in timm.list_modules():
        names = timm.list_models(module=module)
        if names:
            entries.append(ZooModel("timm", module, lambda m=module: build(m)))
    return entries


def _rank(name: str) -> tuple[int, int, str]:
    word = next((n for n, word in enumerate(_SMALL) if re.search(rf"(^|_){word}", name)), len(_SMALL))
    number = re.search(r"\d+", name)
    return word, int(number[0]) if number else 999, name


def build(module: str) -> Built:
    """The smallest of the module's first candidates, at the smallest side that it runs at."""
    import timm

    problem, names = "", sorted(timm.list_models(module=module), key=_rank)
    smallest = sorted(names[:5], key=_count)
    for name in smallest[:2]:
        check_size("timm", _count(name))
        for side in _SIDES:
            try:
                return _at_side(name, side)
            except Exception as error:
                problem = f"{name}, {side}: {type(error).__name__}: {str(error)[:200]}"
    raise Skip(problem)


def _count(name: str) -> int:
    import timm

    try:
        with torch.device("meta"):
            return count_parameters(timm.create_model(name, pretrained=False))
    except Exception:  # a constructor that reads what it made
        return count_parameters(timm.create_model(name, pretrained=False))


def _at_side(name: str, side: int) -> Built:
    import timm

    settings: dict[str, Any] = {"pretrained": False, "num_classes": 5}
    torch.manual_seed(0)
    try:
        model = timm.create_model(name, img_size=side, **settings)
    except TypeError:
        model = timm.create_model(name, **settings)
    channels = model.default_cfg.get("input_size", (3,))[0] if hasattr(model, "default_cfg") else 3

    def inputs(batch: int, training: bool):
        return (torch.rand(batch, channels, side, side, generator=torch.Generator().manual_seed(17)),), {}

    model.eval()
    with torch.no_grad():
        model(*inputs(2, False)[0])
    model.train()(*inputs(2, True)[0])
    return Built(model.eval(), inputs, f"{name} at {side}")
