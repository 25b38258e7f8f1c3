"""mode="reduce-overhead" with collectives on two GPUs: NCCL's work is recorded, and a process group can end."""

import json
import pathlib
import subprocess
import sys

import pytest
import torch

pytestmark = [
    pytest.mark.compiles_nothing("compiles in processes of its own"),
    pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs"),
]


def test_collectives_are_recorded_and_groups_end(tmp_path):
    program = pathlib.Path(__file__).with_name("recorded_collectives_program.py")
    ranks = [
        subprocess.Popen([sys.executable, program, str(rank), str(tmp_path / "store")], stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    try:
        for rank in ranks:
            said = json.loads(rank.communicate(timeout=150)[0].splitlines()[-1])  # a group that waits for recordings never ends
            assert max(said["differences"]) < 1e-5, said
            assert min(said["recorded"]) >= 2, said  # forward and backward
    finally:
        for rank in ranks:
            rank.kill()
