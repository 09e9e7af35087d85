"""Data sets of two domains without pairs."""

import re
import shutil
from pathlib import Path

import numpy as np

from tests.conftest import CommandLine, save_image
from tests.images import save_npy
from tools.check_data.__main__ import main


def fill(folder: Path, n_images: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for number in range(n_images):
        height, width = rng.integers(40, 60, 2)
        save_image(folder / f"{folder.name}{number:02}.png", rng.integers(0, 255, (height, width, 3), dtype=np.uint8))


def test_what_concerns_one_picture_is_checked_by_side(tmp_path: Path, command_line: CommandLine) -> None:
    for seed, (folder, n_images) in enumerate((("trainA", 3), ("trainB", 2), ("testA", 1), ("testB", 2))):
        fill(tmp_path / folder, n_images, seed)
    shutil.copy(tmp_path / "trainA/trainA01.png", tmp_path / "trainB/same.png")
    shutil.copy(tmp_path / "testB/testB00.png", tmp_path / "trainB/leak.png")
    for name, seed in {"trainA/p1_1": 5, "trainA/p2_1": 6, "testA/p2_2": 7}.items():
        save_image(tmp_path / f"{name}.png", np.random.default_rng(seed).integers(0, 255, (40, 40, 3), np.uint8))
    (tmp_path / "trainB/bad.png").write_bytes(b"")
    code, out, _ = command_line.run(main, str(tmp_path))
    assert code == 2
    assert out.splitlines() == [
        "assuming data.layout=unpaired_folders. For pairs, give source and target the same name",
        "train sources: 5 samples",
        "train targets: 5 samples",
        f"{tmp_path}/trainB/bad.png: cannot be read as an image: it is empty; copy it again, or leave it out",
        "test sources: 2 samples",
        "test targets: 2 samples",
        f"warning: train sources and train targets share 1 file, such as {tmp_path}/trainA/trainA01.png and "
        f"{tmp_path}/trainB/same.png. Remove them from one of the two",
        f"warning: train targets and test targets share 1 file, such as {tmp_path}/trainB/leak.png and "
        f"{tmp_path}/testB/testB00.png. Remove them from one of the two",
        "warning: train sources and test sources share 1 name prefix, as in p2_1 and p2_2: if these show one "
        "patient, scene or video, metrics are too good. Keep such samples in one split; if there is no split val, "
        r"train.validation_group='p\d+_' keeps them together",
        "1 problem in train, test; 3 warnings",
    ]


def test_each_side_has_channels_a_range_and_crops(tmp_path: Path, command_line: CommandLine) -> None:
    fill(tmp_path / "train_A", 3, 0)
    for number in range(3):
        depth = np.linspace(-5, 100 * number, 48 * 48, dtype=np.float32).reshape(48, 48)
        save_npy(tmp_path / f"train_B/{number}.npy", depth)
    save_npy(tmp_path / "train_B/3x.npy", np.zeros((48, 48, 2), dtype=np.float32))
    save_npy(tmp_path / "train_B/4x.npy", np.zeros((40, 48), dtype=np.float32))
    settings = ["data.layout=unpaired_folders", "data.target_channels=1", "loss.perceptual=0", "data.preprocess=crop"]
    code, out, _ = command_line.run(main, str(tmp_path), *settings, "data.crop_width=32", "data.crop_height=48")
    assert code == 2
    assert re.search(r"^targets        1 channel, values -5 to 200, written as float32.npy$", out, re.M)
    assert f"{tmp_path}/train_B/3x.npy: has 2 channels, data.target_channels is 1" in out
    assert f"sample 4x of {tmp_path}/train_B is 48x40, too small for a crop of 32x48: lower data.crop_width" in out
    assert re.search(r"sample train_A\d\d of .*train_A is \d\dx4\d, too small for a crop of 32x48", out)


def test_label_maps_of_a_mask_need_a_partner(tmp_path: Path, command_line: CommandLine) -> None:
    for folder in ("train_A", "train_B"):
        fill(tmp_path / folder, 2, 0)
    save_image(tmp_path / "train_A_label/train_A00.png", np.full((9, 9), 11, np.uint8))
    settings = ["data.layout=unpaired_folders", "loss.outside_mask=1", "loss.class_weights={11: 0}"]
    code, out, _ = command_line.run(main, str(tmp_path), *settings)
    assert (code, "train_A01.png: has no partner of the same name in" in out) == (2, True)
