"""framefuse.export, package and load: equal to eager, the same in another process, clear errors for what does not fit."""

import concurrent.futures
import functools
import gc
import hashlib
import inspect
import json
import re
import struct
import sys

import exported_models
import framefuse
import pytest
import torch
from exported_models import saved
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.utils import _pytree

MODELS = exported_models.models()


def tensors(value):
    return [leaf for leaf in _pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def same(one, other):
    """Bit by bit."""
    return len(tensors(one)) == len(tensors(other)) and all(
        a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b) for a, b in zip(tensors(one), tensors(other), strict=True)
    )


def close(one, other):
    return len(tensors(one)) == len(tensors(other)) and all(
        a.dtype == b.dtype and torch.allclose(a, b, atol=1e-5) for a, b in zip(tensors(one), tensors(other), strict=True)
    )


@pytest.mark.parametrize("name", MODELS)
def test_a_package_gives_what_the_model_gives(name, tmp_path):
    model, dynamic, example, calls = MODELS[name]
    exported = framefuse.export(model, dynamic=dynamic)(*example)
    loaded = saved(exported, tmp_path)
    with torch.no_grad():
        assert close(exported.result, model(*example))
        for arguments in calls:
            assert close(loaded(*arguments), model(*arguments))
            assert same(loaded(*arguments), exported(*arguments))
            assert type(loaded(*arguments)) is type(model(*arguments))


# oneDNN's LSTM rounds otherwise where grad mode is on, as it is while a compiled function's graph runs.
@pytest.mark.parametrize("name", ["mlp", "convnet", "gpt"])
def test_it_is_the_compiled_function_bit_by_bit(name, tmp_path):
    model, _, example, _ = MODELS[name]
    loaded = saved(framefuse.export(model)(*example), tmp_path)
    with torch.no_grad():
        assert same(loaded(*example), framefuse.compile(model, dynamic=False)(*example))


def test_one_memory_is_stored_once(tmp_path):
    model, _, example, _ = MODELS["gpt"]
    path = tmp_path / "gpt.ffpkg"
    framefuse.export(model)(*example).package(path)
    names = stored(path)[0]
    assert "words.weight" in names and "head.weight" not in names


