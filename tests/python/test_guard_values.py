"""Values read out of masks, ids and lengths are guarded; others break the graph (docs/architecture/guards.md)."""

import framefuse
import pytest
import torch


def change(before, *names):
    after = framefuse.statistics()
    return [after[name] - before[name] for name in names]


def mask(*items):
    return torch.tensor(items, dtype=torch.bool)


def where_all(x, m):
    if m.all():
        return x * 2
    return torch.where(m, x, 0.0)


def first_of(x, n):
    return x[: n.item()].sum()


@pytest.fixture(autouse=True)
def fresh():
    framefuse.reset()


def run(compiled, f, x, data):
    before = framefuse.statistics()
    for d in data:
        assert torch.equal(compiled(x, d), f(x, d))
    return change(before, "captures", "graph_breaks", "eager_fallbacks")


def test_a_branch_on_a_mask_has_an_entry_for_each_outcome():
    masks = [mask(1, 1, 1), mask(1, 0, 1), mask(0, 0, 0), mask(1, 1, 1)]
    assert run(framefuse.compile(where_all), where_all, torch.randn(3), masks) == [2, 0, 0]


def test_data_that_were_written_in_place_are_seen():
    x, m = torch.randn(3), mask(1, 1, 1)
    compiled = framefuse.compile(where_all)
    assert torch.equal(compiled(x, m), x * 2)
    m[1] = False
    assert torch.equal(compiled(x, m), where_all(x, m))


def test_values_that_keep_changing_become_symbols():
    lengths = [torch.tensor(n) for n in (1, 2, 3, 2, 1)]
    compiled = framefuse.compile(first_of)
    assert run(compiled, first_of, torch.arange(4.0), lengths) == [3, 0, 0]  # at the third value
    assert run(compiled, first_of, torch.arange(4.0), [torch.tensor(n) for n in (4, 0, 1, 2, 3)]) == [0, 0, 0]


def test_values_that_keep_changing_break_where_no_size_is_symbolic():
    lengths = [torch.tensor(n) for n in (1, 2, 3, 2, 1)]
    compiled = framefuse.compile(first_of, dynamic=False)
    assert run(compiled, first_of, torch.arange(4.0), lengths)[1:] == [1, 0]
    assert run(compiled, first_of, torch.arange(4.0), lengths)[0] == 0


def test_under_fullgraph_each_value_has_its_entry():
    lengths = [torch.tensor(n) for n in (1, 2, 3, 2, 1)]
    compiled = framefuse.compile(first_of, fullgraph=True)
    assert run(compiled, first_of, torch.arange(4.0), lengths) == [3, 0, 0]


def test_the_last_entries_before_the_limit_are_for_any_values():
    """Many flags that vary would otherwise end in a function that runs as Python."""

    def f(x, flags):
        for k in range(4):
            if flags[k]:
                x = x * (k + 2)
        return x + 1

    x = torch.randn(3)
    flags = [mask(*(n >> k & 1 for k in range(4))) for n in range(16)]
    compiled = framefuse.compile(f)
    captures, breaks, fallbacks = run(compiled, f, x, flags)
    assert breaks > 0 and fallbacks == 0
    assert run(compiled, f, x, flags)[0] == 0


def test_it_can_be_turned_off():
    with framefuse.config.patch(guard_values=False):
        captures, breaks, _ = run(framefuse.compile(where_all), where_all, torch.randn(3), [mask(1, 1, 1)])
    assert captures == 2 and breaks == 1


def test_what_floats_decide_breaks():
    def f(x, m):
        return x * 2 if (x * m).sum() > 0 else x

    assert run(framefuse.compile(f), f, torch.randn(3), [mask(1, 1, 1)])[1] == 1
    with pytest.raises(framefuse.Unsupported, match="value of a tensor"):
        framefuse.compile(f, fullgraph=True)(torch.randn(3), mask(1, 1, 1))


def test_whether_all_data_pass_a_test_has_an_entry_for_each_outcome():
    def f(x, d):
        return x * 2 if (d.abs() < 3).all() else x + d

    data = [torch.tensor([0.0, n, 1.0]) for n in (1, 5, 2, 7, -1)]
    assert run(framefuse.compile(f, fullgraph=True), f, torch.randn(3), data) == [2, 0, 0]
    with framefuse.config.patch(guard_values=False):
        assert run(framefuse.compile(f), f, torch.randn(3), data)[1] > 0


