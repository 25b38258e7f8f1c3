"""Exceptions: try in every form, chaining, notes, groups, traceback lines, effects before an error."""

import traceback

import torch

from conformance.program import Args, Case, program
from conformance.sample import matrix, vector


class Failure(Exception):
    """An exception with state of its own."""

    def __init__(self, value, code=0):
        super().__init__(value, code)
        self.code = code


@program
def try_without_error():
    def f(x):
        steps = []
        try:
            y = x + 1
            steps.append("body")
        except ValueError:
            steps.append("except")
        else:
            steps.append("else")
        finally:
            steps.append("finally")
        return y, steps

    return Case(f, vector())


@program
def raise_and_catch():
    def f(x):
        try:
            raise ValueError("no", 3)
        except (KeyError, ValueError) as error:
            return x * len(error.args), error.args, str(error)

    return Case(f, vector())


@program
def name_is_deleted_after_except():
    def f(x):
        error = 1
        try:
            raise KeyError("k")
        except KeyError as error:  # noqa: F841
            y = x + 1
        try:
            return error
        except UnboundLocalError as unbound:
            return y, str(unbound)

    return Case(f, vector())


@program(whole=False)
def escapes_with_effects_before():
    def f(x, log):
        log.append(x + 1)
        y = x * 2
        x.add_(1)
        raise Failure("after effects", code=len(log))

    return Case(f, vector(), [], then=[lambda: None])


@program(whole=False)
def escapes_from_three_frames():
    def inner(x):
        if x.dim() == 1:
            raise LookupError("deep")
        return x

    def middle(x):
        y = x * 2
        return inner(y)

    def f(x):
        z = x + 1
        return middle(z)

    return Case(f, vector(), then=[lambda: Args(matrix())])


@program
def caught_two_frames_up():
    def inner(x):
        raise Failure("inner", code=4)

    def middle(x):
        return inner(x) + 1

    def f(x):
        try:
            return middle(x)
        except Failure as error:
            return x * error.code

    return Case(f, vector())


@program(whole=False)
def raise_from():
    def f(x):
        try:
            {}["k"]
        except KeyError as error:
            raise ValueError("bad") from error

    return Case(f, vector())


@program(whole=False)
def raise_from_none():
    def f(x):
        y = x + 1
        try:
            int("z")
        except ValueError:
            raise Failure("hidden") from None
        return y

    return Case(f, vector())


@program(whole=False)
def context_is_kept():
    def f(x):
        try:
            y = x + 1
            raise KeyError("first")
        except KeyError:
            y.missing_attribute

    return Case(f, vector())


@program
def context_and_cause_inspected():
    def f(x):
        try:
            try:
                raise KeyError("first")
            except KeyError as first:
                raise ValueError("second") from first
        except ValueError as second:
            same = second.__cause__ is second.__context__
            return x + 1, same, str(second.__cause__), second.__suppress_context__

    return Case(f, vector())


@program
def bare_raise_reraises():
    def f(x):
        steps = []
        try:
            try:
                raise KeyError("k")
            except KeyError:
                steps.append("inner")
                raise
        except KeyError as error:
            steps.append(error.args[0])
        return x, steps

    return Case(f, vector())


@program
def bare_raise_without_active():
    def f(x):
        try:
            raise
        except RuntimeError as error:
            return x + 1, str(error)

    return Case(f, vector())


@program
def raise_class_and_instance():
    def f(x):
        texts = []
        for thing in (ValueError, ValueError("v"), 3, str):
            try:
                raise thing
            except (ValueError, TypeError) as error:
                texts.append((type(error).__name__, str(error)))
        return x * 2, texts

    return Case(f, vector())


@program
def finally_overrides_return():
    def f(x, flag):
        try:
            return x + 1
        finally:
            if flag:
                return x * 100  # noqa: B012

    return Case(f, vector(), True, then=[lambda: Args(vector(), False)])


@program
def finally_swallows_exception():
    def f(x):
        for _ in range(2):
            try:
                raise ValueError
            finally:
                x = x * 2
                continue  # noqa: B012
        return x

    return Case(f, vector())


@program
def nested_finally_order():
    def f(x):
        steps = []
        try:
            try:
                steps.append(1)
                raise KeyError
            finally:
                steps.append(2)
                try:
                    raise ValueError
                except ValueError:
                    steps.append(3)
                finally:
                    steps.append(4)
        except KeyError:
            steps.append(5)
        return x + len(steps), steps

    return Case(f, vector())


@program
def exception_group_split():
    def f(x):
        caught = []
        try:
            raise ExceptionGroup("many", [ValueError(1), KeyError("k"), ExceptionGroup("in", [ValueError(2)])])
        except* ValueError as group:
            caught.append(("value", len(group.exceptions), str(group)))
        except* KeyError as group:
            caught.append(("key", [str(e) for e in group.exceptions]))
        return x * 2, caught

    return Case(f, vector())


