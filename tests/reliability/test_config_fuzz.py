"""Row 22, of configurations: whatever is written, it is read or answered by ConfigError, and soon."""

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from configs.load import load_config
from configs.schema import Config
from utils.errors import ConfigError

pytestmark = pytest.mark.row(22)

DEADLINE_S = 5.0
CONFIGS = sorted(Path("configs").glob("*.yaml"))
KEYS = ["run.seed", "run.name", "data.workers", "data.root", "train", "loss.vgg", "train.freeze_generator", "amp.dtype"]
PIECES = (
    *(
        "&a ",
        "*a",
        "<<: ",
        "!!int ",
        "!!python/name:os.system ",
        "? ",
        "- ",
        "| ",
        "> ",
        "%YAML 9.9\n",
        "---\n",
        "...\n",
    ),
    *("\t", "\0", "\ufeff", "\x85", "\u2028", "\udcff", "'", '"', "{", "}", "[", "]", ": ", "#", "\\", "=", ",", "~"),
    *(
        "null",
        "no",
        "1e999",
        "-1e999",
        ".nan",
        ".inf",
        "-0",
        "0x" + "f" * 400,
        "9" * 5000,
        "1:30",
        "010",
        "${a}",
        "???",
    ),
    *("${oc.env:HOME}", "true", "2024-01-01", "é" * 300, "~nobody/x", "-1", "0", "1e-400", "[[[[", "{a: {b: c}}"),
)


def flip_bits(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.randint(1, 20)):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def truncate(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content))]


def insert(content: bytes, rng: random.Random) -> bytes:
    for piece in rng.sample(PIECES, 3):
        place = rng.randrange(len(content))
        content = content[:place] + piece.encode("utf-8", "surrogatepass") + content[place:]
    return content


def replace_values(content: bytes, rng: random.Random) -> bytes:
    lines = content.split(b"\n")
    for number in rng.sample(range(len(lines)), min(3, len(lines))):
        key, colon, _ = lines[number].partition(b": ")
        lines[number] = key + colon + rng.choice(PIECES).encode("utf-8", "surrogatepass")
    return b"\n".join(lines)


def shuffle_lines(content: bytes, rng: random.Random) -> bytes:
    lines = content.split(b"\n")
    first, second = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[first], lines[second] = lines[second], lines[first]
    return b"\n".join([*lines, rng.choice(lines)])


MUTATIONS: list[Callable[[bytes, random.Random], bytes]] = [
    flip_bits,
    truncate,
    insert,
    replace_values,
    shuffle_lines,
]


def mutated_overrides(rng: random.Random) -> list[str]:
    """Half of the time up to three settings on the command line, each with something odd in it."""
    overrides = ["data.root=folder"]  # which recipes want
    for _ in range(max(0, rng.randint(-3, 3))):
        override = f"{rng.choice(KEYS)}={rng.choice(PIECES)}"
        place = rng.randrange(len(override))
        overrides.append(override[:place] + rng.choice(["", *PIECES]) + override[place:])
    return overrides


def load_mutants(n_mutants: int, path: Path) -> int:
    """Try mutants one by one; returns how many were refused."""
    n_refused = 0
    for seed in range(n_mutants):
        rng = random.Random(seed)
        content = rng.choice(MUTATIONS)(rng.choice(CONFIGS).read_bytes(), rng)
        path.write_bytes(content)
        overrides = mutated_overrides(rng)
        start_s = time.process_time()
        try:
            config = load_config(path, overrides)
        except ConfigError:
            n_refused += 1
        except Exception as error:
            raise AssertionError(f"mutant {seed}: {content!r} {overrides}") from error
        else:
            assert isinstance(config, Config)
        assert time.process_time() - start_s < DEADLINE_S, f"mutant {seed}"
    return n_refused


def test_mutants_are_read_or_refused(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    record_property("cases", 50)
    assert 0 < load_mutants(50, tmp_path / "c.yaml") < 50


@pytest.mark.slow
def test_many_mutants_are_read_or_refused(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    record_property("cases", 500)
    assert 0 < load_mutants(500, tmp_path / "c.yaml") < 500
