"""Row 11: label maps whose pixels are no classes."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from data.batch import DataError
from data.checks import Check
from data.map_reader import MapReader
from data.paired_folders import PairedFolders
from tests.reliability.images import WHOLE, encoded, fill, png

pytestmark = pytest.mark.row(11)

N_CLASSES = 4
IDS = (np.arange(32 * 32).reshape(32, 32) // 8 % N_CLASSES).astype(np.uint8)


def with_id(value: int, dtype: type = np.uint8) -> Image.Image:
    ids: np.ndarray = IDS.astype(dtype)
    ids[3, 11] = value
    return Image.fromarray(ids)


def palette(ids: np.ndarray) -> Image.Image:
    image = Image.fromarray(ids).convert("P")
    image.putpalette([200, 100, 50] * 256)
    image.putdata(ids.ravel().tolist())
    return image


def layout_of(root: Path, content: bytes, ignore_id: int | None = None) -> PairedFolders:
    fill(root, "train_img/x.png train_label/", np.zeros((32, 32, 3), dtype=np.uint8))
    (root / "train_label" / "x.png").write_bytes(content)
    reader = MapReader(N_CLASSES, ignore_id)
    return PairedFolders({"source": root / "train_label", "target": root / "train_img"}, reader)


def pixel(value: int, remedy: str = r"raise data\.n_classes, or set") -> str:
    return rf"pixel \(row 3, column 11\) holds id {value}, allowed are 0 to 3: {remedy}"


FOUR_BITS = png(32, 32, 4, 0, b"".join(b"\0" + bytes(16) for _ in range(32)))
REFUSED = {
    "off by one": (encoded(with_id(N_CLASSES)), pixel(N_CLASSES)),
    "16-bit beyond the classes": (encoded(with_id(26001, np.uint16)), pixel(26001)),
    "negative": (encoded(with_id(-1, np.int32), "TIFF"), pixel(-1, ".*data.ignore_id=255")),
    "palette beyond the classes": (encoded(palette(np.asarray(with_id(9)))), pixel(9)),
    "coloured": (encoded(with_id(1).convert("RGB")), "holds RGB pixels, expected one integer id per pixel"),
    "grey with transparency": (encoded(with_id(1).convert("LA")), "holds LA pixels, expected one integer id per pixel"),
    "jpeg under another name": (encoded(with_id(1), "JPEG"), "JPEG changes ids when it compresses; save the map as"),
    "grey levels of 4 bits": (FOUR_BITS, "holds grey levels that Pillow would rescale, not ids"),
    "pgm with another maximum": (b"P5 32 32 3\n" + IDS.tobytes(), "holds grey levels that Pillow would rescale"),
}
READ = {
    "8-bit": encoded(Image.fromarray(IDS)),
    "16-bit": encoded(Image.fromarray(IDS.astype(np.uint16))),
    "32-bit": encoded(Image.fromarray(IDS.astype(np.int32)), "TIFF"),
    "palette": encoded(palette(IDS)),
    "pgm": b"P5 32 32 255\n" + IDS.tobytes(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_label_that_is_no_class_is_named_with_its_pixel(tmp_path: Path, name: str) -> None:
    content, reason = REFUSED[name]
    layout = layout_of(tmp_path, content)
    with pytest.raises(DataError, match=rf"train_label/x\.png: {reason}") as error:
        layout.read(0)
    assert Check(layout, WHOLE, is_for_training=True)(0).problems == error.value.problems


@pytest.mark.parametrize("name", READ)
def test_ids_of_every_storage_are_read_as_stored(tmp_path: Path, name: str) -> None:
    source = layout_of(tmp_path, READ[name]).read(0).source
    assert torch.equal(source[0], torch.from_numpy(IDS))


@pytest.mark.parametrize(("value", "dtype"), [(255, np.uint8), (65535, np.uint16)])
def test_what_is_ignored_is_allowed(tmp_path: Path, value: int, dtype: type) -> None:
    source = layout_of(tmp_path, encoded(with_id(value, dtype)), ignore_id=value).read(0).source
    assert int(source[0, 3, 11]) == N_CLASSES
    assert int((source == N_CLASSES).sum()) == 1
