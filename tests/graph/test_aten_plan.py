"""The backend "aten" against eager: values, gradients, writes, aliases, errors, threads."""

import resource

import pytest
import torch
from graph_module import native
from programs import PROGRAMS, data, parameter


def flat(result):
    return [result] if isinstance(result, torch.Tensor) else list(result)


def run_both(program, inputs):
    plan = native.Plan(program.text)
    theirs = [t.detach().clone().requires_grad_(t.requires_grad) for t in inputs]
    return plan.run(inputs, program.symbols(inputs)), flat(program.eager(*theirs)), theirs


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients(name):
    torch.manual_seed(0)
    program = PROGRAMS[name]
    inputs = program.inputs()
    mine, eager, theirs = run_both(program, inputs)
    assert len(mine) == len(eager)
    for a, b in zip(mine, eager):
        torch.testing.assert_close(a, b)
        assert a.stride() == b.stride() and a.requires_grad == b.requires_grad
    wanted = [o for o in eager if o.requires_grad]
    if not wanted:
        return
    tangents = [torch.randn_like(o) for o in wanted]
    torch.autograd.backward([o for o in mine if o.requires_grad], tangents)
    torch.autograd.backward(wanted, tangents)
    for a, b in zip(inputs, theirs):
        if b.grad is None:
            assert a.grad is None
        else:
            torch.testing.assert_close(a.grad, b.grad)


MLP = PROGRAMS["mlp"]


def test_no_grad_records_nothing():
    plan = native.Plan(MLP.text)
    with torch.no_grad():
        (out,) = plan.run(MLP.inputs())
    assert not out.requires_grad


def test_backward_twice_is_eagers_error():
    inputs = MLP.inputs()
    (out,) = native.Plan(MLP.text).run(inputs)
    out.sum().backward(retain_graph=True)
    first = inputs[1].grad.clone()
    out.sum().backward()
    torch.testing.assert_close(inputs[1].grad, first * 2)
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        out.sum().backward()


def test_write_to_a_saved_input_is_eagers_error():
    inputs = MLP.inputs()
    (out,) = native.Plan(MLP.text).run(inputs)
    with torch.no_grad():
        inputs[3].add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_only_the_wanted_gradients():
    inputs = MLP.inputs()
    (out,) = native.Plan(MLP.text).run(inputs)
    (gv,) = torch.autograd.grad(out.sum(), [inputs[3]], retain_graph=True)
    # What the other gradients need may be written now: this gradient does not read it.
    with torch.no_grad():
        inputs[0].add_(1)
    (again,) = torch.autograd.grad(out.sum(), [inputs[3]])
    torch.testing.assert_close(gv, again)


def test_tangent_of_other_strides():
    inputs = MLP.inputs()
    mine, eager, theirs = run_both(MLP, inputs)
    tangent = torch.randn(3, 8, dtype=torch.float64).t()
    mine[0].backward(tangent)
    eager[0].backward(tangent)
    torch.testing.assert_close(inputs[1].grad, theirs[1].grad)
    expanded = torch.ones((), dtype=torch.float64).expand(8, 3)
    (out,) = native.Plan(MLP.text).run(inputs)
    out.backward(expanded)


def test_hooks_fire():
    inputs = MLP.inputs()
    seen = []
    inputs[1].register_hook(lambda g: seen.append(g.shape))
    inputs[1].register_post_accumulate_grad_hook(lambda p: seen.append("accumulated"))
    (out,) = native.Plan(MLP.text).run(inputs)
    out.register_hook(lambda g: seen.append("out"))
    out.sum().backward()
    assert seen == ["out", torch.Size([5, 4]), "accumulated"]


def test_saved_tensor_hooks_see_what_is_saved():
    inputs = MLP.inputs()
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        (out,) = native.Plan(MLP.text).run(inputs)
    assert inputs[3].data_ptr() in [t.data_ptr() for t in packed]
    out.sum().backward()
    assert inputs[1].grad is not None


@pytest.mark.parametrize("name", ["mlp", "chain"])
def test_double_backward(name):
    program = PROGRAMS[name]
    torch.manual_seed(0)
    inputs = program.inputs()
    mine, eager, theirs = run_both(program, inputs)

    def penalty(out, tensors):
        wanted = [t for t in tensors if t.requires_grad]
        grads = torch.autograd.grad(out.square().sum(), wanted, create_graph=True)
        sum(g.square().sum() for g in grads).backward()
        return [t.grad for t in wanted]

    for a, b in zip(penalty(mine[0], inputs), penalty(eager[0], theirs)):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("name", ["mlp", "chain"])
def test_gradcheck(name):
    program = PROGRAMS[name]
    plan = native.Plan(program.text)
    assert torch.autograd.gradcheck(lambda *a: plan.run(list(a))[0], program.inputs())
    assert torch.autograd.gradgradcheck(lambda *a: plan.run(list(a))[0], program.inputs(), atol=1e-4)


