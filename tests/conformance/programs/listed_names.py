"""dir() of objects that say themselves what they have."""

from conformance.program import Case, program
from conformance.sample import vector


class Lists:
    names = ["b", "a"]

    def __init__(self):
        self.asked = 0

    def __dir__(self):
        self.asked += 1
        yield from self.names


@program
def names_from_a_generator():
    lists = Lists()

    def f(x):
        return x * len(dir(lists)), dir(lists), lists.asked

    return Case(f, vector(), observe=lists, then=[lambda: setattr(lists, "names", ("z", "c", "y"))])


@program
def new_list_each_time():
    class Keeps:
        def __init__(self):
            self.kept = ["b", "a", "c"]

        def __dir__(self):
            return self.kept

    keeps = Keeps()

    def f(x):
        listed = dir(keeps)
        listed.append("new")
        return x, listed, listed is keeps.kept

    return Case(f, vector(), observe=keeps)


@program
def names_of_an_object_are_not_asked():
    lists = Lists()
    lists.__dir__ = lambda: ["own"]

    def f(x):
        return x, dir(lists)

    return Case(f, vector())


@program
def method_changed_between_calls():
    class Local(Lists):
        pass

    local = Local()

    def f(x):
        return x, dir(local)

    return Case(
        f, vector(), then=[lambda: setattr(Local, "__dir__", lambda self: "cab"), lambda: delattr(Local, "__dir__")]
    )


@program
def errors_of_the_method():
    class Fails:
        def __dir__(self):
            raise KeyError("no names")

    class Number:
        def __dir__(self):
            return 3

    class Mixed:
        def __dir__(self):
            return ["a", 1]

    def f(x):
        texts = []
        for cls in (Fails, Number, Mixed):
            try:
                dir(cls())
            except (KeyError, TypeError) as error:
                texts.append(f"{type(error).__name__}: {error}")
        return x, texts

    return Case(f, vector())


@program(whole=False)
def objects_that_do_not_say():
    class Plain:
        def __init__(self):
            self.n = 1

    plain = Plain()

    def f(x):
        here = 1
        return x * here, "n" in dir(plain), "append" in dir([]), dir()

    return Case(f, vector(), then=[lambda: setattr(plain, "m", 2), lambda: delattr(plain, "n")])


@program
def containers_that_hold_themselves_as_text():
    def f(x):
        items = [1]
        items.append(items)
        table = {"a": items}
        table["b"] = table
        return x, repr(items), repr(table), str([items, items]), f"{table}"

    return Case(f, vector())
