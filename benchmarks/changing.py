"""What sizes and numbers that change cost in all: eager, framefuse and torch.compile (dynamic=None), call by call in one process.
Among the cases are models of transformers, where that is installed.

Each case is a list of calls, each with another size or number. `first pass` is the time of all calls, compilation included; `second pass`
the time of the same calls once more. The rivals take turns at each call. `captures`: of framefuse, over both passes. A row is ok if each
of framefuse's results agrees with eager's, and it never ran the function as Python. `peer_wrong`: so many of torch.compile's do not agree.

    python benchmarks/changing.py [--out FILE] [--check] [--train] [--device cuda] [case …]
"""

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import measure
import torch
import torch.nn.functional as F
from torch import nn

import framefuse


class Case(NamedTuple):
    function: "Callable[..., Any]"
    calls: "list[tuple]"
    weights: "list[torch.Tensor]" = []


class Block(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.attention_in, self.attention_out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads, self.causal = heads, causal

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.attention_in(self.norms[0](x)).split(width, 2)
        q, k, v = (t.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for t in parts)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.attention_out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class Language(nn.Module):
    def __init__(self, causal, width=128, blocks=4, words=512, longest=512):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(longest, width)
        self.blocks = nn.Sequential(*(Block(width, 4, causal) for _ in range(blocks)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.norm(self.blocks(x)))


def convnet():
    def layer(channels, more):
        return [nn.Conv2d(channels, more, 3, padding=1), nn.BatchNorm2d(more), nn.ReLU()]

    return nn.Sequential(*layer(3, 16), *layer(16, 32), nn.MaxPool2d(2), *layer(32, 32), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))


class First(nn.Module):
    """A library's model, for its first result alone."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        return self.model(tokens)[0]


def library_models():
    """Name → tiny model of transformers, with its own code; none where it is not installed."""
    try:
        import transformers as hf
    except ImportError:
        return {}
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 512}
    gpt2 = hf.GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=512)
    t5 = hf.T5Config(d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, vocab_size=512)
    return {
        "transformers GPT-2": First(hf.GPT2LMHeadModel(gpt2)),
        "transformers Llama": First(hf.LlamaForCausalLM(hf.LlamaConfig(**sizes, num_key_value_heads=2))),
        "transformers T5 encoder": First(hf.T5EncoderModel(t5)),
    }


def descent(weights, gradients, rate):
    for w, g in zip(weights, gradients):
        w = w.mul(1 - rate * 0.01).add(g, alpha=-rate)
        g.copy_(w * 0)
    return w


def counted(x, step):
    return (x * (step % 7)).tanh() * 0.9**step + x / (step + 1)


def joined(items):
    return sum(t.relu() for t in items) / len(items)


def cases(device, few):
    torch.manual_seed(0)
    count = 4 if few else 60
    lengths = torch.randperm(250)[:count].add(2).tolist()
    batches = torch.randperm(100)[:count].add(2).tolist()
    gpt, bert = (Language(causal).to(device).eval() for causal in (True, False))
    net = convnet().to(device).eval()
    mlp = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 10)).to(device).eval()

    def tokens(n):
        return (torch.randint(512, (2, n), device=device),)

    libraries = {name: model.to(device).eval() for name, model in library_models().items()}
    weights = [torch.randn(64, 64, device=device) for _ in range(8)]
    x = torch.randn(64, 256, device=device)
    return {
        "GPT lengths": Case(gpt, [tokens(n) for n in lengths], list(gpt.parameters())),
        "BERT lengths": Case(bert, [tokens(n) for n in lengths], list(bert.parameters())),
        "convnet batches": Case(net, [(torch.randn(n, 3, 16, 16, device=device),) for n in batches], list(net.parameters())),
        "MLP batches": Case(mlp, [(torch.randn(n, 64, device=device),) for n in batches], list(mlp.parameters())),
        **{f"{name} lengths": Case(m, [tokens(n) for n in lengths], list(m.parameters())) for name, m in libraries.items()},
        "learning rate": Case(descent, [(weights, [w.clone() for w in weights], 0.1 * 0.9**i) for i in range(count)]),
        "step counter": Case(counted, [(x, i) for i in range(1, count + 1)]),
        "list length": Case(joined, [([x] * (i % 5 + 1),) for i in range(count)]),
    }


def run(rival, case, arguments, train):
    if not train or not case.weights:
        with torch.no_grad():
            return rival(*arguments)
    result = rival(*arguments)
    result.square().mean().backward()
    gradients = [w.grad for w in case.weights]
    for w in case.weights:
        w.grad = None
    return [result.detach(), *[g for g in gradients if g is not None]]


def one_pass(rivals, case, train):
    """(name → seconds of all calls, name → how many results were not eager's)"""
    total, wrong, names = dict.fromkeys(rivals, 0.0), dict.fromkeys(rivals, 0), list(rivals)
    for number, arguments in enumerate(case.calls):
        results = {}
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            own = arguments if case.weights else torch.utils._pytree.tree_map(lambda t: t.clone() if isinstance(t, torch.Tensor) else t, arguments)
            kept = []
            total[name] += measure.seconds_of(lambda: kept.append(run(rivals[name], case, own, train)))
            results[name] = kept[0]
        for name in names:
            wrong[name] += not measure.same(results[name], results["eager"], 1e-3)
    return total, wrong


def measure_case(name, case, train):
    torch._dynamo.reset()
    torch._dynamo.config.cache_size_limit = torch._dynamo.config.recompile_limit = 64
    framefuse.reset()
    rivals = {"eager": case.function, "framefuse": framefuse.compile(case.function), "torch.compile": torch.compile(case.function)}
    before = framefuse.statistics()
    rows = []
    for which in ("first pass", "second pass"):
        rows.append((which, *one_pass(rivals, case, train)))
    after = framefuse.statistics()
    captures = after["captures"] - before["captures"]
    whole = captures > 0 and after["eager_fallbacks"] == before["eager_fallbacks"]
    return [
        measure.row(
            f"{name}, {which}",
            {n: [t] for n, t in total.items()},
            "torch.compile",
            "framefuse",
            wrong["framefuse"] == 0 and whole,
            calls=len(case.calls),
            captures=captures,
            peer_wrong=wrong["torch.compile"],
        )
        for which, total, wrong in rows
    ]


TITLE = "Changing sizes and numbers"


def main():
    parsed = measure.arguments(__doc__.splitlines()[0], default_rounds=1, training=True)
    rows = []
    for name, case in measure.chosen(cases(parsed.device, parsed.check), parsed.cases).items():
        rows += measure_case(name, case, parsed.train)
        measure.write(TITLE, rows, parsed, "torch.compile", "framefuse")
    return measure.report(TITLE, rows, parsed, "torch.compile", "framefuse", typical="total")


if __name__ == "__main__":
    sys.exit(main())
