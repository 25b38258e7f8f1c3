"""A framefuse that compiles nothing: `install` puts it in the place of the real one, in this process.

The signatures are the real ones, and so are the checks of their arguments. Invariant: nothing is captured, and every
function runs as it is.
"""

import functools

import framefuse
from framefuse import _compile, _explain, _torch_backend


def compile(
    model=None, *, fullgraph=False, dynamic=None, backend="fuse", mode=None, options=None, disable=False, recompile_limit=None, name=None
):
    """framefuse.compile that returns the model."""
    settings = dict(fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options)
    settings |= dict(recompile_limit=recompile_limit, name=name)
    _real_compile(**settings, disable=disable)  # for its checks of the arguments
    return (lambda f: f) if model is None else model


def explain(f, **settings):
    """framefuse.explain that calls the function and has seen no graph."""

    @functools.wraps(f)
    def explained(*args, **kwargs):
        f(*args, **kwargs)
        return framefuse.ExplainOutput(
            graph_count=0, graph_break_count=0, op_count=0, break_reasons=[], ops_per_graph=[], out_guards=[],
            compile_times={}, graphs=[], fallbacks=[],
        )  # fmt: skip

    return explained


def torch_backend(gm, example_inputs, *, mode="default", options=None):
    """The backend of torch.compile that runs the graph as torch does."""
    return gm.forward


_real_compile = framefuse.compile


def install():
    framefuse.compile = _compile.compile = compile
    framefuse.explain = _explain.explain = explain
    framefuse.torch_backend = _torch_backend.torch_backend = torch_backend
