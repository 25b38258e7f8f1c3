"""What a function does not look at is guarded by nothing: items of *args, whether a function that is asked for its signature has a __dict__."""

import inspect

import framefuse
import pytest
import torch


def captures_of(f, calls):
    """How many captures the calls made, each compared with Python's."""
    framefuse.reset()
    compiled = framefuse.compile(f)
    before = framefuse.statistics()["captures"]
    for arguments in calls:
        torch.testing.assert_close(compiled(*arguments), f(*arguments))
    return framefuse.statistics()["captures"] - before


def first(*args):
    return args[0] * 2


def first_and_number(*args):
    return args[0] * len(args)


def last_after_a_name(x, *args):
    return x + args[-1]


def all_of_them(*args):
    return args[0] + sum(a.sum() for a in args)


def handed_on(*args):
    return first(*args) + 1


def first_or_none(*args):
    return args[0] * 2 if len(args) > 0 else torch.zeros(1)


def first_of_a_kept_tuple(*args):
    kept = args
    return args[0] + len(kept)


def lists_are_unread_too(*args):
    return args[0] + args[2]


def two_with_names(*args):
    x = args[0]
    y = args[1]
    return x + y * args[0]


@pytest.mark.parametrize("f", [first, first_and_number])
def test_an_item_that_is_not_taken_may_change(f):
    x = torch.ones(3)
    others = [torch.ones(2), torch.ones(4, 5), torch.ones(2, dtype=torch.int64), torch.ones(2, requires_grad=True), None, [1], "text"]
    assert captures_of(f, [(x, other) for other in others]) == 1


def test_an_item_that_is_not_taken_may_be_one_that_no_capture_takes():
    x = torch.ones(3)
    assert captures_of(first, [(x, torch.ones(2).to_sparse()), (x, torch.ones(2))]) == 1


def test_items_that_are_taken_behind_other_values():
    x = torch.ones(3)
    assert captures_of(two_with_names, [(x, 2.0, other) for other in [torch.ones(2), torch.ones(4, 5), None, [1], "text"]]) == 1


def test_an_item_that_is_taken_is_guarded():
    assert captures_of(first, [(torch.ones(3), 1), (torch.ones(4), 1), (torch.ones(4, dtype=torch.int64), 1)]) == 3


def test_the_number_of_items_is_guarded_where_it_is_read():
    x = torch.ones(3)
    assert captures_of(first_and_number, [(x,), (x, 1), (x, 2), (x, 2, 3)]) == 2  # the second time it is a symbolic number
    assert captures_of(first_or_none, [(x,), (), (x, 2)]) == 3


def test_the_last_item():
    x = torch.ones(3)
    assert captures_of(last_after_a_name, [(x, "a", x), (x, "b", x), (x, "b", torch.ones(1)), (x, x)]) == 3


def test_the_same_tensor_in_two_places():
    x, y = torch.ones(3), torch.ones(3)
    assert captures_of(lists_are_unread_too, [(x, 1, y), (x, [2], y), (x, 1, x)]) <= 2


@pytest.mark.parametrize("f", [all_of_them, handed_on, first_of_a_kept_tuple])
def test_what_is_used_as_a_whole_is_right(f):
    x = torch.ones(3)
    captures_of(f, [(x, torch.ones(2)), (x, torch.ones(4)), (x, x), (x, torch.ones(4), torch.ones(1))])


def test_an_item_that_does_not_exist():
    framefuse.reset()
    compiled = framefuse.compile(lambda *args: args[2])
    for _ in range(2):
        with pytest.raises(IndexError, match="tuple index out of range"):
            compiled(torch.ones(1), 2)


def test_a_break_keeps_the_items():
    def f(*args):
        y = args[0] * 2
        framefuse.graph_break()
        return y + args[1]

    x = torch.ones(3)
    captures_of(f, [(x, torch.ones(3), "a"), (x, torch.ones(1), "b"), (x, 5, [3])])


def test_len_may_be_the_programs():
    namespace = {"len": lambda t: t[1]}
    exec("def f(*args):\n    return args[0] * len(args)", namespace)
    x = torch.ones(3)
    captures_of(namespace["f"], [(x, 2), (x, 3), (x, torch.ones(3))])


def test_a_function_whose_empty_dict_others_make_is_not_compiled_again():
    """As torch.compile does to the functions that it looks at."""

    def asked(a, b=2):
        return a

    def f(x):
        return x * len(inspect.signature(asked).parameters)

    framefuse.reset()
    compiled = framefuse.compile(f)
    compiled(torch.ones(3))
    before = framefuse.statistics()["captures"]
    vars(asked)
    compiled(torch.ones(3))
    assert framefuse.statistics()["captures"] == before
    asked.__signature__ = inspect.Signature()
    assert torch.equal(compiled(torch.ones(3)), f(torch.ones(3)))
