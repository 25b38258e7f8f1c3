"""Where the zoo's packages come from: the interpreter, folders that are named, or `.zoo/` in the root.

What is missing is installed by pip into a folder of its own, without what the packages would pull in (PyTorch above
all). Nothing else is downloaded: no weights.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import subprocess
import sys

import torch

ROOT = pathlib.Path(__file__).parents[2]

_HUB = ["safetensors", "requests", "urllib3", "idna", "certifi", "charset_normalizer", "pyyaml"]
_COMMON = ["numpy", "tqdm", "filelock", "packaging", "fsspec"]

# A folder's name, the module that shows that it is there, what is installed.
_FOLDERS = {
    "transformers": (
        "transformers",
        "transformers",
        ["transformers>=4.57,<5", "huggingface_hub>=0.34,<1", "tokenizers>=0.22,<=0.23", "regex", *_HUB],
    ),
    "transformers5": (
        "transformers5",
        "transformers",
        ["transformers>=5.17,<6", "huggingface_hub>=1.3", "tokenizers>=0.22,<=0.23.3", "regex", "httpx", "httpcore", "anyio", "h11",
         "typer", "click", "rich", "markdown-it-py", "mdurl", "pygments", "shellingham", *_HUB],
    ),
    "timm": ("vision", "timm", ["timm", "torchvision", "pillow", "huggingface_hub>=0.34,<1", *_HUB]),
    "torchvision": ("vision", "torchvision", ["timm", "torchvision", "pillow", "huggingface_hub>=0.34,<1", *_HUB]),
}

# A set over many packages: those that are there are used, and none is installed.
MANY = "packages"

_kept: list[object] = []


def make_importable(set_name: str, site: str | None) -> None:
    """After this the set's package can be imported."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if set_name not in _FOLDERS and set_name != MANY:
        return
    folder, module, requirements = _FOLDERS.get(set_name, (set_name, "torch", []))
    sites = (site or os.environ.get("FF_ZOO_SITE") or "").split(os.pathsep)
    if sites[0]:
        sys.path[0:0] = [path for s in sites for path in (s, os.path.join(s, folder)) if os.path.isdir(path)]
    elif importlib.util.find_spec(module) is None:
        target = ROOT / ".zoo" / folder
        if not (target / module).is_dir():
            _install(target, requirements)
        sys.path.insert(0, str(target))
    if importlib.util.find_spec("torchvision") is not None:
        _import_torchvision()


def _install(target: pathlib.Path, requirements: list[str]) -> None:
    lacking = [name for name in _COMMON if importlib.util.find_spec(name) is None]
    print(f"installing {', '.join(requirements + lacking)} into {target}", flush=True)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--target"]
    subprocess.run([*pip, str(target), *requirements, *lacking], check=True)


def _import_torchvision() -> None:
    """Its C++ library may not load beside a PyTorch of another kind; then its Python code lacks what it defines."""
    try:
        importlib.import_module("torchvision")
        return
    except RuntimeError:
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
    library = torch.library.Library("torchvision", "FRAGMENT")
    _kept.append(library)  # what it defines lives as long as it does
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.impl(name, _nms, "CPU")
    importlib.import_module("torchvision")


def _nms(boxes: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    """The best boxes first, without those that one of them covers."""
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(dim=1)
    remaining, chosen = scores.argsort(descending=True, stable=True), []
    while remaining.numel():
        best, remaining = remaining[0], remaining[1:]
        chosen.append(best)
        corners = torch.maximum(boxes[best, :2], boxes[remaining, :2]), torch.minimum(boxes[best, 2:], boxes[remaining, 2:])
        common = (corners[1] - corners[0]).clamp(min=0).prod(dim=1)
        remaining = remaining[common <= iou_threshold * (areas[best] + areas[remaining] - common)]
    return torch.stack(chosen) if chosen else torch.empty(0, dtype=torch.long)
