"""Branches on values of tensors of which one way only raises: checks of arguments, assertions, validations."""

import torch
from conformance.program import Args, Case, program
from conformance.sample import vector


def _negative():
    return Args(-vector())


@program
def raised_if_any_is_negative():
    def f(x):
        if (x < 0).any():
            raise ValueError(f"negative: {x.min().item()}")
        return x.sqrt() * 2

    return Case(f, vector().abs(), then=[lambda: Args(-vector().abs() - 1), lambda: Args(vector().abs())])


@program
def asserted():
    def f(x):
        assert (x >= 0).all(), "negative"
        y = x + 1
        assert y.sum() > 0
        assert not torch.isnan(y).any(), f"{y.shape}"
        return y * 2

    nan = vector().abs()
    nan[0] = float("nan")
    return Case(
        f,
        vector().abs(),
        then=[lambda: Args(-vector().abs() - 1), lambda: Args(nan), lambda: Args(vector().abs() + 1)],
    )


@program
def caught_by_the_function():
    def f(x):
        try:
            if x.sum() < 0:
                raise ValueError("negative")
            return x + 1
        except ValueError as error:
            return x - 1, str(error)

    return Case(f, vector().abs(), then=[lambda: Args(-vector().abs() - 1), lambda: Args(vector().abs())] * 2)


@program
def caught_by_a_caller():
    def check(x):
        if not (x > 0).all():
            raise RuntimeError("not positive")

    def f(x):
        kept = []
        try:
            kept.append(x * 2)
            check(x)
            kept.append(x * 3)
        except RuntimeError:
            kept.append(x * 4)
        return kept

    return Case(f, vector().abs() + 1, then=[lambda: Args(-vector().abs() - 1), lambda: Args(vector().abs() + 1)] * 2)


@program
def after_writes():
    log, counts = [], {"calls": 0}

    class State:
        n = 0

    state = State()

    def f(x):
        log.append(x * 2)
        counts["calls"] += 1
        state.n += 1
        if x.max() > 100:
            raise OverflowError(counts["calls"])
        state.last = x + 1
        return x.sum() * state.n

    return Case(
        f, vector(), then=[lambda: Args(vector() + 1000), lambda: Args(vector())], observe=(log, counts, state)
    )


@program(whole=False)
def a_break_on_either_way_with_a_number_that_changes():
    said = []

    def f(x, limit):
        if x > limit:
            raise ValueError(input_of(limit))
        pair = 1, input_of(limit)
        return x * 2, pair

    @torch._dynamo.disable
    def input_of(n):
        said.append(n)
        return n

    numbers = ((1, 2), (1, 3), (9, 4), (1, 5), (9, 6))
    return Case(f, torch.tensor(1.0), 9, then=[lambda x=x, n=n: Args(torch.tensor(float(x)), n) for x, n in numbers], observe=said)


@program(whole=False)
def after_a_write_into_an_argument():
    def f(x, y):
        y.add_(1)
        if (y > 100).any():
            raise ValueError("large")
        y.mul_(2)
        return x + y

    return Case(
        f, vector(), vector(), then=[lambda: Args(vector(), vector() + 1000), lambda: Args(vector(), vector())]
    )


@program
def after_random_numbers():
    def f(x):
        noise = torch.rand(3)
        if x.sum() < 0:
            raise ValueError(noise.sum().item())
        return x.sum() + noise + torch.nn.functional.dropout(x, 0.5).sum()

    return Case(f, vector().abs(), then=[lambda: Args(-vector().abs() - 1), lambda: Args(vector().abs())])


@program
def with_a_gradient():
    weight = torch.nn.Parameter(vector())

    def f(x):
        y = (x * weight).exp()
        if torch.isinf(y).any():
            raise OverflowError("infinite")
        loss = y.sum()
        loss.backward()
        return loss

    return Case(
        f, vector(), then=[lambda: Args(vector() * 1e6), lambda: Args(vector())], observe=weight, look=lambda: weight.grad
    )


