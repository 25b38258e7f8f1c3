"""Runs a function natively on fakes, closes the recording and executes the graph beside eager."""
import copy
import gc
import glob
import importlib.util
import os
import sys

import torch

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _load():
    candidates = [os.environ["FF_BUILD_DIR"]] if "FF_BUILD_DIR" in os.environ else []
    candidates += sorted(glob.glob(os.path.join(ROOT, "build*")))
    for folder in candidates:
        found = glob.glob(os.path.join(folder, "tests", "tracing", "ff_tracing_testing*.so"))
        if found:
            spec = importlib.util.spec_from_file_location("ff_tracing_testing", found[0])
            module = importlib.util.module_from_spec(spec)
            sys.modules["ff_tracing_testing"] = module
            spec.loader.exec_module(module)
            return module
    raise ImportError("build the target ff_tracing_testing first (FF_BUILD_DIR names the build folder)")


native = _load()


DTYPES = {"Float": torch.float32, "Double": torch.float64, "BFloat16": torch.bfloat16, "Half": torch.float16,
          "ComplexHalf": torch.complex32, "ComplexFloat": torch.complex64, "ComplexDouble": torch.complex128}


class Broke(Exception):
    """The recording ended in a break: (kind, context, explanation)."""


def tensors_of(tree, out=None):
    out = [] if out is None else out
    if isinstance(tree, torch.Tensor):
        out.append(tree)
    elif isinstance(tree, (list, tuple)):
        for item in tree:
            tensors_of(item, out)
    elif isinstance(tree, dict):
        for item in tree.values():
            tensors_of(item, out)
    return out


def replace(tree, table):
    if isinstance(tree, torch.Tensor):
        return table[id(tree)]
    if isinstance(tree, (list, tuple)):
        items = [replace(item, table) for item in tree]
        return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)
    if isinstance(tree, dict):
        return {k: replace(v, table) for k, v in tree.items()}
    return tree


class FakedModule:
    """Swaps the parameters and buffers of a module for fakes while a recording is on."""

    def __init__(self, module, table):
        self.module, self.table, self.saved = module, table, []

    def __enter__(self):
        for owner in self.module.modules():
            for store in (owner._parameters, owner._buffers):
                for name, t in store.items():
                    if t is not None:
                        self.saved.append((store, name, t))
                        store[name] = self.table[id(t)]

    def __exit__(self, *exc):
        for store, name, t in self.saved:
            store[name] = t


class Recording:
    """record(f, args): the graph of f(*args), whose outputs are the tensors in its result."""

    def __init__(self, f, args, module=None, backward=True, extra=()):
        self.tracer = native.Tracer()
        self.reals = []
        table = {}
        parameters = list(module.parameters()) if module is not None else []
        buffers = list(module.buffers()) if module is not None else []
        for role, group in (("parameter", parameters), ("buffer", buffers), ("argument", tensors_of(args)),
                            ("argument", list(extra))):
            for t in group:
                if id(t) in table:
                    continue
                table[id(t)] = self.tracer.make_input(t, role, len(self.reals), f"in{len(self.reals)}")
                self.reals.append(t)
        self.table = table
        fake_args = replace(args, table)
        error = None
        self.tracer.begin()
        try:
            if module is not None:
                with FakedModule(module, table):
                    result = f(*fake_args)
            else:
                result = f(*fake_args)
            self.outputs = tensors_of(result)
        except BaseException as e:  # a break derives from BaseException
            error = e
        finally:
            self.tracer.end()
        pending = self.tracer.pending_break()
        if pending is not None:
            self.drop()
            raise Broke(*pending)
        if error is not None:
            self.drop()
            raise error
        try:
            self.closed = self.tracer.close(self.outputs, backward=backward)
        except RuntimeError as e:
            pending = self.tracer.pending_break()
            if pending is not None:
                self.drop()
                raise Broke(*pending) from e
            raise
        self.statistics = self.tracer.statistics()

    def drop(self):
        self.outputs = self.table = None
        self.tracer.drop()
        gc.collect()

    def real_inputs(self, reals=None):
        reals = self.reals if reals is None else reals
        rows = [r for r in self.closed.inputs() if r["tangent_of"] < 0]
        return [reals[r["index"]] if r["index"] >= 0 else reals[r["gradient_of"]].grad for r in rows]

    def tangents(self):
        outputs = self.closed.outputs()
        rows = [r for r in self.closed.inputs() if r["tangent_of"] >= 0]
        of = [r["tangent_of"] for r in rows]
        return [torch.randn(outputs[o]["sizes"], dtype=DTYPES[outputs[o]["dtype"]]) for o in of], of


