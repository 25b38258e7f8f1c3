"""Tensors over the memory of numpy's arrays, and arrays over that of tensors, in one graph."""

import numpy as np
import torch
from torch import nn

from conformance.program import Args, Case, program
from conformance.sample import leaf, matrix, vector


def numbers(start=0.0, dtype=np.float32):
    return (np.arange(6) + start).astype(dtype).reshape(2, 3)


@program
def an_argument():
    def f(a):
        t = torch.from_numpy(a)
        return t * 2 + 1, t.dtype, t.shape, t.requires_grad

    return Case(
        f,
        numbers(),
        then=[
            lambda: Args(numbers(3.0)),
            lambda: Args(numbers(3.0)[:, ::2]),
            lambda: Args(numbers().astype(np.int64)),
            lambda: Args(numbers()[:1]),
            lambda: Args(np.concatenate([numbers(), numbers()])),
        ],
    )


@program
def numbers_that_change_in_their_place():
    a = numbers()

    def f(x):
        return x * torch.from_numpy(a), torch.as_tensor(a).sum(), torch.as_tensor(a, dtype=torch.float64) + 1

    def change():
        a[1] += 7

    return Case(f, matrix(2, 3), observe=a, then=[change, change])


@program
def the_tensor_lives_on():
    a = numbers()

    def f(x):
        t = torch.from_numpy(a)
        return t, t[0], x + t

    def look():
        return a.sum()

    return Case(f, matrix(2, 3), observe=a, look=look, then=[lambda: a.fill(2)])


