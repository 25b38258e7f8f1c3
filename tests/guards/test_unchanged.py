"""Programs large enough that what is known to be unchanged is passed over: every change is seen all the same."""

import pytest
from description import Guards
from subjects import Plain


def store_many_times(holder, values):
    """Often enough for the interpreter to specialise the store for the class; ends with the last value."""
    for value in values:
        holder.n = value


@pytest.mark.parametrize("writes", [1, 3, 40])
def test_many_instances_one_of_which_is_written(writes):
    """Enough dicts that what is known to be unchanged is skipped; a dict may change between any two checks, or always."""
    holders = [Plain() for _ in range(40)]
    for number, holder in enumerate(holders):
        holder.__dict__.update(n=number, other=None)

    def function(x):
        pass

    g = Guards(function, "x")
    root = g.local(0)
    g.type_is(root, list).length(root, len(holders))
    for number in range(len(holders)):
        item = g.item(root, number)
        g.type_is(item, Plain).equals(g.attr(item, "n"), number)
    program = g.build()
    holds = lambda: program.check(function, (holders,))[0]
    assert holds() and holds()
    for number in (0, 7, 39, 7):
        written = holders[number]
        for _ in range(10):
            store_many_times(written, [*range(1000, 1000 + writes)])
            assert not holds()
            store_many_times(written, [*range(1000, 999 + writes), number])
            assert holds() and holds()
        written.__dict__["n"] = "another"
        assert not holds()
        written.__dict__ = {"n": number}
        assert holds() and holds()
        del written.n
        assert not holds()
        written.n = number
        assert holds()
        holders[number] = Plain()
        assert not holds()
        holders[number].n = number
        assert holds() and holds()


@pytest.mark.parametrize("writes", [1, 3, 40])
def test_many_dicts_one_of_which_is_written(writes):
    """Dicts in a dict in a dict: their own steps are left out while nothing is known to have changed."""
    tables = {number: {"n": {"value": number}, "other": None} for number in range(40)}

    def function(x):
        pass

    g = Guards(function, "x")
    root = g.local(0)
    g.type_is(root, dict)
    for number in tables:
        table = g.item(root, number)
        g.type_is(table, dict)
        inner = g.item(table, "n")
        g.type_is(inner, dict).equals(g.item(inner, "value"), number)
        g.length(table, 2)
    program = g.build()
    holds = lambda: program.check(function, (tables,))[0]
    assert holds() and holds()
    for number in (0, 7, 39, 7):
        table = tables[number]
        for _ in range(10):
            for i in range(writes):
                table["n"]["value"] = 1000 + i
            assert not holds()
            table["n"]["value"] = number
            assert holds() and holds()
            table["more"] = 1
            assert not holds()
            del table["more"]
            assert holds() and holds()
            table["n"] = {"value": number}
            assert holds() and holds()
            table["n"] = {"value": None}
            assert not holds()
            table["n"]["value"] = number
            assert holds()
        tables[number] = dict(table)
        assert holds() and holds()
        tables[number]["n"] = None
        assert not holds()
        tables[number] = table
        assert holds() and holds()
