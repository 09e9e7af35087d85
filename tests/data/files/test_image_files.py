"""Images are found, upright, and known by their headers; tests/reliability/test_images.py reads all sorts of them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from data.files.image_files import count_other_files, find_images, open_image, read_rgb, write_png
from tests.conftest import save_image


@pytest.mark.parametrize("kind", ["photo", "drawing"])
def test_png_keeps_pixels_and_is_hardly_larger_than_pillows(tmp_path: Path, kind: str) -> None:
    rows, columns = np.mgrid[:256, :256]
    noise = np.random.default_rng(0).normal(0, 8, (256, 256, 3))
    drawing = (rows // 8 + columns // 8)[..., None].repeat(3, 2) % 2
    pixels = np.hypot(rows, columns)[..., None] / 2 + noise if kind == "photo" else drawing
    pixels = pixels.clip(0, 255).astype(np.uint8)
    expected = torch.tensor(pixels).permute(2, 0, 1)
    write_png(tmp_path / "folder" / "ours.png", expected)
    assert torch.equal(read_rgb(tmp_path / "folder" / "ours.png"), expected)
    Image.fromarray(pixels).save(tmp_path / "pillow.png")
    sizes = [(tmp_path / name).stat().st_size for name in ("folder/ours.png", "pillow.png")]
    assert sizes[0] <= 1.1 * sizes[1] + 200


def test_the_size_of_an_image_is_its_size_after_it_is_turned_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(np.zeros((2, 3, 3), np.uint8)).save(tmp_path / "x.jpg", exif=exif)
    with open_image(tmp_path / "x.jpg") as image:
        assert image.size == (3, 2) == tuple(read_rgb(tmp_path / "x.jpg").shape[1:])


def test_files_of_other_formats_are_counted(tmp_path: Path) -> None:
    for name in ("a.gif", "deep/b.GIF", "notes.txt", "LICENSE", ".hidden", "c.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert count_other_files([tmp_path]) == "2 .gif, 1 .txt, 1 LICENSE"


def test_arrays_are_images_of_folders_that_hold_no_others(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((1, 4, 5)))
    assert list(find_images(tmp_path, [])) == ["a"]
    assert count_other_files([tmp_path]) == ""
    save_image(tmp_path / "b.png", np.zeros((2, 2), np.uint8))
    assert list(find_images(tmp_path, [])) == ["b"]
    assert count_other_files([tmp_path]).startswith("1 .npy (")
