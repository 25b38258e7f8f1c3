"""State that is tensors: of many types and layouts, views of one another, with offsets, on the device meta, subclasses.

See vocabulary.py for what patterns are. Operators that jump (comparisons, rounding, sorting) are applied to such state,
whose values are few and exact, never to what was computed: backends round differently.
"""

from conformance.fuzz.vocabulary import Kind

SUPPORT = {
    "cut": '''
def cut(t, start, step=1):
    """A view of a part, if there is one."""
    return t.detach().reshape(-1)[start::step]
''',
    "Plain": '''
class Plain(torch.Tensor):
    """Adds names, changes nothing."""

    unit = 2

    def twice(self):
        return self * self.unit
''',
    "Counted": '''
class Counted(torch.Tensor):
    """Sees each torch function."""

    calls = 0

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls += 1
        return super().__torch_function__(func, types, args, kwargs or {})
''',
    "Silent": '''
class Silent(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl
''',
}

_TENSOR = Kind(
    initial=[
        "vector()",
        "vector()",
        "vector(3, 5.0)",
        "vector(4)",
        "vector(1)",
        "matrix(2, 3)",
        "matrix(3, 3)",
        "matrix(3, 2).t()",
        "vector(6)[::2]",
        "vector(6)[2:5]",
        "vector().double()",
        "torch.arange(3)",
        "torch.arange(3, dtype=torch.int32)",
        "torch.tensor([True, False, True])",
        "torch.tensor([1 + 2j, 0.5, -1j])",
        "leaf()",
        "leaf(3, -2.0)",
        "nn.Parameter(vector(3, 0.5))",
        "torch.tensor(2.0)",
        "torch.tensor(2.0).expand(3)",
        "vector(1).expand(3)",
        "torch.empty(0)",
        "torch.zeros(0, 3)",
        "torch.full((3,), float('nan'))",
        "torch.tensor([0.0, -0.0, float('inf')])",
        "matrix(4, 3)[1]",
        "torch.as_strided(vector(5), (3, 3), (1, 1))",
        "vector(3).to('meta')",
        "vector().as_subclass(Plain)",
        "leaf().as_subclass(Plain)",
        "vector().as_subclass(Counted)",
        "vector().as_subclass(Silent)",
        "vector().to_sparse()",
        "(leaf() * 2)",
        "torch.ones(2, 3, 2).to(memory_format=torch.contiguous_format)",
    ],
    reads=[
        ["r = r.sum() + {s}"],
        ["r = r * {s}.sum()"],
        ["r = r + {s}.shape[0] if {s}.dim() else r * 3"],
        ["if {s}.dtype == torch.float32 and not {s}.requires_grad:", "    r = r + 1", "else:", "    r = r * 3"],
        ["r = r + len({s}.stride()) * {s}.is_contiguous()"],
        ["r = r * (2 if {s} is r else 1)"],
        ["r = r + ({s} * 2).reshape(-1)[0]"],
        ["r = r + {s}.storage_offset()"],
        ["r = r + {s}.as_strided((1,), (1,)).sum()"],
        ["r = r + torch.as_strided({s}, (2,), (0,)).sum()"],
        ["r = r + {s}.numel() * {s}.element_size()"],
        ["r = r + {s}.is_leaf + 2 * {s}.requires_grad"],
        ["r = r + len(str({s}.dtype)) + len({s}.device.type)"],
        ["r = r + ({s}.grad is None)"],
        ["r = r + ({s}.grad.sum() if {s}.grad is not None else 1)"],
        ["r = r * 2 if hasattr({s}, 'note') else r + 1"],
        ["r = r + getattr({s}, 'extra', 3)"],
        ["r = r + {s}.unit if isinstance({s}, Plain) else r"],
        ["r = r + {s}.twice().sum() if type({s}) is Plain else r - 1"],
        ["r = r + {s}[0].sum() - {s}[-1].sum()"],
        ["r = r + ({s} > {k}).sum()"],
        ["r = r + torch.where({s} > {k}, {s}, 0).sum()"],
        ["r = r + {s}.argmax()"],
        ["r = r + {s}.sort().values.sum() if {s}.dim() == 1 else r"],
        ["r = r + {s}.floor().sum() if {s}.is_floating_point() else r * 2"],
        ["r = r + torch.cat([{s}.reshape(-1), {o}.reshape(-1)]).sum()"],
        ["r = r + torch.equal({s}, {o})"],
        ["r = r + ({s} * {o}).sum()"],
        ["a = {s} + 0", "{o}.data", "r = r + a.sum()"],
        ["r = r + {s}.to(torch.float64).sum().to(r.dtype)"],
        ["r = r + {s}.type_as(r).mean()"],
        ["parts = {s}.reshape(-1).split(2)", "r = r + sum(p.sum() for p in parts) * len(parts)"],
        ["for part in {s}:", "    r = r + part.sum()"],
        ["if {s}.sum() > {k}:", "    r = r + 1", "else:", "    r = r * 2"],
        ["r = r + {s}.reshape(-1)[0].item()"],
        ["r = r + len({s}.tolist()) if {s}.dim() else r"],
        ["r = r + {s}._version"],
        ["r = r + ({s}.untyped_storage().nbytes() > 12)"],
        ["r = r + {s}.abs().max().to(r.dtype)"],
        ["with torch.enable_grad():", "    r = r + torch.autograd.grad(({s} * {s}).sum(), {s})[0].sum()"],
        ["r = r + torch.zeros_like({s}).sum() + torch.ones_like({s}, dtype=torch.float32).sum()"],
        ["r = r + {s}.new_tensor([1.0, {k}]).sum()"],
        ["r = r + {s}.detach().numpy().sum()"],
    ],
    writes=[
        ["{s}.detach().add_(1)"],
        ["with torch.no_grad():", "    {s}.mul_(2)"],
        ["{s}.note = {k}"],
        ["{s}.detach()[0] = {k}"],
        ["{s}.detach().reshape(-1)[1:].zero_()", "r = r + {s}.sum()"],
        ["{s}.detach().copy_({o}.detach())", "r = r + {s}.sum()"],
        ["{o}.detach().add_({s}.detach())", "r = r + {s}.sum()"],
        ["{s}.detach().t_()"],
        ["{s}.detach().fill_({k})", "r = r + {o}.sum()"],
        ["{s}.detach().masked_fill_({s}.detach() > 2, 0)", "r = r + {o}.sum()"],
        ["torch.add({s}.detach(), 1, out={s}.detach())"],
        ["{s}.detach().index_add_(0, torch.tensor([0]), {s}.detach()[:1])"],
        ["{s}.requires_grad_({k} > 1)"],
        ["{s}.grad = None"],
        ["{s}.grad = torch.ones_like({s})"],
        ["({s} * {s}).sum().backward()"],
        ["if {s}.grad is not None:", "    {s}.grad.zero_()"],
        ["{s} = {s} * 2", "r = r + {s}.sum()"],
        ["{s} += 1"],
        ["{s}.data = {s}.detach() * 2"],
        ["{s}.detach_()"],
        ["{s}.requires_grad_()", "r = r + {s}.sum()"],
        ["{s}.set_({o}.detach())"],
        ["{s}.squeeze_()"],
        ["del {s}.note"],
        ["{s}.retain_grad()"],
        ["h = {s}.register_hook(lambda g: g * 2)", "r = r + {s}.sum()", "h.remove()"],
    ],
    changes=[
        "with torch.no_grad():\n    {s}.mul_(2)",
        "{s} = {v}",
        "{s} = {s}.detach().clone().requires_grad_({s}.is_floating_point())",
        "{s} = {s}.double()",
        "{s} = {s}.half().float()",
        "{s} = {s}.bool()",
        "{s} = {s}.to('meta')",
        "{s} = {s}.t() if {s}.dim() == 2 else {s}.repeat(2)[::2]",
        "{s}.extra = {k}",
        "del {s}.extra",
        "{s} = cut({o}, {k})",
        "{s} = cut({o}, 0)",
        "{s} = cut({o}, 1, 2)",
        "{s} = cut({s}, 1)",
        "{s} = {o}",
        "{s} = {o}.detach()",
        "{s} = torch.cat([{s}.detach().reshape(-1), vector(1)])[:-1]",
        "{s} = torch.cat([vector({k}), {s}.detach().reshape(-1)])[{k}:]",
        "{s} = {s}[None]",
        "{s} = {s}.expand(2, *{s}.shape)",
        "{s} = {s}.detach().as_subclass(Plain)",
        "{s} = {s}.detach().as_subclass(torch.Tensor)",
        "{s}.requires_grad_(not {s}.requires_grad)",
        "{s} = {s} * 1",
        "{s}.grad = torch.ones_like({s})",
        "{s}.grad = None",
        "{s}.data = {s}.detach() * 2 + {k}",
        "{s} = {s}.detach()\n{s}.data = vector({k} + 1)",
        "{s} = nn.Parameter({s}.detach())",
        "{s} = {s}.conj()",
        "{s} = torch._neg_view({s})",
        "with torch.inference_mode():\n    {s} = {s} + 0",
        "Plain.unit = {k}",
        "Plain.twice = lambda self: self * 3",
        "{s} = {s}.new_empty(0)",
        "{s}.register_hook(lambda g: g + 1)",
    ],
    weight=22,
)

