"""Packages run by the example program in C++, without Python: bit by bit what framefuse.load gives in Python.

The program is built with CMake, as a user would, against the library of the build folder that the package is imported from.
"""

import pathlib
import subprocess

import exported_models
import framefuse
import numpy
import pytest
import torch
from torch.utils import _pytree

ROOT = pathlib.Path(__file__).parents[2]
BUILD = pathlib.Path(framefuse._C.__file__).parents[2]
MODELS = exported_models.models()
NAMES = {torch.float32: "f32", torch.float64: "f64", torch.int64: "i64", torch.int32: "i32", torch.bool: "bool", torch.bfloat16: "bf16"}
TYPES = {name: dtype for dtype, name in NAMES.items()}

needs_library = pytest.mark.skipif(
    not (BUILD / "runner" / "libframefuse_run.so").exists(), reason="framefuse is not imported from a build folder with the runner"
)


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run_package")
    configure = ["cmake", "-S", ROOT / "examples" / "run_package", "-B", folder, f"-DFRAMEFUSE_BUILD={BUILD}", "-DCMAKE_BUILD_TYPE=Release"]
    for command in (configure, ["cmake", "--build", folder]):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=250)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder / "run_package"


def bytes_of(tensor):
    return tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def run(program, package, arguments, folder, rounds=1):
    """What the program gives for these arguments, and what it says."""
    words = []
    for i, tensor in enumerate(arguments):
        file = folder / f"argument{i}"
        file.write_bytes(bytes_of(tensor))
        words.append(f"{file}:{NAMES[tensor.dtype]}:{'x'.join(map(str, tensor.shape))}")
    done = subprocess.run(
        [program, package, str(rounds), folder / "result", *words], capture_output=True, text=True, timeout=60, env={"OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr
    results = []
    for i, line in enumerate(done.stdout.splitlines()):
        dtype, *sizes = line.split()
        data = numpy.fromfile(folder / f"result{i}", dtype=numpy.uint8)
        results.append(torch.from_numpy(data).view(TYPES[dtype]).reshape([int(n) for n in sizes]))
    return results, done.stderr


@needs_library
@pytest.mark.parametrize("name", MODELS)
def test_the_runner_has_the_same_bits(name, program, tmp_path):
    model, dynamic, example, calls = MODELS[name]
    path = tmp_path / "model.ffpkg"
    framefuse.export(model, dynamic=dynamic)(*example).package(path)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for arguments in calls[:4]:
            expected = _pytree.tree_leaves(framefuse.load(path)(*arguments))
            results, _ = run(program, path, arguments, tmp_path)
            assert len(results) == len(expected)
            for result, own in zip(results, expected, strict=True):
                assert result.shape == own.shape and bytes_of(result) == bytes_of(own)
    finally:
        torch.set_num_threads(threads)


@needs_library
def test_results_come_in_the_order_of_the_call(program, tmp_path):
    weight = torch.randn(3)

    def f(x):
        y = x * 2
        return {"given": x, "sum": (x + weight).sum(), "weight": weight, "again": x, "twice": [y]}

    x = torch.randn(3)
    framefuse.export(f)(x).package(tmp_path / "model.ffpkg")
    results, said = run(program, tmp_path / "model.ffpkg", (x,), tmp_path)
    assert len(results) == 4 and all(map(torch.allclose, results, (x, (x + weight).sum(), weight, x * 2)))
    assert said.count("result: ") == 4


@needs_library
@pytest.mark.compiles_nothing("a program is looked at")
def test_the_runner_loads_no_python(program):
    """Neither libpython nor torch's libraries that need it."""
    linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=True, timeout=60).stdout
    assert "libframefuse_run.so" in linked and "libtorch_cpu.so" in linked
    assert "libpython" not in linked and "libtorch_python" not in linked


@needs_library
def test_the_runner_names_what_does_not_fit(program, tmp_path):
    path = tmp_path / "model.ffpkg"
    framefuse.export(lambda x: x.exp(), dynamic=True)(torch.randn(3, 4)).package(path)

    def complaint(file, words):
        done = subprocess.run([program, file, "1", tmp_path / "result", *words], capture_output=True, text=True, timeout=60)
        assert done.returncode == 1
        return done.stderr

    (tmp_path / "x").write_bytes(bytes(24))
    assert "x: expected f32[s0, s1], given f64[3]: it is not of f32" in complaint(path, [f"{tmp_path / 'x'}:f64:3"])
    assert "the package takes 1 tensors, 0 were given" in complaint(path, [])
    data = path.read_bytes()
    path.write_bytes(data[:-200] + bytes([data[-200] ^ 1]) + data[-199:])
    assert "is not loaded: it is damaged" in complaint(path, [])
    assert "No such file" in complaint(tmp_path / "nothing", [])


@needs_library
def test_two_copies_of_framefuse_are_told_apart(tmp_path, fresh_python):
    path = tmp_path / "model.ffpkg"
    framefuse.export(lambda x: x.exp())(torch.randn(3)).package(path)
    said = fresh_python(f"""
import ctypes, framefuse
library = ctypes.CDLL({str(BUILD / "runner" / "libframefuse_run.so")!r})
library.framefuse_last_error.restype = ctypes.c_char_p
print(library.framefuse_load({str(path).encode()!r}, None), library.framefuse_last_error().decode())
""")
    assert said.strip() == f"0 {path} is not loaded: another copy of framefuse is in this process; packages are loaded by that one"
