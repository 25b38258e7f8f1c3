"""weakref.ref() called in a frame: of objects from outside, of those made here, and of those that end meanwhile."""

import weakref

from torch import nn

from conformance.program import Args, Case, program
from conformance.sample import vector


class Thing:
    def __init__(self, n):
        self.n = n


@program
def reference_to_an_object_from_outside():
    thing = Thing(2)

    def f(x):
        r = weakref.ref(thing)
        return x * r().n, r() is thing, type(r) is weakref.ref

    return Case(f, vector(), then=[lambda: setattr(thing, "n", 5)])


@program
def reference_kept_in_an_object():
    thing, other, holder = Thing(2), Thing(7), Thing(0)
    holder.ref = None

    def f(x, target):
        if holder.ref is None:
            holder.ref = weakref.ref(target)
            return x * 3
        return x * holder.ref().n

    return Case(
        f,
        vector(),
        thing,
        look=lambda: holder.ref() is thing,
        then=[lambda: Args(vector(), other), lambda: setattr(thing, "n", 4)],
    )


@program
def same_reference_as_an_earlier_one():
    thing = Thing(2)
    earlier = weakref.ref(thing)

    def f(x):
        return x * earlier().n, weakref.ref(thing) is earlier

    return Case(f, vector())


@program
def writes_seen_through_the_reference():
    thing = Thing(2)

    def f(x):
        r = weakref.ref(thing)
        thing.n = 3
        r().n += 1
        return x * thing.n, r().n

    return Case(f, vector(), observe=thing)


@program(whole=False)
def object_that_ends_in_between():
    table = {"a": Thing(2)}

    def f(x):
        r = weakref.ref(table["a"])
        first = r().n
        del table["a"]
        return x * first, r() is None

    return Case(f, vector(), observe=table, then=[lambda: table.__setitem__("a", Thing(5))])


@program(whole=False)
def object_that_ends_within_another():
    holder = Thing(1)
    holder.inner = Thing(2)
    holder.inner.leaf = Thing(3)

    def f(x):
        r = weakref.ref(holder.inner.leaf)
        holder.inner = None
        return x, r() is None

    def put_back():
        holder.inner = Thing(2)
        holder.inner.leaf = Thing(4)

    return Case(f, vector(), then=[put_back])


@program(whole=False)
def argument_that_is_dropped():
    def f(x, thing):
        r = weakref.ref(thing)
        n = thing.n
        thing = None
        return x * n, r() is None

    thing = Thing(3)
    return Case(f, vector(), thing)


@program(whole=False)
def reference_to_an_object_made_here():
    def f(x):
        thing = Thing(4)
        r = weakref.ref(thing)
        alive = r() is thing
        del thing
        return x, alive, r() is None

    return Case(f, vector())


@program
def references_as_keys_and_operands():
    thing, other = Thing(1), Thing(2)

    def f(x):
        table = {weakref.ref(thing): 3}
        same = weakref.ref(thing) == weakref.ref(thing)
        return x * table[weakref.ref(thing)], same, weakref.ref(other) in table, len({weakref.ref(other)})

    return Case(f, vector())


@program(whole=False)
def reference_with_a_callback():
    log = []
    table = {"a": Thing(1)}

    def f(x):
        r = weakref.ref(table["a"], lambda r: log.append("gone"))
        del table["a"]
        return x * len(log), r() is None

    return Case(f, vector(), observe=log, then=[lambda: table.__setitem__("a", Thing(5))])


@program(whole=False)
def objects_without_weak_references():
    def f(x, n):
        text = ""
        for value in (n, (1,), [2], {}):
            try:
                weakref.ref(value)
            except TypeError as error:
                text += str(error)
        return x, text

    return Case(f, vector(), 3)


class Doubles(nn.Module):
    def forward(self, x):
        return x * 2


@program
def hook_put_on_inside_and_taken_off_outside():
    model, handles = Doubles(), []

    def f(x):
        if not handles:
            handles.append(model.register_forward_hook(lambda m, a, out: out + 10))
        return model(x)

    return Case(f, vector(), look=lambda: len(model._forward_hooks), then=[lambda: handles.pop().remove(), lambda: None])