# What an operation finds only when it runs: an index beyond the end, with writes before and after it that must not be.
_INDEX = Kind(
    initial=["torch.tensor([0, 2])", "torch.tensor([1])", "torch.tensor([[0, 1], [1, 0]])", "torch.tensor([-1, 0])"],
    reads=[
        ["r = r + vector(4)[{s}].sum()"],
        ["r = r + vector(4).index_select(0, {s}.reshape(-1)).sum()"],
        ["r = r + vector(4).gather(0, {s}.reshape(-1)).sum()"],
        ["r = r + nn.functional.embedding({s}, matrix(4, 2)).sum()"],
        ["r = r + vector(4).take({s}).sum()"],
        ["r = r + nn.functional.one_hot({s}.abs(), 5).sum()"],
        ["r = r + {s}.max() + {s}.unique().numel()"],
        ["r = r + torch.zeros(4).scatter(0, {s}.reshape(-1), 1.0).sum()"],
        ["r = r + torch.zeros(4).index_put(({s},), torch.tensor(1.0), accumulate=True)[1]"],
        ["try:", "    r = r + vector(3)[{s}].sum()", "except IndexError as error:", "    r = r + len(str(error))"],
        ["r = r + matrix(3, 2)[{s}, 0].sum() + matrix(3, 2)[:, None].index_select(0, {s}.reshape(-1)).sum()"],
    ],
    writes=[["{s}.add_(1)"], ["{s} = {s} + 1", "r = r + vector(4)[{s}].sum()"], ["{s}.clamp_(0, 2)"]],
    changes=[
        "{s} = {s} + 3",
        "{s} = {s} * 0",
        "{s} = {s}.int()",
        "{s} = {s}.reshape(1, -1)",
        "{s}.fill_(7)",
        "{s}.fill_(1)",
        "{s} = torch.tensor([True, False, True, True])",
        "{s} = {v}",
        "{s} = torch.tensor({k})",
    ],
    weight=14,
)

KINDS = {"tensor": _TENSOR, "index": _INDEX}