TWO_OUTPUTS = """
graph two
input %x: f64[4]{grad} argument "x"
input %y: f64[4]{grad} argument "y"
input %tp: f64[4] tangent of=0
input %tq: f64[4] tangent of=1
%p: f64[4] = aten.exp(%x)
%q: f64[4] = aten.sin(%y)
backward
%c: f64[4] = aten.cos(%y)
%gy: f64[4] = aten.mul.Tensor(%tq, %c)
%gx: f64[4] = aten.mul.Tensor(%tp, %p)
output %p user grad
output %q user grad
output %gx gradient=0
output %gy gradient=1
"""


def test_undefined_tangents_give_no_gradient():
    x, y = parameter(4), parameter(4)
    p, q = native.Plan(TWO_OUTPUTS).run([x, y])
    q.sum().backward()
    assert x.grad is None
    torch.testing.assert_close(y.grad, y.cos())
    # The node still works for the other output of another call.
    p, q = native.Plan(TWO_OUTPUTS).run([x, y])
    p.sum().backward()
    torch.testing.assert_close(x.grad, x.exp())


def test_write_to_an_output_that_is_saved():
    x, y = parameter(4), parameter(4)
    p, _ = native.Plan(TWO_OUTPUTS).run([x, y])
    p.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        p.sum().backward()


def test_one_input_without_gradient():
    x, y = data(4), parameter(4)
    p, q = native.Plan(TWO_OUTPUTS).run([x, y])
    (p + q).sum().backward()
    assert x.grad is None and y.grad is not None


# ---- writes to inputs

RUNNING = """
graph running
input %x: f64[3] argument "x"
input %m: f64[3] buffer "m" mutated
aten.mul_.Scalar(%m, 0.9)
aten.add_.Tensor(%m, %x, alpha=0.1)
%r: f64[3] = aten.sub.Tensor(%x, %m)
output %r user
"""


def test_mutated_buffer():
    x, m = data(3), data(3)
    version = m._version
    expected = m * 0.9 + x * 0.1
    (r,) = native.Plan(RUNNING).run([x, m])
    torch.testing.assert_close(m, expected)
    torch.testing.assert_close(r, x - expected)
    assert m._version > version


MUTATED_WITH_GRADIENT = """
graph mutated
input %x: f64[3]{grad} argument "x"
input %y: f64[3] argument "y" mutated=0
input %t: f64[3] tangent of=0
aten.mul_.Tensor(%y, %x)
%r: f64[3] = aten.view(%y, [3])
backward
%g: f64[3] = aten.mul.Tensor(%t, %y0)
output %y mutated_input=1 grad
output %y user input=1 grad
output %g gradient=0
"""


def test_mutated_input_gets_a_history():
    text = MUTATED_WITH_GRADIENT.replace("aten.mul_", "%y0: f64[3] = aten.clone(%y)\naten.mul_")
    plan = native.Plan(text)
    x, y = parameter(3), data(3)
    before = y.clone()
    (out,) = plan.run([x, y])
    assert out is y and y.requires_grad
    torch.testing.assert_close(y, before * x)
    y.sum().backward()
    torch.testing.assert_close(x.grad, before)


# ---- outputs that are inputs or views

ALIASES = """
graph aliases
input %x: f64[2, 3]{grad} argument "x"
input %t: f64[2, 3] tangent of=2
%w: f64[6] = aten.view(%x, [6])
%a: f64[2, 3] = aten.mul.Scalar(%x, 3.0)
%b: f64[6] = aten.view(%a, [6])
backward
%g: f64[2, 3] = aten.mul.Scalar(%t, 3.0)
output %x user input=0 grad
output %w user view_of_input=0 grad
output %a user grad
output %b user view_of_output=2 grad
output %a user grad
output %g gradient=0
"""


def test_aliases_are_eagers():
    x = parameter(2, 3)
    y = (x * 1.0).detach().requires_grad_()
    same, w, a, b, again = native.Plan(ALIASES).run([x])
    assert same is x and again is a
    assert w._is_view() and w._base is x and w.data_ptr() == x.data_ptr()
    assert b._is_view() and b._base is a
    (w.sum() + (a * 2).sum() + b.sum()).backward()
    ew, ea = y.view(6), y * 3.0
    (ew.sum() + (ea * 2).sum() + ea.view(6).sum()).backward()
    torch.testing.assert_close(x.grad, y.grad)
    # A write through a view is seen by its base, in autograd too.
    z = (x.detach() * 1.0).requires_grad_()
    _, _, a, b, _ = native.Plan(ALIASES).run([z])
    b.mul_(2)
    a.sum().backward()
    torch.testing.assert_close(z.grad, torch.full((2, 3), 6.0, dtype=torch.float64))


# ---- errors

FAILING = """
graph failing
input %x: f64[3, 4] argument "x"
input %i: i64[2] argument "i"
%r: f64[2, 4] = aten.index.Tensor(%x, [%i])  # model.py:7 in lookup: table[i]
output %r user
"""


def test_errors_keep_their_type_and_name_the_line():
    plan = native.Plan(FAILING)
    inputs = [data(3, 4), torch.tensor([0, 9])]
    with pytest.raises(IndexError, match="index 9 is out of bounds"):
        plan.run(inputs)
    assert plan.failure(inputs).startswith("aten.index.Tensor (model.py:7 in lookup: table[i]): index 9")
    plan.run([data(3, 4), torch.tensor([0, 2])])


