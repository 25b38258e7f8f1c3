"""Distributions of torch, which validate what they are given, and what their classes are made of: properties."""

import torch
from conformance.program import Args, Case, program
from conformance.sample import vector
from torch import distributions as D


def _bad():
    return Args(vector() * float("nan"))


@program
def categorical():
    def f(logits):
        d = D.Categorical(logits=logits)
        return d.log_prob(torch.tensor(1)), d.entropy(), d.probs, d.sample()

    return Case(f, vector(), then=[_bad, lambda: Args(vector() + 1)])


@program
def gamma():
    def f(x):
        d = D.Gamma(x.exp(), x.exp())
        return d.log_prob(x.exp()), d.mean, d.variance

    return Case(f, vector(), then=[_bad, lambda: Args(vector() + 1)])


@program
def of_a_mixture():
    def f(x):
        d = D.MixtureSameFamily(D.Categorical(logits=x), D.Normal(x, x.exp()))
        return d.log_prob(torch.tensor(0.3)), d.mean

    return Case(f, vector(), then=[_bad, lambda: Args(vector() + 1)])


@program
def transformed():
    def f(x):
        d = D.TransformedDistribution(D.Normal(x, x.exp()), [D.TanhTransform(cache_size=1)])
        sample = d.rsample()
        return sample, d.log_prob(sample)

    return Case(f, vector(), then=[_bad, lambda: Args(vector() + 1)])


@program
def divergence_of_independent_ones():
    def f(x):
        p = D.Independent(D.Normal(x, x.exp()), 1)
        q = D.Independent(D.Normal(torch.zeros_like(x), torch.ones_like(x)), 1)
        return D.kl_divergence(p, q), p.rsample(), q.log_prob(x)

    return Case(f, vector(), then=[_bad, lambda: Args(vector() + 1)])


@program(not_ways=("leaks",))  # what eager leaves to the collector it leaves at times of its own
def an_action_and_its_gradient():
    policy = torch.nn.Linear(3, 4)

    def f(x):
        d = D.Categorical(logits=policy(x))
        action = d.sample()
        loss = -d.log_prob(action) * 2 - 0.01 * d.entropy()
        loss.backward()
        return action, loss

    return Case(f, vector(), then=[_bad, lambda: Args(vector() + 1)], look=lambda: policy.weight.grad)


@program(whole=False)  # a derived property is asked for by the class
def classes_derived_from_property():
    class Named(property):
        label = "named"

    class Loud(property):
        def __get__(self, owner, cls=None):
            if owner is None:
                return self
            return ("loud", super().__get__(owner, cls))

    class Hidden(property):
        fget = None

    class Holder:
        def __init__(self, x):
            self.x = x

        @Named
        def doubled(self):
            return self.x * 2

        @Loud
        def tripled(self):
            return self.x * 3

        @Hidden
        def hidden(self):
            return self.x * 4

        empty = Named()

        @Named
        def missing(self):
            raise AttributeError("nothing")

    def f(x):
        holder = Holder(x)
        holder.__dict__["doubled"] = "own"
        try:
            holder.empty
        except AttributeError as error:
            text = str(error)
        seen = getattr(holder, "missing", "default"), hasattr(holder, "missing"), type(Holder.doubled) is Named
        return holder.doubled, holder.tripled, holder.hidden, text, seen, Holder.doubled.label

    def replace():
        Holder.doubled = Named(lambda self: self.x * 20)

    return Case(f, vector(), then=[replace, lambda: setattr(Named, "__get__", lambda self, owner, cls: "taken")])


@program
def properties_made_inside():
    class Named(property):
        def __init__(self, getter):
            super().__init__(getter)
            self.extra = 3

    def double(holder):
        """Two times."""
        return holder.x * 2

    def f(x):
        made = Named(double)

        class Holder:
            def __init__(self, x):
                self.x = x

        return made.extra, made.fget is double, isinstance(made, property), made.fget(Holder(x))

    return Case(f, vector())


@program
def tensors_taken_as_they_are():
    def f(x, n):
        same = torch.as_tensor(x)
        other = torch.as_tensor(x, dtype=torch.float64)
        whole = torch.as_tensor(n, dtype=torch.int32)
        of_list = torch.as_tensor([1.0, 2.0])
        same.add_(1)
        return same is x, other * 2, whole + 1, of_list, torch.as_tensor(data=n, device="cpu") is n, torch.as_tensor(3)

    return Case(f, vector(), torch.arange(3), then=[lambda: Args(vector().double(), torch.arange(3).int())])


@program
def draws_of_gammas():
    def f(x):
        beta, dirichlet = D.Beta(x, x + 1), D.Dirichlet(torch.stack([x, x + 1]))
        return beta.rsample(), beta.sample((2,)), dirichlet.rsample(), D.Gamma(x, x).rsample(), D.StudentT(x).rsample()

    return Case(f, vector().requires_grad_(), then=[lambda: Args(vector(3, 2.0)), lambda: Args(vector(4).double())])


@program
def draws_of_counts():
    def f(x):
        p = torch.sigmoid(x)
        return torch.binomial(x.round(), p), D.Poisson(x).sample(), D.LKJCholesky(3, x[0]).sample()

    return Case(f, vector(), then=[lambda: None, lambda: Args(vector(3, 2.0))])
