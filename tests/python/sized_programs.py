"""Random programs on tensors whose sizes change from call to call: one compiled plan must give what eager gives at all of them.

The statements are those of tensor_programs.py and more that compute with sizes. Inputs have named sizes: `n` of two
inputs is the same number in one call. shrink_programs.py looks for differences: START COUNT BACKEND sized.
"""

import math
import random
import warnings

import framefuse
import tensor_programs
import torch
from tensor_programs import Program

_SIZED = """{0}.reshape({0}.shape[0] * {0}.shape[-1], -1) | {0}.view({0}.shape[0], -1) | {0}[: {0}.shape[0] // 2] | {0}[{0}.shape[0] // 2 :]
{0} / max({0}.shape[0], 1) | {0} * {0}.shape[0] ** -0.5 if {0}.shape[0] else {0} | {0} / math.sqrt({0}.shape[-1] + 1) | {0} + len({0})
torch.arange({0}.shape[0]) | torch.arange({0}.shape[0], 0, -1) | torch.arange(0, {0}.shape[-1], 2, dtype=torch.float64) | {0}.new_ones({0}.shape[0], 3)
torch.zeros({0}.shape[0], {1}.shape[-1], dtype=torch.float64) | torch.full(({0}.shape[0],), {0}.shape[-1]) | torch.cat([{0}, {0}.new_zeros(1, *{0}.shape[1:])])
{0}.narrow(0, {0}.shape[0] // 2, {0}.shape[0] - {0}.shape[0] // 2) | {0}.split({0}.shape[0] // 2 + 1)[0] | {0}.chunk(3)[0] | F.pad({0}, (0, {0}.shape[-1] % 4))
{0}.roll({0}.shape[0] // 2, 0) | torch.linspace(0, 1, {0}.shape[0], dtype=torch.float64) | {0}.expand(2, *{0}.shape) | {0}.unsqueeze(0).expand({1}.shape[0], *{0}.shape)
{0}.repeat(2, *[1 for _ in {0}.shape[1:]]) | {0}.flatten(0, 1) | {0}.unflatten(0, (-1, 1)) | {0}.reshape(-1, {0}.shape[-1]) | {0}.reshape(-1, 2) | {0}.view(-1, {0}.shape[-1])
{0}[:, : {0}.shape[1] - 1] | {0}[1:] - {0}[:-1] | {0}[::2] | {0}[..., -1:] | {0}.tril({0}.shape[0] - 2) | torch.eye({0}.shape[0], dtype=torch.float64)
{0}.matmul({1}.transpose(-1, -2)) | torch.bmm({0}, {1}.mT) | F.linear({0}, {1}) | torch.baddbmm({0}, {0}, {0}) | torch.addmm({0}, {0}, {1}) | {0}.var(0) | {0}.std(-1, unbiased=False)
{0}.mean((0, -1)) | {0}.sum() / {0}.numel() if {0}.numel() else {0}.sum() | F.avg_pool1d({0}, 2) | F.max_pool1d({0}, 2) | F.conv1d({0}, {0}.new_ones(2, {0}.shape[1], 1))
F.interpolate({0}, scale_factor=2) | F.adaptive_avg_pool1d({0}, 2) | F.pixel_shuffle({0}, 1) | F.scaled_dot_product_attention({0}, {0}, {0}) | F.cross_entropy({0}, {1}.argmax(1))
torch.index_select({0}, 0, torch.arange({0}.shape[0] - 1, -1, -1)) | {0}[torch.arange({0}.shape[0]) % 2 == 0] | {0}.masked_fill(torch.ones({0}.shape[-1], {0}.shape[-1]).tril() > 0, 0.5)
torch.stack([{0}.sum(0), {0}.mean(0)]) | {0}.as_strided(({0}.shape[0],), (1,)) | {0}.cummax(0)[0] | {0}.kthvalue(1, -1)[0] | {0}.topk(min(2, {0}.shape[-1]))[0] | {0}.quantile(0.5) 
torch.meshgrid({0}.flatten()[:3], {1}.flatten()[:4], indexing='ij')[1] | torch.tensordot({0}, {1}, 1) | torch.kron({0}, {0}[:1]) | {0}.new_tensor({0}.shape) | torch.tensor({0}.shape[0] * 2.5)
torch.block_diag({0}, {0}) | torch.hstack([{0}, {0}]) | torch.atleast_2d({0}) | torch.cdist({0}, {1}) | torch.cov({0}) | {0}.diag_embed() | {0}.rot90(1, (0, 1)) | F.glu({0}, 0) | F.unfold({0}[None, None], 2)
F.embedding({0}.long().abs() % {1}.shape[0], {1}) | {0}.clamp(max={0}.shape[0] - 1) | {0}.clamp({0}.shape[0] * 0.1) | torch.where({0} > {0}.shape[0] // 2, {0}, 1.0) | {0} ** min({0}.shape[0], 3) | {0} % ({0}.shape[-1] + 1)
{0}.addcdiv({0}, {0} * {0} + 1, value={0}.shape[0] / 7) | {0} + ({0}.shape[0] == {1}.shape[0]) | {0} + divmod({0}.shape[0], 3)[1] | {0} * min({0}.shape[0], {1}.shape[-1]) | {0} + sum({0}.shape) | {0} + {0}.ndim
F.layer_norm({0}, {0}.shape[-1:]) | F.group_norm({0}, 1) | F.batch_norm({0}, None, None, training=True) | F.instance_norm({0}) | F.rms_norm({0}, {0}.shape[-1:]) | {0}.renorm(2, 0, 1.0) | {0}.cumsum(0)[-1:]
{0}.diagonal() | {0}.diagonal(-1, 0, -1) | {0}.unfold(0, 2, 1) | {0}.median(-1)[0] | {0}.nanmedian() | {0}.mode(0)[0] | {0}.cummin(-1)[0] | {0}.logcumsumexp(0) | {0}.cumprod(-1) | {0}.prod(0)
torch.view_as_real(torch.fft.fft({0})) | torch.fft.irfft(torch.fft.rfft({0}), n={0}.shape[-1]) | torch.fft.fft2({0}).abs() | F.unfold({0}[None], 2) | F.fold(F.unfold({0}[None, None], 2), {0}.shape[-2:], 2)
{0}.gather(0, {0}.argsort(0)) | torch.zeros_like({0}).scatter_(-1, {0}.argmax(-1, keepdim=True), 1.0) | torch.zeros_like({0}).scatter_add(0, {0}.argsort(0), {0}) | {0}.new_zeros(3, *{0}.shape[1:]).index_add(0, torch.arange({0}.shape[0]) % 3, {0})
{0}[torch.arange({0}.shape[0]), {0}.argmax(-1) % {0}.shape[-1]] | {0}.index_put((torch.arange({0}.shape[0]),), torch.tensor(2.0)) | F.max_pool3d({0}[None], 2) | F.max_pool3d({0}[None], 3, 2, 1, ceil_mode=True)
torch.searchsorted({0}.flatten().sort()[0], {1}) | torch.bucketize({0}, torch.arange(-2.0, 2.0, dtype={0}.dtype)) | {0}.count_nonzero(-1) | {0}.roll((1, 2), (0, -1)) | F.pad({0}, (-1, {0}.shape[0])) | F.glu({0}, -1)
F.prelu({0}, {0}.new_full((1,), 0.3)) | F.logsigmoid({0}) | {0}.sigmoid().logit() | torch.lerp({0}, {0} * 2, {0}.sin()) | F.huber_loss({0}, {0} * 2) | F.cosine_similarity({0}, {0} + 1, 0) | F.pairwise_distance({0}, {0} * 2)
torch.linalg.cross({0}, {0} + 1, dim=-1) | torch.stack(torch.meshgrid({0}.flatten()[:3], {1}.flatten()[:4], indexing='ij')) | torch.trace({0}) | torch.arange(0, {0}.shape[0] * 2, 3)"""
_SIZED_WRITES = """{0}[: {0}.shape[0] // 2] = 3 | {0}[{0}.shape[0] // 2 :] *= 2 | {0}[: {1}.shape[0]] += 1 | {0}.mul_({0}.shape[0]) | {0}[:-1] += {0}[1:] | {0}[::2] = {0}[:1] | {0}.add_({1}, alpha={0}.shape[0])
{0}[..., {0}.shape[-1] - 1] = 5 | {0}.view(-1)[:: {0}.shape[-1]].zero_() | {0}.resize_({0}.shape) | {0}.div_({0}.numel() + 1) | {0}[{0}.shape[0] - 1] = {1}[0] | {0}.copy_({1}[: {0}.shape[0]])"""
_SIZED_REST = [
    "if {0}.shape[0] > {1}.shape[-1]:\n        {v} = {0} + 1\n    else:\n        {v} = {0} * 3",
    "if {0}.shape[0] % 2 == 0:\n        {v} = {0}.view(2, -1)\n    else:\n        {v} = {0} * 3",
    "n = {0}.shape[0]\n    while n > 40:\n        n = n // 2\n    {v} = {0}[:n] * 2",
    "{v} = {0}[: max({0}.shape[0] - 3, 1)] + {0}.shape[0] * {0}.shape[-1]",
    "with torch.no_grad():\n        {v} = {0} * {0}.shape[0]",
    "{v}, _ = {0}.split([{0}.shape[0] // 3, {0}.shape[0] - {0}.shape[0] // 3])",
    "_, {v} = {0}.split([{0}.shape[0] // 3, {0}.shape[0] - {0}.shape[0] // 3])",
    "assert {0}.shape[0] < 1000\n    {v} = {0}.sin()",
    "{v} = (lambda a, b, *c: torch.ones(a, b, dtype=torch.float64))(*{0}.shape) * 2",
    "{v} = framefuse.cond({0}.abs().sum() > 1, lambda t: t * 2, lambda t: t.sin(), ({0},))",
    "{v} = torch.cat([{0}, {1}]) if {0}.shape[1:] == {1}.shape[1:] else {0}",
]
_LAYOUTS = ["plain", "plain", "plain", "plain", "transposed", "sliced", "view of the first", "expanded", "part", "integers", "no leaf", "parameter"]
_SHAPES = [("n",), ("n", 4), ("n", "m"), ("m", "n"), ("n", "n"), (2, "n", 3), ("n", 3, 4), ("m",), ("n", 1), (1, "n"), ("n", "m", 2), ("k", "n"), (2, "m", "n"), (4, "n"), ("n", "n", "m"), ()]
_VALUES = [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 40, 64, 65, 100, 257, 300]
# Statements that a capture is for these sizes with, today. Most programs do without: one plan has all their sizes.
_PIN = """index_select smooth_l1 unbind chunk split( > 0] index_fill range( [t masked_select cond( **-0.5 0,-1) linspace
interpolate pixel_shuffle scaled_dot kron new_tensor torch.tensor( block_diag .cov( rms_norm item() norm( nonzero unique .any()) lambda
long().abs()""".split()  # fmt: skip
_GROW = ("torch.outer", "[:, None]", "unsqueeze(", "kron", "diag_embed", "block_diag", "expand(", "meshgrid", "tensordot", ".long().abs() %", "index_select")
CALLS = 9  # and the first again


