"""The translations that the bench times."""

from pathlib import Path

import torch

from bench.cases import SMALL, Case
from bench.inference import (
    COMPILED,
    CPU_CASES,
    GPU_CASES,
    N_FILES,
    make_generator,
    plain_loop,
    program,
    sides_of,
    write_files,
)
from data.files.image_files import read_rgb

CPU = torch.device("cpu")


def test_both_sides_translate_the_same_files(tmp_path: Path) -> None:
    case = Case("x", 32, 32, settings=(*SMALL, "generator.base_channels=4", "init.distribution=normal:0.3"))
    write_files(case, make_generator(case), tmp_path)
    plain_loop(case, CPU, tmp_path)()
    program("O0", CPU, tmp_path)()
    for number in range(N_FILES):
        expected, found = (read_rgb(tmp_path / name) for name in (f"reference_{number}.png", f"O0/{number}.png"))
        assert expected.float().std() > 1
        torch.testing.assert_close(found, expected, rtol=0, atol=1)


def test_translation_is_measured_at_each_level_by_batch_and_from_files() -> None:
    for cases in (CPU_CASES, GPU_CASES):
        alone, batch, files, spade = (sides_of(case) for case in cases)
        assert spade == alone
        assert alone == ["reference", "O0", "O1", "O2", "O3", COMPILED]
        assert batch == ["reference", "O2"]
        assert files == [*batch, COMPILED]
        assert [case.batch_size for case in cases] == [1, 8, 4, 1]
        assert [case.name.startswith("PNG to PNG") for case in cases] == [False, False, True, False]