@program(whole=False)
def exception_group_rest_escapes():
    def f(x):
        y = x + 1
        try:
            raise ExceptionGroup("many", [ValueError(1), OSError("k")])
        except* ValueError:
            y = y * 2
        return y

    return Case(f, vector())


@program
def except_star_on_plain_exception():
    def f(x):
        try:
            raise ValueError("plain")
        except* ValueError as group:
            kind = type(group).__name__, len(group.exceptions)
        return x, kind

    return Case(f, vector())


@program(whole=False)
def notes_added():
    def f(x):
        try:
            raise Failure("with notes")
        except Failure as error:
            error.add_note(f"dim {x.dim()}")
            error.add_note("second")
            raise

    return Case(f, vector())


@program
def exception_with_tensor_payload():
    def f(x):
        try:
            raise Failure(x + 1, code=2)
        except Failure as error:
            return error.args[0] * error.code

    return Case(f, vector())


@program
def exception_object_returned():
    def f(x):
        try:
            raise Failure("kept", code=1)
        except Failure as error:
            kept = error
        return x * kept.code, kept.args, type(kept) is Failure

    return Case(f, vector())


@program(whole=False)
def traceback_read_inside():
    def inner(x):
        raise ValueError("here")

    def f(x):
        try:
            inner(x + 1)
        except ValueError as error:
            lines = [(s.name, s.line) for s in traceback.extract_tb(error.__traceback__)]
            return x * 2, lines

    return Case(f, vector())


@program(whole=False)
def effects_between_two_errors():
    def f(x, log):
        for step in range(3):
            try:
                log.append(step)
                if step == 1:
                    raise ValueError(step)
                log.append(x * step)
            except ValueError as error:
                log.append(str(error))
            finally:
                log.append("f")
        raise KeyError(len(log))

    return Case(f, vector(), [])


@program
def exception_class_hierarchy_and_attributes():
    class Base(Exception):
        tag = "base"

    class Derived(Base):
        def __str__(self):
            return f"derived {self.args}"

    def f(x):
        try:
            raise Derived(1, 2)
        except Base as error:
            return x + 1, str(error), error.tag, isinstance(error, Derived)

    return Case(f, vector())


@program(whole=False)
def system_exit_passes_through():
    def f(x):
        try:
            y = x + 1
            raise SystemExit(3)
        except Exception:
            return y

    return Case(f, vector())


@program(whole=False)
def error_in_finally_chains():
    def f(x):
        try:
            raise ValueError("one")
        finally:
            torch.ones(2) + 1
            {}["two"]

    return Case(f, vector())


# What torch raises about a tensor without memory no real tensor gets: a capture must not follow it.
@program(whole=False)
def values_read_in_try():
    def f(x):
        try:
            y = (x * 2).numpy()
        except RuntimeError:
            return x * 5
        try:
            z = (x * 3).tolist()
        except RuntimeError:
            return x * 6
        return torch.from_numpy(y) + sum(z)

    return Case(f, vector())


@program(whole=False)
def values_changed_by_python_in_try():
    def f(x):
        try:
            y = (x.detach() * 2).apply_(lambda v: v + 1)
            z = (x.detach() * 2).map_(x.detach(), lambda v, w: v - w)
        except RuntimeError:
            return x * 5
        return y, z

    return Case(f, vector())


@program(whole=False)
def kernels_that_read_values_in_try():
    def f(x):
        try:
            packed = torch.nn.utils.rnn.pack_padded_sequence(x[:, None] * 2, torch.tensor([x.numel()]))
            made = x.new_tensor((x * 2).detach()), torch.tensor([x[0] * 2, x[1]]).sum()
        except RuntimeError as error:
            return x * 5, str(error)
        return packed.data, made

    return Case(f, vector())


@program(whole=False)
def error_of_a_loss_with_lengths():
    def f(x):
        rows = torch.stack([x, x * 2])[:, None].log_softmax(2)
        lengths = torch.tensor([2]), torch.tensor([1])
        try:
            good = torch.nn.functional.ctc_loss(rows, torch.tensor([[1]]), *lengths)
            torch.nn.functional.ctc_loss(rows, torch.tensor([[1, 1, 1]]), torch.tensor([9]), torch.tensor([3]))
        except RuntimeError as error:
            return good, type(error).__name__
        return good

    return Case(f, vector())


@program
def format_that_does_not_fit():
    def f(x):
        caught = []
        for make in (lambda: (x * 2).to(memory_format=torch.channels_last), lambda: x.clone(memory_format=torch.channels_last_3d)):
            try:
                caught.append(make())
            except RuntimeError as error:
                caught.append(str(error))
        return x + 1, caught

    return Case(f, vector())


@program(whole=False)
def values_read_as_the_last_thing():
    def f(x):
        y = x.detach() * 2
        return y.tolist()

    return Case(f, vector())
