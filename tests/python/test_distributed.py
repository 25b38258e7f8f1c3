"""torch.distributed through framefuse, on two processes of a gloo group: docs/distributed.md says what holds."""

import multiprocessing

import distributed_programs as programs
import pytest
import sharded_programs as sharded
import torch
import torch.distributed as dist

pytestmark = [
    pytest.mark.compiles_nothing("compiles in processes of its own"),
    pytest.mark.skipif(not dist.is_available() or not dist.is_gloo_available(), reason="needs gloo"),
]

SECONDS = 120  # of one task; then its processes are killed
CLOSE = 2e-6


class Ranks:
    def __init__(self, folder):
        spawn = multiprocessing.get_context("spawn")
        self.pipes, self.processes = [], []
        for rank in range(programs.WORLD):
            ours, theirs = spawn.Pipe()
            self.pipes.append(ours)
            self.processes.append(spawn.Process(target=programs.serve, args=(rank, str(folder), theirs), daemon=True))
            self.processes[-1].start()

    def run(self, name, *args, **options):
        """What the function of distributed_programs.py returns on each rank."""
        for pipe in self.pipes:
            pipe.send((name, args, options))
        answers = []
        for rank, pipe in enumerate(self.pipes):
            if not pipe.poll(SECONDS):
                self.kill()
                pytest.fail(f"rank {rank} hangs in {name}{args}")
            answers.append(pipe.recv())
        for right, answer in answers:
            assert right, answer
        return [answer for _, answer in answers]

    def kill(self):
        for process in self.processes:
            process.kill()
            process.join()

    def stop(self):
        for pipe, process in zip(self.pipes, self.processes):
            if process.is_alive():
                pipe.send(None)
            process.join(2)
        self.kill()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    started = []
    yield started, tmp_path_factory
    for ranks in started:
        ranks.stop()


@pytest.fixture
def ranks(shared):
    started, folders = shared
    if not started or not all(p.is_alive() for p in started[-1].processes):
        started.append(Ranks(folders.mktemp("ranks")))
    return started[-1]


def check(answers, graphs, breaks, fallbacks=()):
    """`fallbacks`: the kinds that may be counted."""
    for difference, said in answers:
        assert difference < CLOSE
        assert said.get("graphs", 0) == graphs and said.get("graph_breaks", 0) == breaks, said
        kinds = {name.removeprefix("eager_fallbacks.") for name in said if name.startswith("eager_fallbacks.")}
        assert kinds <= {"no_tensor_work", "idle_rest", "idle_again", *fallbacks}, said


OPTIONS = {
    "plain": {},
    "unused": {"kind": "spare", "find_unused_parameters": True},
    "static": {"static_graph": True},
    "views": {"gradient_as_bucket_view": True},
    "buckets": {"bucket_cap_mb": 0.001},
    "no_sync": {"unsynced": 2},
    "sequential": {"kind": "sequential"},
}


@pytest.mark.parametrize("options", OPTIONS)
def test_data_parallel_around_a_compiled_module(ranks, options):
    check(ranks.run("data_parallel", "inside", **OPTIONS[options]), graphs=1, breaks=0)


@pytest.mark.parametrize("options", OPTIONS)
def test_compiled_around_data_parallel(ranks, options):
    answers = ranks.run("data_parallel", "around", **OPTIONS[options])
    check(answers, graphs=1, breaks=1)
    assert "what DistributedDataParallel does around a module runs as Python" in answers[0][1]["log"]


def test_gradients_are_reduced_while_others_are_computed(ranks):
    for buckets, products_after in ranks.run("order_of_backward"):
        assert buckets > 3 and products_after > 5


def test_fully_sharded_blocks(ranks):
    check(ranks.run("fully_sharded", "blocks"), graphs=1, breaks=0)


@pytest.mark.parametrize("kind", ["net", "sequential"])
def test_compiled_around_a_fully_sharded_model(ranks, kind):
    answers = ranks.run("fully_sharded", "around", kind)
    for difference, said in answers:
        assert difference < CLOSE and said["graphs"] >= (3 if kind == "net" else 1), said
    assert "its hooks run as Python, and the forward of each module that it wraps" in answers[0][1]["log"]


@pytest.mark.parametrize("place", ["around", "blocks"])
def test_tensor_parallel(ranks, place):
    check(ranks.run("tensor_parallel", place), graphs=1 if place == "around" else 3, breaks=0)


@pytest.mark.parametrize("place", ["around", "blocks"])
@pytest.mark.parametrize("way", ["plain", "sequence"])
def test_parallelized_blocks(ranks, way, place):
    for wrong, said in ranks.run("with_dtensors", "trained", way, place):
        assert not wrong and said["bugs"] == 0, (wrong, said)
        # With gradients and without; hooks have numbers of their own in each block.
        assert said["graphs"] == (2 if place == "around" else 4) and said["graph_breaks"] == 0, said


