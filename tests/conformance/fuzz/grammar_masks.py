"""State that is masks, ids and lengths: tensors of whole numbers and truth values, which steer a program.

What a program reads out of them a graph may rely on, where it makes sure at each call that it is the same; what floating
point decides ends the graph. So they are written in place, through views and from outside, before and after a read.
"""

from conformance.fuzz.vocabulary import Kind

SUPPORT = {
    "padded": '''
def padded(r, lengths):
    """As a model takes sequences of different lengths apart, and together again."""
    parts = [r.reshape(-1)[: int(n)] for n in lengths]
    longest = max([len(p) for p in parts], default=0)
    return torch.stack([nn.functional.pad(p, (0, longest - len(p))) for p in parts]).sum(0)
''',
}

_MASK = Kind(
    initial=[
        "torch.tensor([True, False, True])",
        "torch.ones(3, dtype=torch.bool)",
        "torch.zeros(2, 2, dtype=torch.bool)",
        "torch.tensor([2, 1])",
        "torch.arange(4)",
        "torch.tensor(2)",
        "torch.tensor(True)",
        "torch.tensor([[1, 0], [0, 2]])",
        "torch.tensor([3, 1], dtype=torch.int32)",
        "torch.zeros(0, dtype=torch.long)",
        "torch.tensor([1, 2, 3])[1:]",
        "torch.tensor([0, 1], dtype=torch.uint8)",
        "torch.tensor([1, 2, 2, 3]).reshape(2, 2).t()",
    ],
    reads=[
        ["if {s}.all():", "    r = r * 2", "else:", "    r = r - 1"],
        ["if not {s}.any():", "    r = r + 5"],
        ["r = r + {s}.sum().item()"],
        ["n = int({s}.max())", "r = r * n"],
        ["r = r + vector(8)[: int({s}.reshape(-1)[0])].sum()"],
        ["for n in {s}.reshape(-1).tolist():", "    r = r + n"],
        ["r = r + padded(r, {s}.reshape(-1))"],
        ["r = r + padded(vector(6), {s}.reshape(-1).tolist()).sum()"],
        ["r = r + torch.arange({s}.numel())[{s}.reshape(-1) > 0].sum()"],
        ["r = r + torch.nonzero({s}).shape[0]"],
        ["r = r + torch.where({s} > {k})[0].numel()"],
        ["if torch.equal({s}, {o}):", "    r = r + 3"],
        ["if ({s} == {o}).all():", "    r = r * 2"],
        ["if ({s} == {k}).any() and not ({s} > 2).all():", "    r = r + 1"],
        ["r = r + len(torch.unique({s}))"],
        ["r = r + ({s}.float().mean() > 1).item()"],
        ["r = r + ({s} + {k}).double().sum().item()"],
        ["r = r * bool({s}.reshape(-1)[-1])"],
        ["for i in range(int({s}.sum())):", "    r = r + i"],
        ["i = 0", "while i < {s}.max() and i < 8:", "    i += 1", "r = r + i"],
        ["r = r + {s}.cumsum(-1)[..., -1].max().item()"],
        ["r = r + torch.arange(3).repeat_interleave({s}.reshape(-1)[:1]).sum()"],
        ["r = r + torch.zeros({s}.reshape(-1).tolist()[:2]).numel()"],
        ["view = {s}.reshape(-1)[1:]", "r = r + (2 if view.any() else 4)"],
        ["q = {s}.clone()", "q[..., 0] = {k}", "r = r + q.sum().item()"],
        ["q = {s} * 2", "q += {k}", "if q.max() > 3:", "    r = r * 2"],
        ["n = {s}.sum().item()", "print(n)", "r = r + n + {s}.sum().item()"],
        ["with torch.no_grad():", "    r = r + (3 if {s}.any() else 1)"],
        ["r = r + (r.sum() > {s}.sum()).item()"],
        ["r = r.masked_fill({s}.any(), 2.0) + int({s}.any())"],
        ["r = r + [5, 6, 7, 8][int({s}.sum()) % 4]"],
        ["r = r + {{0: 1, 1: 2}}.get({s}.sum().item(), 3)"],
        ["match {s}.reshape(-1).tolist():", "    case [first, *rest]:", "        r = r + first * len(rest)", "    case _:", "        r = r - 1"],
        ["try:", "    r = r + 6 // int({s}.min())", "except (ZeroDivisionError, RuntimeError) as error:", "    r = r + len(type(error).__name__)"],
        ["assert {s}.min() >= 0 or {s}.numel() == 0", "r = r + 1"],
        ["r = r + f'{{int({s}.sum())}}'.__len__()"],
        ["r = r + torch.bincount({s}.reshape(-1).long()).numel()"],
        ["r = r + sum(1 for flag in {s}.reshape(-1) if flag)"],
        ["a, *b = {s}.reshape(-1).tolist() or [1]", "r = r + a + len(b)"],
        ["split = torch.arange(9.0).split(({s}.reshape(-1)[:1].clamp(0, 9).tolist() or [9]) + [9 - sum({s}.reshape(-1)[:1].clamp(0, 9).tolist() or [9])])", "r = r + split[0].sum()"],
    ],
    writes=[
        ["{s}.fill_({k})"],
        ["{s}.reshape(-1)[:1] = {k}", "r = r + (1 if {s}.any() else 2)"],
        ["n = {s}.sum().item()", "{s}.add_({k})", "r = r + n + {s}.sum().item()"],
        ["{s}.zero_()", "if not {s}.any():", "    r = r + 2"],
        ["view = {s}.view(-1)", "n = int(view.sum())", "{s}.copy_({s} * 0)", "r = r + n + int(view.sum())"],
        ["{s} = {s} + 1", "if {s}.all():", "    r = r * 2"],
        ["{s} = ~{s}"],
        ["{s}.logical_not_()", "r = r + {s}.sum().item()"],
        ["{s}.data.fill_({k})", "r = r + int({s}.sum())"],
        ["{s}.copy_({o})", "r = r + int({s}.sum())"],
        ["if {s}.any():", "    {s}.fill_(0)"],
        ["{s}.numpy().fill({k})", "r = r + int({s}.sum())"],
        ["{s} += ({s} > 0).sum()"],
    ],
    changes=[
        "{s}.fill_({k})",
        "{s}.zero_()",
        "{s}.reshape(-1)[0] = {k}",
        "{s}.view(-1)[-1:] += 1",
        "{s}.logical_not_()",
        "{s}.data.add_(1)",
        "{s}.numpy().fill({k})",
        "{s} = {s}.clone()",
        "{s} = {s}.to(torch.int32)",
        "{s} = {s}.bool()",
        "{s} = {s}.float()",
        "{s} = {s}.flip(0)",
        "{s} = torch.cat([{s}.reshape(-1), {s}.reshape(-1)])",
        "{s} = {s}.reshape(-1)[:1]",
        "{s} = {s}.t()",
        "{s} = {s}.new_zeros({s}.shape)",
        "{s} = {v}",
        "{s} = {o}",
        "{s} = torch.tensor([{k}, 1])",
        "{s} = torch.tensor([{k}, 1])[:1]",
        "{s} = {s}.double().requires_grad_()",
        "{s}.set_(torch.tensor([{k}, 1, 1]))",
        "{s} = {s} == {k}",
    ],
    weight=22,
)

KINDS = {"mask": _MASK}
