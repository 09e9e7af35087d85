"""Mutated checkpoints, read in a process of their own: row 22."""

import random
import signal
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path

import pytest
import torch

from inference.load import load_generator
from utils.checkpoint import CheckpointError, save_checkpoint

pytestmark = pytest.mark.row(22)

SLOWEST_S = 5


def mutated(content: bytes, rng: random.Random) -> bytes:
    damaged = bytearray(content)
    match rng.randrange(5):
        case 0:
            for _ in range(rng.randrange(1, 20)):
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        case 1:
            start = rng.randrange(len(damaged))
            del damaged[start : start + rng.randrange(1, 200)]
        case 2:
            start = rng.randrange(len(damaged))
            damaged[start:start] = rng.randbytes(rng.randrange(1, 200))
        case 3:
            start, end = sorted(rng.randrange(len(damaged)) for _ in range(2))
            damaged[start:start] = damaged[start:end]
        case _:  # numbers of the pickle and of the directory
            start = rng.randrange(len(damaged) - 8)
            damaged[start : start + 4] = rng.choice([b"\xff\xff\xff\xff", b"\x00\x00\x00\x80", b"\xff\xff\xff\x7f"])
    return bytes(damaged)


def read_all(folder: Path, content: bytes, n_mutants: int) -> None:
    torch.set_num_threads(1)
    rng = random.Random(0)
    for number in range(n_mutants):
        path = folder / "mutant.pt"
        path.write_bytes(mutated(content, rng))
        (folder / "number").write_text(str(number))
        signal.alarm(SLOWEST_S)
        with suppress(CheckpointError):
            load_generator(path)
        signal.alarm(0)


@pytest.mark.parametrize("n_mutants", [20, pytest.param(1000, marks=pytest.mark.slow)])
def test_mutants_raise_what_is_documented(
    tmp_path: Path, record_property: Callable[[str, object], None], n_mutants: int
) -> None:
    record_property("cases", n_mutants)
    content = Path("tests/checkpoints/version_2.pt").read_bytes()
    process = get_context("forkserver").Process(target=read_all, args=(tmp_path, content, n_mutants))
    process.start()
    process.join()
    assert process.exitcode == 0, f"mutant {(tmp_path / 'number').read_text()} of {n_mutants}"
    assert int((tmp_path / "number").read_text()) == n_mutants - 1


def test_what_is_not_mutated_is_read(tmp_path: Path) -> None:
    load_generator(Path("tests/checkpoints/version_2.pt"))
    save_checkpoint(tmp_path / "a.pt", {"step": 1})