def record(f, *args, **kwargs):
    return Recording(f, args, **kwargs)


def clone_tree(args):
    """Copies tensors with their strides, sharing of memory, leafness and requires_grad."""
    memo = {}
    storages = {}

    def one(t):
        if id(t) not in memo:
            s = t.untyped_storage()
            if s._cdata not in storages:
                storages[s._cdata] = s.clone()
            c = torch.empty(0, dtype=t.dtype).set_(storages[s._cdata], t.storage_offset(), t.size(), t.stride())
            memo[id(t)] = c.requires_grad_(t.requires_grad)
        return memo[id(t)]

    def walk(tree):
        if isinstance(tree, torch.Tensor):
            return one(tree)
        if isinstance(tree, (list, tuple)):
            items = [walk(item) for item in tree]
            return type(tree)(*items) if hasattr(tree, "_fields") else type(tree)(items)
        if isinstance(tree, dict):
            return {k: walk(v) for k, v in tree.items()}
        return tree

    return walk(args)


def same(a, b, exact=True):
    if a is None or b is None:
        return a is None and b is None
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype == torch.complex32:
        a, b = a.to(torch.complex64), b.to(torch.complex64)
    if exact:
        return torch.equal(torch.nan_to_num(a.detach()), torch.nan_to_num(b.detach()))
    return torch.allclose(a.detach(), b.detach(), rtol=1e-5, atol=1e-6, equal_nan=True)


def check(f, *args, module=None, seed=0, exact=True, backward=True):
    """Records f, executes the graph on copies and compares outputs, mutations and gradients with eager."""
    recording = Recording(f, args, module=module, backward=backward)
    closed = recording.closed
    eager_module = copy.deepcopy(module) if module is not None else None
    eager_args = clone_tree(args)
    graph_args = clone_tree(args)
    graph_module = copy.deepcopy(module) if module is not None else None
    reals = []
    for group in ([] if module is None else list(graph_module.parameters()) + list(graph_module.buffers()),
                  tensors_of(graph_args)):
        for t in group:
            if not any(t is r for r in reals):
                reals.append(t)
    torch.manual_seed(seed)
    if module is not None:
        swap = dict(zip([id(t) for t in list(module.parameters()) + list(module.buffers())],
                        list(eager_module.parameters()) + list(eager_module.buffers())))
        with FakedModule(module, swap):
            expected = tensors_of(f(*eager_args))
    else:
        expected = tensors_of(f(*eager_args))
    tangents, of = recording.tangents()
    torch.manual_seed(seed)
    got, gradients, mismatches, checked = closed.execute(recording.real_inputs(reals), tangents, True)
    assert not mismatches, "\n".join(mismatches) + "\n" + closed.text()
    assert len(got) == len(expected), closed.text()
    for g, e in zip(got, expected):
        assert same(g, e, exact), f"{g} != {e}\n{closed.text()}"
    leaves = ([] if module is None else list(eager_module.parameters()) + list(eager_module.buffers())) + tensors_of(eager_args)
    for g, e in zip(reals, leaves):
        assert same(g, e, exact), "an input is mutated differently\n" + closed.text()
    if tangents and all(o < len(expected) for o in of):
        heads = [expected[o] for o in of]
        unique = []
        for t in leaves:
            if t.requires_grad and not any(t is u for u in unique):
                unique.append(t)
        want = torch.autograd.grad(heads, unique, tangents, allow_unused=True)
        by_index = {id(t): w for t, w in zip(unique, want)}
        rows = closed.inputs()
        flat = []
        for t in leaves:
            if not any(t is u for u in flat):
                flat.append(t)
        for index, gradient in gradients:
            w = by_index.get(id(flat[rows[index]["index"]]))
            assert same(gradient, w, exact), f"gradient of input {index}: {gradient} != {w}\n{closed.text()}"
    recording.drop()
    return closed
