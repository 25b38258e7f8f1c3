"""What test_distributed.py has two processes do, each a rank of one gloo group. A function returns what the test looks at."""

import contextlib
import os

import framefuse
import sharded_programs
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

WORLD = 2
STEPS = 20


def serve(rank, folder, pipe):
    """A rank's process: does what it is told until it is told nothing."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(WORLD), LOCAL_RANK=str(rank))
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=WORLD)
    while (task := pipe.recv()) is not None:
        name, args, options = task
        framefuse.reset()
        torch.manual_seed(rank)
        try:
            pipe.send((True, globals()[name](*args, **options)))
        except Exception as error:
            pipe.send((False, f"{type(error).__name__}: {error}"))
    dist.destroy_process_group()


@contextlib.contextmanager
def counted():
    """What framefuse counted in the block, and its log."""
    before = dict(framefuse.statistics())
    said = {}
    with framefuse.capture_logs("graph_breaks", "fallbacks") as records:
        yield said
    after = framefuse.statistics()
    said.update({name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name, 0)})
    said["log"] = "\n".join(text for _, text in records)


# ---------------------------------------------------------------- models


class Block(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self, spare=False):
        super().__init__()
        self.first, self.blocks, self.last = nn.Linear(16, 16), nn.ModuleList(Block() for _ in range(3)), nn.Linear(16, 8)
        if spare:
            self.spare = nn.Linear(3, 3)

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


def net(kind="net"):
    torch.manual_seed(7)
    if kind == "sequential":
        return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.LayerNorm(32), nn.Linear(32, 8))
    return Net(spare=kind == "spare")


def trained(call, weights, seed, unsynced=0):
    """(losses, weights) after some steps; `unsynced`: so many batches before each that has its gradients reduced."""
    weights = list(weights)
    optimizer = torch.optim.SGD(weights, lr=0.1)
    numbers = torch.Generator().manual_seed(seed)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        for batch in range(unsynced + 1):
            x, y = torch.randn(4, 16, generator=numbers), torch.randn(4, 8, generator=numbers)
            with contextlib.nullcontext() if batch == unsynced else call.no_sync():
                loss = F.mse_loss(call(x), y)
                loss.backward()
            losses.append(loss.item())
        optimizer.step()
    return losses, [whole(w) for w in weights]


def whole(weight):
    return (weight.full_tensor() if hasattr(weight, "full_tensor") else weight).detach().clone()


def distance(left, right):
    losses = max(abs(a - b) for a, b in zip(left[0], right[0]))
    return max(losses, max((a - b).abs().max().item() for a, b in zip(left[1], right[1])))


# ---------------------------------------------------------------- data parallel, fully sharded, tensor parallel


def data_parallel(place, kind="net", unsynced=0, **options):
    def run(compiled):
        model = net(kind)
        inner = framefuse.compile(model) if compiled and place == "inside" else model
        call = DistributedDataParallel(inner, **options)
        if compiled and place == "around":
            call = framefuse.compile(call)
        return trained(call, model.parameters(), dist.get_rank(), unsynced)

    expected = run(False)
    with counted() as said:
        got = run(True)
    return distance(got, expected), said


def issued(function):
    """(result, the collectives that it called, in their order)."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        result = function()
    events = sorted(profile.events(), key=lambda e: e.time_range.start)
    return result, [e.name for e in events if e.name.startswith("c10d::")]


def order_of_backward():
    """Where in a compiled backward the first bucket is reduced: how many products of matrices come after it."""
    call = framefuse.compile(DistributedDataParallel(net(), bucket_cap_mb=0.001))
    x = torch.randn(4, 16)
    for _ in range(3):
        call(x).sum().backward()
    loss = call(x).sum()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        loss.backward()
    names = [e.name for e in sorted(profile.events(), key=lambda e: e.time_range.start)]
    reductions = [i for i, name in enumerate(names) if name.startswith("c10d::allreduce")]
    return len(reductions), sum(name == "aten::mm" for name in names[reductions[0] :])


