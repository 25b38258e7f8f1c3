"""The most memory that a call holds at a time, by torch's profiler."""

import torch


def peak_bytes(function, *arguments):
    with torch.profiler.profile(profile_memory=True, activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        function(*arguments)
    now = most = 0
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now)
    return most
