"""The set of idioms: what people write most, each in a program of its own."""

from __future__ import annotations

from zoo import (  # noqa: F401  (they register their idioms)
    idioms,
    idioms_of_experiments,
    idioms_of_notebooks,
    idioms_of_numpy,
    idioms_of_python,
    idioms_of_scripts,
    idioms_of_services,
    idioms_of_torch,
    idioms_of_training,
)
from zoo.zoo_model import ZooModel


def all_models() -> list[ZooModel]:
    return [ZooModel("idioms", name, lambda n=name: idioms.build(n)) for name in idioms.names()]
