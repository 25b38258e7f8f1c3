"""Whole models through `framefuse.compile`, beside eager and torch.compile, in one process and in turns.

Models are those of torchvision and transformers where they are installed, else our own of models.py. For each model and rival: `wall`, the
median time of a call; `gpu`, the time that its kernels take on the device, and `kernels`, how many there are; `cold`, the seconds of the first
call; `peak`, MiB of device memory that a call takes above what the model holds. A row is ok if nothing ran as Python and the results are eager's
up to the type's rounding; with --train if they and the gradients are within three times eager's distance to those of float64.

    python benchmarks/whole_models.py --device cuda [--train] [--modes default,reduce-overhead] [--no-peer] [--out FILE] [case …]

Rows are `wall` of the fastest mode of ours to the fastest of torch.compile's (of eager's with --no-peer).
"""

import copy
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import measure
import models as own
import torch
import torch.nn.functional as F
from torch import nn

import framefuse


# Of the distance to eager's results. (Gradients are compared with float64's: sums of halves and batch norms magnify rounding.)
LIMITS = {torch.bfloat16: 0.05, torch.float32: 0.01}


class Case(NamedTuple):
    make: "Callable[[], nn.Module]"
    inputs: "Callable[[], dict[str, Any] | tuple[Any, ...]]"
    dtype: torch.dtype = torch.float32
    has_loss: bool = False  # of its own, if it is given labels


def images(batch, size, dtype=torch.float32):
    return lambda: (torch.randn(batch, 3, size, size, dtype=dtype),)


def of_torchvision():
    try:
        import torchvision.models as tv
    except ImportError:
        return {}
    return {
        "DenseNet121, 16": Case(tv.densenet121, images(16, 128)),
        "ResNet18, 16": Case(tv.resnet18, images(16, 128)),
        "ResNet50, 32": Case(tv.resnet50, images(32, 224)),
        "ConvNeXt tiny, 16": Case(tv.convnext_tiny, images(16, 224)),
        "ViT-B/16, 32": Case(tv.vit_b_16, images(32, 224)),
    }


def of_transformers():
    try:
        import transformers as hf
    except ImportError:
        return {}
    half = torch.bfloat16

    def words(vocabulary, batch=8):
        return lambda: {"input_ids": torch.randint(vocabulary, (batch, 512))}

    llama = {"hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 8, "num_attention_heads": 16, "num_key_value_heads": 8}
    return {
        "BERT, 8": Case(lambda: hf.BertModel(hf.BertConfig()), words(30522), half),
        "GPT-2 with head, 8": Case(lambda: hf.GPT2LMHeadModel(hf.GPT2Config(use_cache=False)), words(50257), half, has_loss=True),
        "Llama, 8 layers, 8": Case(lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**llama, vocab_size=32000, use_cache=False)), words(32000), half, has_loss=True),
        "T5 encoder, 8": Case(lambda: hf.T5EncoderModel(hf.T5Config(dropout_rate=0.0)), words(32128), half),
        "GPT-2 with head, 1": Case(lambda: hf.GPT2LMHeadModel(hf.GPT2Config(use_cache=False)), words(50257, 1), half, has_loss=True),
    }


class Perceptron(nn.Module):
    def __init__(self, width=1024, blocks=8):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)) for _ in range(blocks))

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return x


def of_ours():
    cases = {"MLP, 2048": Case(Perceptron, lambda: (torch.randn(2048, 1024, dtype=torch.bfloat16),), torch.bfloat16)}
    for name in ("small convnet", "GPT, 12 blocks", "Llama, 8 blocks", "ResNet18", "DenseNet121"):
        model, inputs = own.CASES[name](torch.device("cpu"))
        cases[f"our {name}"] = Case(lambda model=model: model, lambda inputs=inputs: inputs)
    return cases


def first_tensor(output):
    return output if isinstance(output, torch.Tensor) else next(t for t in output.values() if isinstance(t, torch.Tensor))


def loss_of(output, inputs):
    """The model's own, where labels are given; of logits the cross entropy of fixed random classes; else a sum of fixed random weights."""
    if isinstance(inputs, dict) and "labels" in inputs:
        return output["loss"]
    t = first_tensor(output)
    t = t if t.dtype == torch.float64 else t.float()
    numbers = torch.Generator().manual_seed(1)
    if t.dim() == 2:
        return F.cross_entropy(t, fixed("classes", t, lambda: torch.randint(t.shape[1], t.shape[:1], generator=numbers)))
    return (t * fixed("weights", t, lambda: torch.randn(t.shape, generator=numbers).to(t.dtype))).mean()


FIXED: "dict[Any, torch.Tensor]" = {}


def fixed(name, like, make):
    key = name, like.shape, like.dtype, like.device
    if key not in FIXED:
        FIXED[key] = make().to(like.device)
    return FIXED[key]


def caller(model, call, inputs, train):
    """A function without arguments: one step; what it returns is compared."""
    weights = [p for p in model.parameters() if p.requires_grad]

    def forward():
        output = call(**inputs) if isinstance(inputs, dict) else call(*inputs)
        if not train:
            return [first_tensor(output)]
        for weight in weights:
            weight.grad = None
        loss = loss_of(output, inputs)
        loss.backward()
        return [loss.detach(), *(w.grad for w in weights if w.grad is not None)]

    return forward if train else torch.no_grad()(forward)


