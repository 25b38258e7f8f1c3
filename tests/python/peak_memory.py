"""The most memory that a call holds at a time, by torch's profiler."""

import torch

from conformance.peak_memory import most_bytes


def peak_bytes(function, *arguments):
    with torch.profiler.profile(profile_memory=True, activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        function(*arguments)
    return most_bytes(profile)
