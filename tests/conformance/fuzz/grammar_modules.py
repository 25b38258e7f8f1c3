"""State that is modules: with hooks that come and go, parameters that are replaced, frozen, shared; train and eval.

Modules are small and their weights set by hand, so that no random number is drawn and results stay few digits.
"""

from conformance.fuzz.vocabulary import Kind

SUPPORT = {
    "Net": '''
class Net(nn.Module):
    """One linear layer of fixed weights, a buffer, a list of children."""

    scale = 2.0

    def __init__(self, size=3):
        super().__init__()
        self.weight = nn.Parameter(torch.full((size,), 0.5))
        self.register_buffer("seen", torch.zeros(()))
        self.inner = nn.ModuleList([Part(), Part()])
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        x = x * self.weight[:1] * self.scale
        for part in self.inner:
            x = part(x)
        if self.training:
            self.seen.add_(1)
        return x + self.seen
''',
    "Part": '''
class Part(nn.Module):
    bias = 1

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(1))

    def forward(self, x, by=1):
        return torch.tanh(x * self.w) + self.bias * by
''',
}

_MODULE = Kind(
    initial=[
        "Net()",
        "Net(1)",
        "Part()",
        "nn.Sequential(Part(), nn.ReLU())",
        "nn.Identity()",
        "nn.Dropout(0.5)",
        "nn.LayerNorm((), elementwise_affine=False) if False else nn.Tanh()",
        "nn.BatchNorm1d(1, affine=False)",
        "nn.ModuleDict(dict(w=Part()))['w']",
        "nn.Softmax(-1)",
        "nn.Embedding.from_pretrained(matrix(4, 2), freeze=False)",
        "nn.PReLU()",
    ],
    reads=[
        ["r = {s}(r)"],
        ["r = {s}(r)", "r = {s}(r)"],
        ["r = {s}.forward(r)"],
        ["r = r + {s}.training"],
        ["r = r + sum(p.sum() for p in {s}.parameters())"],
        ["for name, p in {s}.named_parameters():", "    r = r + p.sum() * len(name)"],
        ["r = r + len(list({s}.children())) + len({s}._modules)"],
        ["r = r + sum(b.sum() for b in {s}.buffers())"],
        ["r = r + len({s}.state_dict())"],
        ["r = r + getattr({s}, 'calls', 5)"],
        ["r = r + hasattr({s}, 'inner')"],
        ["r = {s}(r) if {s} is {o} else {s}(r) + {o}(r)"],
        ["r = r + len({s}._forward_hooks)"],
        ["r = {s}(r.detach()).sum() + r"],
        ["if isinstance({s}, Part):", "    r = {s}(r, by=2)"],
        ["r = {s}(r.reshape(-1, 1)).sum() + r"],
        ["r = r + any(p.requires_grad for p in {s}.parameters())"],
        ["with torch.no_grad():", "    r = {s}(r) + r"],
        ["r = {s}(torch.tensor([1, 2])).sum() + r"],
        ["r = torch.func.functional_call({s}, dict({s}.named_parameters()), (r,))"],
    ],
    writes=[
        ["{s}.calls = {k}"],
        ["{s}.train({k} > 1)"],
        ["{s}.eval()", "r = {s}(r)"],
        ["{s}.zero_grad()"],
        ["{s}(r).sum().backward()"],
        ["{s}.extra = r.sum()"],
        ["{s}.weight = nn.Parameter(torch.ones(3))"],
        ["for p in {s}.parameters():", "    p.data.mul_(0.5)"],
        ["for p in {s}.parameters():", "    p.requires_grad_(False)"],
        ["{s}.seen = {s}.seen + 1"],
        ["del {s}.weight"],
        ["h = {s}.register_forward_hook(lambda m, a, out: out + 1)", "r = {s}(r)", "h.remove()"],
        ["{s}.register_buffer('fresh', torch.ones(2))"],
        ["loss = {s}(r).sum()", "torch.optim.SGD({s}.parameters(), lr=0.5).step()", "r = r + loss"],
    ],
    changes=[
        "{s}.train()",
        "{s}.eval()",
        "{s}.register_forward_hook(lambda m, a, out: out * 2)",
        "{s}.register_forward_pre_hook(lambda m, a: (a[0] + {k},))",
        "{s}.register_full_backward_hook(lambda m, gi, go: None)",
        "{s}._forward_hooks.clear()",
        "{s}._forward_pre_hooks.clear()",
        "holder.handle = {s}.register_forward_hook(lambda m, a, out: out - 1)",
        "holder.handle.remove()",
        "{s}.requires_grad_(False)",
        "{s}.requires_grad_(True)",
        "{s}.weight = nn.Parameter(torch.full((3,), {k}.5))",
        "{s}.weight.data = torch.full_like({s}.weight, {k}.5)",
        "Part.__len__ = lambda self: 2",
        "Part._call_impl = nn.Module._call_impl",
        "Part.__getattr__ = lambda self, name: nn.Module.__getattr__(self, name)",
        "del Part.__getattr__",
        "{s}.inner.append(Part())",
        "del {s}.inner[0]",
        "{s}.inner[0] = {s}.inner[1]",
        "{s}.inner[0] = nn.Identity()",
        "{s}.add_module('more', Part())",
        "{s}.w = nn.Parameter(torch.full((1,), 2.0))",
        "{s}.w = None",
        "{s}.bias = {k}",
        "Part.bias = {k}",
        "Net.scale = {k} + 0.5",
        "{s}.forward = lambda x: x * 3",
        "del {s}.forward",
        "Part.forward = lambda self, x, by=1: x * self.w - by",
        "{s}.seen.fill_({k})",
        "{s}.seen = None",
        "del {s}.seen",
        "{s}.double()",
        "{s}.to('meta')",
        "{s}.load_state_dict({o}.state_dict())",
        "{s} = copy.deepcopy({s})",
        "{s} = {o}",
        "{s}.p = {k} / 4",
        "{s}.zero_grad(set_to_none=False)",
        "torch.nn.modules.module.register_module_forward_hook(lambda m, a, out: None).remove()",
    ],
    weight=14,
)

KINDS = {"module": _MODULE}
