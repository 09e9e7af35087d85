"""Wrong data of many sorts: check_data finds all of it in one pass."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from data.facades.dataset import SyntheticFacades
from data.files.image_files import write_png
from tests.conftest import save_image
from tests.images import tifffile
from tools.check_data import __main__ as check_data

WIDTH = 128
OF_16_BITS = ["data.source_range=[0,65535]", "data.target_range=[0,65535]"]
FACADES = SyntheticFacades(split="train", seed=0, n_samples=19, height=WIDTH, width=WIDTH)


def photo(index: int) -> np.ndarray:
    target = FACADES.read(index).target
    assert target is not None
    return target.permute(1, 2, 0).numpy()


def labels(index: int) -> np.ndarray:
    return FACADES.read(index).source[0].numpy()


def save_16_bits(path: Path, pixels: np.ndarray) -> None:
    """Write (H, W, 3) uint8 pixels with 16 bits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_png(path, torch.from_numpy(pixels.transpose(2, 0, 1).astype(np.uint16) * 257))


def save_pair(root: Path, index: int) -> None:
    """Write a photo and its negative, of 16 bits, as the pair `pNN`."""
    save_16_bits(root / "train_A" / f"p{index:02}.png", 255 - photo(index))
    save_16_bits(root / "train_B" / f"p{index:02}.png", photo(index))


def lines_of(root: Path, capsys: pytest.CaptureFixture[str], *settings: str) -> list[str]:
    with pytest.raises(SystemExit) as stopped:
        check_data.main([str(root), *settings])
    assert stopped.value.code == 2
    return capsys.readouterr().out.splitlines()


def assert_each_once(lines: list[str], expected: list[str]) -> None:
    """Each pattern matches one line, and each problem and warning is one of them."""
    assert [pattern for pattern in expected if sum(bool(re.search(pattern, line)) for line in lines) != 1] == [], lines
    remarks = [line for line in lines[:-1] if line.startswith(("warning: ", "/"))]
    assert [line for line in remarks if not any(re.search(pattern, line) for pattern in expected)] == []


