"""Many steps and many saves: row 21."""

import gc
from pathlib import Path
from typing import Any

import pytest

from tests.runs import run, with_slow
from training import run_folder as saving

pytestmark = pytest.mark.row(21)


def resident_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) * 1024


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize(("n_steps", "every", "workers"), with_slow([(24, 3, 0)], [(2000, 10, 0), (2000, 10, 2)]))
def test_memory_and_open_files_stay(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch, n_steps: int, every: int, workers: int
) -> None:
    seen: list[tuple[int, int]] = []
    save = saving.save_checkpoint

    def observed(path: Path, state: dict[str, Any]) -> None:
        save(path, state)
        gc.collect()
        seen.append((resident_bytes(), open_files()))

    monkeypatch.setattr(saving, "save_checkpoint", observed)
    settings = [f"train.max_steps={n_steps}", "train.epochs=1000000", f"checkpoint.every_steps={every}"]
    settings += ["train.ema_decay=0.9", "train.pool_size=3", "log.images_every_steps=50", f"data.workers={workers}"]
    run(tiny_config, *settings)
    half = len(seen) // 2
    assert len(seen) == n_steps // every
    parts = (seen[half : half + 3], seen[-3:])  # the least of three: a batch on its way from a worker is a file too
    first, last = (min(memory for memory, _ in part) for part in parts)
    assert last - first < 2**23, (first, last)  # what tensors of such a network take many times
    first, last = (min(files for _, files in part) for part in parts)
    assert last == first
