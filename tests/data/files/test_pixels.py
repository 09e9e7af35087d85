import re
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from PIL import Image

from data.batch import DataError
from data.files.image_files import StoredForm, is_8_bit_rgb, read_stored, write_png
from data.files.stored_image import pixels_allowed
from tests.conftest import save_image
from tests.images import bands, save_npy


def form(n_channels: int, *, is_8_bit: bool = False) -> StoredForm:
    return StoredForm(n_channels, "data.source_channels", is_8_bit)


@pytest.mark.parametrize("n_channels", [1, 3, 4])
def test_16_bit_png_keeps_every_bit(tmp_path: Path, n_channels: int) -> None:
    path, pixels = tmp_path / "x.png", bands(0)[:n_channels]
    write_png(path, torch.from_numpy(pixels))
    assert not is_8_bit_rgb(path)
    image = read_stored(path, form(n_channels))
    assert image.dtype == torch.uint16
    assert np.array_equal(image.numpy(), pixels)
    with Image.open(path) as opened:  # other programs can read the file
        opened.load()


def test_8_bit_files_are_recognized_by_their_header(tmp_path: Path) -> None:
    save_image(tmp_path / "grey.jpg", np.zeros((4, 5), np.uint8))
    save_image(tmp_path / "rgb.tif", np.zeros((4, 5, 3), np.uint8))
    save_image(tmp_path / "deep.png", np.zeros((4, 5), np.uint16))
    save_image(tmp_path / "float.tif", np.zeros((4, 5), np.float32))
    save_npy(tmp_path / "x.npy", np.zeros((4, 5), np.uint8))
    (tmp_path / "damaged.png").write_bytes(b"")
    eight_bits = {path.name for path in tmp_path.iterdir() if is_8_bit_rgb(path)}
    assert eight_bits == {"grey.jpg", "rgb.tif", "damaged.png"}


@pytest.mark.parametrize(
    ("stored", "read"), [(">u2", torch.uint16), ("int8", torch.int16), ("int64", torch.float32), ("?", torch.uint8)]
)
def test_types_become_those_of_samples(tmp_path: Path, stored: str, read: torch.dtype) -> None:
    save_npy(tmp_path / "x.npy", np.array([[0, 1], [1, 0]]).astype(stored))
    image = read_stored(tmp_path / "x.npy", form(1))
    assert image.dtype == read
    assert image.tolist() == [[[0, 255], [255, 0]] if stored == "?" else [[0, 1], [1, 0]]]


@pytest.mark.parametrize("order", ["F", "C"])
@pytest.mark.parametrize("axes", [(0, 1, 2), (1, 2, 0)])
def test_arrays_of_any_order_of_axes_are_read(tmp_path: Path, axes: tuple[int, ...], order: Literal["F", "C"]) -> None:
    np.save(tmp_path / "x.npy", bands(0).transpose(axes).astype(">u2", order=order))
    assert np.array_equal(read_stored(tmp_path / "x.npy", form(4)).numpy(), bands(0))


WITH_NAN = np.zeros((1, 4, 5), np.float32)
WITH_NAN[0, 2, 3] = np.nan
WRONG: dict[str, tuple[np.ndarray, str]] = {
    "two": (np.zeros((2, 4, 5), np.uint16), "has 2 channels, data.source_channels is 1: set data.source_channels=2"),
    "nan": (WITH_NAN, r"channel 1, row 2, column 3 holds nan, which is not a number \(1 such pixel\)"),
    "beyond": (np.full((1, 4, 5), 1e39), r"channel 1, row 0, column 0 holds inf, .* \(20 such pixels\)"),
    "objects": (np.array([{}], dtype=object), "holds object, expected integers or floats"),
    "flat": (np.zeros(5), r"has the shape \(5,\), expected \(H, W\), \(C, H, W\) or \(H, W, C\)"),
    "many": (np.zeros((99, 100, 100), np.uint8), "has 99 channels, at most 64 are supported"),
}


def assert_refused(path: Path, message: str, expected: StoredForm) -> None:
    with pytest.raises(DataError, match=f"^{re.escape(str(path))}: {message}"):
        read_stored(path, expected)


def test_wrong_files_are_named_with_the_remedy(tmp_path: Path) -> None:
    for name, (pixels, message) in WRONG.items():
        np.save(tmp_path / f"{name}.npy", pixels, allow_pickle=True)
        assert_refused(tmp_path / f"{name}.npy", message, form(1))
    message = r"holds uint16, expected 8 bits: .*data\.source_range"
    assert_refused(tmp_path / "two.npy", message, form(2, is_8_bit=True))
    (tmp_path / "cut.npy").write_bytes((tmp_path / "two.npy").read_bytes()[:150])
    assert_refused(tmp_path / "cut.npy", r"is cut off: it has 22 of 80 bytes of pixels\. Copy it again\.$", form(2))
    (tmp_path / "junk.npy").write_bytes(b"\x93NUMPY\1\0\x10\0{'descr': 1}")
    assert_refused(tmp_path / "junk.npy", "cannot be read as an image", form(1))


def test_an_array_of_a_later_file_format_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((4, 5), np.uint8))
    content = bytearray((tmp_path / "x.npy").read_bytes())
    content[6] = 4  # the major version
    (tmp_path / "x.npy").write_bytes(content)
    assert_refused(tmp_path / "x.npy", r"has \.npy version 4\.0, expected up to 3\.0", form(1))


def test_sizes_are_bounded_before_pixels_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("data.files.stored_image.memory_bytes", lambda: 2**20)
    np.lib.format.open_memmap(tmp_path / "large.npy", "w+", np.float32, (1, 1000, 1000))  # takes no place on the disk
    message = r"1000x1000 pixels take 0\.004 GB, more than a quarter .* --max-pixels 1000000, .*--tile"
    assert_refused(tmp_path / "large.npy", message, form(1))
    with pixels_allowed(1000 * 1000):
        assert read_stored(tmp_path / "large.npy", form(1)).shape == (1, 1000, 1000)
