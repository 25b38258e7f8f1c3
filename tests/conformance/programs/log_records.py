"""Records of Python's logging: with their place, in order, once a call; and what a level that is off leaves out."""

import contextlib
import functools
import io
import logging
import sys

import torch
from conformance.program import Args, Case, program
from conformance.sample import vector

FORMAT = "%(name)s %(levelname)s %(filename)s %(funcName)s %(lineno)d %(message)s"


def logger_into(stream, name="conformance.records", form=FORMAT):
    """A logger as it is configured in most programs: a handler with a format, nothing handed on."""
    logger = logging.getLogger(name)
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter(form))
    logger.handlers[:] = [handler]
    logger.filters[:] = []
    logger.propagate = False
    logger.disabled = False
    logger.setLevel(logging.INFO)
    return logger


def written(f, *args, form=FORMAT, then=(), **more):
    """A case of `f(*args)` that looks at what was written."""
    stream = io.StringIO()
    logger = logger_into(stream, form=form)
    changes = [functools.partial(c, logger) for c in then] or [lambda: None]
    return Case(f, *args, then=changes, look=stream.getvalue, **more)


LOGGER = logging.getLogger("conformance.records")


def step(x):
    y = x + 1
    LOGGER.warning("no argument")
    LOGGER.info("%d and %s, %5.2f", 3, "text", 0.5)
    LOGGER.debug("never")
    LOGGER.log(logging.ERROR, "by its level")
    return y * 2


@program
def records_of_a_call():
    return written(step, vector())


@program
def levels_that_change():
    return written(
        step,
        vector(),
        then=[
            lambda logger: logger.setLevel(logging.DEBUG),
            lambda logger: logger.setLevel(logging.CRITICAL),
            lambda logger: logger.setLevel(logging.INFO),
            lambda logger: setattr(logger, "disabled", True),
        ],
    )


@program
def everything_disabled_and_back():
    def f(x):
        LOGGER.info("there")
        return x.sin() if LOGGER.isEnabledFor(logging.WARNING) else x.cos()

    logging.disable(logging.NOTSET)
    return written(
        f, vector(), then=[lambda _: logging.disable(logging.CRITICAL), lambda _: logging.disable(logging.NOTSET)]
    )


def inner(x):
    LOGGER.warning("of the inner function")
    return x.sin()


@program
def records_of_inlined_functions():
    def f(x):
        LOGGER.info("before")
        y = inner(x)
        LOGGER.info("after")
        return y

    return written(f, vector())


@program
def records_in_a_loop_with_its_number():
    def f(x, n):
        for i in range(n):
            x = x + i
            LOGGER.info("round %d of %d", i, n)
        return x

    return written(f, vector(), 2, then=[lambda _: Args(vector(), 3), lambda _: Args(vector(5), 4)])


CHILD = logging.getLogger("conformance.parent.child")


@program
def handlers_of_parents():
    def f(x):
        CHILD.info("up")
        return x + 1

    stream = io.StringIO()
    logger_into(stream, "conformance.parent")
    return Case(f, vector(), then=[lambda: CHILD.setLevel(logging.ERROR)], look=stream.getvalue)


@program
def a_logger_made_in_the_function():
    def f(x):
        logging.getLogger("conformance.records.made").debug("never")
        return x + 1

    return Case(f, vector(), then=[lambda: None])


# A message of the first call: how transformers says it.
@functools.lru_cache(None)
def once(*args, **kwargs):
    LOGGER.warning(*args, **kwargs)


@program
def once_a_process():
    def f(x):
        y = x + 1
        once("only once")
        return y * 2

    once.cache_clear()
    return written(f, vector(), then=[lambda _: None, lambda _: None, lambda _: once.cache_clear()])


class Keep(logging.Handler):
    def __init__(self, seen):
        super().__init__()
        self.seen = seen
        self.records = []

    def emit(self, record):
        self.records.append((record.funcName, record.lineno, record.args, list(self.seen)))


@program(whole=False, graphs=2)
def a_handler_that_looks():
    seen = []
    handler = Keep(seen)
    logger = logger_into(io.StringIO())
    logger.handlers[:] = [handler]

    def f(x):
        seen.append(1)
        y = x + 1
        LOGGER.warning("now %s", "here")
        seen.append(2)
        return y * 2

    return Case(f, vector(), look=lambda: list(handler.records), observe=seen)


@program(whole=False)
def a_handler_added_later():
    def f(x):
        y = x + 1
        LOGGER.warning("said")
        return y * 2

    seen = Keep([])
    stream = io.StringIO()
    logger = logger_into(stream)
    return Case(
        f,
        vector(),
        then=[lambda: logger.addHandler(seen), lambda: logger.removeHandler(seen)],
        look=lambda: (stream.getvalue(), list(seen.records)),
    )


@program(whole=False)
def a_tensor_as_argument():
    def f(x):
        y = x + 1
        LOGGER.warning("y is %s", y)
        return y * 2

    return written(f, vector())


@program(whole=False)
def a_level_changed_behind_a_record():
    def f(x):
        LOGGER.warning("before")
        LOGGER.handlers[0].setLevel(logging.CRITICAL)
        LOGGER.warning("not heard")
        LOGGER.handlers[0].setLevel(logging.NOTSET)
        LOGGER.warning("after")
        return x + 1

    return written(f, vector())


@program(whole=False)
def a_handler_for_one_record():
    def f(x):
        held = list(LOGGER.handlers)
        LOGGER.warning("heard")
        LOGGER.handlers.clear()
        LOGGER.handlers.append(logging.NullHandler())
        LOGGER.warning("not heard")
        LOGGER.handlers[:] = held
        return x + 1

    return written(f, vector())


