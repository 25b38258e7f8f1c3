"""Programs with DTensors, for test_distributed.py: each is run by eager and compiled, on two ranks of a gloo group."""

import contextlib

import framefuse
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.experimental import implicit_replication
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

WHOLE, FIRST, LAST = (Replicate(),), (Shard(0),), (Shard(1),)


class Weights(nn.Module):
    """The same 8×8 weight, laid out in three ways."""

    def __init__(self, mesh):
        super().__init__()
        self.mesh = mesh
        weight = torch.arange(64.0).reshape(8, 8).div(64)
        for name, placements in (("rows", FIRST), ("columns", LAST), ("all", WHOLE)):
            setattr(self, name, nn.Parameter(distribute_tensor(weight.clone(), mesh, placements)))


def by_columns(w, x):
    return (DTensor.from_local(x, w.mesh, WHOLE) @ w.columns).to_local()


def by_rows(w, x):
    return (DTensor.from_local(x[:, :4], w.mesh, LAST) @ w.rows).redistribute(placements=WHOLE).to_local().relu()


def gathered(w, x):
    return F.linear(DTensor.from_local(x, w.mesh, FIRST), w.all).sin().full_tensor()


def mixed(w, x):
    d = DTensor.from_local(x, w.mesh, WHOLE)
    return ((d @ w.columns) @ w.rows + d * 2 + w.all).full_tensor()


def softmax(w, x):
    return torch.softmax(DTensor.from_local(x[:, :4], w.mesh, LAST), 1).full_tensor()


def reshaped(w, x):
    d = DTensor.from_local(x, w.mesh, FIRST)
    return d.view(-1, 2, 4).transpose(1, 2).reshape(-1, 8).t().full_tensor()


def weights_by_themselves(w, x):
    return w.columns.to_local() * 2 + x.sum(), w.rows.full_tensor() * x


def facts(w, x):
    d = DTensor.from_local(x, w.columns.device_mesh, WHOLE) @ w.columns
    known = d.placements == LAST and d.shape == (8, 8) and isinstance(d, DTensor) and isinstance(w.columns, nn.Parameter)
    return d.to_local() + (1 if known and w.columns.requires_grad else 2)


def written_in_place(w, x):
    d = DTensor.from_local(x * 1, w.mesh, WHOLE)
    d += w.all
    return d.to_local().cos()


def two_returned(w, x):
    d = DTensor.from_local(x.sin(), w.mesh, WHOLE)
    with torch.no_grad():
        y = d @ w.columns
    return y, y + 1, y.redistribute(placements=WHOLE), w.rows.requires_grad, {"rows": [w.rows, y]}["rows"][1]


IN_ONE_GRAPH = [
    by_columns, by_rows, gathered, mixed, softmax, reshaped, weights_by_themselves, facts, written_in_place,
    two_returned,
]  # fmt: skip


def returned(w, x):
    return DTensor.from_local(x.sin(), w.mesh, WHOLE) @ w.columns


def view_returned(w, x):
    with torch.no_grad():
        y = DTensor.from_local(x.sin(), w.mesh, WHOLE) @ w.columns
        return y, y.t()


def interrupted(w, x):
    d = DTensor.from_local(x.sin(), w.mesh, WHOLE)
    framefuse.graph_break()
    return (d @ w.columns).to_local().cos()


def checked(w, x):
    return DTensor.from_local(x.cos(), w.mesh, WHOLE, run_check=True).to_local() + 1


def random_numbers(w, x):
    return F.dropout(DTensor.from_local(x, w.mesh, WHOLE), 0.5, training=True).to_local() * 0 + x


def gradient_of_other_placements(w, x):
    return F.layer_norm(DTensor.from_local(x, w.mesh, WHOLE) @ w.columns, (8,)).full_tensor()


def weight_written(w, x):
    with torch.no_grad():
        w.all.mul_(0.5)
    return (DTensor.from_local(x, w.mesh, WHOLE) @ w.all).to_local()


def local_written(w, x):
    with torch.no_grad():
        w.all.to_local().mul_(0.5)
    return (DTensor.from_local(x, w.mesh, WHOLE) @ w.all).to_local()


def weight_frozen(w, x):
    w.all.requires_grad_(False)
    y = (DTensor.from_local(x, w.mesh, WHOLE) @ w.all).to_local()
    w.all.requires_grad_(True)
    return y


def hook_put_on_weight(w, x):
    if not torch.is_grad_enabled():
        return x
    handle = w.all.register_hook(lambda gradient: gradient * 2)
    y = (DTensor.from_local(x, w.mesh, WHOLE) @ w.all).to_local()
    y.register_hook(lambda _: handle.remove())
    return y


def gradient_read(w, x):
    y = (DTensor.from_local(x, w.mesh, WHOLE) @ w.all).to_local()
    return y if w.all.grad is None else y + w.all.grad.to_local()


