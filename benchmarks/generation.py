"""Text generation: eager, framefuse and torch.compile (dynamic=None) of a model's forward, in one process, in turns.

Each case generates tokens greedily, one at a time; the length grows with each. `first run` is the time of one generation with compilation,
`token` the median time a token of later ones, in seconds. `captures`: of framefuse, over all. A row is ok if framefuse's tokens are eager's
and it never ran the forward as Python. `peer_wrong`: so many of torch.compile's generations have other tokens. `peer_error`: it raised
that, so the row's ratio is to eager's time. Cases of transformers are there where that is installed; `static`: with its cache of a fixed
length. On a GPU framefuse's mode is "reduce-overhead" there. The library compiles such a forward by itself then, with torch.compile in that
mode: that is torch.compile's time; for the others it is told not to.

    python benchmarks/generation.py [--out FILE] [--check] [--device cuda] [--rounds N] [case …]
"""

import functools
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import measure
import torch
from changing import Language

import framefuse


class Case(NamedTuple):
    forward: "Callable[..., Any]"
    generate: "Callable[..., torch.Tensor]"  # with a forward in place of the model's
    replays: bool = False  # framefuse replays CUDA graphs, and `generate(forward, by_itself=True)` lets the library compile


def growing(device, tokens):
    """A model without a cache: the whole text at each step."""
    model = Language(True).to(device).eval()
    start = torch.randint(512, (2, 7), device=device)

    def generate(forward):
        text = start
        for _ in range(tokens):
            text = torch.cat([text, forward(text)[:, -1:].argmax(-1)], 1)
        return text

    return Case(model, generate)


def of_library(model, device, tokens, **settings):
    model = model.to(device).eval()
    for weight in model.parameters():
        weight.data.mul_(3)  # so that no two tokens are nearly as likely
    start = torch.randint(5, 500, (2, 7), device=device)
    own = model.forward

    length = {"max_new_tokens": tokens, "min_new_tokens": tokens}

    def generate(forward, by_itself=False):
        model.forward = forward
        try:
            return model.generate(start, do_sample=False, disable_compile=not by_itself, **length, **settings)
        finally:
            model.forward = own

    return Case(own, generate, torch.device(device).type == "cuda" and "cache_implementation" in settings)


def cases(device, few):
    tokens = 12 if few else 200
    made = {"growing text": growing(device, tokens)}
    try:
        import transformers as hf
    except ImportError:
        return made
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 512}
    ends = {"bos_token_id": 1, "eos_token_id": None, "pad_token_id": 0}
    gpt2 = hf.GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=512, **ends)
    llama = hf.LlamaConfig(**sizes, num_key_value_heads=2, **ends)
    t5 = hf.T5Config(d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, vocab_size=512, decoder_start_token_id=0, eos_token_id=None)
    library = {"GPT-2": (hf.GPT2LMHeadModel, gpt2), "Llama": (hf.LlamaForCausalLM, llama), "T5": (hf.T5ForConditionalGeneration, t5)}
    for name, (kind, config) in library.items():
        made[f"transformers {name}"] = of_library(kind(config), device, tokens)
        made[f"transformers {name}, static"] = of_library(kind(config), device, tokens, cache_implementation="static")
    return made


def measure_case(name, case, rounds, tokens):
    torch._dynamo.reset()
    torch._dynamo.config.cache_size_limit = torch._dynamo.config.recompile_limit = 64
    framefuse.reset()
    ours = framefuse.compile(case.forward, mode="reduce-overhead" if case.replays else "default")
    peer = functools.partial(case.generate, case.forward, by_itself=True)
    if not case.replays:
        peer = functools.partial(case.generate, torch.compile(case.forward))
    eager = functools.partial(case.generate, case.forward)
    rivals = {"eager": eager, "framefuse": functools.partial(case.generate, ours), "torch.compile": peer}
    before = framefuse.statistics()
    first, later, wrong = {}, {n: [] for n in rivals}, dict.fromkeys(rivals, 0)
    expected, peer_error = None, None
    for number in range(rounds + 1):
        shift = number % len(rivals) if number else 0
        names = list(rivals)
        for which in names[shift:] + names[:shift]:
            kept = []
            try:
                with torch.no_grad():
                    seconds = measure.seconds_of(lambda: kept.append(rivals[which]()))
            except Exception as error:  # noqa: BLE001
                if which != "torch.compile":
                    raise
                peer_error = f"{type(error).__name__}: {error}"[:200]
                for times in (rivals, first, later, wrong):
                    times.pop(which, None)
                continue
            expected = kept[0] if expected is None else expected
            wrong[which] += not torch.equal(kept[0], expected)
            if number:
                later[which].append(seconds / tokens)
            else:
                first[which] = [seconds]
    after = framefuse.statistics()
    captures = after["captures"] - before["captures"]
    ok = wrong["framefuse"] == 0 and captures > 0 and after["eager_fallbacks"] == before["eager_fallbacks"]
    facts = {"tokens": tokens, "captures": captures, "replays": case.replays}
    facts |= {"peer_wrong": wrong["torch.compile"]} if peer_error is None else {"peer_error": peer_error}
    reference = "torch.compile" if peer_error is None else "eager"
    return [
        measure.row(f"{name}, {what}", seconds, reference, "framefuse", ok, **facts)
        for what, seconds in (("first run", first), ("token", later))
    ]


TITLE = "Text generation"


def main():
    parsed = measure.arguments(__doc__.splitlines()[0], default_rounds=4)
    torch.manual_seed(0)
    rows = []
    for name, case in measure.chosen(cases(parsed.device, parsed.check), parsed.cases).items():
        rows += measure_case(name, case, 1 if parsed.check else parsed.rounds, 12 if parsed.check else 200)
        measure.write(TITLE, rows, parsed, "torch.compile", "framefuse")
    return measure.report(TITLE, rows, parsed, "torch.compile", "framefuse", typical="median")


if __name__ == "__main__":
    sys.exit(main())
