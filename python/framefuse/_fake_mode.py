"""torch's FakeTensorMode, entered so that no thread's end breaks it."""

from framefuse import _C


def fake_mode(**options):
    """A `FakeTensorMode(**options)` to enter."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    _C.ensure_lasting_device_guard()
    return FakeTensorMode(**options)


def forget_tensors(mode):
    """The mode knows none of the tensors that it made fakes for: a callback would run at the end of each, and code that
    runs there breaks the graph of who replaces the tensor."""
    mode.fake_tensor_converter.meta_converter.describer.lookup_tensor.clear()
