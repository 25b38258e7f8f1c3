"""The models of torchvision: classification, segmentation, detection, video and optical flow, with few classes.

They have one size only and are built as they are, with a small image.
"""

from __future__ import annotations

import contextlib
import inspect
from typing import Any

import torch

from zoo.zoo_model import Built, ZooModel, check_size, count_parameters

_CLASSES = 5


def all_models() -> list[ZooModel]:
    import torchvision

    entries = []
    for name in torchvision.models.list_models():
        if not name.startswith("quantized"):
            entries.append(ZooModel("torchvision", name, lambda n=name: build(n)))
    return sorted(entries, key=lambda entry: entry.name)


def build(name: str) -> Built:
    import torchvision

    builder = torchvision.models.get_model_builder(name)
    family = builder.__module__
    settings: dict[str, Any] = {"weights": None}
    parameters = inspect.signature(builder).parameters
    if "weights_backbone" in parameters:
        settings["weights_backbone"] = None
    if family.endswith(("googlenet", "inception")):
        settings["init_weights"] = True
    if ".optical_flow" not in family:
        settings["num_classes"] = _CLASSES
    side, image = _input_size(name, family)
    if "image_size" in inspect.signature(inspect.unwrap(builder)).parameters or "vision_transformer" in family:
        settings["image_size"] = side
    settings.update(_smaller(family, image))
    torch.manual_seed(0)
    # What computes its widths with tensors cannot be built without memory: it is counted with it.
    with contextlib.suppress(NotImplementedError), torch.device("meta"):
        check_size("torchvision", count_parameters(torchvision.models.get_model(name, **settings)))
    model = torchvision.models.get_model(name, **settings).eval()
    check_size("torchvision", count_parameters(model))
    return Built(model, _inputs(family, image))


def _smaller(family: str, image: tuple[int, ...]) -> dict[str, Any]:
    """What a builder is told so that it takes images of this size as they are."""
    scales = family.endswith(("rcnn", "fcos", "retinanet"))
    return {"min_size": image[1], "max_size": image[2]} if scales else {}


def _input_size(name: str, family: str) -> tuple[int, tuple[int, ...]]:
    if "inception" in family:
        return 299, (3, 299, 299)  # less is too little for its auxiliary head
    if ".video" in family:
        if "s3d" in family:
            return 224, (3, 16, 224, 224)
        return (224, (3, 16, 224, 224)) if "mvit" in family else (64, (3, 8, 64, 64))
    if ".optical_flow" in family:
        return 128, (3, 128, 128)
    if ".detection" in family or "maxvit" in family:
        return 224, (3, 224, 224) if "maxvit" in family else (3, 96, 96)
    if "vision_transformer" in family:
        side = 64 - 64 % int(name.rpartition("_")[2])  # a name ends in the side of a patch
        return side, (3, side, side)
    return 64, (3, 64, 64)


def _inputs(family: str, image: tuple[int, ...]):
    def inputs(batch: int, training: bool):
        random = torch.Generator().manual_seed(17)
        images = torch.rand((batch, *image), generator=random)
        if ".optical_flow" in family:
            return (images, images.flip(-1)), {"num_flow_updates": 2}
        if ".detection" not in family:
            return (images,), {}
        return (list(images), [_target(image, n, family) for n in range(batch)]) if training else (list(images),), {}

    return inputs


def _target(image: tuple[int, ...], n: int, family: str) -> dict[str, torch.Tensor]:
    boxes = torch.tensor([[10.0, 10.0, 50.0 + n, 40.0], [30.0, 20.0, 80.0, 90.0]])
    target = {"boxes": boxes, "labels": torch.tensor([1, 2])}
    if "mask_rcnn" in family:
        target["masks"] = torch.ones(2, *image[1:], dtype=torch.uint8)
    if "keypoint_rcnn" in family:
        target["keypoints"] = torch.full((2, 17, 3), 35.0)
    return target
