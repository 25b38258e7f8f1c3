"""Text graphs beside the eager function that each one is."""

import dataclasses
from typing import Callable

import torch


@dataclasses.dataclass
class Program:
    text: str
    eager: Callable
    inputs: Callable  # () -> list of tensors, the graph's inputs that are not tangents
    symbols: Callable = lambda inputs: []


def parameter(*sizes):
    return torch.randn(*sizes, dtype=torch.float64, requires_grad=True)


def data(*sizes):
    return torch.randn(*sizes, dtype=torch.float64)


PROGRAMS = {}

PROGRAMS["pointwise"] = Program(
    """
graph pointwise
input %x: f32[10, 10] argument "x"
input %y: f32[10, 10] argument "y"
%s: f32[10, 10] = aten.sin(%x)
%c: f32[10, 10] = aten.cos(%y)
%r: f32[10, 10] = aten.add.Tensor(%s, %c)
output %r user
""",
    lambda x, y: torch.sin(x) + torch.cos(y),
    lambda: [torch.randn(10, 10), torch.randn(10, 10)],
)

PROGRAMS["symbolic"] = Program(
    """
graph symbolic
symbol s0 = 3
symbol f0: float = 0.5
input %x: f64[s0, 4] argument "x"
%a: f64[s0*4] = aten.view(%x, [s0*4])
%b: f64[s0*4] = aten.mul.Scalar(%a, f0)
%c: f64[s0*4 + 2] = aten.constant_pad_nd(%b, [1, 1], 0)
%d: f64[s0*2 + 1, 2] = aten.view(%c, [s0*2 + 1, 2])
output %d user
""",
    lambda x: torch.nn.functional.pad(x.reshape(-1) * 0.5, [1, 1]).view(-1, 2),
    lambda: [data(5, 4)],
    lambda inputs: [inputs[0].shape[0], 4602678819172646912],  # the bits of 0.5
)

PROGRAMS["lists"] = Program(
    """
graph lists
input %x: f64[6, 4] argument "x"
input %i: i64[3] argument "i"
[%a: f64[6, 1]{strides=[4, 1]}, %b: f64[6, 3]{strides=[4, 1], offset=1}] = aten.split_with_sizes(%x, [1, 3], 1)
%c: f64[6, 4] = aten.cat([%b, %a], 1)
%d: f64[6, 3] = aten.index.Tensor(%c, [None, %i])
%v: f64[6], %n: i64[6] = aten.max.dim(%d, 1)
output %d user
output %v user
output %n user
""",
    lambda x, i: (lambda d: (d, *d.max(1)))(torch.cat([x[:, 1:], x[:, :1]], 1)[:, i]),
    lambda: [data(6, 4), torch.tensor([3, 0, 2])],
)

# Two layers with a bias and a tanh; the backward as autograd records it below its keys.
PROGRAMS["mlp"] = Program(
    """
graph mlp
input %x: f64[8, 5] argument "x"
input %w: f64[5, 4]{grad} parameter "w"
input %b: f64[4]{grad} parameter "b"
input %v: f64[4, 3]{grad} parameter "v"
input %t: f64[8, 3] tangent of=0
%h: f64[8, 4] = aten.addmm(%b, %x, %w)
%a: f64[8, 4] = aten.tanh(%h)
%o: f64[8, 3] = aten.mm(%a, %v)
backward
%vt: f64[3, 4]{strides=[1, 3]} = aten.t(%v)
%ga: f64[8, 4] = aten.mm(%t, %vt)
%at: f64[4, 8]{strides=[1, 4]} = aten.t(%a)
%gv: f64[4, 3] = aten.mm(%at, %t)
%gh: f64[8, 4] = aten.tanh_backward(%ga, %a)
%xt: f64[5, 8]{strides=[1, 5]} = aten.t(%x)
%gw: f64[5, 4] = aten.mm(%xt, %gh)
%gb: f64[4] = aten.sum.dim_IntList(%gh, [0])
output %o user grad
output %gw gradient=1
output %gb gradient=2
output %gv gradient=3
""",
    lambda x, w, b, v: torch.tanh(torch.addmm(b, x, w)) @ v,
    lambda: [data(8, 5), parameter(5, 4), parameter(4), parameter(4, 3)],
)

# A chain that a fusing backend runs again in the backward instead of saving its parts.
PROGRAMS["chain"] = Program(
    """
graph chain functional
input %x: f64[64, 32]{grad} argument "x"
input %t: f64[64, 32] tangent of=0
%a: f64[64, 32] = aten.mul.Scalar(%x, 2.0)
%b: f64[64, 32] = aten.add.Scalar(%a, 1.0)
%c: f64[64, 32] = aten.mul.Tensor(%b, %b)
%d: f64[64, 32] = aten.mul.Tensor(%c, %a)
backward
%p: f64[64, 32] = aten.mul.Tensor(%t, %a)
%q: f64[64, 32] = aten.mul.Tensor(%t, %c)
%r: f64[64, 32] = aten.mul.Tensor(%p, %b)
%s: f64[64, 32] = aten.mul.Scalar(%r, 2.0)
%u: f64[64, 32] = aten.add.Tensor(%s, %q)
%g: f64[64, 32] = aten.mul.Scalar(%u, 2.0)
output %d user grad
output %g gradient=0
""",
    lambda x: (lambda a: (a + 1.0) * (a + 1.0) * a)(x * 2.0),
    lambda: [parameter(64, 32)],
)
