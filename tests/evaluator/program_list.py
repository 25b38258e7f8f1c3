"""The list of the evaluator tests' programs, and what they log their effects with."""

PROGRAMS = []


def program(function):
    PROGRAMS.append(function)
    return function


class Recorder:
    """A context manager, container, descriptor owner and iterator that logs what is done to it."""

    def __init__(self, log, swallow=()):
        self.log = log
        self.swallow = swallow
        self.items = {}

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, value, traceback):
        self.log.append(("exit", kind and kind.__name__))
        return kind is not None and issubclass(kind, self.swallow)

    def __getitem__(self, key):
        self.log.append(("get", key))
        return self.items[key]

    def __setitem__(self, key, value):
        self.log.append(("set", key, value))
        self.items[key] = value

    def __delitem__(self, key):
        self.log.append(("delete", key))
        del self.items[key]

    def __contains__(self, key):
        self.log.append(("contains", key))
        return key in self.items

    def __bool__(self):
        self.log.append("bool")
        return len(self.items) > 0

    def __iter__(self):
        self.log.append("iter")
        return iter(sorted(self.items))

    @property
    def size(self):
        self.log.append("size")
        return len(self.items)
