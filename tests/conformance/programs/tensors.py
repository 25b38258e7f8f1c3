"""Tensor attributes, views, aliasing, in-place operations, dtypes, layouts, data access."""

import torch

from conformance.program import Args, Case, program
from conformance.sample import leaf, matrix, vector


@program(graphs=1)
def metadata_attributes():
    def f(m):
        return (
            m * m.shape[0] + m.size(1),
            m.ndim,
            m.numel(),
            m.stride(),
            m.dtype,
            m.device,
            m.is_contiguous(),
            m.itemsize,
            m.layout,
            m.is_floating_point(),
            len(m),
            m.requires_grad,
            m.is_leaf,
            m.T.is_contiguous(),
            m.nbytes,
        )

    return Case(
        f,
        matrix(),
        then=[lambda: Args(matrix(3, 2).t()), lambda: Args(matrix().double()), lambda: Args(matrix(4, 4)[1:, ::2])],
    )


@program
def shape_changes_between_calls():
    def f(x):
        return x.sum() * x.shape[0] + x.reshape(-1)[0]

    return Case(f, vector(3), then=[lambda n=n: Args(vector(n)) for n in (4, 1, 7)])


@program
def dtype_changes_between_calls():
    def f(x):
        if x.dtype == torch.float64:
            return x * 2
        if x.is_floating_point():
            return x + 1
        return x - 1

    return Case(
        f,
        vector(),
        then=[lambda t=t: Args(vector().to(t)) for t in (torch.float64, torch.int64, torch.bool, torch.bfloat16)],
    )


@program
def stride_changes_between_calls():
    def f(m):
        return m.view(-1) if m.is_contiguous() else m.contiguous() * 2

    return Case(f, matrix(), then=[lambda: Args(matrix(3, 2).t()), lambda: Args(matrix(4, 3)[::2])])


@program
def requires_grad_changes_between_calls():
    def f(x):
        return x * 2 if x.requires_grad else x * 3

    return Case(f, vector(), then=[lambda: Args(leaf()), lambda: Args(vector())])


@program
def tensor_rank_zero_and_empty():
    def f(x, e):
        return x + 1, e * 2, e.sum(), torch.cat([e, x.reshape(1)]), e.shape

    return Case(f, torch.tensor(2.0), torch.empty(0), then=[lambda: Args(torch.tensor(5.0), torch.ones(2))])


@program
def views_of_argument_returned():
    def f(m):
        return m, m.view(-1), m.t(), m[0], m[:, 1:], m.expand(2, 2, 3), m.unsqueeze(0), m.detach()

    return Case(f, matrix())


@program
def view_of_intermediate_returned():
    def f(m):
        y = m * 2
        return y, y.view(-1), y.t(), y[1:]

    return Case(f, matrix())


@program
def argument_returned_itself():
    def f(x, y):
        return x, [y], x

    return Case(f, vector(), leaf())


@program(rule=11)
def mutation_of_argument_and_its_view():
    def f(a, b):
        b.mul_(2)
        c = a + 1
        a.add_(3)
        return a.view(-1) * b.view(-1), c

    a = matrix(2, 2).reshape(4)

    def fresh(view):
        base = matrix(2, 2).reshape(4)
        return Args(base, base.view(2, 2) if view else matrix(2, 2))

    return Case(f, a, a.view(2, 2), versions=True, then=[lambda: fresh(False), lambda: fresh(True)])


@program(rule=11)
def same_tensor_twice_mutated():
    def f(a, b):
        a.add_(1)
        return b * 2

    x = vector()
    return Case(f, x, x, versions=True, then=[lambda: Args(vector(), vector()), lambda: Args(x, x)])


@program
def partially_overlapping_arguments():
    base = vector(6)

    def f(a, b):
        a.add_(1)
        b.mul_(2)
        return a + b

    return Case(
        f,
        base[:4],
        base[2:],
        observe=base,
        versions=True,
        then=[lambda: Args(base[:3], base[3:]), lambda: Args(base[1:4], base[:3])],
    )