def test_error_in_the_backward():
    bad = TWO_OUTPUTS.replace("%c: f64[4] = aten.cos(%y)", "%c: f64[4] = aten.index.Tensor(%y, [%i])").replace(
        'input %tp', 'input %i: i64[4] argument "i"\ninput %tp'
    )
    x, y = parameter(4), parameter(4)
    _, q = native.Plan(bad).run([x, y, torch.tensor([0, 1, 2, 7])])
    with pytest.raises(IndexError):
        q.sum().backward()


# ---- the rest

def test_threads_share_a_plan():
    program = PROGRAMS["pointwise"]
    inputs = program.inputs()
    plan = native.Plan(program.text)
    for (out,) in plan.run_threads(inputs, 8, 200):
        torch.testing.assert_close(out, program.eager(*inputs))
    training = native.Plan(MLP.text)
    inputs = MLP.inputs()
    expected = MLP.eager(*inputs)
    for (out,) in training.run_threads(inputs, 8, 50):
        torch.testing.assert_close(out, expected)
        out.sum().backward()


def test_random_numbers_are_eagers():
    text = """
graph noise
input %x: f64[100] argument "x"
%e: f64[100] = aten.empty_like(%x)
aten.bernoulli_.float(%e, 0.5)
aten.div_.Scalar(%e, 0.5)
%r: f64[100] = aten.mul.Tensor(%x, %e)
output %r user
"""
    x = data(100)
    torch.manual_seed(3)
    (mine,) = native.Plan(text).run([x])
    torch.manual_seed(3)
    torch.testing.assert_close(mine, torch.nn.functional.dropout(x, 0.5), rtol=0, atol=0)


def test_memory_is_freed_at_the_last_use():
    steps = "".join(f"%v{i + 1}: f32[1000000] = aten.mul.Scalar(%v{i}, 2.0)\n" for i in range(20))
    text = f'graph chain\ninput %v0: f32[1000000] argument "x"\n{steps}output %v20 user\n'
    plan = native.Plan(text)
    x = torch.ones(1000000)
    plan.run([x])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    plan.run([x])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000  # kB; 20 results would be 80,000


OLD_VALUE_HAS_A_HISTORY = """
graph "old value has a history"
input %x: f64[3]{grad} argument "x"
input %y: f64[3]{grad} argument "y" mutated=0
input %t: f64[3] tangent of=0
%y0: f64[3] = aten.clone(%y)
aten.mul_.Tensor(%y, %x)
backward
%gx: f64[3] = aten.mul.Tensor(%t, %y0)
%gy: f64[3] = aten.mul.Tensor(%t, %x)
output %y mutated_input=1 grad
output %gx gradient=0
output %gy gradient=1
"""


def test_mutated_input_keeps_its_old_history():
    x, leaf = parameter(3), parameter(3)
    y = leaf * 2
    native.Plan(OLD_VALUE_HAS_A_HISTORY).run([x, y])
    (y * 3).sum().backward()
    torch.testing.assert_close(x.grad, leaf.detach() * 6)
    torch.testing.assert_close(leaf.grad, x.detach() * 6)


def test_write_to_a_leaf_is_eagers_error():
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        native.Plan(OLD_VALUE_HAS_A_HISTORY).run([parameter(3), parameter(3)])


VIEWS = """
graph "g" functional
symbol s0 = 9
input %0: f32[s0, 4, 6] argument "x"
%1: f32[4, s0, 6] = aten.transpose.int(%0, 0, 1)
%2: f32[4, s0, 3] = aten.slice.Tensor(%1, 2, 1, 9223372036854775807, 2)
%3: f32[s0, 3] = aten.select.int(%2, 0, -1)
%4: f32[1, s0, 3] = aten.unsqueeze(%3, 0)
%5: f32[5, s0, 3] = aten.expand(%4, [5, -1, -1])
output %2 user
output %5 user
"""


def views(x):
    part = x.transpose(0, 1)[:, :, 1::2]
    return part, part[-1].unsqueeze(0).expand(5, -1, -1)


def test_views_follow_the_tensor():
    """What a view was of one tensor is not what it is of one with other sizes, strides, offset or memory."""
    plan = native.Plan(VIEWS)
    whole = torch.randn(9, 4, 6)
    inputs = [whole, whole.clone(), whole[2:], whole[2:8], torch.randn(4, 9, 6).transpose(0, 1), torch.randn(9, 4, 12)[..., ::2], whole[:0], whole]
    for x in inputs:
        for mode in (torch.no_grad, torch.inference_mode, torch.enable_grad):
            with mode():
                for mine, eager in zip(plan.run([x], [x.shape[0]]), views(x)):
                    assert mine.stride() == eager.stride() and mine.storage_offset() == eager.storage_offset()
                    assert torch.equal(mine, eager) and mine.data_ptr() == eager.data_ptr()
                    assert mine.is_inference() == eager.is_inference()
