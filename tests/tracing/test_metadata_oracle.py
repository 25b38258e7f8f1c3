"""The metadata oracle over torch's own operator samples: for each operator, every size, stride, dtype, device and
sharing of memory that the recorder said, forward and backward, is what execution yields; values and gradients are
eager's. Two samples an operator; FF_ORACLE_SAMPLES sets another number (nightly)."""
import gc
import itertools
import os
import warnings

import pytest
import torch

from harness import Broke, Recording, clone_tree, native, same, tensors_of

opinfo_core = pytest.importorskip("torch.testing._internal.opinfo.core")
UnaryUfuncInfo, BinaryUfuncInfo = opinfo_core.UnaryUfuncInfo, opinfo_core.BinaryUfuncInfo
op_db = pytest.importorskip("torch.testing._internal.common_methods_invocations").op_db

# Some 700 operators: minutes.
pytestmark = pytest.mark.nightly

SAMPLES = int(os.environ.get("FF_ORACLE_SAMPLES", "2"))
# Breaks that are right: the result's shape or value depends on data, or host data and generators are used.
RIGHT_BREAKS = ("data-dependent operator", "hidden state", "unsupported tensor", "metadata mutation")
# Pieces of an input that are no views of it for autograd, when they are returned.
UNSAFE = ("unsafe_chunk", "unsafe_split")
# Operators whose result, or choice of kernel, depends on values that they read without an operator.
READ_VALUES = ("tensor_split", "nn.functional.ctc_loss")
# Values that execution leaves undefined.
UNDEFINED_VALUES = ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided")


def full_name(op):
    return op.name + ("." + op.variant_test_name if op.variant_test_name else "")


def unique(tensors):
    out = []
    for t in tensors:
        if not any(t is u for u in out):
            out.append(t)
    return out


def is_random(closed):
    return any(word in closed.text() for word in ("rand", "normal", "bernoulli", "uniform", "exponential", "cauchy",
                                                  "geometric", "dropout", "multinomial", "poisson", "rrelu", "binomial"))


def compare(op, call, sample_args):
    if any(t.layout != torch.strided for t in tensors_of(sample_args)):
        return
    eager_args = clone_tree(sample_args)
    try:
        expected = tensors_of(call(eager_args))
    except Exception:  # samples of an operator that this build of torch refuses
        return
    if any(t.layout != torch.strided for t in tensors_of(sample_args) + expected):
        return
    try:
        recording = Recording(call, (sample_args,))
    except Broke as b:
        assert b.args[0] in RIGHT_BREAKS or op.name in UNSAFE and b.args[0] == "mutation", b.args
        return
    except RuntimeError as e:  # composite code that reads memory above the dispatcher
        assert "the values of a traced tensor were asked for" in str(e)
        assert op.name in READ_VALUES, "reads the memory of its arguments"
        return
    graph_args = clone_tree(sample_args)
    reals, leaves = unique(tensors_of(graph_args)), unique(tensors_of(eager_args))
    closed = recording.closed
    tangents, of = recording.tangents()
    got, gradients, mismatches, _ = closed.execute(recording.real_inputs(reals), tangents)
    assert not mismatches, "\n".join(mismatches) + "\n" + closed.text()
    if full_name(op) not in UNDEFINED_VALUES and not is_random(closed):
        assert len(got) == len(expected)
        for g, e in zip(got, expected):
            assert same(g, e) or same(g, e, exact=False), f"{g} != {e}\n{closed.text()}"
        if tangents and all(o < len(expected) for o in of):
            wanted = [t for t in leaves if t.requires_grad]
            grads = torch.autograd.grad([expected[o] for o in of], wanted, tangents, allow_unused=True)
            by_leaf = {id(t): g for t, g in zip(wanted, grads)}
            rows = closed.inputs()
            for index, gradient in gradients:
                want = by_leaf[id(leaves[rows[index]["index"]])]
                assert same(gradient, want) or same(gradient, want, exact=False), \
                    f"gradient of input {index}: {gradient} != {want}\n{closed.text()}"
    recording.drop()


