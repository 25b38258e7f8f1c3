"""The architectures of transformers 5, whose models are wrapped otherwise than those of 4: rows of their own.

Invariant: never rows of another version under this name.
"""

from __future__ import annotations

import dataclasses
import sys

from zoo import sets_transformers
from zoo.zoo_model import ZooModel


def all_models() -> list[ZooModel]:
    import transformers

    if not transformers.__version__.startswith("5."):
        sys.exit(f"transformers {transformers.__version__} is not of version 5: name its folder with --site")
    return [dataclasses.replace(model, set_name="transformers5") for model in sets_transformers.all_models()]