@program
def of_a_tensor_that_is_returned():
    def f(x):
        good = (x > 0).all()
        if not good:
            raise ValueError(good)
        return x + 1, good

    return Case(f, vector().abs() + 1, then=[_negative, lambda: Args(vector().abs() + 1)])


@program(whole=False)
def either_way_goes_on():
    def f(x):
        if x.sum() < 0:
            y = x - 1
        else:
            y = x + 1
        if y.sum() == 0:
            raise ZeroDivisionError
        return x / y.sum()

    return Case(f, vector().abs() + 1, then=[lambda: Args(-vector().abs() - 1), lambda: Args(torch.tensor([-1.0, -1.0]))])


@program(whole=False)
def both_ways_raise():
    def f(x):
        y = x * 2
        if y.sum() < 0:
            raise ValueError("negative")
        else:
            raise KeyError("positive")

    return Case(f, vector().abs() + 1, then=[_negative])


@program
def in_a_loop():
    def f(x):
        for i in range(4):
            x = x - i
            if (x < -100).any():
                raise ValueError(i)
        while True:
            if not torch.isfinite(x).all():
                raise ValueError("infinite")
            return x * 2

    return Case(f, vector(), then=[lambda: Args(vector() - 98), lambda: Args(vector() + float("inf"))])


@program
def of_more_than_one_element():
    def f(x):
        y = x + 1
        if y:
            raise ValueError("true")
        return y

    zero = torch.tensor([-1.0])
    return Case(
        f, zero, then=[lambda: Args(torch.zeros(1)), lambda: Args(torch.zeros(2)), lambda: Args(torch.zeros(0)), lambda: Args(torch.tensor([[-1.0]]))]
    )


@program
def in_a_with_block():
    class Ignoring:
        def __enter__(self):
            return self

        def __exit__(self, kind, value, traceback):
            return kind is ValueError

    def f(x):
        done = False
        with torch.no_grad(), Ignoring():
            y = x * 2
            if y.sum() < 0:
                raise ValueError("negative")
            done = True
        return y + 1, done

    return Case(f, vector().abs(), then=[lambda: Args(-vector().abs() - 1), lambda: Args(vector().abs())] * 2)


@program
def in_a_finally_block():
    log = []

    def f(x):
        try:
            if x.sum() < 0:
                raise ValueError("negative")
            return x * 2
        finally:
            log.append(len(log))

    return Case(f, vector().abs(), then=[lambda: Args(-vector().abs() - 1), lambda: Args(vector().abs())], observe=log)


@program(whole=False)
def in_forward_with_statistics():
    norm = torch.nn.BatchNorm1d(3)

    def f(x):
        y = norm(x)
        if torch.isnan(y).any():
            raise ValueError("nan")
        return y * 2

    bad = torch.arange(6.0).reshape(2, 3)
    bad[0, 0] = float("nan")
    return Case(f, torch.arange(6.0).reshape(2, 3), then=[lambda: Args(bad), lambda: Args(torch.ones(2, 3))], observe=norm)


@program(whole=False)
def before_a_break():
    def f(x):
        if (x < 0).any():
            raise ValueError("negative")
        y = x * 2
        torch._dynamo.graph_break()
        if y.sum() > 1000:
            raise OverflowError(y.sum().item())
        return y + 1

    return Case(f, vector().abs(), then=[_negative, lambda: Args(vector().abs() + 1000), lambda: Args(vector().abs())])


@program
def of_a_distribution():
    def f(mean, deviation):
        d = torch.distributions.Normal(mean, deviation)
        sample = d.rsample()
        return d.log_prob(sample).sum(), d.entropy()

    return Case(
        f,
        vector(),
        vector().abs() + 1,
        then=[lambda: Args(vector(), -vector().abs() - 1), lambda: Args(vector(), vector().abs() + 1)],
    )


@program
def of_a_categorical():
    def f(logits):
        d = torch.distributions.Categorical(logits=logits)
        return d.log_prob(torch.tensor(1)), d.entropy(), d.probs

    return Case(f, vector(), then=[lambda: Args(vector() * float("nan")), lambda: Args(vector() + 1)])


