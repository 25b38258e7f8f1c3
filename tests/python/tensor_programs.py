"""Random programs on tensors as people write them: views, writes into views and inputs, types, reductions, no_grad, numbers
read from shapes; inputs that are leaves or not, views of each other, transposed, sliced or expanded.

A program is made statement by statement; one that eager refuses is taken back, but for a few that are kept for their error.
`differences` runs it compiled and in eager, several times with other values, sizes and gradients, and compares all that
the program's caller could see.
"""

import random
import warnings

import framefuse
import torch
import torch.nn.functional as F

_UNARY = """torch.sin({0}) | torch.tanh({0}) | F.relu({0}) | -{0} | {0}.abs() | torch.exp(torch.tanh({0})) | {0} * 0.5 + 1
{0}.clone() | {0}.contiguous() | torch.sigmoid({0}) | {0}.clamp(-1, 1) | F.gelu({0}) | {0}.square() | {0} ** 2 | {0}.float()
{0}.double() | {0}.detach() | torch.zeros_like({0}) | torch.empty_like({0}).fill_(2) | {0}.new_zeros({0}.shape)
F.softmax({0}, -1) | F.softmax({0}, 0) | F.layer_norm({0}, {0}.shape[-1:]) | {0}.cumsum(0) | {0}.cumsum(-1)
torch.log_softmax({0}, -1) | {0}.flip(0) | {0}.roll(1, 0) | torch.tril({0}) | F.pad({0}, (1, 1)) | {0}.repeat(2, 1, 1)
{0}.sort(-1)[0] | {0}.sort(-1)[1] | {0}.topk(2)[0] | {0}.argmax(-1) | {0}.max(0)[0] | {0}.max(-1)[1] | {0}.nan_to_num()
{0}.round() | {0}.sign() | F.dropout({0}, 0.5) | torch.rand_like({0}) | {0}.trunc().long() | {0} > 0 | {0}.int()
{0}.bfloat16() | {0}.masked_fill({0} > 0, 3) | F.one_hot({0}.long().clamp(0, 3), 4) | F.silu({0}) | F.elu({0})
{0}.erf() | torch.rsqrt({0} * {0} + 1) | F.normalize({0}, dim=-1) | {0}.repeat_interleave(2, 0) | {0}.logsumexp(-1)
{0}.diff() | {0}.frac() | {0}.movedim(0, -1).contiguous()"""
_REDUCTIONS = """{0}.sum() | {0}.mean() | {0}.sum(0) | {0}.sum(-1) | {0}.mean(-1, keepdim=True) | {0}.amax(-1) | {0}.amin(0, keepdim=True)
{0}.var(-1) | {0}.prod(-1) | {0}.norm() | {0}.any(-1) | {0}.all() | {0}.sum((0, 1))
{0}.argmax() | torch.linalg.vector_norm({0}, dim=-1) | {0}.max() | {0}.min(-1)[0] | {0}.median() | {0}.count_nonzero(0)"""
_BINARY = """{0} + {1} | {0} - {1} | {0} * {1} | {0} / (1 + {1} * {1}) | torch.maximum({0}, {1}) | torch.where({0} > {1}, {0}, {1})
torch.where({0} > 0, {1}, 0.0) | torch.add({0}, {1}, alpha=2) | {0} @ {1} | torch.cat([{0}, {1}]) | torch.cat([{0}, {1}], -1)
torch.stack([{0}, {1}]) | torch.atan2({0}, {1}) | {0}.expand_as({1}) | {0} == {1} | {0}[{1}.long().abs() % {0}.shape[0]]
{0}.index_select(0, {1}.flatten().long().abs() % {0}.shape[0]) | {0}.gather(0, {1}.long().abs() % {0}.shape[0])
{0}[{1} > 0] | {0}.masked_fill({1} > 0, 1.5) | torch.lerp({0}, {1}, 0.3) | torch.addcmul({0}, {1}, {1})
F.mse_loss({0}, {0} * 2) | torch.floor_divide({0}, {1}.abs() + 1) | {0} % ({1}.abs() + 1) | {0}.view_as({1})
{0}.reshape({1}.shape) | {0}.type_as({1}) | torch.einsum('...i,...i->...', {0}, {1}) | torch.outer({0}.flatten(), {1}.flatten())
{0}.index_add(0, torch.arange({0}.shape[0]), {1}) | {0}.scatter(0, {1}.long().abs() % {0}.shape[0], 2.5)
torch.broadcast_tensors({0}, {1})[0] | ({0} > 0) & ({1} > 0) | torch.fmod({0}, {1}.abs() + 1) | torch.min({0}, {1})
F.smooth_l1_loss({0}, {1}, reduction='none') | torch.bucketize({0}, {1}.flatten().sort()[0])"""
_VIEWS = """{0}[0] | {0}[-1] | {0}[1:] | {0}[:2] | {0}[..., ::2] | {0}[..., 1] | {0}.transpose(0, -1) | {0}.unsqueeze(0) | {0}.unsqueeze(-1)
{0}.squeeze() | {0}.view(-1) | {0}.reshape(-1) | {0}.flatten() | {0}.narrow(-1, 1, 2) | {0}.select(0, 0) | {0}.diagonal(0, -2, -1)
{0}.unbind(0)[1] | {0}.split(2, -1)[0] | {0}.chunk(2, 0)[1] | {0}.detach() | {0}.permute(2, 0, 1) | {0}.mT | {0}.expand(2, *{0}.shape)
{0}[None] | {0}[:, None] | {0}.view({0}.shape) | ({0}.as_strided((2, 2), (1, 2)) if {0}.numel() > 3 else {0}[...]) | {0}.unfold(-1, 2, 1) | {0}[:, 1:3] | {0}.ravel()
{0}[...] | {0}.tensor_split(2)[0] | {0}.unflatten(-1, (2, -1)) | {0}.data"""
_WRITES = """{0}.add_({1}) | {0}.mul_(2) | {0}.copy_({1}) | {0}.zero_() | {0}.fill_(1.5) | {0}[0] = {1} | {0}[0] = 2.0 | {0}[{0} > 0] = 0.5
{0}[1:] += {1} | {0}[..., 0] *= 3 | {0}.relu_() | {0}.clamp_(-0.5, 0.5) | {0}.sub_({1}, alpha=2) | {0}.masked_fill_({1} > 0, -1)
{0}.index_fill_(0, torch.tensor([0]), 4) | torch.add({0}, {1}, out={0}) | {0} += 1 | {0} *= {1} | {0}.sin_() | {0}.t_()
{0}.unsqueeze_(0) | {0}.squeeze_() | {0}.transpose_(0, -1) | {0}.detach_() | {0}[torch.tensor([0, 1])] = {1} * 1 | {0}[:, 1] = 7
{0}.index_add_(0, torch.arange({0}.shape[0]), {1} * 1) | {0}.scatter_(0, {1}.long().abs() % {0}.shape[0], 2.5)
{0}.addcmul_({1}, {1}) | {0}.lerp_({1}, 0.5) | {0}.tanh_() | {0}.index_put_((torch.tensor([0]),), {1} * 1, accumulate=True)
{0}.data.mul_(2) | {0}.detach().add_(1) | {0}.view(-1)[0] = 9 | {0}.div_({1}.abs() + 1) | F.relu({0}, inplace=True)
F.dropout({0}, 0.5, inplace=True) | {0}.uniform_() | {0}.normal_() | {0}.bernoulli_(0.5) | {0}.cumprod_(-1)
{0}[None, ..., 0] = {1} | {0}.diagonal(0, -2, -1).add_(1) | {0}.logical_not_() | {0}.fill_diagonal_(3) | {0}.cumsum_(0)"""
_REST = [
    "if {0}.shape[0] > 2:\n        {v} = {0} + 1\n    else:\n        {v} = {0} * 3",
    "for i in range({0}.shape[0]):\n        {0}[i] = {0}[i] * (i + 1)",
    "{v} = sum([t * 2 for t in {0}], torch.zeros(()))",
    "{v} = {0} if {0} is {1} else {1}",
    "with torch.no_grad():\n        {v} = {0} * {1}",
    "with torch.no_grad():\n        {0}.add_(1)",
    "with torch.no_grad():\n        {0}.copy_({1})",
    "with torch.enable_grad():\n        {v} = {0} * 2",
    "{v} = {0}.item() + {1}",
    "{v} = {0} * {1}.mean().item()",
    "{v} = {0}[: int(({1} > 0).sum())] * 2",
    "{v} = {0} + {1}.flatten()[{1}.flatten() > 0].sum()",
    "{v} = {0}.nonzero().double() * 2",
    "{v} = torch.masked_select({0}, {1} > 0).tanh()",
    "{v} = torch.unique({0}.detach().round()) + 1",
    "if {0}.sum().item() > 0:\n        {v} = {1} + 2\n    else:\n        {v} = {1} * 2",
    "{v} = {0} * {0}.shape[-1]",
    "{v} = {0} * {0}.numel()",
    "{v} = {0} + {0}.storage_offset()",
    "{v} = {0} + {0}.stride(-1)",
    "{v} = {0} + int({0}.requires_grad)",
    "{v} = {1} + ({0}._base is not None)",
    "{v} = torch.arange({0}.numel(), dtype=torch.float64).view({0}.shape) * {0}",
    "try:\n        {v} = {0} @ {1}\n    except RuntimeError:\n        {v} = {0}",
    "{v}, _ = {0}.split([1, {0}.shape[0] - 1])",
    "_, {v} = torch.max({0}, 0)",
    "if bool(({0} > 0).any()):\n        {v} = {0} + 2\n    else:\n        {v} = {0}",
    "{v} = framefuse.cond({0}.sum() > 0, lambda t: t * 2, lambda t: t.sin(), ({0},))",
]