def test_few_numbers_that_an_object_keeps_steer():
    class Gate(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("chances", torch.tensor([1.0, 0.0]))

        def forward(self, x, n):
            return x * 2 if self.chances[n] > 0.5 else x + self.chances[n]

    gate = Gate()
    assert run(framefuse.compile(gate, fullgraph=True), gate, torch.randn(3), [0, 1, 0, 1]) == [2, 0, 0]
    gate.chances[0] = 0.25
    breaks = framefuse.statistics()["graph_breaks"]
    assert torch.equal(framefuse.compile(gate)(torch.ones(3), 0), torch.full((3,), 1.25))
    assert framefuse.statistics()["graph_breaks"] == breaks


def test_ids_that_were_written_before_break():
    def f(x, i):
        i.add_(1)
        return x[: i[0].item()]

    compiled = framefuse.compile(f)
    for n in (1, 2, 0):
        i, twin = torch.tensor([n]), torch.tensor([n])
        assert torch.equal(compiled(torch.arange(5.0), i), f(torch.arange(5.0), twin)) and torch.equal(i, twin)


def test_sizes_that_follow_from_a_mask():
    def f(x, m):
        return x[m].sum() + x[m].shape[0]

    masks = [mask(1, 0, 1), mask(0, 1, 1), mask(1, 1, 1)]
    assert run(framefuse.compile(f), f, torch.arange(6.0).view(3, 2), masks) == [2, 0, 0]


def test_gradients_go_through_a_mask():
    def f(w, m):
        return (w[m] ** 2).sum() + torch.masked_select(w, m[:, None]).prod()

    w = torch.randn(3, 2, requires_grad=True)
    compiled = framefuse.compile(f)
    for m in (mask(1, 0, 1), mask(0, 0, 1)):
        wanted = torch.autograd.grad(f(w, m), w)[0]
        assert torch.equal(torch.autograd.grad(compiled(w, m), w)[0], wanted)


def test_the_recompile_names_the_expression_and_the_line(capfd):
    compiled = framefuse.compile(where_all)
    compiled(torch.randn(3), mask(1, 1, 1))
    framefuse.set_logs(recompiles=True)
    try:
        compiled(torch.randn(3), mask(1, 0, 1))
    finally:
        framefuse.set_logs(recompiles=False)
    text = capfd.readouterr().err
    line = where_all.__code__.co_firstlineno + 1
    assert f"torch.all(L['m']) == True failed: False (test_guard_values.py:{line})" in text


def full_of(x, m):
    if m.sum() == m.numel():
        return x * 2
    return x * m


def cut(x, m, n):
    seen = m[torch.arange(n)]
    return x * 2 if seen.sum() == seen.numel() else x - 1


def test_a_truth_that_follows_from_sizes_serves_all_sizes():
    compiled, before = framefuse.compile(full_of), framefuse.statistics()
    for n in range(4, 14):
        x = torch.randn(n)
        assert torch.equal(compiled(x, torch.ones(n, dtype=torch.bool)), x * 2)
    assert change(before, "captures", "graph_breaks", "eager_fallbacks") == [2, 0, 0]
    for n in range(4, 14):
        x, m = torch.randn(n), torch.arange(n) != n // 2
        assert torch.equal(compiled(x, m), x * m)
    assert change(before, "captures", "graph_breaks", "eager_fallbacks") == [3, 0, 0]


def test_a_truth_that_follows_from_a_number_serves_all_numbers():
    compiled, before = framefuse.compile(cut), framefuse.statistics()
    x, m = torch.randn(12), torch.arange(12) < 8
    for n in range(3, 13):
        assert torch.equal(compiled(x, m, n), cut(x, m, n))
    assert change(before, "captures", "graph_breaks", "eager_fallbacks") == [3, 0, 0]


def test_a_truth_of_sizes_names_them():
    compiled = framefuse.compile(full_of)
    for n in (4, 5):
        compiled(torch.randn(n), torch.ones(n, dtype=torch.bool))
    with framefuse.capture_logs("recompiles") as lines:
        compiled(torch.randn(6), torch.zeros(6, dtype=torch.bool))
    assert any("torch.eq(torch.sum(L['m']" in str(line) and "L['m'].size(0)" in str(line) and "failed: False" in str(line) for line in lines), lines
