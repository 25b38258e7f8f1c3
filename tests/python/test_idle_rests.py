"""What is left of a function after a graph break, without tensor work, says which break it follows from."""

import contextlib
import re

import framefuse
import torch


@contextlib.contextmanager
def fallbacks():
    """The kinds that were counted in the block, and the log's texts."""
    framefuse.reset()
    before = dict(framefuse.statistics())
    kinds, texts = {}, []
    with framefuse.capture_logs("fallbacks") as records:
        yield kinds, texts
    for name, count in framefuse.statistics().items():
        if name.startswith("eager_fallbacks.") and count != before[name]:
            kinds[name.removeprefix("eager_fallbacks.")] = count - before[name]
    texts += [text for artifact, text in records if artifact == "fallbacks"]


class BreaksFirst(torch.nn.Module):
    def forward(self, x):
        framefuse.graph_break()
        return x + 1


def test_the_rest_after_a_break_names_the_break():
    with fallbacks() as (kinds, texts):
        model = framefuse.compile(torch.nn.Sequential(BreaksFirst(), BreaksFirst()))
        for _ in range(8):
            assert torch.equal(model(torch.ones(3)), torch.full((3,), 3.0))
    assert "waiting" not in kinds and kinds["idle_rest"] > 0
    (text,) = [text for text in texts if "Sequential.forward" in text and "graph_break()" in text]
    assert "after a graph break" in text and re.search(r"test_idle_rests.py:\d+ in forward", text)
    assert "what costs is the graph break" in text and "could not be compiled" not in text


def test_a_function_without_tensor_work_waits_without_a_message():
    def works(x):
        return helper(3), x + 1

    @framefuse.disable(recursive=False)
    def helper(n):
        return counts_down(n)

    def counts_down(n):
        while n > 0:
            n -= 1
        return n

    with fallbacks() as (kinds, texts):
        compiled = framefuse.compile(works)
        for _ in range(8):
            assert compiled(torch.ones(3))[0] == 0
    assert kinds.get("idle_again", 0) > 0 and "waiting" not in kinds
    assert not [text for text in texts if "counts_down" in text]