class SizedProgram(Program):
    """A program whose inputs' sizes are names; `sizes` has a dict of their values for each call."""

    def __init__(self, body, inputs, returned, seed=0, sizes=None):
        super().__init__(body, inputs, returned, seed)
        self.sizes = _sizes_of_calls(seed) if sizes is None else sizes

    def function(self, returned=None):
        function = super().function(returned)
        function.__globals__["math"] = math
        return function

    def changed(self, body, returned, sizes=None):
        return SizedProgram(body, self.inputs, returned, self.seed, sizes or self.sizes)

    def arguments(self, call):
        generator = torch.Generator().manual_seed(self.seed * 7 + call)
        made, behind = [], []
        for layout, shape, requires_grad, dtype in self.inputs:
            shape = tuple(self.sizes[call].get(n, n) for n in shape)
            made.append(tensor_programs._argument(layout, shape, requires_grad, dtype, generator, made, behind))
        return made, behind


def _sizes_of_calls(seed):
    """The first call's sizes are ordinary; then 0, 1, 2, equal ones, tails, one that is large."""
    r = random.Random(seed + 1)
    calls = [{"n": r.choice([3, 4, 5, 6, 8]), "m": r.choice([4, 5, 7]), "k": r.choice([3, 6])}]
    while len(calls) < CALLS:
        sizes = {name: r.choice(_VALUES[:14]) for name in "nmk"}
        kind = r.randrange(5)
        if kind == 0:
            sizes[r.choice("nmk")] = r.choice([0, 1])
        elif kind == 1:
            sizes = dict.fromkeys("nmk", sizes["n"])
        elif kind == 2:
            sizes = {"n": r.choice(_VALUES), "m": r.choice(_VALUES[:6]), "k": 2}
        elif kind == 3:
            sizes = {**calls[0], r.choice("nmk"): r.choice(_VALUES[:14])}
        calls.append(sizes)
    return calls


