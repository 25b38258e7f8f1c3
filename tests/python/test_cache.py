"""The disk cache from Python: its settings, files of save_cache that are read, refused and checked."""

import hashlib
import os
import pathlib
import struct
import subprocess
import sys

import pytest
import torch

import framefuse

reads_a_file = pytest.mark.compiles_nothing("a file is read, and no function is called")


def piece(data):
    return struct.pack("<Q", len(data)) + data


def sealed(magic, rest):
    return magic + hashlib.sha256(rest).digest() + rest


def entry(kind=b"cubin", environment=b"by nobody", content=b"text", value=b"code"):
    content_hash = hashlib.sha256(piece(kind) + piece(content)).digest()
    return sealed(b"framefuse cache entry 1\n", b"".join(map(piece, (kind, environment, content_hash, value))))


def cache_file(*entries):
    return sealed(b"framefuse cache file 1\n", b"".join(map(piece, entries)))


@reads_a_file
def test_a_file_is_loaded(tmp_path):
    path = tmp_path / "model.ffcache"
    path.write_bytes(cache_file(entry(), entry(value=b"newer"), entry(content=b"another")))
    with framefuse.capture_logs("cache") as records:
        assert framefuse.load_cache(path) == 2
    assert records == [("cache", f"loaded: 2 entries of {path}")]


@reads_a_file
def test_the_hash_is_checked(tmp_path):
    path = tmp_path / "model.ffcache"
    path.write_bytes(cache_file(entry()))
    right = hashlib.sha256(path.read_bytes()).hexdigest()
    assert framefuse.load_cache(str(path), sha256=right) == 1
    assert framefuse.load_cache(path, sha256=right.upper()) == 1
    with pytest.raises(ValueError, match=f"its SHA-256 is {right}, not 00"):
        framefuse.load_cache(path, sha256="00")


@reads_a_file
@pytest.mark.parametrize(
    "data",
    [b"", b"no cache file", cache_file(entry())[:-1], cache_file(entry()) + b"x", cache_file(entry()[:-1]), sealed(b"framefuse cache file 1\n", b"x")],
)
def test_a_damaged_file_is_refused(tmp_path, data):
    path = tmp_path / "model.ffcache"
    path.write_bytes(data)
    with framefuse.capture_logs("cache") as records, pytest.raises(ValueError, match="is not loaded: "):
        framefuse.load_cache(path)
    assert len(records) == 1 and records[0][1].startswith(f"refused: {path}: ")


@reads_a_file
def test_files_that_are_not_there(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        framefuse.load_cache(tmp_path / "none")
    with pytest.raises(OSError, match="No such file"):
        framefuse.save_cache(tmp_path / "none" / "file")
    with pytest.raises(OSError):
        framefuse.load_cache(tmp_path)


@pytest.mark.skipif(torch.cuda.is_available(), reason="other tests in this process used kernels of a GPU")
def test_what_was_not_used_is_not_saved(tmp_path):
    path = tmp_path / "model.ffcache"
    f = framefuse.compile(lambda x: x.sin() + 1)
    f(torch.randn(4))
    saved = framefuse.save_cache(path)
    assert saved == (0, hashlib.sha256(path.read_bytes()).hexdigest())
    assert framefuse.load_cache(path, sha256=saved.sha256) == 0


def test_settings():
    with framefuse.config.patch(cache=False, cache_megabytes=0, cache_dir="/nowhere"):
        assert framefuse.compile(lambda x: x + 1)(torch.ones(2)).tolist() == [2, 2]
    with pytest.raises(ValueError):
        framefuse.config.cache_megabytes = -1


@pytest.mark.compiles_nothing("a process of its own does")
def test_no_folder_is_made_on_the_cpu(tmp_path):
    program = "import torch, framefuse; print(framefuse.compile(lambda x: x.exp() + 1)(torch.zeros(3)).tolist())"
    environment = {**os.environ, "FRAMEFUSE_CACHE_DIR": str(tmp_path / "cache")}
    ended = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["[2.0,", "2.0,", "2.0]"]
    assert not pathlib.Path(tmp_path / "cache").exists()


@pytest.mark.compiles_nothing("processes of their own do")
@pytest.mark.skipif(not torch.cuda.is_available(), reason="kernels of a GPU are kept")
def test_another_process_finds_the_kernels(tmp_path):
    program = """
import sys, torch, framefuse
framefuse.set_logs(cache=True)
if sys.argv[2] == "load":
    framefuse.load_cache(sys.argv[1])
x = torch.randn(8, 1000, device="cuda")
f = framefuse.compile(lambda x: torch.softmax(x.sin() * 3, dim=1) + 1)
torch.testing.assert_close(f(x), torch.softmax(x.sin() * 3, dim=1) + 1)
if sys.argv[2] == "save":
    assert framefuse.save_cache(sys.argv[1]).entries > 0
"""

    def said(folder, what):
        environment = {**os.environ, "FRAMEFUSE_CACHE_DIR": str(tmp_path / folder)}
        command = [sys.executable, "-c", program, str(tmp_path / "file"), what]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stderr

    assert "miss: cubin-" in said("cache", "save")
    for warm in (said("cache", "nothing"), said("none", "load")):
        assert "hit: cubin-" in warm and "miss: cubin-" not in warm
    for file in (tmp_path / "cache").iterdir():
        content = file.read_bytes()
        file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert "refused: cubin-" in said("cache", "nothing")
    assert "refused" not in said("cache", "nothing")