def stored(path):
    """The header and the tensors of a file of the format safetensors."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    texts = header.pop("__metadata__")
    return header, texts, data[8 + length :]


def test_the_file_is_one_of_safetensors(tmp_path):
    linear = nn.Linear(3, 2)
    path = tmp_path / "linear.ffpkg"
    sha256 = framefuse.export(linear)(torch.randn(4, 3)).package(str(path))
    assert sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    header, texts, data = stored(path)
    assert header["weight"]["dtype"] == "F32" and header["weight"]["shape"] == [2, 3]
    begin, end = header["weight"]["data_offsets"]
    assert torch.equal(torch.frombuffer(bytearray(data[begin:end]), dtype=torch.float32).reshape(2, 3), linear.weight.detach())
    assert texts["framefuse_package"] == "1"
    assert texts["made_by"] == f"framefuse {framefuse.__version__}, torch {torch.__version__}"
    assert "aten.addmm" in texts["graph"] and "def guards" in texts["guards"]
    assert [p.name for p in tmp_path.iterdir()] == ["linear.ffpkg"]


def test_weights_of_many_dtypes_and_layouts(tmp_path):
    weights = [torch.randn(3, 4).to(dtype) for dtype in (torch.float64, torch.bfloat16, torch.float16, torch.complex64)]
    weights += [torch.randint(0, 2, (3, 4)).to(dtype) for dtype in (torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool)]
    weights += [torch.randn(4, 3).t(), torch.randn(20).as_strided((3, 4), (5, 1), 2), torch.randn(()), torch.randn(0, 4)]

    def f(x):
        return [x + w for w in weights]

    x = torch.randn(3, 4)[:1]
    loaded = saved(framefuse.export(f)(x), tmp_path)
    assert same(loaded(x), f(x)) and same(loaded(-x), f(-x))


def test_sizes_are_symbolic(tmp_path):
    def f(x, y):
        return torch.cat([x, y * 2]).view(-1, 2) + x.shape[0]

    loaded = saved(framefuse.export(f, dynamic=True)(torch.randn(3, 4), torch.randn(5, 4)), tmp_path)
    for n, m, k in [(3, 5, 4), (2, 2, 6), (1, 7, 2), (8, 8, 8), (4, 4, 4)]:
        x, y = torch.randn(n, k), torch.randn(m, k)
        assert same(loaded(x, y), f(x, y))
    with pytest.raises(ValueError, match=r"y: expected f32\[s2, s1\], given f32\[5, 3\]: size 1 is 3, not 4 \(s0 = 3, size 0 of x"):
        loaded(torch.randn(3, 4), torch.randn(5, 3))
    assert "size s0: size 0 of x, at least 1" in loaded.signature


def test_what_a_size_must_meet_is_checked(tmp_path):
    def f(x):
        return x.view(2, -1).sum(1) if x.shape[0] < 10 else x

    loaded = saved(framefuse.export(f, dynamic={"x": 0})(torch.randn(4)), tmp_path)
    x = torch.randn(8)
    assert close(loaded(x), f(x))
    with pytest.raises(ValueError, match=r"x: expected f32\[s0\], given f32\[12\]: size 0 is 12, and s0 is from 1 to 9"):
        loaded(torch.randn(12))
    with pytest.raises(ValueError, match="the package serves sizes with .*; given: s0 = 5, size 0 of x"):
        loaded(torch.randn(5))


def test_arguments_of_all_kinds(tmp_path):
    def f(x, scale=2.0, *more, parts, mode="sum", **rest):
        y = x * scale + parts["a"] - parts["b"][1]
        for t in more:
            y = y + t
        return (y.sum() if mode == "sum" else y), rest["z"] * 2, {"scale": scale, "mode": mode, "none": None}

    given = dict(parts={"a": torch.randn(3), "b": [7, torch.randn(3)]}, z=torch.randn(2))
    x, more = torch.randn(3), (torch.randn(3), torch.randn(3))
    loaded = saved(framefuse.export(f)(x, 3.0, *more, **given), tmp_path)
    result = loaded(x, 3.0, *more, **given)
    assert close(result, f(x, 3.0, *more, **given))
    assert result[2] == {"scale": 3.0, "mode": "sum", "none": None}
    with pytest.raises(ValueError, match=r"scale: expected 3.0, as when it was exported, given 4.0"):
        loaded(x, 4.0, *more, **given)
    with pytest.raises(ValueError, match="scale: expected 3.0, as when it was exported, given 3"):
        loaded(x, 3, *more, **given)
    with pytest.raises(TypeError, match=r"more\[0\]: expected a tensor, given a value of type float"):
        loaded(x, 3.0, 1.0, 2.0, **given)
    with pytest.raises(ValueError, match=r"more: expected 2 items, given 1"):
        loaded(x, 3.0, more[0], **given)
    with pytest.raises(ValueError, match=r"mode: expected 'sum'"):
        loaded(x, 3.0, *more, mode="none", **given)
    with pytest.raises(ValueError, match=r"parts: expected the keys \['a', 'b'\], in this order, given \['b', 'a'\]"):
        loaded(x, 3.0, *more, parts={"b": given["parts"]["b"], "a": given["parts"]["a"]}, z=given["z"])
    with pytest.raises(TypeError, match=r"parts\['a'\]: expected a tensor, given None"):
        loaded(x, 3.0, *more, parts={"a": None, "b": given["parts"]["b"]}, z=given["z"])
    with pytest.raises(TypeError, match="missing a required argument: 'parts'|missing a required keyword-only argument: 'parts'"):
        loaded(x, 3.0, *more, z=given["z"])
    with pytest.raises(TypeError, match="rest: expected as many"):
        loaded(x, 3.0, *more, parts=given["parts"])


def test_constants_may_be_left_out(tmp_path):
    def f(x, n=3, *, name="a"):
        return x * n + len(name)

    loaded = saved(framefuse.export(f)(torch.ones(2), 5), tmp_path)
    assert str(inspect.signature(loaded)) == "(x, n=5, *, name='a')"
    assert torch.equal(loaded(torch.ones(2)), torch.full((2,), 6.0))
    assert torch.equal(loaded(x=torch.ones(2), n=5), torch.full((2,), 6.0))


def test_defaults_of_other_kinds_are_kept(tmp_path):
    def f(x, act=torch.relu, y=None):
        return act(x)

    x = torch.randn(4)
    loaded = saved(framefuse.export(f)(x), tmp_path)
    assert torch.equal(loaded(x), torch.relu(x))
    assert str(inspect.signature(loaded)) == "(x, *, y=None)"
    with pytest.raises(TypeError, match="act is a builtin_function_or_method; packages know tensors"):
        framefuse.export(f)(x, torch.tanh)


def test_arguments_that_come_back_or_are_not_read(tmp_path):
    def f(x, y, unread):
        return x.t(), y, (x + y, y)

    x, y = torch.randn(3, 3), torch.randn(3)
    loaded = saved(framefuse.export(f)(x, y, torch.randn(2)), tmp_path)
    result = loaded(x, y, torch.randn(2))
    assert same(result, f(x, y, None))
    assert result[1] is y and result[2][1] is y
    assert result[0].data_ptr() == x.data_ptr()
    with pytest.raises(ValueError, match=r"unread: expected f32\[2\], given f32\[4\]"):
        loaded(x, y, torch.randn(4))


def test_weights_that_come_back(tmp_path):
    linear, unused = nn.Linear(3, 3), torch.randn(5)
    x = torch.randn(2, 3)
    f = lambda x: (linear(x), linear.weight, unused, linear.bias.view(1, 3), unused)  # noqa: E731
    result = saved(framefuse.export(f)(x), tmp_path)(x)
    with torch.no_grad():
        assert close(result, f(x))
    assert result[2] is result[4]


def test_no_gradients_and_no_autocast(tmp_path):
    linear = nn.Linear(3, 3)
    loaded = saved(framefuse.export(linear)(torch.randn(2, 3)), tmp_path)
    x = torch.randn(2, 3, requires_grad=True)
    expected = linear(x).detach()
    assert not loaded(x).requires_grad
    assert torch.equal(loaded(x), expected)
    with torch.autocast("cpu", torch.bfloat16):
        assert loaded(x).dtype == torch.float32
    with torch.inference_mode():
        assert torch.equal(loaded(x), expected)
    with pytest.raises(ValueError, match="x requires grad, and a package has no gradients"):
        framefuse.export(lambda x: x.sin())(x)


def test_autocast_in_the_code_is_kept(tmp_path):
    linear = nn.Linear(8, 8)

    def f(x):
        with torch.autocast("cpu", torch.bfloat16):
            return linear(x)

    x = torch.randn(2, 8)
    assert same(saved(framefuse.export(f)(x), tmp_path)(x), f(x).detach())


def test_random_numbers_are_those_of_the_generator(tmp_path):
    def f(x):
        return x + torch.rand(3)

    loaded = saved(framefuse.export(f)(torch.zeros(3)), tmp_path)
    torch.manual_seed(3)
    expected = f(torch.zeros(3))
    torch.manual_seed(3)
    assert torch.equal(loaded(torch.zeros(3)), expected)


class Scaled:
    def __init__(self):
        self.weight = torch.randn(3)

    def apply(self, x, by):
        return x * self.weight * by


def test_callables_of_all_kinds(tmp_path):
    x, scaled, linear = torch.randn(2, 3), Scaled(), nn.Linear(3, 3)
    for f, arguments in [
        (scaled.apply, (x, 2)),
        (functools.partial(scaled.apply, by=3), (x,)),
        (framefuse.compile(linear), (x,)),
        (framefuse.compile(lambda x: x.sin()), (x,)),
        (torch.sin, (x,)),
        (linear.forward, (x,)),
    ]:
        loaded = saved(framefuse.export(f)(*arguments), tmp_path)
        with torch.no_grad():
            assert close(loaded(*arguments), f(*arguments))


def test_weights_are_the_models_until_they_are_written(tmp_path):
    linear, x = nn.Linear(3, 2), torch.randn(4, 3)
    exported = framefuse.export(linear)(x)
    exported.package(tmp_path / "before.ffpkg")
    before = exported(x)
    with torch.no_grad():
        linear.weight.mul_(2)
        assert torch.equal(exported(x), linear(x))
    assert torch.equal(framefuse.load(tmp_path / "before.ffpkg")(x), before)
    assert close(saved(exported, tmp_path)(x), exported(x))


def test_exports_leave_nothing(tmp_path):
    linear, x = nn.Linear(3, 2), torch.randn(4, 3)

    def once():
        assert saved(framefuse.export(linear, dynamic=True)(x), tmp_path)(x).shape == (4, 2)
        with pytest.raises(framefuse.Unsupported):
            framefuse.export(lambda y: y.add_(x))(torch.ones(4, 3))
        gc.collect()
        return sys.getrefcount(x), sys.getrefcount(linear.weight), framefuse.statistics()["live_fakes"]

    once()
    assert once() == once()


def test_sizes_that_follow_from_values(tmp_path):
    loaded = saved(framefuse.export(lambda x: x[x > 0] * 2, dynamic=True)(torch.tensor([1.0, -2.0, 3.0])), tmp_path)
    assert torch.equal(loaded(torch.tensor([1.0, 5.0, -1.0, 2.0])), torch.tensor([2.0, 10.0, 4.0]))
    assert loaded(torch.tensor([-1.0, -2.0, -3.0])).shape == (0,)


def test_what_values_must_meet_is_checked(tmp_path):
    def f(x):
        kept = x[x > 0]
        return kept.view(2, -1) if kept.shape[0] > 3 else kept

    loaded = saved(framefuse.export(f, dynamic=True)(torch.tensor([1.0, -2.0, 3.0, 4.0, 5.0])), tmp_path)
    x = torch.tensor([1.0, 3.0, 4.0, 5.0, 6.0, 7.0])
    assert torch.equal(loaded(x), f(x))
    with pytest.raises(ValueError, match="the package serves values with .* only"):
        loaded(torch.tensor([-1.0, 2.0, 3.0, 4.0]))
    with pytest.raises(ValueError, match="the package serves values with .* only"):
        loaded(torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]))


def test_branches_of_cond_are_both_in_it(tmp_path):
    def f(x):
        return framefuse.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x - 1, (x,))

    loaded = saved(framefuse.export(f)(torch.ones(3)), tmp_path)
    for x in (torch.ones(3), -torch.ones(3)):
        assert close(loaded(x), f(x))


def test_tensors_that_are_more_than_their_elements_are_refused(tmp_path):
    loaded = saved(framefuse.export(lambda x: x + 1)(torch.ones(3)), tmp_path)
    with pytest.raises(ValueError, match="x: expected .* given a tensor that is not dense and plain"):
        torch.func.vmap(loaded)(torch.ones(2, 3))
    with pytest.raises(ValueError, match="x: expected .* given a tensor that is not dense and plain"):
        loaded(torch.ones(3)._neg_view())
    with FakeTensorMode() as mode, pytest.raises((TypeError, ValueError), match="expected a tensor, given|dispatch mode"):
        loaded(mode.from_tensor(torch.ones(3)))
    x = torch.ones(3)
    with FakeTensorMode(), pytest.raises(ValueError, match="a dispatch mode of torch's is active"):
        loaded(x)
    with pytest.raises(ValueError, match=r"x: expected f32\[3\], given f32\[3\] on meta: it is on meta, not on cpu"):
        loaded(torch.ones(3, device="meta"))


def test_the_default_dtype_is_that_of_the_export(tmp_path):
    loaded = saved(framefuse.export(lambda x: x / 2)(torch.tensor([1, 2])), tmp_path)
    assert loaded(torch.tensor([1, 4])).dtype == torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.raises(ValueError, match="torch's default dtype is f64, and was f32 when the package was exported"):
            loaded(torch.tensor([1, 2]))
    finally:
        torch.set_default_dtype(torch.float32)


def test_threads_share_a_package(tmp_path):
    model, dynamic, example, _ = MODELS["symbolic batch"]
    loaded = saved(framefuse.export(model, dynamic=dynamic)(*example), tmp_path)
    calls = [(torch.randn(n, 8), torch.randn(n, 4)) for n in (2, 3, 4, 5)] * 10
    alone = [loaded(*arguments) for arguments in calls]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda arguments: loaded(*arguments), calls))
    assert all(map(close, alone, together))


counter = 0


def count(x):
    global counter
    counter += 1
    return x + 1


def breaks_twice(x):
    x = x + 1
    print("one")
    x = x * 2
    print("two")
    return x


class Statistics(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        return -x


@pytest.mark.parametrize(
    ("f", "dynamic", "arguments", "message"),
    [
        (breaks_twice, None, (torch.ones(2),), r"(?s)it breaks:.*test_export.py:\d+.*test_export.py:\d+"),
        (count, None, (torch.ones(2),), "it changes what is outside of it: .*counter"),
        (nn.BatchNorm1d(3), None, (torch.randn(4, 3),), r"it writes .*running_mean.*eval\(\) keeps a module"),
        (lambda x: x.add_(1), None, (torch.ones(2),), "it writes .*x"),
        (lambda x: x.view(2, 2) + 1, {"x": 0}, (torch.ones(4),), "size 0 of x was to be symbolic, and the code needs it to be 4"),
        (lambda x: x.shape[0], True, (torch.ones(4),), "no tensor operation|a number that follows from symbolic sizes"),
        (lambda x: (x + 1, x.shape[0]), True, (torch.ones(4),), "a number that follows from symbolic sizes"),
        (lambda x, y: x + 1 if x is y else x - 1, None, (torch.ones(4), torch.ones(4)), "it asks whether x is a certain tensor"),
        (lambda x: x.max(0), None, (torch.ones(4),), "the result is a max"),
        (lambda x: 3, None, (torch.ones(4),), "no tensor operation"),
        (Statistics(), None, (torch.ones(4),), "."),
    ],
)  # fmt: skip
def test_what_cannot_be_packaged_says_why(f, dynamic, arguments, message):
    with pytest.raises(framefuse.Unsupported, match=message):
        framefuse.export(f, dynamic=dynamic)(*arguments)


@pytest.mark.compiles_nothing("arguments are refused before anything is captured")
@pytest.mark.parametrize(
    ("f", "dynamic", "arguments", "error", "message"),
    [
        (nn.Linear, None, (), TypeError, "takes a function"),
        (3, None, (), TypeError, "takes a function"),
        (torch.sin, "all", (), TypeError, "dynamic must be"),
        (lambda x: x, {"y": 0}, (torch.ones(3),), ValueError, "dynamic names 'y', and the tensors are: x"),
        (lambda x: x, {"x": 1}, (torch.ones(3),), ValueError, "x has no dimension 1: it has 1"),
        (lambda x: x, {"x": 0}, (torch.ones(1),), ValueError, "size 0 of x is 1: export with one that is at least 2"),
        (lambda x: x, None, (object(),), TypeError, "x is a object; packages know"),
        (lambda x, y: x, None, (MODELS["mlp"][2][0],) * 2, ValueError, "y is the same tensor as another argument"),
        (lambda x: x, None, (torch.ones(3).to_sparse(),), ValueError, "x is not a dense, plain tensor"),
    ],
)  # fmt: skip
def test_arguments_that_cannot_be_exported(f, dynamic, arguments, error, message):
    with pytest.raises(error, match=re.escape(message)):
        framefuse.export(f, dynamic=dynamic)(*arguments)


def test_marks_of_the_user_are_left_alone():
    x = torch.randn(4, 4)
    framefuse.mark_dynamic(x, 1)
    framefuse.export(lambda x: x + 1, dynamic={"x": 0})(x)
    assert x._dynamo_dynamic_indices == {1}
    y = torch.randn(4)
    framefuse.export(lambda x: x + 1, dynamic=True)(y)
    assert not hasattr(y, "_dynamo_dynamic_indices")


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "small.ffpkg"
    framefuse.export(lambda x: x + 1)(torch.ones(3)).package(path)
    data = path.read_bytes()
    for place in range(0, len(data), 7):
        path.write_bytes(data[:place] + bytes([data[place] ^ (1 << place % 8)]) + data[place + 1 :])
        with pytest.raises(ValueError, match="is not loaded: it is damaged"):
            framefuse.load(path)
    for length in range(0, len(data), 97):
        path.write_bytes(data[:length])
        with pytest.raises(ValueError, match="is not loaded"):
            framefuse.load(path)
    with pytest.raises(OSError, match="No such file"):
        framefuse.load(tmp_path / "nothing")
    with pytest.raises(OSError, match="is no file"):
        framefuse.load(tmp_path)


def test_the_hash_is_checked_and_writing_is_whole(tmp_path):
    path = tmp_path / "small.ffpkg"
    exported = framefuse.export(lambda x: x + 1)(torch.ones(3))
    sha256 = exported.package(path)
    assert torch.equal(framefuse.load(path, sha256=sha256.upper())(torch.ones(3)), torch.full((3,), 2.0))
    with pytest.raises(ValueError, match=f"its SHA-256 is {sha256}, not 00"):
        framefuse.load(path, sha256="00")
    with pytest.raises(OSError, match="No such file"):
        exported.package(tmp_path / "nowhere" / "small.ffpkg")
    assert [p.name for p in tmp_path.iterdir()] == ["small.ffpkg"]


def test_another_process_has_the_same_bits(tmp_path, fresh_python):
    model, dynamic, example, _ = MODELS["symbolic batch"]
    exported = framefuse.export(model, dynamic=dynamic)(*example)
    exported.package(tmp_path / "model.ffpkg")
    torch.save({"arguments": example, "results": tensors(exported(*example))}, tmp_path / "facts.pt")
    program = f"""
import torch, framefuse
facts = torch.load({str(tmp_path / "facts.pt")!r})
result = framefuse.load({str(tmp_path / "model.ffpkg")!r})(*facts["arguments"])
print(all(torch.equal(a, b) for a, b in zip([result["scores"], *result["sums"]], facts["results"], strict=True)))
"""
    assert fresh_python(program).strip() == "True"
