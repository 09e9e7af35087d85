"""Mutated files, read in a process of their own: row 22. They are read or refused as documented, and soon."""

import random
import signal
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from configs.load import load_config
from configs.schema import Config
from data.batch import DataError
from data.files.image_files import read_ids, read_rgb
from inference.load import load_generator
from tests.reliability.images import CASES, GREY, IMAGE, encoded
from tests.runs import with_slow
from utils.checkpoint import CheckpointError
from utils.errors import ConfigError

pytestmark = pytest.mark.row(22)

LONGEST_S = 10  # CPU time; a gigabyte of pixels takes 4
CHECKPOINT = Path("tests/checkpoints/version_3.pt").read_bytes()
IMAGES = [
    *(case.content for case in CASES.values() if case.refused is None),
    encoded(IMAGE, "JPEG", progressive=True),
    encoded(IMAGE, "JPEG", quality=95, subsampling=0),
    encoded(IMAGE.convert("CMYK"), "JPEG"),
    *(encoded(IMAGE, name) for name in ("BMP", "PPM", "WEBP")),
    encoded(IMAGE, "WEBP", lossless=True),
    *(encoded(IMAGE, "TIFF", compression=name) for name in ("raw", "tiff_lzw", "tiff_deflate", "jpeg", "packbits")),
    encoded(Image.fromarray(GREY > 127), "TIFF", compression="group4"),
    encoded(Image.fromarray(GREY.astype(np.int32)), "TIFF"),
    b"P2 8 8 15\n" + b"7 " * 64,
]
CONFIGS = [path.read_bytes() for path in sorted(Path("configs").glob("*.yaml"))]


def damage(content: bytes, rng: random.Random) -> bytes:
    """Change bits, bytes, numbers, or cut, double or insert pieces; half of them near the header."""
    data = bytearray(content)
    for _ in range(rng.randint(1, 5)):
        at, length = rng.randrange(len(data) if rng.random() < 0.5 else min(len(data), 64)), rng.randint(1, 200)
        match rng.randrange(7):
            case 0:
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                data[at] = rng.randrange(256)
            case 2:
                data[at : at + 4] = bytes([rng.choice([0, 127, 128, 255])]) * 4
            case 3:
                data[at : at + 4] = rng.choice([b"\x00\x00\x00\x80", b"\xff\xff\xff\x7f"])
            case 4:
                del data[max(at, 1) : max(at, 1) + length]
            case 5:
                data[at:at] = data[at : at + length]
            case 6:
                data[at:at] = rng.randbytes(length)
    return bytes(data[: rng.randrange(1, len(data) + 1)] if rng.random() < 0.1 else data)


def read_config(rng: random.Random, path: Path) -> None:
    path.write_bytes(damage(rng.choice(CONFIGS), rng))
    assert isinstance(load_config(path, ["data.root=folder"]), Config)


def read_checkpoint(rng: random.Random, path: Path) -> None:
    path.write_bytes(damage(CHECKPOINT, rng))
    load_generator(path)


def read_image(rng: random.Random, path: Path) -> None:
    path.write_bytes(damage(rng.choice(IMAGES), rng))
    try:
        rng.choice([read_rgb, read_ids])(path)
    except DataError as refusal:
        if "\n" in str(refusal) or not str(refusal).startswith(f"{path}: "):
            raise AssertionError from refusal
        raise


def read_mutants(read: Callable[[random.Random, Path], None], folder: Path, n_mutants: int) -> None:
    """Record after each how many were read and refused; what is not documented ends the process."""
    torch.set_num_threads(1)
    n_refused = 0
    for number in range(n_mutants):
        signal.setitimer(signal.ITIMER_PROF, LONGEST_S)
        try:
            read(random.Random(number), folder / "mutant")
        except (CheckpointError, ConfigError, DataError):
            n_refused += 1
        signal.setitimer(signal.ITIMER_PROF, 0)
        (folder / "counts").write_text(f"{number + 1 - n_refused} {n_refused}")


@pytest.mark.parametrize(
    ("read", "n_mutants"),
    with_slow(
        [(read_config, 30), (read_checkpoint, 20), (read_image, 60)],
        [(read_config, 500), (read_checkpoint, 1000), (read_image, 2000)],
    ),
)
def test_mutants_are_read_or_refused(
    tmp_path: Path,
    record_property: Callable[[str, object], None],
    read: Callable[[random.Random, Path], None],
    n_mutants: int,
) -> None:
    record_property("cases", n_mutants)
    process = get_context("fork").Process(target=read_mutants, args=(read, tmp_path, n_mutants))
    process.start()
    process.join()
    n_read, n_refused = map(int, (tmp_path / "counts").read_text().split())
    assert process.exitcode == 0, f"mutant {n_read + n_refused}"
    assert min(n_read, n_refused) > 0
    assert n_read + n_refused == n_mutants