def test_pairs_of_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Many faults at once, in pairs of 16 bits."""
    a, b = tmp_path / "train_A", tmp_path / "train_B"
    for index in range(19):
        save_pair(tmp_path, index)
    (b / "p00.png").write_bytes(b"")
    (a / "p01.png").write_bytes((a / "p01.png").read_bytes()[:2000])
    (b / "p02.png").write_bytes(b"<!DOCTYPE html>")
    (b / "p03.png").write_bytes(b"version https://git-lfs.github.com/spec/v1")
    Image.fromarray(photo(4)).save(a / "p04.png", format="GIF")
    (b / "p05.png").rename(b / "P05.png")
    (a / "p06.png").unlink()
    save_16_bits(b / "p07.png", photo(7)[1:])
    save_16_bits(b / "p08.png", photo(8)[::2, ::2])
    tifffile().imwrite(b / "p09.tif", photo(9).astype(np.uint16))
    save_image(b / "p10.png", photo(10)[..., 0].astype(np.uint16) * 257)
    save_image(b / "p11.png", photo(11))
    save_16_bits(b / "p14.png", np.roll(photo(14), (7, -9), axis=(0, 1)))
    (b / "notes.txt").touch()
    (b / "p15.png").unlink()
    (b / "p15.png").symlink_to("nowhere")
    for folder in ("A", "B"):
        (tmp_path / f"test_{folder}").mkdir()
        shutil.copy(tmp_path / f"train_{folder}" / "p16.png", tmp_path / f"test_{folder}" / "same.png")
    for index, wrong in ((17, np.nan), (18, np.inf)):
        (b / f"p{index}.png").unlink()
        pixels = photo(index).astype(np.float32) * 257
        pixels[:20, :30] = wrong
        tifffile().imwrite(b / f"p{index}.tif", pixels, photometric="rgb")
    expected = [
        r"^/.*train_B/p00\.png: cannot be read as an image: it is empty",
        r"^/.*train_A/p01\.png: cannot be read as an image",
        r"^/.*train_B/p02\.png: .* it is a page of HTML",
        r"^/.*train_B/p03\.png: .* it is a pointer of Git LFS",
        r"^/.*train_A/p04\.png: .* it is a GIF",
        r"^/.*train_A/p05\.png: without a partner .*; P05\.png there differs in upper and lower case: rename one",
        r"^/.*train_B/P05\.png: without a partner .*; p05\.png there differs",
        r"^/.*train_B/p06\.png: without a partner",
        r"^/.*p07\.png is 128x128 but its partner .*p07\.png is 128x127: make them the same size",
        r"^/.*p08\.png is 128x128 but its partner .*p08\.png is 64x64: make them the same size",
        r"^/.*p09\.tif and p09\.png have the same name",
        r"^/.*p10\.png: has 1 channel, data\.target_channels is 3",
        r"^/.*p15\.png: no such file",
        r"^/.*p17\.tif: channel 1, row 0, column 0 holds nan, which is no number \(600 such pixels\)",
        r"^/.*p18\.tif: channel 1, row 0, column 0 holds inf",
        r"^train: images of several types\. .*uint8 target, as p11",
        r"^train: left out, being of other formats: 1 \.txt",
        r"^warning: train: targets seem to be shifted in 1 of \d+ pairs: p14 by 9 pixels to the left and 7 pixels down",
        r"^warning: test and train share 2 files, as .*same\.png and .*train_A/p16\.png",
    ]
    assert_each_once(lines_of(tmp_path, capsys, *OF_16_BITS), expected)


def test_masks_of_grey_levels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for index in range(6):
        save_image(tmp_path / "train_label" / f"{index}.png", (labels(index) > index % 2).astype(np.uint8) * 255)
        save_image(tmp_path / "train_img" / f"{index}.png", photo(index))
    expected = [
        r"^/.*0\.png: pixel .* holds id 255, .* look like grey levels, .* data\.label_colors, .* \(in 6 of 6 samples\)",
        r"^ids 0, 255: these look like grey levels",
    ]
    assert_each_once(lines_of(tmp_path, capsys, "--n-classes", "2"), expected)
    colors = tmp_path / "colors.yaml"
    colors.write_text("background: [0, 0, 0]\nobject: [255, 255, 255]\n")  # the message advises this
    check_data.main([str(tmp_path), f"data.label_colors={colors}"])
    assert capsys.readouterr().out.splitlines()[-1] == "no problem in train"


def test_label_maps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    maps = tmp_path / "train_label"
    for index in range(12):
        save_image(maps / f"{index:02}.png", labels(index))
        save_image(tmp_path / "train_img" / f"{index:02}.png", photo(index))
    save_image(maps / "00.png", photo(0))
    (maps / "01.png").unlink()
    save_image(maps / "01.jpg", labels(1))
    save_image(maps / "02.png", labels(2) + np.uint8(100))
    for index in (3, 4):
        image = Image.fromarray(labels(index))
        image.putpalette([0, 0, 0, 10 * index, 0, 0])
        image.save(maps / f"{index:02}.png")
    Image.fromarray(labels(5) % 4).save(maps / "05.png", bits=2)
    save_image(tmp_path / "train_img" / "06.png", photo(6)[:, 1:])
    (maps / "08.png").unlink()
    tifffile().imwrite(maps / "08.tif", labels(8).astype(np.int32) - 9)
    save_image(maps / "09.png", labels(9)[:96])
    save_image(tmp_path / "train_img" / "09.png", photo(9)[:96].transpose(1, 0, 2))
    (tmp_path / "train_img" / "10.png").unlink()
    tifffile().imwrite(tmp_path / "train_img" / "10.tif", (photo(10) / 255).astype(np.float32), photometric="rgb")
    for folder in ("label", "img"):
        (tmp_path / f"test_{folder}").mkdir()
        shutil.copy(tmp_path / f"train_{folder}" / "07.png", tmp_path / f"test_{folder}" / "07.png")
    one_class = torch.zeros(WIDTH, WIDTH, dtype=torch.uint8).numpy()
    for split, index in (("train", 17), ("test", 18)):  # maps of one class are equal without being a leak
        save_image(tmp_path / f"{split}_label" / "20.png", one_class)
        save_image(tmp_path / f"{split}_img" / "20.png", photo(index))
    expected = [
        r"^/.*00\.png: holds RGB pixels, expected one integer id",
        r"^/.*01\.jpg: JPEG changes ids",
        r"^/.*02\.png: pixel .* holds id",
        r"have different palettes",
        r"^/.*05\.png: holds grey levels that Pillow would rescale",
        r"^/.*06\.png is 128x128 but its partner .* is 127x128: make them the same size",
        r"^/.*09\.png is 128x96 but its partner .*09\.png is 96x128: turn one of them",
        r"^/.*10\.tif: holds floating-point numbers, expected an 8- or 16-bit image; .* data\.layout=paired_folders",
        r"^/.*08\.tif: pixel .* holds id -\d, .* ids are not negative; replace it in the files, by 255",
        r"^warning: test and train share 2 files",
    ]
    assert_each_once(lines_of(tmp_path, capsys, "--n-classes", "20"), expected)
