"""Kernels on the CPU use the threads that torch.set_num_threads names, and give the same bits on any number of them."""

import pathlib
import re
import threading

import pytest
import torch
import torch.nn.functional as F

import framefuse

FUNCTIONS = {
    "pointwise": lambda x: torch.tanh(x) * torch.erf(x) + torch.exp(torch.sin(x)),
    "rows": lambda x: F.layer_norm(F.softmax(x, -1), x.shape[-1:]),
    "columns": lambda x: torch.tanh(x).sum(0),
    "all": lambda x: torch.sin(x).sum(),
    "transposed": lambda x: torch.tanh(x.t()) + x,
    "many": lambda x: [torch.tanh(row) * 2 for row in x[:64].unbind()],
}


@pytest.fixture(autouse=True)
def threads_as_before():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_number_of_threads_changes_no_bit(name):
    torch.manual_seed(0)
    x = torch.randn(1536, 1536)
    compiled = framefuse.compile(FUNCTIONS[name], fullgraph=True)
    results = []
    for threads in (1, 2, 3, 5):
        torch.set_num_threads(threads)
        result = compiled(x)
        results.append(result if isinstance(result, list) else [result])
    for others in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], others, strict=True))


def nanoseconds_of_threads():
    """Processor time of each thread of this process, by its number; how loaded the machine is does not change who works."""
    return {task.name: int((task / "schedstat").read_text().split()[0]) for task in pathlib.Path("/proc/self/task").iterdir()}


def test_two_threads_work():
    x = torch.randn(2048, 2048)
    compiled = framefuse.compile(FUNCTIONS["pointwise"], fullgraph=True)
    torch.set_num_threads(2)
    compiled(x)
    before = nanoseconds_of_threads()
    for _ in range(60):
        compiled(x)
    worked = sorted(time - before.get(thread, 0) for thread, time in nanoseconds_of_threads().items())
    assert worked[-2] > 0.2 * worked[-1], worked


@pytest.mark.compiles_nothing("about the libraries in the process")
def test_one_openmp_runtime():
    """Torch's: else its number of threads would not be ours."""
    libraries = set(re.findall(r"/\S*lib[gi]?o?mp[0-9]?\S*\.so\S*", open("/proc/self/maps").read()))
    assert len(libraries) <= 1, libraries


def test_eight_threads_compile_and_run():
    """Some kernels are the same in all threads, some are a thread's own, and all run while others are compiled."""
    torch.manual_seed(0)
    framefuse.reset()
    framefuse.config.recompile_limit = 1000
    inputs = [torch.randn(64, 33 + size, requires_grad=True) for size in range(4)]
    start, wrong = threading.Barrier(8), []

    def functions(number):
        yield lambda x: F.softmax(torch.tanh(x), -1)
        yield lambda x: F.gelu(x * (number + 2)) + torch.sin(x) / (number + 1)
        yield lambda x: F.layer_norm(x, x.shape[-1:]).square().sum(0) * (number + 0.5)

    def work(number):
        try:
            start.wait()
            for function in functions(number):
                compiled = framefuse.compile(function, fullgraph=True, dynamic=False)
                for x in inputs * 3:
                    got, expected = compiled(x), function(x)
                    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
                    gradients = [torch.autograd.grad(y.sum(), x)[0] for y in (got, expected)]
                    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-4)
        except BaseException as error:
            wrong.append(f"thread {number}: {type(error).__name__}: {error}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    before = framefuse.statistics()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong, wrong
    after = framefuse.statistics()
    assert (after["bugs"], after["eager_fallbacks"]) == (before["bugs"], before["eager_fallbacks"])
    assert after["graphs"] - before["graphs"] > 8 * 4  # the threads' own functions, for each size
