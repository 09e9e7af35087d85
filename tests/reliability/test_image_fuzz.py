"""Row 22, images: what mutated files lead to is documented, ends no process, and takes no time."""

import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data.batch import DataError
from data.files.image_files import read_ids, read_rgb
from tests.reliability.images import CASES, GREY, IMAGE, encoded

pytestmark = pytest.mark.row(22)

LONGEST_S = 5.0
SEEDS = [
    *(case.content for case in CASES.values() if case.refused is None),
    encoded(IMAGE, "JPEG", progressive=True),
    encoded(IMAGE, "JPEG", quality=95, subsampling=0),
    encoded(IMAGE.convert("CMYK"), "JPEG"),
    encoded(IMAGE, "BMP"),
    encoded(IMAGE, "PPM"),
    encoded(IMAGE, "WEBP"),
    encoded(IMAGE, "WEBP", lossless=True),
    *(encoded(IMAGE, "TIFF", compression=name) for name in ("raw", "tiff_lzw", "tiff_deflate", "jpeg", "packbits")),
    encoded(Image.fromarray(GREY > 127), "TIFF", compression="group4"),
    encoded(Image.fromarray(GREY.astype(np.int32)), "TIFF"),
    b"P2 8 8 15\n" + b"7 " * 64,
]


def mutated(content: bytes, rng: np.random.Generator) -> bytes:
    """Bits flipped, bytes replaced by extremes, a piece cut, doubled or moved; most often near the header."""
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 6))):
        end = len(data) if rng.random() < 0.5 else min(len(data), 64)
        at, length = int(rng.integers(max(end, 1))), int(rng.integers(1, 32))
        match int(rng.integers(5)):
            case 0 if data:
                data[at] ^= 1 << int(rng.integers(8))
            case 1:
                data[at : at + 4] = bytes([int(rng.choice([0, 127, 128, 255]))]) * 4
            case 2:
                del data[at : at + length]
            case 3:
                data[at:at] = data[at : at + length]
            case 4:
                data = data[: max(at, 1)] if rng.random() < 0.2 else data
    return bytes(data)


@dataclass(frozen=True)
class Outcome:
    """number: of the mutant; error: what was raised, with its text, where it was none of the documented."""

    number: int
    error: str | None
    elapsed_s: float


def mutant(number: int) -> bytes:
    rng = np.random.default_rng([22, number])
    return mutated(SEEDS[number % len(SEEDS)], rng)


def read_mutants(numbers: range, folder: Path, connection: Connection) -> None:
    """In a child process: an outcome for each, sent before the next is begun."""
    readers: list[Callable[[Path], object]] = [read_rgb, read_ids]
    path = folder / "mutant.png"
    for number in numbers:
        path.write_bytes(mutant(number))
        error, begin_s = None, time.process_time()
        for read in readers:
            try:
                read(path)
            except DataError as refusal:
                if "\n" in str(refusal) or not str(refusal).startswith(f"{path}: "):
                    error = f"an odd message: {refusal}"
            except Exception as fault:  # noqa: BLE001  to be reported with its mutant
                error = f"{type(fault).__name__}: {fault}"
        connection.send(Outcome(number, error, time.process_time() - begin_s))


def fuzz(numbers: range, folder: Path) -> list[Outcome]:
    """The outcomes in order; AssertionError where a mutant ends the process, or makes it hang."""
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.Process(target=read_mutants, args=(numbers, folder, theirs), daemon=True)
    child.start()
    theirs.close()
    outcomes: list[Outcome] = []
    try:
        for number in numbers:
            assert ours.poll(10 * LONGEST_S), f"mutant {number} hangs"
            outcomes.append(ours.recv())
    except EOFError:
        child.join()
        pytest.fail(f"mutant {numbers[len(outcomes)]} ended the process with {child.exitcode}")
    finally:
        child.kill()
        child.join()
    return outcomes


@pytest.mark.parametrize(
    "n_cases", [pytest.param(100, id="short"), pytest.param(2000, id="long", marks=pytest.mark.slow)]
)
def test_mutated_images_are_read_or_refused(
    tmp_path: Path, n_cases: int, record_property: Callable[[str, object], None]
) -> None:
    outcomes = fuzz(range(n_cases), tmp_path)
    assert [outcome for outcome in outcomes if outcome.error] == []
    assert [outcome for outcome in outcomes if outcome.elapsed_s > LONGEST_S] == []
    record_property("cases", n_cases)