@program(whole=False)
def records_between_printed_lines():
    def f(x):
        LOGGER.warning("first")
        print("second")
        LOGGER.warning("third")
        return x + 1

    logger = logger_into(None, form="%(message)s")
    logger.handlers[0].stream = sys.stdout
    return Case(f, vector())


@program(whole=False)
def records_with_a_traceback_or_more():
    def f(x):
        try:
            raise KeyError("k")
        except KeyError:
            LOGGER.warning("caught", exc_info=True)
        LOGGER.warning("more", extra={"who": "me"})
        inner_with_level()
        return x + 1

    return written(f, vector(), form="%(funcName)s %(lineno)d %(message)s")


def inner_with_level():
    LOGGER.warning("of the caller", stacklevel=2)


@program(whole=False)
def a_message_that_does_not_format():
    def f(x):
        LOGGER.warning("%d", "text")
        return x + 1

    stream, raised = io.StringIO(), []
    logger = logger_into(stream)
    logger.handlers[0].handleError = lambda record: raised.append(record.getMessage is not None)
    return Case(f, vector(), look=stream.getvalue, observe=raised)


@program
def an_error_behind_a_record():
    def f(x, n):
        LOGGER.warning("before")
        if n > 1:
            raise ValueError("n")
        return x + n

    return written(f, vector(), 1, then=[lambda _: Args(vector(), 2), lambda _: Args(vector(), 1)])


@program(whole=False)
def a_record_in_a_checkpoint():
    def f(x):
        def g(x):
            LOGGER.warning("computed")
            return x.sin()

        y = torch.utils.checkpoint.checkpoint(g, x, use_reentrant=False)
        y.sum().backward()
        return y.detach()

    return written(f, vector().requires_grad_(), forward_only=True)


@program(whole=False)
def a_record_in_a_hook():
    def f(x):
        y = x * 2

        def hook(grad):
            LOGGER.warning("gradient")
            return grad * 2

        y.register_hook(hook)
        return y.sin()

    return written(f, vector().requires_grad_())


LAST = logging.getLogger("conformance.nobody")


def nobody_hears():
    """A logger whose records only the library's last resort gets, which writes to sys.stderr."""
    LAST.handlers.clear()
    LAST.propagate = False
    LAST.setLevel(logging.NOTSET)


@program
def records_that_no_handler_hears():
    def f(x):
        LAST.warning("to stderr")
        LAST.info("nowhere")
        return x + 1

    nobody_hears()
    return Case(f, vector(), then=[lambda: None])


@program(whole=False)
def records_into_another_stderr():
    def f(x):
        stream = io.StringIO()
        LAST.warning("before")
        with contextlib.redirect_stderr(stream):
            LAST.warning("into the text")
        LAST.warning("after")
        return x + 1, stream.getvalue()

    nobody_hears()
    return Case(f, vector(), then=[lambda: None])


@program(whole=False)
def the_module_changed_behind_a_record():
    def f(x):
        LAST.warning("heard")
        kept, logging.lastResort = logging.lastResort, logging.NullHandler()
        LAST.warning("not heard")
        logging.lastResort = kept
        return x + 1

    nobody_hears()
    return Case(f, vector(), then=[lambda: None])


@program(whole=False)
def a_format_changed_behind_a_record():
    def f(x):
        LOGGER.warning("long")
        kept = LOGGER.handlers[0].formatter
        LOGGER.handlers[0].setFormatter(logging.Formatter("%(message)s"))
        LOGGER.warning("short")
        LOGGER.handlers[0].setFormatter(kept)
        LOGGER.propagate = not LOGGER.propagate
        LOGGER.warning("both")
        LOGGER.propagate = not LOGGER.propagate
        return x + 1

    return written(f, vector())


class Named(logging.Logger):
    """A program's own logger: what it does with a record is not known."""

    def makeRecord(self, *args, **kwargs):
        record = super().makeRecord(*args, **kwargs)
        record.msg = f"<{record.msg}>"
        return record


OWN = Named("conformance.own")


@program(whole=False)
def a_logger_of_a_class_of_its_own():
    def f(x):
        OWN.warning("by its own class")
        return x + 1

    stream = io.StringIO()
    OWN.handlers[:] = [logging.StreamHandler(stream)]
    return Case(f, vector(), look=stream.getvalue)


@program
def records_of_a_generator_and_a_class():
    class Counter:
        def __init__(self, n):
            LOGGER.info("made %d", n)
            self.n = n

        def __len__(self):
            LOGGER.info("counted")
            return self.n

    def rounds(n):
        for i in range(n):
            LOGGER.info("round %d", i)
            yield i

    def f(x):
        y = x + len(Counter(2))
        for i in rounds(2):
            y = y + i
        return y + sum([i for i in sorted([2, 1], key=lambda i: LOGGER.info("key %d", i) or i)])

    return written(f, vector())


@program(whole=False)
def a_filter_of_the_program():
    def f(x):
        LOGGER.warning("seen by the filter")
        x = x + 1
        seen.append("after")
        return x

    seen = []
    case = written(f, vector())
    LOGGER.filters[:] = [lambda record: seen.append(record.getMessage()) or True]
    return case


@program
def a_handler_with_the_flush_of_its_stream():
    def f(x):
        LOGGER.warning("flushed")
        return x + 1

    case = written(f, vector())
    LOGGER.handlers[0].flush = LOGGER.handlers[0].stream.flush
    return case


@program(whole=False)
def a_handler_with_a_flush_of_its_own():
    def f(x):
        LOGGER.warning("flushed")
        flushed.append("behind")
        return x + 1

    flushed = []
    case = written(f, vector())
    LOGGER.handlers[0].flush = lambda: flushed.append("flush")
    return case