@program
def in_place_through_view_of_intermediate():
    def f(x):
        y = x * 2
        v = y[1:]
        v.add_(10)
        y[0] = -1
        w = y.view(-1, 1)
        w.mul_(2)
        return y, v, w

    return Case(f, vector(4))


@program
def in_place_methods():
    def f(x):
        x.add_(1).mul_(2).sub_(0.5)
        x.clamp_(min=1)
        x.sqrt_()
        x[0].zero_()
        x.neg_()
        return x.sum()

    return Case(f, vector(4), versions=True)


@program
def copy_and_set_item():
    def f(x, y):
        x.copy_(y)
        x[1:] = y[:-1]
        x[2] = 0
        x.index_fill_(0, torch.tensor([0]), 9.0)
        return x * 2

    return Case(f, vector(4), vector(4, 2.0), versions=True)


@program
def out_argument():
    def f(x, out):
        torch.add(x, 1, out=out)
        r = torch.mul(x, 2, out=out)
        return r is out, out + 1

    return Case(f, vector(), torch.zeros(3))


@program(whole=False)
def out_argument_resized():
    def f(x, out):
        torch.add(x, 1, out=out)
        return out * 2

    return Case(f, vector(), torch.empty(0))


@program
def detach_and_data():
    def f(x):
        d = x.detach()
        y = x * 2
        d2 = y.data
        return d + 1, d2 * 3, d.requires_grad, y

    return Case(f, leaf())


@program
def data_written():
    def f(x):
        x.data.add_(1)
        y = x * 2
        return y

    return Case(f, leaf(), versions=True)


@program(whole=False)
def data_assigned():
    def f(x, y):
        x.data = y
        return x * 2

    return Case(f, vector(), vector(5))


@program
def requires_grad_set_inside():
    def f(x):
        y = x.detach().clone()
        y.requires_grad_(True)
        z = (y * 2).sum()
        return z, y.requires_grad, y.is_leaf

    return Case(f, vector(), forward_only=True)


@program
def leaf_made_beside_a_gradient():
    def f(x):
        y = x.detach().clone()
        y.requires_grad_(True)
        z = (y * 2).sum()
        return z, y, x * 3

    def outer(x):
        z, y, w = f(x)
        z.backward()
        return y.grad, y.is_leaf, w

    return Case(outer, leaf(), forward_only=True)


@program
def requires_grad_set_on_argument():
    def f(x):
        x.requires_grad_()
        return x * 2

    return Case(f, vector())


@program
def attributes_on_tensors():
    def f(x):
        y = x + 1
        y.tag = "made"
        x.note = [1]
        return y, y.tag, x.note, hasattr(y, "other")

    return Case(f, vector())


@program
def attribute_of_argument_read():
    x = vector()
    x.scale = 3

    def f(x):
        return x * getattr(x, "scale", 1)

    return Case(f, x, then=[lambda: setattr(x, "scale", 5), lambda: delattr(x, "scale")])


@program(whole=False)
def item_and_tolist():
    def f(x):
        n = x.sum().item()
        return x * n, x.tolist(), float(x[0]), int(x[1])

    return Case(f, vector(), then=[lambda: Args(vector(3, 4.0))])


@program(whole=False)
def bool_of_tensor():
    def f(x):
        if x.any():
            y = x * 2
        else:
            y = x - 1
        return y, bool((x > 100).all()), not x[0]

    return Case(f, vector(), then=[lambda: Args(torch.zeros(3))])


@program(whole=False)
def nonzero_and_masked_select():
    def f(x):
        i = x.nonzero()
        return i, x[x > 1], torch.unique(x), torch.masked_select(x, x > 1.2) * 2

    return Case(f, vector(), then=[lambda: Args(torch.tensor([0.0, 5.0, 5.0]))])


@program(whole=False)
def data_pointer():
    def f(x):
        y = x + 1
        return y, x.data_ptr() == x.view(-1).data_ptr(), y.data_ptr() != x.data_ptr()

    return Case(f, vector())


