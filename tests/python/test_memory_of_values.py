"""Values die after their last reader: a compiled function needs no more memory at a time than eager."""

import framefuse
import torch
from peak_memory import peak_bytes


def test_operators_of_one_step_free_what_they_made():
    # Views and products without a kernel between them run as one step.
    def f(x, w):
        for _ in range(20):
            x = (x.t() @ w).t()
        return x

    x, w = torch.randn(256, 256), torch.randn(256, 256) / 16
    compiled = framefuse.compile(f)
    torch.testing.assert_close(compiled(x, w), f(x, w))
    assert peak_bytes(compiled, x, w) <= peak_bytes(f, x, w) + 4096


def test_steps_free_what_no_later_one_reads():
    def f(x, w):
        for _ in range(10):
            x = torch.sin((x @ w).view(64, -1).view(256, 256)) + x
        return x

    x, w = torch.randn(256, 256), torch.randn(256, 256) / 16
    compiled = framefuse.compile(f)
    torch.testing.assert_close(compiled(x, w), f(x, w), rtol=1e-4, atol=1e-4)
    assert peak_bytes(compiled, x, w) <= peak_bytes(f, x, w) + 4096


def test_a_step_frees_what_another_made_when_it_has_read_it():
    # The two products and the view are one step; the first product is the last to read what the kernel made.
    def f(x, w):
        return (torch.sin(x @ w) @ w).t() @ w

    x, w = torch.randn(256, 256), torch.randn(256, 256) / 16
    compiled = framefuse.compile(f)
    torch.testing.assert_close(compiled(x, w), f(x, w), rtol=1e-4, atol=1e-4)
    assert peak_bytes(compiled, x, w) <= peak_bytes(f, x, w) + 4096