def _forms(table):
    return [form.strip() for line in table.split("\n") for form in line.split(" | ")]


_KINDS = [(22, _forms(_UNARY), True), (8, _forms(_REDUCTIONS), True), (15, _forms(_BINARY), True), (20, _forms(_VIEWS), True), (25, _forms(_WRITES), False), (10, _REST, None)]
_SHAPES = [(2, 3, 4), (3, 4), (4,), (2, 1, 4), (1,), (), (3, 1), (4, 4), (2, 4, 4), (6,), (2, 3, 4)]
_LAYOUTS = ["plain", "plain", "plain", "transposed", "sliced", "view of the first", "expanded", "part", "integers", "no leaf", "parameter", "view of what was written"]


class Program:
    """body: its statements; inputs: (layout, shape, requires grad, dtype) of each argument; returned: names."""

    def __init__(self, body, inputs, returned, seed=0):
        self.body, self.inputs, self.returned, self.seed = body, inputs, returned, seed

    def changed(self, body, returned):
        return Program(body, self.inputs, returned, self.seed)

    def source(self, returned=None):
        names = ", ".join(f"x{i}" for i in range(len(self.inputs)))
        lines = "".join(f"    {statement}\n" for statement in self.body)
        return f"def f({names}):\n{lines}    return [{', '.join(self.returned if returned is None else returned)}]\n"

    def function(self, returned=None):
        space = {"torch": torch, "F": F, "framefuse": framefuse}
        exec(compile(self.source(returned), f"<program {self.seed}>", "exec"), space)
        return space["f"]

    def arguments(self, call):
        """(arguments, what they are views of). Calls: 0 and 1 other values, 2 other sizes, 3 without gradients."""
        generator = torch.Generator().manual_seed(self.seed * 7 + call)
        made, behind = [], []
        for layout, shape, requires_grad, dtype in self.inputs:
            shape = tuple(n + 1 if call == 2 and n > 2 else n for n in shape)
            made.append(_argument(layout, shape, requires_grad and call != 3, dtype, generator, made, behind))
        return made, behind