def differs_by(results, expected):
    """The largest distance of a result to eager's, of the length of eager's."""
    if len(results) != len(expected):
        return float("inf")
    pairs = ((a.double(), b.double()) for a, b in zip(results, expected))
    return max(((a - b).norm() / (b.norm() + 1e-6 * b.numel() ** 0.5)).item() for a, b in pairs)


def in_double(model, inputs, train):
    """The results of float64."""
    twin = copy.deepcopy(model).double()

    def wide(t):
        return t.double() if t.is_floating_point() else t

    given = {k: wide(v) for k, v in inputs.items()} if isinstance(inputs, dict) else tuple(wide(v) for v in inputs)
    return [t.clone() for t in caller(twin, twin, given, train)()]


def on_device(step):
    """Milliseconds that the kernels of a step take, and how many there are."""
    activity = torch.profiler.ProfilerActivity.CUDA
    times, counts = [], []
    for _ in range(3):
        with torch.profiler.profile(activities=[activity]) as profile:
            step()
            torch.cuda.synchronize()
        kernels = [e for e in profile.events() if e.device_type == torch.autograd.DeviceType.CUDA]
        times.append(sum(e.device_time for e in kernels) / 1e3)
        counts.append(len(kernels))
    return round(statistics.median(times), 4), int(statistics.median(counts))


def peak_of(step):
    held = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    kept = step()
    torch.cuda.synchronize()
    del kept
    return round((torch.cuda.max_memory_allocated() - held) / 2**20, 1)


def rivals_of(model, inputs, modes, peer, train):
    compilers = {"framefuse": framefuse.compile} | ({"torch.compile": torch.compile} if peer else {})
    steps = {"eager": caller(model, model, inputs, train)}
    for who, compiler in compilers.items():
        for mode in modes:
            call = compiler(model) if mode == "default" else compiler(model, mode=mode)
            steps[f"{who} {mode}"] = caller(model, call, inputs, train)
    return steps


def measure_case(name, case, parsed):
    device = parsed.device
    torch.manual_seed(0)
    torch._dynamo.reset()
    framefuse.reset()
    model = case.make().to(case.dtype).to(device).train(parsed.train)
    for part in model.modules():  # dropout draws other numbers in each compiler
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    given = case.inputs()
    if parsed.train and case.has_loss:
        given["labels"] = given["input_ids"]
    inputs = {k: v.to(device) for k, v in given.items()} if isinstance(given, dict) else tuple(v.to(device) for v in given)
    modes = parsed.modes.split(",") if device.type == "cuda" else ["default"]
    steps = rivals_of(model, inputs, modes, not parsed.no_peer, parsed.train)
    before = framefuse.statistics()
    facts = {"cold": {}, "difference": {}, "gpu": {}, "kernels": {}, "peak": {}}
    expected = [t.clone() for t in steps["eager"]()]
    exact = in_double(model, inputs, parsed.train) if parsed.train else None
    limits = {"eager": LIMITS[case.dtype]} if exact is None else {"float64": 3 * differs_by(expected, exact)}
    for rival, step in steps.items():
        start = time.perf_counter()
        step()
        torch.cuda.synchronize() if device.type == "cuda" else None
        facts["cold"][rival] = round(time.perf_counter() - start, 3)
        for _ in range(5):
            results = step()
        facts["difference"][rival] = measure.significant(differs_by(results, expected if exact is None else exact))
        del results
        if device.type == "cuda":
            facts["gpu"][rival], facts["kernels"][rival] = on_device(step)
            facts["peak"][rival] = peak_of(step)
    times = measure.interleaved({r: lambda step=s: measure.seconds_per_call(step, 0.02) for r, s in steps.items()}, parsed.rounds)
    after = framefuse.statistics()
    limit = max(limits.values())
    captured = after["captures"] > before["captures"] and after["eager_fallbacks"] == before["eager_fallbacks"]
    ok = captured and all(d <= limit for r, d in facts["difference"].items() if r.startswith("framefuse"))
    typical = {r: statistics.median(t) for r, t in times.items()}
    ours, peers = (min((r for r in typical if r.startswith(who)), key=typical.get) for who in ("framefuse", "eager" if parsed.no_peer else "torch.compile"))
    breaks = after["graph_breaks"] - before["graph_breaks"]
    return measure.row(name, times, peers, ours, ok, fastest={"ours": ours, "peer": peers}, breaks=breaks, limit=measure.significant(limit), difference_to=next(iter(limits)), **facts)


TITLE = "Whole models"


def main():
    def options(parser):
        parser.add_argument("--modes", default="default,reduce-overhead")
        parser.add_argument("--no-peer", action="store_true", help="without torch.compile")
        parser.add_argument("--seconds", type=float, default=1e9, help="begin no other case after so many")

    parsed = measure.arguments(__doc__.splitlines()[0], default_rounds=9, training=True, options=options)
    cases, rows, start = of_ours(), [], time.monotonic()
    if parsed.device.type == "cuda":
        cases = {**of_torchvision(), **of_transformers(), "MLP, 2048": cases["MLP, 2048"]}
    for name, case in measure.chosen(cases, parsed.cases).items():
        if time.monotonic() - start > parsed.seconds:
            break
        rows.append(measure_case(name, case, parsed))
        shown = {k: rows[-1][k] for k in ("us", "gpu", "kernels", "cold", "difference", "ok")}
        print(name, shown, flush=True)
        measure.write(TITLE, rows, parsed, "torch.compile's best", "framefuse's best")
    return measure.report(TITLE, rows, parsed, "eager" if parsed.no_peer else "torch.compile's best", "framefuse's best")


if __name__ == "__main__":
    sys.exit(main())
