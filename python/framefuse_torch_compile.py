"""What torch calls when it is imported (entry point group "torch.backends"): with FRAMEFUSE_AS_TORCH_COMPILE=1 framefuse is imported
then, so that programs which know nothing of it run through it. Otherwise nothing happens, and nothing is imported.
"""

import os


def start() -> None:
    if os.environ.get("FRAMEFUSE_AS_TORCH_COMPILE") == "1":
        import framefuse  # noqa: F401  (reads the variable)