def _argument(layout, shape, requires_grad, dtype, generator, others, behind):
    def values(*sizes):
        return torch.randn(sizes, generator=generator, dtype=torch.float64).to(dtype)

    begin = int(torch.randint(0, 3, (), generator=generator))  # in memory, not the same in each call
    if layout == "integers":
        return torch.randint(-3, 5, shape, generator=generator)
    if layout == "view of the first" and others and others[0].dim() > 0:
        with torch.no_grad():
            return others[0].detach()[..., :1] if requires_grad else others[0].view_as(others[0])
    t = values(*shape)
    if layout == "transposed" and len(shape) > 1:
        t = values(*shape[::-1]).permute(*range(len(shape) - 1, -1, -1))
    elif layout == "sliced" and shape:
        behind.append(values(*shape[:-1], shape[-1] * 2 + 2))
        t = behind[-1][..., begin : begin + 2 * shape[-1] : 2]
    elif layout == "part" and shape:
        behind.append(values(shape[0] + 2, *shape[1:]))
        t = behind[-1][begin : begin + shape[0]]
    elif layout == "expanded" and shape:
        t = values(1, *shape[1:]).expand(shape)
    if layout == "parameter":
        return torch.nn.Parameter(t)
    if layout == "view of what was written" and shape:
        behind.append(t.requires_grad_(requires_grad))
        base = torch.zeros_like(t)
        view = base[..., 1:]
        base.add_(t)  # the view learns of it when it is asked
        return view
    if not requires_grad or layout == "expanded":
        return t
    t = t.detach().requires_grad_()
    if layout != "no leaf":
        return t
    behind.append(t)
    return t * 1


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
        inputs.append((layout, r.choice(_SHAPES), r.random() < 0.5, r.choice([torch.float64, torch.float64, torch.float32])))
    program, names = Program([], inputs, [], seed), [f"x{i}" for i in range(len(inputs))]
    length, with_error = r.randint(2, 9), r.random() < 0.04
    for _ in range(60):
        if len(program.body) >= length:
            break
        _, forms, gives_value = r.choices(_KINDS, [weight for weight, _, _ in _KINDS])[0]
        form, name = r.choice(forms), f"v{len(program.body)}"
        if gives_value:
            form = "{v} = " + form
        program.body.append(form.format(r.choice(names), r.choice(names), v=name))
        try:
            torch.manual_seed(0)
            program.function([])(*program.arguments(0)[0])
        except Exception:
            if with_error and len(program.body) == length:
                break
            program.body.pop()
            continue
        if "{v}" in form:
            names.append(name)
    program.returned = r.sample(names, min(len(names), r.randint(1, 4)))
    if r.random() < 0.3:
        program.returned.append(program.returned[0])
    return program


