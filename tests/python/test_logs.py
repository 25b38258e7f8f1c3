"""set_logs, FRAMEFUSE_LOGS and capture_logs: what is on is written, what is wrong is answered with the list."""

import framefuse
import pytest
from framefuse import _C


@pytest.mark.compiles_nothing("about settings and names")
def test_every_artifact_is_documented():
    logs = framefuse.list_logs()
    assert {"bytecode", "guards", "recompiles", "graph_breaks", "graph", "output_code"} <= set(logs)
    assert all(logs.values())


@pytest.mark.compiles_nothing("about settings and names")
def test_capture_collects_what_is_on():
    with framefuse.capture_logs("guards") as records:
        _C.write_log("guards", "x is y")
        _C.write_log("cache", "hit")
    assert records == [("guards", "x is y")]


@pytest.mark.compiles_nothing("about settings and names")
def test_switches():
    framefuse.set_logs(all=False, cache=True)
    with framefuse.capture_logs() as records:
        _C.write_log("guards", "x is y")
        _C.write_log("cache", "hit")
    assert records == [("cache", "hit")]
    framefuse.set_logs(all=True, cache=False)
    with framefuse.capture_logs() as records:
        _C.write_log("guards", "x is y")
        _C.write_log("cache", "hit")
    assert records == [("guards", "x is y")]


@pytest.mark.compiles_nothing("about settings and names")
def test_written_to_stderr(capfd):
    framefuse.set_logs(guards=True)
    _C.write_log("guards", "x is y")
    assert capfd.readouterr().err == "[framefuse guards] x is y\n"


@pytest.mark.compiles_nothing("wrong arguments are refused before anything is compiled")
def test_wrong_arguments():
    with pytest.raises(ValueError, match="unknown log artifact 'guard'; the artifacts are: bytecode, .*guards.* and all"):
        framefuse.set_logs(guard=True)
    with pytest.raises(TypeError, match=r"set_logs\(guards=…\) takes True or False"):
        framefuse.set_logs(guards=1)
    with pytest.raises(ValueError, match="unknown log artifact 'x'"), framefuse.capture_logs("x"):
        pass


@pytest.mark.compiles_nothing("about settings and names")
def test_nothing_is_switched_by_a_wrong_call():
    framefuse.set_logs(all=False)
    with pytest.raises(ValueError):
        framefuse.set_logs(all=True, guard=True)
    assert _C.get_log_mask() == 0


@pytest.mark.compiles_nothing("runs in a process of its own")
def test_environment(fresh_python):
    program = "import framefuse; print(framefuse._C.get_log_mask() != 0)"
    assert fresh_python(program, FRAMEFUSE_LOGS="graph_breaks,-bugs") == "True\n"
    program = """
try:
    import framefuse
except ValueError as error:
    print(error)
"""
    assert fresh_python(program, FRAMEFUSE_LOGS="guard").startswith("FRAMEFUSE_LOGS: unknown log artifact 'guard'")