def fully_sharded(place, kind="net"):
    def run(compiled):
        model = net(kind)
        mesh = init_device_mesh("cpu", (WORLD,))
        blocks = model.blocks if kind == "net" else []
        if compiled and place == "blocks":
            for block in blocks:
                block.forward = framefuse.compile(block.forward)
        for block in blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
        call = framefuse.compile(model) if compiled and place == "around" else model
        return trained(call, model.parameters(), dist.get_rank())

    expected = run(False)
    with counted() as said:
        got = run(True)
    return distance(got, expected), said


def tensor_parallel(place):
    def run(compiled):
        model = net()
        mesh = init_device_mesh("cpu", (WORLD,))
        for block in model.blocks:
            parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
            if compiled and place == "blocks":
                block.forward = framefuse.compile(block.forward)
        call = framefuse.compile(model) if compiled and place == "around" else model
        return trained(call, model.parameters(), seed=0)

    expected = run(False)
    with counted() as said:
        got = run(True)
    return distance(got, expected), said


def with_dtensors(function, *args, **options):
    return getattr(sharded_programs, function)(*args, **options)


# ---------------------------------------------------------------- collectives


def all_reduce(x):
    return collectives.all_reduce(x * 2, "sum", dist.group.WORLD) + 1


def by_name(x):
    return collectives.all_reduce(x * 2, "max", "0") + 1


def gather(x):
    return collectives.all_gather_tensor(x * 2, 0, dist.group.WORLD) + 1


def scatter(x):
    return collectives.reduce_scatter_tensor(x * 2, "sum", 0, dist.group.WORLD) + 1


def exchange(x):
    return collectives.all_to_all_single(x * 2, None, None, dist.group.WORLD) + 1


def two(x):
    a = collectives.all_reduce(x, "sum", dist.group.WORLD)
    b = collectives.all_gather_tensor(x * 3, 0, dist.group.WORLD)
    return a.sin().sum() + b.cos().sum()


def unused(x):
    collectives.all_reduce(x * 2, "sum", dist.group.WORLD)
    return x + 1


def twice_the_same(x):
    return collectives.all_reduce(x * 2, "sum", dist.group.WORLD) + collectives.all_reduce(x * 2, "sum", dist.group.WORLD)


def read_again(x):
    y = x * 2
    return collectives.all_reduce(y, "sum", dist.group.WORLD) @ torch.ones(3, 3) + y


def read_again_through_a_view(x):
    y = x * 2
    rows = y.view(2, 6)
    return collectives.all_reduce(y, "sum", dist.group.WORLD) @ torch.ones(3, 3) + rows.view(4, 3)


def of_columns(x):
    return collectives.all_reduce((x * 2).t(), "sum", dist.group.WORLD).t() @ torch.ones(3, 3)


def by_two_names(x):
    y = torch.ops._c10d_functional.all_reduce(x * 2, "sum", "0")
    waited = torch.ops._c10d_functional.wait_tensor(y)
    return waited.exp() @ torch.ones(3, 3) + y


def operators(x):
    y = torch.ops._c10d_functional.all_reduce(x * 2, "sum", "0")
    z = torch.ops._c10d_functional.all_gather_into_tensor(x.cos(), WORLD, "0")
    return torch.ops._c10d_functional.wait_tensor(z).sum() + torch.ops._c10d_functional.wait_tensor(y)


def waited_for_by_the_way(x):
    y = torch.ops._c10d_functional.all_reduce(x * 2, "sum", "0")
    torch.ops._c10d_functional.wait_tensor(y)
    return y + 1


def ranks(x):
    return x * (dist.get_rank() + 1) + dist.get_world_size()


def in_place(x):
    y = x * 2
    dist.all_reduce(y)
    return y + 1


def in_background(x):
    y = x * 2
    work = dist.all_reduce(y, async_op=True)
    z = x.cos()
    work.wait()
    return y + z


def of_an_input(x):
    dist.all_reduce(x)
    return x + 1


def sent_around(x):
    parts = [torch.empty_like(x) for _ in range(WORLD)]
    dist.all_gather(parts, x * 2)
    y = torch.cat(parts)
    dist.broadcast(y, 0)
    dist.barrier()
    return y + 1


def branches_that_raise(x):
    y = collectives.all_reduce(x.abs(), "sum", dist.group.WORLD)
    if (y < 0).any():
        raise ValueError("negative")
    return collectives.all_reduce(y, "sum", dist.group.WORLD)