def _facts(tensor, is_argument, with_versions, of_empties=True):
    # Strides of dimensions of size 1, by which nothing is reached, may be others after a write.
    strides = [stride for size, stride in zip(tensor.shape, tensor.stride()) if size > 1 and (of_empties or tensor.numel() > 0)]
    facts = [tuple(tensor.shape), strides, tensor.dtype, tensor.requires_grad, tensor.is_leaf, tensor.storage_offset(), type(tensor).__name__]
    return [*facts, tensor._is_view(), with_versions and tensor._version] if is_argument else facts


_IN_PLACE_VIEWS = (".t_(", "transpose_(", "squeeze_(")
_BREAKS = ("storage_offset()", "._base", "bool(", ".item()", "try:", " > 0]", *_IN_PLACE_VIEWS)


def observe(function, program, call):
    """All that a caller can see of one call, its backward pass, and a write to its results."""
    arguments, behind = program.arguments(call)
    torch.manual_seed(5)
    seen = {"error": None}
    try:
        results = function(*arguments)
    except Exception as e:
        seen["error"], results = (type(e).__name__, str(e).split("\n")[0][:90]), []
    own = len(results)
    tensors = [*results, *arguments, *behind]
    # The version of an input is not counted up when a view of it that nobody keeps gets another shape in place.
    with_versions = not seen["error"] and not any(w in program.source() for w in (".t_(", "transpose_(", "squeeze_(", "try:"))
    try:
        of_empties = not hasattr(program, "sizes")  # one plan for all sizes lays out what has no elements like what has
        seen["facts"] = [_facts(t, i >= own, with_versions, of_empties) for i, t in enumerate(tensors)]
    except RuntimeError as e:  # a view whose history torch refuses to tell
        return {"error": seen["error"], "refused": str(e)[:40]}
    seen["same"] = [[a is b for b in tensors] for a in tensors]
    seen["memory"] = [[a.numel() > 0 and a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr() for b in tensors] for a in tensors]
    # A break makes its own base of a view that is all that is left of its base.
    seen_bases = tensors[own:] if any(text in program.source() for text in _BREAKS) else tensors
    seen["bases"] = [[t._base is b for b in seen_bases] if t.requires_grad else None for t in tensors]
    seen["values"] = [t.detach().clone() for t in tensors]
    seen["generator"] = torch.get_rng_state()
    leaves = [t for t in arguments + behind if t.is_leaf and t.requires_grad]
    losses = [(t * t).sum() for t in results if t.requires_grad and t.is_floating_point()]
    if losses and leaves:
        try:
            found = torch.autograd.grad(losses, leaves, allow_unused=True)
            seen["gradients"] = [None if g is None else g.detach().clone() for g in found]
        except Exception as e:
            seen["error of the backward"] = (type(e).__name__, str(e).split("\n")[0][:90])
    try:
        with torch.no_grad():
            for t in results:
                if t.dtype != torch.bool:
                    t.add_(1)
        seen["written"] = [t.detach().clone() for t in tensors]
    except Exception as e:
        seen["error of a write"] = type(e).__name__
    return seen