_forms = tensor_programs._forms
_KINDS = [
    (16, _forms(tensor_programs._UNARY), True), (6, _forms(tensor_programs._REDUCTIONS), True), (12, _forms(tensor_programs._BINARY), True),
    (10, _forms(tensor_programs._VIEWS), True), (10, _forms(tensor_programs._WRITES), False), (3, tensor_programs._REST, None),
    (30, _forms(_SIZED), True), (8, _forms(_SIZED_WRITES), False), (8, _SIZED_REST, None),
]  # fmt: skip


def make(seed):
    """The program of a seed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _make(seed)


def _make(seed):
    r = random.Random(seed)
    inputs = []
    for i in range(r.randint(1, 3)):
        layout = r.choice(_LAYOUTS)
        layout = "plain" if i == 0 and layout == "view of the first" else layout
        inputs.append((layout, r.choice(_SHAPES), r.random() < 0.5, r.choice([*[torch.float64] * 9, torch.float32])))
    program, names = SizedProgram([], inputs, [], seed), [f"x{i}" for i in range(len(inputs))]
    length, is_general = r.randint(1, 7), r.random() < 0.75
    for _ in range(60):
        if len(program.body) >= length:
            break
        _, forms, gives_value = r.choices(_KINDS, [weight for weight, _, _ in _KINDS])[0]
        form, name = r.choice(forms), f"v{len(program.body)}"
        if is_general and any(part in form for part in _PIN):
            continue
        if gives_value:
            form = "{v} = " + form
        program.body.append(form.format(r.choice(names), r.choice(names), v=name))
        if not _is_modest(program):
            program.body.pop()
            continue
        if "{v}" in form:
            names.append(name)
    program.returned = r.sample(names, min(len(names), r.randint(1, 3)))
    return program


def _is_modest(program):
    """Eager runs it at the first sizes, and its results stay small at the largest."""
    try:
        torch.manual_seed(0)
        program.function([])(*program.arguments(0)[0])
    except Exception:
        return False
    text = program.source([])
    if "range(" in text or "torch.outer" in text or sum(text.count(part) for part in _GROW) > 1:
        program.sizes = [{name: min(value, 12) for name, value in sizes.items()} for sizes in program.sizes]
    return True


def calls_of(program):
    """Each of its sizes; then one of them so often that it gets kernels of its own, and others after it."""
    often = program.seed % len(program.sizes)
    return [*range(len(program.sizes)), 0, *[often] * 4, 0, often]


def differences(program, backend, dynamic=True):
    """What is not as in eager at one of the program's sizes, and how many captures that took."""
    before = framefuse.statistics()["captures"]
    torch.set_default_dtype(torch.float64)  # what integers become: sums in another order are alike then
    try:
        with framefuse.config.patch(recompile_limit=64):
            wrong = tensor_programs.differences(
                program, backend, calls_of(program), dynamic=dynamic, single_tolerance=1e-2, not_asked=("is out of bounds", "alloc_cpu")
            )
    finally:
        torch.set_default_dtype(torch.float32)
    return wrong, framefuse.statistics()["captures"] - before
