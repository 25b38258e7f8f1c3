"""The most memory that lived at a time while torch's profiler looked."""

import torch


def most_bytes(profile: torch.profiler.profile) -> int:
    """Bytes beyond those that lived when it began."""
    now = most = 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now)
    return most