@program
def two_hooks_in_order():
    model = Doubles()

    def f(x):
        first = model.register_forward_hook(lambda m, a, out: out + 1)
        second = model.register_forward_pre_hook(lambda m, a: (a[0] * 3,))
        y = model(x)
        second.remove()
        z = model(x)
        first.remove()
        return y, z, model(x)

    return Case(f, vector(), look=lambda: len(model._forward_hooks) + len(model._forward_pre_hooks))


@program(whole=False)
def hook_as_a_context():
    model = Doubles()

    def f(x):
        with model.register_forward_hook(lambda m, a, out: out - 1, prepend=True) as handle:
            y = model(x)
            handle.id
        return y, model(x), len(model._forward_hooks)

    return Case(f, vector())


class Child(nn.Module):
    def __init__(self, parent):
        super().__init__()
        self.parent = weakref.proxy(parent)
        self.scaled = weakref.WeakMethod(parent.scaled)

    def forward(self, x):
        self.parent.calls += 1
        return self.scaled()(x) + self.parent.scale + self.parent(x)


class Parent(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.calls = 2, 0

    def scaled(self, x):
        return x * self.scale

    def forward(self, x):
        return x - self.scale


@program
def proxies_of_a_parent():
    parent = Parent()
    child = Child(parent)

    def f(x):
        return child(x), child.parent.training, hasattr(child.parent, "nothing")

    def change():
        parent.scale = 5

    return Case(f, vector(), look=lambda: parent.calls, then=[change, lambda: parent.eval() and None])


@program(whole=False)
def proxy_of_an_object_that_ends():
    things = [Thing(2)]
    holder = Thing(0)
    holder.proxy = weakref.proxy(things[0])

    def f(x):
        try:
            return x * holder.proxy.n
        except ReferenceError as error:
            return x, str(error)

    def other():
        things.append(Thing(3))
        holder.proxy = weakref.proxy(things[-1])

    return Case(f, vector(), then=[other, things.clear])


@program
def objects_by_weak_value():
    things = {"a": Thing(2), "b": Thing(3)}
    known = weakref.WeakValueDictionary(things)

    def f(x):
        x = x * known["a"].n
        try:
            return x * known["b"].n, "c" in known, known.get("c", 7)
        except KeyError as error:
            return x, str(error)

    def change():
        things["a"].n = 9

    return Case(f, vector(), then=[change, lambda: things.pop("b") and None])


@program
def objects_become_weak_values():
    things = {"a": Thing(2), "b": Thing(3)}
    known = weakref.WeakValueDictionary()

    def f(x, name):
        known[name] = things[name]
        known["same"] = things["a"]
        return x * known[name].n, len(known), sorted(known)

    def end():
        things["a"] = Thing(5)

    return Case(f, vector(), "a", then=[lambda: Args(vector(), "b"), end, lambda: things.pop("b") and Args(vector(), "a")])


@program
def objects_in_weak_containers():
    things = [Thing(2), Thing(3)]
    table, group = weakref.WeakKeyDictionary({things[0]: 4}), weakref.WeakSet([things[1]])

    def f(x, thing):
        known = thing in table, thing in group, table.get(thing, 0), len(table)
        return x * things[0].n * table[things[0]], known

    def end():
        things[1] = Thing(5)

    def change():
        table[things[0]] = 6

    return Case(
        f,
        vector(),
        things[1],
        then=[lambda: Args(vector(), things[0]), change, lambda: Args(vector(), Thing(7)), lambda: end() or Args(vector(), things[1])],
    )


@program
def weak_containers_are_written():
    thing, other = Thing(2), Thing(3)
    table, group = weakref.WeakKeyDictionary({thing: 4}), weakref.WeakSet([thing])

    def f(x):
        table[other] = table.get(thing, 0) + 1
        group.add(other)
        table.pop(thing, None)
        return x * table[other], other in group, len(table)

    def again():
        table[thing] = 7

    return Case(f, vector(), look=lambda: (table.get(thing), table.get(other), len(group)), then=[again])


@program
def a_count_for_each_object():
    thing, other = Thing(2), Thing(3)
    table = weakref.WeakKeyDictionary({thing: 4})

    def f(x, which):
        table[which] = table.get(which, 0) + 1
        return x * table[which], len(table), which in table

    return Case(
        f,
        vector(),
        thing,
        look=lambda: (list(table.values()), [key.n for key in table], table.get(other)),
        then=[lambda: None, lambda: Args(vector(), other), lambda: Args(vector(), thing), lambda: Args(vector(), Thing(7))],
    )


@program
def tensors_kept_for_each_object():
    thing, other = Thing(2), Thing(3)
    table = weakref.WeakKeyDictionary()

    def f(x, which):
        table[which] = x * which.n
        return table[which] + 1, len(table)

    return Case(
        f,
        vector(),
        thing,
        look=lambda: [table.get(thing), table.get(other)],
        then=[lambda: Args(vector(3, 2.0), thing), lambda: Args(vector(), other), lambda: Args(vector(3, 4.0), thing)],
    )


@program
def objects_are_added_to_a_weak_set():
    thing, other = Thing(2), Thing(3)
    group = weakref.WeakSet([thing])

    def f(x, which):
        known = which in group
        group.add(which)
        return x * len(group), known

    return Case(
        f,
        vector(),
        other,
        look=lambda: sorted(t.n for t in group),
        then=[lambda: None, lambda: group.discard(other), lambda: Args(vector(), Thing(9)), lambda: Args(vector(), thing)],
    )


@program
def a_weak_set_is_walked():
    things = [Thing(2)]
    group = weakref.WeakSet(things)

    def f(x):
        total = 0
        for thing in group:
            total = total + thing.n
        return x * total, things[0] in group

    def change():
        things[0].n = 5

    def grow():
        things.append(Thing(3))
        group.add(things[1])

    return Case(f, vector(), look=lambda: len(group), then=[change, grow, lambda: things.pop() and None])


@program
def what_was_added_ends():
    box = [Thing(2)]
    table, group = weakref.WeakKeyDictionary(), weakref.WeakSet()

    def f(x):
        table[box[0]] = 3
        group.add(box[0])
        return x * len(table) + len(group)

    def end():
        box[0] = Thing(4)

    return Case(f, vector(), look=lambda: (len(table), len(group)), then=[end, end, lambda: None])


@program
def objects_of_the_frame_that_live():
    class Holder:
        def __init__(self, inner):
            self.inner = inner

    def f(x, n):
        holder = Holder(Thing(n))
        inner, outer = weakref.ref(holder.inner), weakref.ref(holder)
        inner().n += 1
        return x * outer().inner.n, inner() is holder.inner

    return Case(f, vector(), 2, look=lambda: None, then=[lambda: Args(vector(), 3), lambda: Args(vector(), 4)])


@program(whole=False)
def objects_of_the_frame_that_end():
    def f(x):
        things = [Thing(1), Thing(2)]
        refs = [weakref.ref(thing) for thing in things]
        thing = things.pop()
        del thing
        lost = weakref.ref(Thing(3))
        return x * 2, refs, [r() is None for r in refs], lost() is None

    return Case(f, vector())


@program
def kept_with_what_it_refers_to():
    def f(x):
        parent, child = Thing(x * 2), Thing(x + 1)
        child.parent, parent.child = weakref.ref(parent), child
        return parent, child.parent().n + child.n

    return Case(f, vector(), look=lambda: None)


@program(whole=False)
def kept_without_what_it_refers_to():
    kept = []

    def f(x):
        thing = Thing(x * 2)
        kept.append(weakref.ref(thing))
        return thing.n + 1

    return Case(f, vector(), look=lambda: [r() is None for r in kept], then=[lambda: None])


@program
def hooks_of_a_module_of_the_frame():
    def f(x):
        model = Doubles()
        handle = model.register_forward_hook(lambda module, args, out: out + 10)
        y = model(x)
        handle.remove()
        return y, model(x), len(model._forward_hooks)

    return Case(f, vector(), then=[lambda: None, lambda: None])
