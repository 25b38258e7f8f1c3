"""Says in a sentence what an undefined symbol does not: framefuse was built for another torch."""

import torch


def minor_of(version: str) -> str:
    """"2.13" of "2.13.0+cpu"."""
    return ".".join(version.split("+")[0].split(".")[:2])


def require(built_for: str) -> None:
    """Raises ImportError unless torch is of the minor version that the extension was built for: torch's C++ interface changes between them."""
    if minor_of(torch.__version__) != minor_of(built_for):
        raise ImportError(
            f"this framefuse was built for torch {minor_of(built_for)}, and torch {torch.__version__} is installed: "
            f"install torch=={minor_of(built_for)}.*, or build framefuse for this torch (pip install --no-build-isolation .)"
        )


try:
    from framefuse._built_for import TORCH
except ImportError:  # the extension was put here by hand
    pass
else:
    require(TORCH)