def replicated_implicitly(w, x):
    with implicit_replication():
        return (w.all + x).to_local()


def in_a_checkpoint(w, x):
    d = DTensor.from_local(x, w.mesh, WHOLE) @ w.columns
    return checkpoint(lambda y: (d.sin() @ w.rows).full_tensor() + y, x.cos(), use_reentrant=False)


def looked_up(w, x):
    indices = DTensor.from_local(x[:, 0].long() % 8, w.mesh, WHOLE)
    return F.embedding(indices, w.rows).full_tensor() + x


def loss_in_parallel(w, x):
    d = DTensor.from_local(x, w.mesh, WHOLE) @ w.columns
    with loss_parallel():
        loss = F.cross_entropy(d, torch.arange(8))
        if torch.is_grad_enabled():
            loss.backward(retain_graph=True)
    return (x * 2).sum(), loss.detach().full_tensor()


def without_a_mesh(w, x):
    with w.mesh:
        return (DTensor.from_local(x, None, WHOLE) @ w.columns).to_local()


IN_PIECES = [
    returned, view_returned, interrupted, checked, random_numbers, gradient_of_other_placements, weight_written, local_written,
    weight_frozen, hook_put_on_weight, gradient_read, replicated_implicitly, in_a_checkpoint, looked_up,
    loss_in_parallel, without_a_mesh,
]  # fmt: skip
PROGRAMS = {f.__name__: f for f in IN_ONE_GRAPH + IN_PIECES}


def _issued(function):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        result = function()
    events = sorted(profile.events(), key=lambda e: e.time_range.start)
    return result, [e.name for e in events if e.name.startswith("c10d::")]


def differs(got, expected):
    """What of two tensors, DTensors among them, is not the same; empty: nothing."""
    if got is None or expected is None:
        return "" if got is expected else f"{got} for {expected}"
    if not isinstance(got, torch.Tensor):
        return "" if got == expected else f"{got} for {expected}"
    if type(got) is not type(expected) or got.requires_grad != expected.requires_grad:
        return f"{type(got)}, {got.requires_grad} for {type(expected)}, {expected.requires_grad}"
    if isinstance(got, DTensor):
        if got._spec != expected._spec:
            return f"{got._spec} for {expected._spec}"
        got, expected = got._local_tensor, expected._local_tensor
    if got.shape != expected.shape or got.stride() != expected.stride():
        return f"{got.shape}, {got.stride()} for {expected.shape}, {expected.stride()}"
    return "" if torch.allclose(got, expected, atol=1e-5) else f"off by {(got - expected).abs().max()}"


def _stepped(function, weights, x, with_gradient):
    """Results, and with a backward pass the gradients."""
    with torch.set_grad_enabled(with_gradient):
        results = function(weights, x)
        results = results if isinstance(results, tuple) else (results,)
        if with_gradient and any(isinstance(y, torch.Tensor) and y.requires_grad for y in results):
            loss = sum(y.square().mean() for y in results)
            (loss.full_tensor() if isinstance(loss, DTensor) else loss).backward()
    return [*results, x.grad, *(p.grad for p in weights.parameters())]


def compared(name, with_gradient, calls=3, inference=False, **options):
    """What differs from eager in some calls, the collectives among it; graphs and breaks."""
    with torch.inference_mode(inference):
        return _compared(name, with_gradient, calls, options)


def _compared(name, with_gradient, calls, options):
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    function = PROGRAMS[name]
    compiled = framefuse.compile(function, **options)
    with torch.inference_mode(False):
        ours, theirs = Weights(mesh), Weights(mesh)
    before = dict(framefuse.statistics())
    wrong = []
    for call in range(calls):
        x = torch.arange(64.0).reshape(8, 8).div(50) + call
        expected, eager_sent = _issued(
            lambda: _stepped(function, theirs, x.clone().requires_grad_(with_gradient), with_gradient)
        )
        got, sent = _issued(lambda: _stepped(compiled, ours, x.clone().requires_grad_(with_gradient), with_gradient))
        if sent != eager_sent:
            wrong.append(f"call {call} sent {sent} for {eager_sent}")
        wrong.extend(f"call {call}: {text}" for text in map(differs, got, expected) if text)
    after = framefuse.statistics()
    return wrong, {n: after[n] - before.get(n, 0) for n in ("graphs", "graph_breaks", "bugs")}


# ---------------------------------------------------------------- whole models


class Block(nn.Module):
    def __init__(self, width=16, heads=4):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 3 * width), nn.Linear(3 * width, width)

    def forward(self, x):
        y = self.norm1(x)
        q, k, v = (f(y).unflatten(-1, (-1, self.size)).transpose(1, 2) for f in (self.q, self.k, self.v))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(F.silu(self.up(self.norm2(x))))