def test_parallelized_blocks_of_changing_sizes(ranks):
    for wrong, said in ranks.run("with_dtensors", "trained", "plain", "around", sizes=(6, 4, 6, 8, 5, 6, 7)):
        assert not wrong and said["bugs"] == 0 and said["graph_breaks"] == 0, (wrong, said)


@pytest.mark.parametrize("with_gradient", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("name", [f.__name__ for f in sharded.IN_ONE_GRAPH])
def test_dtensors_in_one_graph(ranks, name, with_gradient):
    for wrong, said in ranks.run("with_dtensors", "compared", name, with_gradient):
        assert not wrong, wrong
        assert said == {"graphs": 1, "graph_breaks": 0, "bugs": 0}


@pytest.mark.parametrize("name", ["by_rows", "gathered", "mixed", "facts", "weights_by_themselves"])
def test_dtensors_in_inference_mode(ranks, name):
    rules = sharded.DTensor._op_dispatcher.sharding_propagator.op_strategy_funcs
    if name == "weights_by_themselves" and torch.ops.aten.detach_.default not in rules:
        pytest.skip("eager has no rule for it in this torch")
    for wrong, said in ranks.run("with_dtensors", "compared", name, False, inference=True):
        assert not wrong, wrong
        assert said == {"graphs": 1, "graph_breaks": 0, "bugs": 0}


@pytest.mark.parametrize("with_gradient", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("name", [f.__name__ for f in sharded.IN_PIECES])
def test_dtensors_that_break(ranks, name, with_gradient):
    for wrong, said in ranks.run("with_dtensors", "compared", name, with_gradient):
        assert not wrong and said["bugs"] == 0, (wrong, said)


@pytest.mark.parametrize("what", ["optimizer", "step"])
def test_optimizers_of_dtensors(ranks, what):
    for wrong, bugs in ranks.run("with_dtensors", "stepped", what):
        assert not wrong and bugs == 0, wrong


def test_dtensors_and_an_fx_backend(ranks):
    for wrong, said in ranks.run("with_dtensors", "by_an_fx_backend"):
        assert not wrong and said["bugs"] == 0, (wrong, said)


def test_dtensors_that_change_between_calls(ranks):
    for wrong in ranks.run("with_dtensors", "replaced"):
        assert not wrong, wrong


IN_THE_GRAPH = ["all_reduce", "by_name", "gather", "scatter", "exchange", "two", "unused", "twice_the_same", "operators"]
READ_AGAIN = ["read_again", "read_again_through_a_view", "of_columns", "by_two_names"]


@pytest.mark.parametrize("name", [*IN_THE_GRAPH, *READ_AGAIN, "waited_for_by_the_way", "ranks"])
def test_functional_collectives_are_nodes(ranks, name):
    for right, said in ranks.run("compared", name):
        assert all(right) and said.get("graph_breaks", 0) == 0 and said["graphs"] == 1, said


@pytest.mark.parametrize(
    ("name", "count"), [("all_reduce", 2), ("by_two_names", 2), ("read_again", 1), ("of_columns", 0), ("gather", 1)]
)
def test_a_collective_writes_over_what_dies(ranks, name, count):
    """And a kernel over what has been waited for."""
    assert ranks.run("written_over", name) == [count, count]


@pytest.mark.parametrize("name", [n for n in IN_THE_GRAPH if n != "by_name"])
def test_functional_collectives_are_differentiated(ranks, name):
    for right, said in ranks.run("compared", name, with_gradient=True):
        assert all(right) and said["graphs"] >= 1, said


@pytest.mark.parametrize(
    ("name", "breaks"), [("in_place", 1), ("in_background", 3), ("of_an_input", 1), ("sent_around", 3)]
)
def test_other_collectives_run_between_graphs(ranks, name, breaks):
    for right, said in ranks.run("compared", name):
        assert all(right) and said["graph_breaks"] <= breaks, said
        assert "torch.distributed._functional_collectives" in said["log"]


@pytest.mark.parametrize("name", ["branches_that_raise", "counted_values"])
def test_what_a_graph_relies_on_makes_no_collective_run_again(ranks, name):
    for right, _ in ranks.run("compared", name):
        assert all(right)


def test_what_results_share_is_reduced_once_in_the_backward(ranks):
    for right, sent, eager_sent in ranks.run("histories_apart"):
        assert right and sent == eager_sent


def test_a_failure_behind_a_collective_does_not_issue_it_again(ranks):
    for error, sent, then in ranks.run("failure"):
        assert "out of bounds" in error or "out of range" in error
        assert len(sent) == 1 and then == [4.0]


def test_ranks_that_capture_apart_do_not_wait_for_each_other(ranks):
    for right in ranks.run("apart"):
        assert all(right)


def test_a_block_sharded_by_hand_is_one_graph(ranks):
    for difference, same_collectives, said in ranks.run("sharded_by_hand"):
        assert difference < CLOSE and same_collectives and said["graphs"] == 1, said
        assert said.get("graph_breaks", 0) == 0