@program
def a_step_of_a_policy():
    class Policy(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(3, 4)

        def forward(self, seen):
            x = torch.as_tensor(seen, dtype=torch.float32)
            logits = self.body(x).relu() + 1
            return logits.argmax(-1).numpy(), logits.detach().cpu().numpy()

    torch.manual_seed(0)
    policy = Policy()
    return Case(
        policy,
        numbers(dtype=np.float64),
        then=[lambda: Args(numbers(2.0, np.float64)), lambda: Args(numbers(5.0, np.float32))],
    )


@program
def results_as_arrays():
    def f(x):
        y = x.detach() * 2
        a = y.numpy()
        return a, y, [y.sum().numpy(), (y > 2).numpy()], a is y.numpy()

    return Case(f, leaf(), forward_only=True, then=[lambda: Args(leaf(3, 5.0))])


@program
def memory_of_an_argument():
    def f(x):
        a = x.numpy()
        x.add_(1)
        return a, x[1:].numpy()

    return Case(f, vector(), then=[lambda: Args(vector(3, 4.0))])


@program
def there_and_back():
    def f(x):
        a = (x * 2).numpy()
        back = torch.from_numpy(a)
        return torch.sin(back) + torch.as_tensor(a), a

    return Case(f, vector(), then=[lambda: Args(vector(3, 4.0))])


@program
def made_here():
    def f(x, n):
        steps = torch.from_numpy(np.linspace(0, 1, n).astype(np.float32))
        steps.mul_(2)
        return x * steps, steps, torch.as_tensor(np.ones(3))

    return Case(f, vector(), 3, then=[lambda: Args(vector(), 3), lambda: Args(vector(4), 4)])


@program
def kept_in_an_object():
    class Holder:
        pass

    holder = Holder()
    holder.a = numbers()

    def f(x):
        y = x * torch.from_numpy(holder.a)
        holder.last = y.numpy()
        return y + 1

    def change():
        holder.a = numbers(4.0)

    return Case(f, matrix(2, 3), look=lambda: holder.last, then=[change, lambda: holder.a.sort() and None])


@program(whole=False)
def an_array_is_written_by_its_tensor():
    a = numbers()

    def f(x):
        t = torch.from_numpy(a)
        t.add_(1)
        return x * t + float(a[0, 0]), torch.from_numpy(a).sum()

    return Case(f, matrix(2, 3), observe=a, then=[lambda: a.fill(3)])


@program(whole=False)
def a_tensor_of_the_same_memory_is_written():
    a = numbers()
    shared = torch.from_numpy(a)

    def f(x):
        t = torch.from_numpy(a)
        y = t * 2
        shared.add_(1)
        return x * t + y

    return Case(f, matrix(2, 3), observe=shared, then=[lambda: a.fill(3)])


@program(whole=False)
def an_array_made_here_is_read_behind_a_write():
    def f(x):
        a = np.ones(3, dtype=np.float32)
        part = a[1:]
        t = torch.from_numpy(a)
        t.add_(1)
        return x * float(a[0]), part.sum() == 4, torch.from_numpy(part) * 2

    return Case(f, vector(), then=[lambda: None])


@program(whole=False)
def a_part_of_an_array_from_outside():
    a = numbers()

    def f(x):
        t = torch.from_numpy(a[0])
        t.add_(1)
        return x * t, float(a[0, 0])

    return Case(f, vector(), observe=a, then=[lambda: None])


@program(whole=False)
def functions_of_numpy_on_results():
    def f(x):
        a = (x * 2).numpy()
        return np.sin(a).sum(), a.mean(), a.shape, len(a), a + 1, list(a)

    return Case(f, vector(), forward_only=True, then=[lambda: Args(vector(3, 4.0))])


LOOKS = {
    "text": lambda a: (str(a), repr(a), f"{a}"),
    "item": lambda a: (float(a[0]), a[1:].tolist()),
    "walk": lambda a: [v for v in a],
    "list": list,
    "unpack": lambda a: (lambda first, *rest: first)(*a),
    "compare": lambda a: (a == 2).tolist(),
    "truth": lambda a: bool(a[0]) and bool(a.any()),
    "facts": lambda a: (a.shape, a.dtype, a.size, len(a)),
    "copy": lambda a: np.array(a).sum(),
    "sum": lambda a: sum(a),
    "max": lambda a: max(a),
    "zip": lambda a: list(zip(a, a)),
    "in": lambda a: 2.0 in a,
    "sorted": lambda a: sorted(a, key=lambda v: -v),
    "bytes": lambda a: (bytes(a), memoryview(a).nbytes),
    "tensor": lambda a: (torch.tensor(a), torch.tensor([a, a]).shape),
    "operator": lambda a: torch.ones(3) * a,
    "join": lambda a: np.concatenate([a, a]).tolist(),
    "write": lambda a: a.fill(7),
    "item_write": lambda a: a.__setitem__(0, 5),
    "match": lambda a: [*a][0],
    "isinstance": lambda a: (isinstance(a, np.ndarray), type(a) is np.ndarray, a is None),
}


@program(whole=False, not_ways=("leaks",))  # torch loses the tensor of which it warns once, if the warning is an error
def each_look_into_a_result():
    def f(x, look):
        y = x * 2
        a = y.numpy()
        return look(a), y + 1, a

    looks = list(LOOKS.values())
    return Case(
        f,
        vector(),
        looks[0],
        forward_only=True,
        then=[lambda look=look: Args(vector(3, 4.0), look) for look in looks[1:]],
    )


@program(whole=False, not_ways=("leaks",))  # torch loses the tensor of which it warns once, if the warning is an error
def each_look_into_an_array_that_became_a_tensor():
    def f(x, look):
        a = np.full(3, 2.0, dtype=np.float32)
        part = a[:2]
        t = torch.from_numpy(a)
        t.add_(x)
        return look(a), t + 1, part.tolist(), a

    looks = list(LOOKS.values())
    return Case(
        f,
        vector(),
        looks[0],
        forward_only=True,
        then=[lambda look=look: Args(vector(3, 4.0), look) for look in looks[1:]],
    )


@program(whole=False)
def arrays_that_torch_refuses():
    kinds = {"turned": numbers()[::-1], "texts": np.array(["a"]), "fixed": numbers()}
    kinds["fixed"].flags.writeable = False

    def f(x, kind):
        y = x + 1
        try:
            return y, torch.from_numpy(kinds[kind])
        except (TypeError, ValueError) as error:
            return y, type(error)

    return Case(f, vector(), "turned", then=[lambda: Args(vector(), "texts")])


@program(whole=False)
def tensors_that_numpy_refuses():
    def f(x):
        try:
            return (x * 2).numpy()
        except RuntimeError as error:
            return x * 3, str(error)

    return Case(f, leaf(), forward_only=True)


@program(whole=False)
def arrays_that_were_there_before_their_tensors():
    """Such an array owns its memory; the one of `tensor.numpy()` does not."""

    def f(x):
        a, b = np.array([1.0, 2.0]), steps * 2
        t, u = torch.from_numpy(a), torch.from_numpy(b)
        t.add_(1)
        return x * 2, a, t, b, u.sum()

    steps = numbers()
    return Case(f, vector(), then=[lambda: Args(vector(4))])


@program(whole=False)
def of_a_tensor_that_is_written_uncounted():
    """Numpy reads what the tensor was written with through `x.data`, or as an inference tensor."""

    def by_data(x, a):
        before = a * 3
        x.data.mul_(2)
        return before, a + 1

    def of_a_part(x, a):
        before = a[1:] * 3
        x.data[:2].add_(1)
        return before, a.sum(), a[0]

    def by_a_detached_one(x, a):
        before = np.stack([a, a])
        x.detach().mul_(2)
        return before, a + 1

    def in_inference_mode(x, a):
        before = a * 3
        x.mul_(2)
        return before, a + 1

    def run():
        found = []
        for f in (by_data, of_a_part, by_a_detached_one, in_inference_mode):
            with torch.inference_mode(f is in_inference_mode):
                x = torch.arange(4.0)
                a = x.numpy()
                torch._dynamo.graph_break()
                found += [f(x, a), x.clone()]
        return found

    return Case(run, forward_only=True)