def _plan(way):
    columns, rows = ("q", "k", "v", "up"), ("o", "down")
    plan = {n: ColwiseParallel() for n in columns} | {n: RowwiseParallel() for n in rows}
    if way == "plain":
        return plan
    # The sequence is shared out between the blocks' linear layers.
    split = {n: RowwiseParallel(output_layouts=Shard(1)) for n in rows}
    norms = {n: SequenceParallel(use_local_output=False) for n in ("norm1", "norm2")}
    gathers = {n: ColwiseParallel(input_layouts=Shard(1)) for n in columns}
    return gathers | split | norms


class Blocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.blocks, self.last = nn.Linear(8, 16), nn.ModuleList(Block() for _ in range(2)), nn.Linear(16, 8)

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


def _model(way):
    torch.manual_seed(7)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = Blocks()
    for block in model.blocks:
        parallelize_module(block, mesh, _plan(way))
    if way == "sequence":
        parts = {"first": PrepareModuleInput(input_layouts=Shard(1), desired_input_layouts=Shard(1), use_local_output=True)}
        parallelize_module(model, mesh, parts)
    return model


def trained(way, place, sizes=(6,) * 6, **options):
    """What differs from eager's training; graphs and breaks."""
    before = dict(framefuse.statistics())
    seen = []
    for compiled in (False, True):
        model = _model(way)
        if compiled and place == "blocks":
            for block in model.blocks:
                block.forward = framefuse.compile(block.forward, **options)
        call = framefuse.compile(model, **options) if compiled and place == "around" else model
        kinds = [[p for p in model.parameters() if isinstance(p, DTensor) == d] for d in (False, True)]
        optimizer = torch.optim.SGD([{"params": k} for k in kinds], lr=0.1)
        losses, gradients = [], []
        for step, size in enumerate(sizes):
            x = torch.randn(2, size, 8, generator=torch.Generator().manual_seed(step))
            optimizer.zero_grad()
            with torch.no_grad() if step == 2 else contextlib.nullcontext():
                loss = call(x).square().mean()
            losses.append(loss.detach())
            if step != 2:
                loss.backward()
                gradients = [p.grad.detach().clone() for p in model.parameters()]
                optimizer.step()
        seen.append([*losses, *gradients, *(p.detach() for p in model.parameters())])
    after = framefuse.statistics()
    wrong = [text for text in map(differs, seen[1], seen[0]) if text]
    return wrong, {n: after[n] - before.get(n, 0) for n in ("graphs", "graph_breaks", "bugs")}


def stepped(what):
    """A compiled optimizer, or a whole training step: what differs from eager, and whether bugs were counted."""
    before = framefuse.statistics()["bugs"]
    seen = []
    for compiled in (False, True):
        model = _model("plain")
        kinds = [[p for p in model.parameters() if isinstance(p, DTensor) == d] for d in (False, True)]
        optimizer = torch.optim.Adam([{"params": k} for k in kinds], lr=0.01, eps=0.1, foreach=False)
        update = framefuse.compile(optimizer.step) if compiled and what == "optimizer" else optimizer.step

        def step(x, model=model, optimizer=optimizer, update=update):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            update()
            return loss.detach()

        call = framefuse.compile(step) if compiled and what == "step" else step
        losses = [call(torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(i))) for i in range(4)]
        seen.append([*losses, *(p.detach() for p in model.parameters()), *(p.grad for p in model.parameters())])
    wrong = [text for text in map(differs, seen[1], seen[0]) if text]
    return wrong, framefuse.statistics()["bugs"] - before


def by_an_fx_backend():
    return compared("by_rows", True, backend=lambda module, inputs: module)


def replaced():
    """A weight that gets other placements between calls, a mesh that is another one, and a DTensor with a history."""
    mesh, other = (init_device_mesh("cpu", (dist.get_world_size(),)) for _ in range(2))
    compiled = framefuse.compile(by_columns)
    wrong = []
    ours, theirs = Weights(mesh), Weights(mesh)
    for change in (None, FIRST, WHOLE, LAST, "mesh", "frozen", "hooked", "history"):
        for w in (ours, theirs):
            if isinstance(change, tuple):
                w.columns = nn.Parameter(distribute_tensor(torch.ones(8, 8), mesh, change))
            elif change == "mesh":
                w.mesh = other
                w.columns = nn.Parameter(distribute_tensor(torch.ones(8, 8), other, LAST))
            elif change == "frozen":
                w.columns.requires_grad_(False)
            elif change == "hooked":
                w.columns.requires_grad_(True).register_hook(lambda gradient: gradient * 3)
            elif change == "history":
                source = w.columns
                del w.columns
                w.columns = source * 2
        for _ in range(2):
            x = torch.arange(64.0).reshape(8, 8)
            for w in (ours, theirs) if change == "history" else ():
                w.columns = w.columns.detach().requires_grad_() * 2
            results = [_stepped(f, w, x.clone().requires_grad_(), True) for f, w in ((compiled, ours), (by_columns, theirs))]
            wrong.extend(f"{change}: {text}" for text in map(differs, *results) if text)
    return wrong