@program
def swallowed_by_a_property():
    class Lazy:
        def __init__(self, x):
            self.x = x

        @property
        def positive(self):
            if self.x.sum() < 0:
                raise AttributeError("positive")
            return self.x * 2

    def f(x):
        return getattr(Lazy(x), "positive", None), hasattr(Lazy(x), "positive"), x + 1

    return Case(f, vector().abs(), then=[lambda: Args(-vector().abs() - 1), lambda: Args(vector().abs())] * 2)


@program
def code_that_is_replaced():
    def check(x):
        if x.sum() < 0:
            raise ValueError("negative")
        return x

    def lenient(x):
        if x.sum() < 0:
            return x - 5
        return x

    def f(x):
        return check(x) * 2

    def replace():
        check.__code__ = lenient.__code__
        return Args(-vector().abs() - 1)

    return Case(f, vector().abs(), then=[_negative, replace, lambda: Args(vector().abs())])


@program
def of_an_index():
    table = torch.arange(12.0).reshape(4, 3).requires_grad_()

    def f(index):
        if (index >= table.shape[0]).any() or (index < 0).any():
            raise IndexError(index.max().item())
        return table[index] * 2, torch.nn.functional.embedding(index, table), torch.gather(table, 0, index[:, None])

    good, large, negative = torch.tensor([1, 3]), torch.tensor([1, 10**9]), torch.tensor([-(10**9), 0])
    return Case(f, good, then=[lambda: Args(large), lambda: Args(negative), lambda: Args(good + 0)])


@program
def of_a_probability():
    def f(p):
        assert ((p >= 0) & (p <= 1)).all()
        return torch.bernoulli(p), torch.nn.functional.binary_cross_entropy(p, torch.ones(3)), torch.multinomial(p, 1)

    good = torch.tensor([0.25, 0.5, 0.75])
    return Case(f, good, then=[lambda: Args(good * 9), lambda: Args(-good), lambda: Args(good * 0.5)])


@program
def checks_of_torch_itself():
    def f(x, q):
        return torch.quantile(x, q) + 1, torch.nanquantile(x, q)

    q = torch.tensor([0.25, 0.5])
    return Case(f, vector(), q, then=[lambda: Args(vector() + 1, q + 0.25), lambda: Args(vector(), q + 1), lambda: Args(vector(), q + 0.5)])


@program
def weights_that_torch_checks():
    def f(x, weights):
        return torch.cov(x, fweights=weights)

    x = torch.arange(8.0).view(2, 4).sin()
    weights = torch.tensor([1, 2, 1, 3])
    return Case(f, x, weights, then=[lambda: Args(x + 1, weights + 1), lambda: Args(x, weights - 2), lambda: Args(x, weights)])


@program
def checks_of_torch_behind_writes():
    """The results of a call whose check says otherwise are written nowhere; what the function wrote before it stays."""

    def f(x, q, out, count):
        count.add_(1)
        torch.quantile(x, q, 0, out=out)
        out.mul_(2)
        return torch.nanquantile(x, q, 0) + out, count * 2

    def with_quantiles(*numbers):
        out, count = torch.full((len(numbers), 4), 7.0), torch.arange(3.0)
        return Args(torch.arange(12.0).view(3, 4).sin(), torch.tensor(numbers), out, count)

    calls = [(0.5, 0.25), (0.5, 2.0), (1.0, 0.0), (-1.0, 0.5), (0.5, 0.75)]
    then = [lambda c=c: with_quantiles(*c) for c in calls[1:]]
    return Case(f, *with_quantiles(*calls[0]).args, then=then, versions=True, forward_only=True)


@program
def quantiles_of_what_has_a_history():
    def f(x, q):
        y = torch.quantile(x, q, 0)
        return y, torch.nanquantile(x.tanh(), q) * 2, y._version

    x, q = torch.arange(12.0).view(3, 4).sin().requires_grad_(), torch.tensor([0.2, 0.9], requires_grad=True)
    return Case(f, x, q)
