"""The translations that the bench times."""

from pathlib import Path

import torch

from bench.cases import SMALL, Case
from bench.inference import N_FILES, make_generator, plain_loop, program, write_files
from data.files.image_files import read_rgb


def test_both_sides_translate_the_same_files(tmp_path: Path) -> None:
    device = torch.device("cpu")
    case = Case("x", 32, 32, settings=(*SMALL, "generator.base_channels=4", "init.distribution=normal:0.3"))
    write_files(case, make_generator(case), tmp_path)
    plain_loop(case, device, tmp_path)()
    program("O0", device, tmp_path)()
    for number in range(N_FILES):
        expected, found = (read_rgb(tmp_path / name) for name in (f"reference_{number}.png", f"O0/{number}.png"))
        assert expected.float().std() > 1
        torch.testing.assert_close(found, expected, rtol=0, atol=1)