def _same(a, b, tolerance):
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        if not a.is_floating_point():
            return torch.equal(a, b)
        return torch.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(_same(x, y, tolerance) for x, y in zip(a, b))
    return type(a) is type(b) and a == b


# What eager refuses and a graph does not ask for: overlaps of memory, views past its end, views that were made without
# gradients and written with them, and types that an operator has no kernel for, where nobody reads its result.
_NOT_ASKED = ("not supported for relu", "only support floating point", "Expected reduction dim to be", "unsupported operation: some elements of", "setStorage: sizes", "A view was created in no_grad mode", "not implemented for")


def differences(program, backend, calls=(0, 1, 2, 3, 0), dynamic=None, single_tolerance=1e-4, not_asked=()):
    """What of the compiled program is not as in eager: {what: (eager's, framefuse's)}, of the first call that differs."""
    eager, compiled = program.function(), framefuse.compile(program.function(), backend=backend, dynamic=dynamic)
    single = "float()" in program.source() or any(dtype == torch.float32 for *_, dtype in program.inputs)
    tolerance = 5e-2 if "bfloat16" in program.source() else single_tolerance if single else 1e-7
    with warnings.catch_warnings(), framefuse.capture_logs("bugs") as bugs:
        warnings.simplefilter("ignore")
        for call in calls:
            expected, got = observe(eager, program, call), observe(compiled, program, call)
            # A backward that computes again what eager kept finds its input written.
            if "been modified by an inplace" in str(got.get("error of the backward")) and "error of the backward" not in expected:
                continue
            if "._base" in program.source() and any(text in program.source() for text in _BREAKS if text != "._base"):
                return {}
            if "refused" in expected or expected["error"] and any(text in expected["error"][1] for text in (*_NOT_ASKED, *not_asked)):
                return {}
            # Whether a view knows yet that its base got a history depends on who asked it before.
            if "a leaf Variable" in str([expected["error"], got["error"]]) and any(layout == "view of what was written" for layout, *_ in program.inputs):
                return {}
            # Of a view and of a saved tensor: which of the two eager names first.
            if all("been mod" in str(x.get("error of the backward")) for x in (expected, got)):
                continue
            # Eager remembers what was detached in place, whoever looks at it.
            if "detached in-place" in str(expected.get("error of the backward")) or "detach_(" in program.source() and "gradients" in expected and not _same(expected["gradients"], got.get("gradients"), tolerance):
                continue
            # Eager remembers a result that was written; the graph has what it needs.
            if "been modified by an inplace" in str(expected.get("error of the backward")):
                continue
            # A gradient of a tensor without elements may be none instead of zero.
            if any(0 in t.shape for t in program.arguments(call)[0]) and expected.get("gradients") and got.get("gradients"):
                pairs = zip(expected["gradients"], got["gradients"])
                got["gradients"] = [torch.zeros_like(a) if b is None and a is not None and not a.any() else b for a, b in pairs]
            wrong = {k: (expected.get(k), got.get(k)) for k in {*expected, *got} if not _same(expected.get(k), got.get(k), tolerance)}
            if wrong:
                return wrong
    bugs = [text for artifact, text in bugs if artifact == "bugs"]
    return {"bugs": bugs[0]} if bugs else {}
