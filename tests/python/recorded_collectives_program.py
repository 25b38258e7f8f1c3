"""What test_recorded_collectives.py has each of two ranks do, on a GPU of its own: prints a line of JSON."""

import json
import sys

import framefuse
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives
from torch import nn


class Sharded(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(64, 128), nn.Linear(128, 64)

    def forward(self, x):
        return x + collectives.all_reduce(self.down(torch.relu(self.up(x))), "sum", dist.group.WORLD)


def losses_of(call, model, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(1)
    losses = []
    for _ in range(steps):
        x = torch.randn(32, 64, generator=generator).cuda()
        optimizer.zero_grad()
        loss = call(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def trained(compiler):
    torch.manual_seed(dist.get_rank())
    model = Sharded().cuda()
    return losses_of(compiler(model), model, 12)


def main():
    rank, store = int(sys.argv[1]), sys.argv[2]
    torch.cuda.set_device(rank)
    said = {"differences": [], "recorded": []}
    for number in range(2):  # the group ends, and another one of its name begins
        dist.init_process_group("nccl", init_method=f"file://{store}{number}", rank=rank, world_size=2)
        expected = trained(lambda model: model)
        with framefuse.capture_logs("fusion") as records:
            found = trained(lambda model: framefuse.compile(model, fullgraph=True, mode="reduce-overhead"))
        said["recorded"].append(sum(text.startswith("CUDA graph recorded") for _, text in records))
        said["differences"].append((found - expected).abs().max().item())
        torch.cuda.synchronize()
        dist.destroy_process_group()
    print(json.dumps(said))


if __name__ == "__main__":
    main()