def with_odd_strides(tree):
    """The same with other strides for dimensions of size 1, which no element tells from the given ones."""
    if isinstance(tree, torch.Tensor):
        if tree.layout != torch.strided or 1 not in tree.shape:
            return tree
        strides = [7 * stride + 70 if size == 1 else stride for size, stride in zip(tree.shape, tree.stride())]
        odd = torch.empty_strided(tree.shape, strides, dtype=tree.dtype).copy_(tree.detach())
        return odd.requires_grad_(tree.requires_grad)
    if isinstance(tree, (list, tuple)) and type(tree) in (list, tuple):
        return type(tree)(with_odd_strides(t) for t in tree)
    return {k: with_odd_strides(v) for k, v in tree.items()} if type(tree) is dict else tree


def samples_with_size_one(op):
    for sample in op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd):
        args = [sample.input, list(sample.args), dict(sample.kwargs)]
        if any(1 in t.shape for t in tensors_of(args)):
            yield args
    if isinstance(op, (UnaryUfuncInfo, BinaryUfuncInfo)):
        sample = next(iter(op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd)))
        for shape in ((1, 3), (2, 1, 3, 1)):
            inputs = [torch.rand(shape) * 0.5 + 0.25 for _ in range(1 + isinstance(op, BinaryUfuncInfo))]
            yield [inputs[0].requires_grad_(op.supports_autograd), inputs[1:], dict(sample.kwargs)]


@pytest.mark.parametrize("op", op_db, ids=full_name)
def test_strides_of_sizes_of_one(op):
    if not op.supports_dtype(torch.float32, "cpu"):
        pytest.skip("no float32")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for args in itertools.islice(samples_with_size_one(op), 2 * SAMPLES):
            compare(op, lambda a: op(a[0], *a[1], **a[2]), with_odd_strides(args))
    gc.collect()
    assert native.live_fakes() == 0


@pytest.mark.parametrize("op", op_db, ids=full_name)
def test_operator(op):
    if not op.supports_dtype(torch.float32, "cpu"):
        pytest.skip("no float32")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd)
        for sample in itertools.islice(samples, SAMPLES):
            compare(op, lambda a: op(a[0], *a[1], **a[2]), [sample.input, list(sample.args), dict(sample.kwargs)])
    gc.collect()
    assert native.live_fakes() == 0


def with_another_type(tree, which, dtype, count):
    """The same with the tensor number `which`, if it is of floats, of that type."""
    if isinstance(tree, torch.Tensor):
        count.append(tree)
        if len(count) - 1 != which or not tree.is_floating_point():
            return tree
        cast = tree.detach().to(dtype)
        return cast.requires_grad_(tree.requires_grad and cast.is_floating_point())
    if isinstance(tree, (list, tuple)) and type(tree) in (list, tuple):
        return type(tree)(with_another_type(t, which, dtype, count) for t in tree)
    return {k: with_another_type(v, which, dtype, count) for k, v in tree.items()} if type(tree) is dict else tree


# huber_loss, addr: eager's own backward refuses two types. The operators below the normalizations: gradients of statistics,
# and statistics that are written and not (which torch describes by the schema).
TYPES_NOT_MIXED = ("addr", "nn.functional.huber_loss", "native_group_norm", "native_layer_norm", "_native_batch_norm_legit")


@pytest.mark.parametrize("op", op_db, ids=full_name)
def test_operands_of_two_types(op):
    if not op.supports_dtype(torch.float32, "cpu") or op.name in TYPES_NOT_MIXED:
        pytest.skip("no float32, or one type only")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in itertools.islice(op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd), SAMPLES):
            args = [sample.input, list(sample.args), dict(sample.kwargs)]
            for which in range(min(len(tensors_of(args)), 4)) if len(tensors_of(args)) > 1 else ():
                for dtype in (torch.float64, torch.bfloat16, torch.int64):
                    compare(op, lambda a: op(a[0], *a[1], **a[2]), with_another_type(args, which, dtype, []))
    gc.collect()
    assert native.live_fakes() == 0
