"""torch's FakeTensorMode, entered so that no thread's end breaks it."""

from framefuse import _C


def fake_mode(**options):
    """A `FakeTensorMode(**options)` to enter."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    _C.ensure_lasting_device_guard()
    return FakeTensorMode(**options)
