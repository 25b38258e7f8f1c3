"""Idioms: settings, modules, transforms and steps of training."""

from __future__ import annotations

import functools
import io
import math

import torch
from torch import nn
from torch.utils import _pytree as pytree

from zoo.idioms import idiom


@idiom
def flags_of_cudnn(self, x):
    with torch.backends.cudnn.flags(enabled=True, deterministic=True):
        return self.layer(x)


@idiom
def precision_of_products(self, x):
    torch.set_float32_matmul_precision("high")
    y = self.layer(x)
    torch.set_float32_matmul_precision("highest")
    return y


@idiom
def forked_random_state(self, x):
    with torch.random.fork_rng():
        torch.manual_seed(3)
        n = torch.rand_like(x)
    return x + n


@idiom
def forked_random_state_of_the_cpu(self, x):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        n = torch.rand_like(x)
    return x + n


@idiom
def gpu_asked_about(self, x):
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return x + 1


@idiom
def generator_of_its_own(self, x):
    g = torch.Generator().manual_seed(3)
    return x + torch.randn(x.shape, generator=g)


@idiom
def autocast_as_a_decorator(self, x):
    @torch.autocast("cpu", dtype=torch.bfloat16)
    def g(x):
        return self.layer(x)

    return g(x)


@idiom
def autocast_of_another_device(self, x):
    with torch.autocast("cuda", enabled=False):
        return self.layer(x)


@idiom
def no_grad_as_a_decorator(self, x):
    @torch.no_grad()
    def g(x):
        return self.layer(x)

    return g(x)


@idiom
def inference_mode_as_a_decorator(self, x):
    @torch.inference_mode()
    def g(x):
        return self.layer(x)

    return g(x.detach())


@idiom
def gradient_as_a_step(self, x):
    with torch.enable_grad():
        y = x.detach().requires_grad_()
        loss = (self.layer(y) **2).sum()
        (g,) = torch.autograd.grad(loss, y)
    return x - g


@idiom
def checkpoint(self, x):
    return torch.utils.checkpoint.checkpoint(self.layer, x, use_reentrant=False)


@idiom
def checkpoint_of_a_sequence(self, x):
    return torch.utils.checkpoint.checkpoint_sequential(nn.Sequential(self.layer, nn.ReLU(), self.other), 3, x, use_reentrant=False)


@idiom
def cache_made_inside(self, x):
    @functools.lru_cache(maxsize=None)
    def g(n):
        return math.sqrt(n)

    return x * g(3) + g(3)


@idiom
def weight_norm(self, x):
    return self.weight_normed(x)


@idiom
def spectral_norm(self, x):
    return self.spectral(x)


@idiom
def functional_call(self, x):
    return torch.func.functional_call(self.layer, {"weight": self.layer.weight * 2, "bias": self.layer.bias}, (x,))


@idiom
def ensemble_of_modules(self, x):
    parameters, buffers = torch.func.stack_module_state([self.layer, self.other])
    return torch.vmap(lambda p, b: torch.func.functional_call(self.layer, (p, b), (x,)))(parameters, buffers)


@idiom
def hessian(self, x):
    return torch.func.hessian(lambda v: (v**3).sum())(x[0, 0])


@idiom
def jacobians(self, x):
    return (torch.func.jacrev(lambda v: v.sin())(x[0, 0]), torch.func.jacfwd(lambda v: v.cos())(x[0, 0]))


@idiom
def jacobian_of_autograd(self, x):
    return torch.autograd.functional.jacobian(lambda v: v.sin(), x[0, 0])


@idiom
def asks_how_it_is_run(self, x):
    return x + 1 if not torch.jit.is_scripting() and not torch.jit.is_tracing() and not torch.onnx.is_in_onnx_export() else x


@idiom
def scripted_module(self, x):
    return self.scripted(x)


@idiom
def forward_hook(self, x):
    h = self.layer.register_forward_hook(lambda m, i, o: o * 2)
    y = self.layer(x)
    h.remove()
    return y


@idiom
def hook_of_a_tensor(self, x):
    y = self.layer(x) * 2
    y.register_hook(lambda g: g * 3)
    return y.sum()


@idiom
def retained_gradient(self, x):
    y = self.layer(x) * 2
    y.retain_grad()
    return y


@idiom
def saved_and_loaded(self, x):
    b = io.BytesIO()
    torch.save(x, b)
    b.seek(0)
    return torch.load(b) + 1


@idiom
def loaded_state(self, x):
    copied = nn.Linear(8, 8)
    copied.load_state_dict(self.layer.state_dict())
    return copied(x)


@idiom
def clipped_gradients(self, x):
    self.layer.zero_grad()
    (self.layer(x.detach()) **2).sum().backward()
    n = nn.utils.clip_grad_norm_(self.layer.parameters(), 1.0)
    return n


@idiom
def parameters_as_a_vector(self, x):
    return nn.utils.parameters_to_vector(self.layer.parameters())


@idiom
def averaged_model(self, x):
    a = torch.optim.swa_utils.AveragedModel(self.layer)
    a.update_parameters(self.layer)
    return a(x)


@idiom
def optimizer_made_inside(self, x):
    p = nn.Parameter(x.detach().clone())
    o = torch.optim.Adam([p], lr=0.1)
    for _ in range(2):
        o.zero_grad()
        (p **2).sum().backward()
        o.step()
    return p.detach()


@idiom
def lbfgs_made_inside(self, x):
    p = nn.Parameter(x.detach().clone())
    o = torch.optim.LBFGS([p], max_iter=3)

    def c():
        o.zero_grad()
        loss = (p **2).sum()
        loss.backward()
        return loss
    o.step(c)
    return p.detach()


@idiom
def tree_map(self, x):
    return pytree.tree_map(lambda v: v * 2, {"a": x, "b": [x, x]})


@idiom
def branch_on_allclose(self, x):
    return x + 1 if torch.allclose(x, x) else x


@idiom
def raises_on_nan(self, x):
    if torch.isnan(x).any():
        raise ValueError("nan")
    return x * 2


@idiom
def sums_of_items(self, x):
    t = 0.0
    for v in x.sum((1, 2)):
        t += v.item()
    return x * t


@idiom
def stream_if_there_is_one(self, x):
    s = torch.cuda.Stream() if torch.cuda.is_available() else None
    with torch.cuda.stream(s):
        return x + 1


@idiom
def profiled_range(self, x):
    with torch.profiler.record_function("a"):
        y = x + 1
    return y


@idiom
def profiled_range_of_autograd(self, x):
    with torch.autograd.profiler.record_function("a") as made:
        y = self.layer(x) + 1
    return y, made is not None


@idiom
def deterministic_algorithms(self, x):
    o = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    y = x + 1
    torch.use_deterministic_algorithms(o)
    return y


@idiom
def default_dtype(self, x):
    d = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    y = torch.ones(2)
    torch.set_default_dtype(d)
    return x.sum() + y


@idiom
def device_as_a_context(self, x):
    with torch.device("cpu"):
        return x + torch.ones(8)


@idiom
def default_device(self, x):
    torch.set_default_device("cpu")
    y = torch.ones(8)
    torch.set_default_device(None)
    return x + y


@idiom
def count_of_threads(self, x):
    return x * torch.get_num_threads()


@idiom
def meta_tensor(self, x):
    return torch.empty(3, device="meta").shape[0] * x