@program(rule=10)
def tensor_of_list_that_changes():
    values = [1.0, 2.0, 3.0]

    def f(x):
        return x + torch.tensor(values)

    return Case(f, vector(), then=[lambda: values.__setitem__(0, 50.0), lambda: values.append(4.0) or Args(vector(4))])


@program(rule=10)
def tensor_of_arguments():
    def f(x, a, items):
        return x * torch.tensor(a), torch.tensor([items[0], a]), torch.as_tensor(items), torch.tensor([[True]])

    return Case(f, vector(), 2, [1, 2], then=[lambda: Args(vector(), 2.5, [3, 4]), lambda: Args(vector(), 2, [1.0, 2])])


@program
def default_dtype_changes():
    def f(x):
        return x + torch.ones(3), torch.tensor(1.5).dtype

    return Case(
        f,
        vector(),
        then=[lambda: torch.set_default_dtype(torch.float64), lambda: torch.set_default_dtype(torch.float32)],
    )


@program
def tensor_properties_of_state():
    state = {"w": vector()}

    def f(x):
        return x * state["w"].sum() + state["w"].dim()

    return Case(
        f,
        vector(),
        then=[lambda: state.update(w=matrix()), lambda: state.update(w=vector().double()), lambda: state["w"].mul_(0)],
    )


@program
def resize_and_storage_between_calls():
    x = vector(6)

    def f(x):
        return x * 2 + x.shape[0]

    return Case(f, x, then=[lambda: x.resize_(4), lambda: x.set_(vector(2))])


@program
def version_counter_read():
    def f(x):
        y = x + 1
        before = y._version
        y.add_(1)
        return y, before, y._version

    return Case(f, vector())


@program
def tensor_as_key_and_identity():
    def f(x, y):
        return x + y, {x: 1}[x], x is y, x is x.data, hash(x) == hash(x)

    return Case(f, vector(), vector())


@program
def iteration_and_unbind():
    def f(m):
        rows = list(m)
        a, b = m.unbind(0)
        return [r * 2 for r in rows], a + b, [v for v in a], tuple(m.T), reversed(m)

    return Case(f, matrix())


@program
def numbers_from_shape():
    def f(m):
        n, k = m.shape
        half = n // 2
        scale = k**-0.5
        return (
            m.reshape(k, n) * scale,
            torch.zeros(half, k),
            list(range(n)),
            m.size(),
            m.shape == (n, k),
            max(m.shape),
            n * k == m.numel(),
        )

    return Case(f, matrix(), then=[lambda: Args(matrix(4, 3)), lambda: Args(matrix(1, 2))])


@program
def strides_of_sizes_of_one():
    x = torch.empty_strided((1, 3), (77, 1)).copy_(vector())

    def f(x):
        made = [torch.empty_like(x), x.clone(), x.double(), torch.nn.functional.relu6(x), x.exp(), x + x]
        return [m.stride() for m in made], made[1], made[3]

    return Case(f, x)


@program
def results_written_into_given_tensors_beside_gradients():
    out, table = torch.ones(3), torch.ones(2, 3)

    def f(w):
        with torch.no_grad():
            torch.div(w.detach(), w.detach().norm(), out=out)
            torch.mul(out, 3, out=table[1])
            torch.cat([out, out], out=table.view(-1))
            torch.mv(table, out, out=table[:, 0].clone())
            torch.add(table[0], table[1], alpha=2, out=out)
        return (w * out).sum() + (table * w).sum()

    return Case(f, leaf(), observe=[out, table])


@program
def operators_that_refuse_bools():
    def f(x, mask):
        out = []
        for operate in (
            lambda: x - mask,
            lambda: mask - 1,
            lambda: torch.rsub(x, mask),
            lambda: x - True,
            lambda: mask.floor(),
            lambda: -mask,
            lambda: mask + mask,
        ):
            try:
                out.append(operate())
            except (RuntimeError, NotImplementedError) as e:
                out.append(str(e)[:40])
        return out

    return Case(f, vector(), vector() > 1.2, then=[lambda: Args(vector().to(torch.int64), vector() > 0)])
