"""Python attributes that a program sets on tensors: its arguments, parameters and what it makes."""

import torch

from conformance.program import Args, Case, program
from conformance.sample import Loud, leaf, vector


@program
def notes_on_results_and_arguments():
    def f(x):
        y = x + 1
        y.tag = "made"
        y.source = x
        x.note = [1, y.tag]
        x.note.append(y)
        return y, y.source is x, x.note, hasattr(y, "other"), hasattr(x, "tag")

    return Case(f, vector(), then=[lambda: None])


@program
def note_that_is_read_and_written():
    x = vector()
    x.count = 1

    def f(x):
        before = getattr(x, "count", 0)
        x.count = before + 1
        return x * x.count, before

    return Case(f, x, then=[lambda: None, lambda: delattr(x, "count"), lambda: Args(vector())], look=lambda: vars(x))


@program
def note_that_hides_a_method():
    x = vector()

    def f(x):
        return x.sum() * 2

    def hide():
        x.sum = lambda: vector(1, 50.0)

    return Case(f, x, then=[hide, lambda: delattr(x, "sum"), hide, lambda: Args(vector())])


@program
def note_that_hides_one_method_and_then_another():
    x = vector()
    x.mean = 3

    def f(x):
        return x.sum() * x.mean

    def hide():
        x.sum = lambda: vector(1, 50.0)

    return Case(f, x, then=[hide, lambda: delattr(x, "sum")])


@program
def note_written_where_a_method_was_read():
    def f(x):
        try:
            y = x + getattr(x, "t", 1)
        except TypeError:
            y = x * 3
        x.t = y
        return y + x.t

    return Case(f, vector(), then=[lambda: None, lambda: None, lambda: Args(vector(3, 5.0))])


@program
def note_deleted():
    x = vector()
    x.first, x.second = 1, 2

    def f(x):
        del x.first
        texts = []
        for name in ("first", "third"):
            try:
                delattr(x, name)
            except AttributeError as error:
                texts.append(str(error))
            try:
                getattr(x, name)
            except AttributeError as error:
                texts.append((str(error), error.name))
        y = x * 2
        y.gone = 1
        del y.gone
        x.second = y
        return y, texts, hasattr(y, "gone")

    def again():
        x.first = 3

    return Case(f, x, then=[again], look=lambda: list(vars(x)))


@program
def note_on_one_of_two_names():
    def f(x, y):
        x.mark = 5
        return x + y, getattr(y, "mark", None)

    def same():
        x = vector()
        return Args(x, x)

    def views():
        x = vector()
        return Args(x, x[:])

    return Case(f, vector(), vector(), then=[same, views, same, lambda: Args(vector(), vector())])


@program
def notes_on_parameters():
    model = torch.nn.Linear(2, 2)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.arange(p.numel()).reshape(p.shape) / 4)

    def f(x):
        for name, p in model.named_parameters():
            p.own_name = name
            p.steps = getattr(p, "steps", 0) + 1
        return model(x), [p.own_name for p in model.parameters()]

    return Case(f, vector(2), observe=model, then=[lambda: None])


@program(whole=False)
def notes_around_a_break():
    def f(x):
        y = x + 1
        y.tag, x.tag = "made", [y]
        torch._dynamo.graph_break()
        z = x.tag[0] * 2
        z.of = y
        return z, y.tag, z.of is x.tag[0]

    return Case(f, vector())


@program
def notes_do_not_follow_the_values():
    def f(x):
        y = x * 2
        y.tag = 1
        found = [hasattr(t, "tag") for t in (y + 1, y[:], y.clone(), y.detach(), y.view(-1), y.to(y.dtype))]
        y.add_(1).tag = 2
        return y, found, y.tag, y.contiguous().tag

    return Case(f, vector())


@program
def notes_with_gradients():
    def f(x):
        y = x * x
        y.loss = y.sum()
        y.retain_note = y.loss * 2
        return y.loss + y.retain_note, y

    return Case(f, leaf())


@program(whole=False)
def note_that_a_property_takes():
    def f(x):
        y = x * 1
        y.data = x + 1
        y.names_of_mine = "a"
        try:
            y.shape = (1,)
        except AttributeError as error:
            return y, str(error)
        return y

    return Case(f, vector())


@program(whole=False)
def note_ends_an_object():
    log = []
    x = vector()
    x.held = Loud(log)

    def f(x):
        x.held = 1
        return x + 1, list(log)

    return Case(f, x, observe=[log])