def counted_values(x):
    n = int((x > 0).sum())
    return collectives.all_reduce(x * 2, "sum", dist.group.WORLD).sum() + n


def compared(name, with_gradient=False):
    """Whether four calls agree with eager's, also in what they sent; and what framefuse counted."""
    function = globals()[name]
    compiled = framefuse.compile(function)

    def call(f, x):
        y = f(x)
        if not with_gradient:
            return [y.clone(), x.detach().clone()]
        return [y.detach().clone(), torch.autograd.grad(y.sum(), x)[0]]

    right = []
    with counted() as said:
        for _ in range(4):
            x = torch.randn(4, 3)
            expected, eager_sent = issued(lambda: call(function, x.clone().requires_grad_(with_gradient)))
            got, sent = issued(lambda: call(compiled, x.clone().requires_grad_(with_gradient)))
            right.append(sent == eager_sent and all(torch.allclose(a, b) for a, b in zip(got, expected)))
    return right, said


def written_over(name):
    """How many results take the memory of what dies."""
    compiled = framefuse.compile(torch.no_grad()(globals()[name]))
    with framefuse.capture_logs("fusion") as records:
        compiled(torch.randn(4, 3))
    said = [text for _, text in records if "the memory of what dies" in text]
    return sum(int(text.split()[0]) for text in said)


def of_two_inputs(x, z):
    shared = collectives.all_reduce(x.sin(), "sum", dist.group.WORLD)
    return shared * 2 + z.sum(), shared.cos()


def histories_apart():
    """Results that reach different inputs with a history: the gradient of what they share is reduced once."""

    def run(function):
        x = torch.ones(4, 3, requires_grad=True)
        one, other = function(x * 1, x.sum(0))
        (one.sum() + other.sum()).backward()
        return x.grad

    expected, eager_sent = issued(lambda: run(of_two_inputs))
    got, sent = issued(lambda: run(framefuse.compile(of_two_inputs)))
    return torch.allclose(got, expected), sent, eager_sent


def fails_behind(x, index):
    y = collectives.all_reduce(x * 2, "sum", dist.group.WORLD)
    return y[index]


def failure():
    """An operator that raises behind a collective: the collective is not issued again."""
    compiled = framefuse.compile(fails_behind)
    x = torch.ones(4)
    compiled(x, torch.tensor([1]))

    def wrong():
        try:
            compiled(x, torch.tensor([9]))
        except IndexError as error:
            return str(error)

    said, sent = issued(wrong)
    return said, sent, compiled(x, torch.tensor([2])).tolist()


def leaning(x, sizes):
    y = collectives.all_reduce(x.sum().reshape(1), "sum", dist.group.WORLD)
    for size in range(sizes):
        y = collectives.all_reduce(y + size, "sum", dist.group.WORLD)
    return y


def apart():
    """The ranks see other sizes, types and branches, so that one captures where the other does not."""
    compiled = framefuse.compile(leaning)
    rank = dist.get_rank()
    right = []
    for call in range(8):
        x = torch.ones(3 + call * rank, dtype=torch.float64 if rank and call % 3 == 0 else torch.float32)
        x = x.double() if call % 3 == 0 else x
        right.append(torch.allclose(leaning(x, 2), compiled(x, 2)))
    return right


class Sharded(nn.Module):
    """A perceptron whose hidden layer is shared out: one graph."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        up, down = torch.randn(8, 16), torch.randn(16, 8)
        rank = dist.get_rank()
        self.up, self.down = nn.Parameter(up.chunk(WORLD, 1)[rank].clone()), nn.Parameter(down.chunk(WORLD, 0)[rank].clone())

    def forward(self, x):
        return x + collectives.all_reduce(torch.relu(x @ self.up) @ self.down, "sum", dist.group.WORLD)


def sharded_by_hand():
    def run(compiled):
        model = Sharded()
        call = framefuse.compile(model, fullgraph=True) if compiled else model
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        losses = []
        for step in range(STEPS):
            x = torch.randn(4, 8, generator=torch.Generator().manual_seed(step))
            optimizer.zero_grad()
            loss = call(x).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, [whole(w) for w in model.parameters()]

    expected, eager_sent = issued(lambda: run(False))
    with counted() as said:
        got, sent = issued(lambda: run(True))
    return distance(got, expected), sent == eager_sent, said
