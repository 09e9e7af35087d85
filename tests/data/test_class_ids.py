"""Classes of label maps, from ids or colours, and instances that are the connected parts of classes."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from data.batch import DataError
from data.map_reader import MapReader, checked_classes, classes_of_colors, connected_parts
from utils.label_colors import LabelColors

ndimage = pytest.importorskip("scipy.ndimage")
TABLE = {"sky": [70, 130, 180], "road": [128, 64, 128], "car": [0, 0, 142], "ignored": [[0, 0, 0]]}
COLORS = LabelColors.of(TABLE, "test", "test")
IDS = np.random.default_rng(0).integers(0, 4, (9, 13))  # 3: ignored
PICTURE = COLORS.colors.numpy()[IDS]


@pytest.mark.parametrize(("n_classes", "ignored", "dtype"), [(5, 255, torch.uint8), (300, 65535, torch.int32)])
def test_an_ignored_pixel_gets_the_number_of_classes(n_classes: int, ignored: int, dtype: torch.dtype) -> None:
    ids = torch.tensor([[[0, n_classes - 1, ignored]]])
    classes = checked_classes(ids, "x", n_classes=n_classes, ignore_id=ignored)
    assert (classes.tolist(), classes.dtype) == ([[[0, n_classes - 1, n_classes]]], dtype)


@pytest.mark.parametrize("kind", ["RGBA", "palette"])
def test_each_pixel_gets_the_class_of_its_colour_in_every_kind_of_file(tmp_path: Path, kind: str) -> None:
    picture = Image.fromarray(PICTURE)
    # the index of a colour in the palette is not its class
    picture = picture.convert("RGBA") if kind == "RGBA" else picture.quantize(4)
    picture.save(tmp_path / "x.png")
    source = MapReader(3, None, colors=COLORS).read("x", {"source": tmp_path / "x.png"}).source
    assert source.dtype == torch.uint8
    assert torch.equal(source[0].long(), torch.from_numpy(IDS))


def test_another_colour_is_named_with_its_pixel_and_the_remedy() -> None:
    pixels = PICTURE.copy()
    pixels[4, 7] = pixels[8, 12] = [0, 0, 143]
    problem = r"^x: pixel \(row 4, column 7\) has the colour \[0, 0, 143\], .* 1\.71% .* colors-to-ids"
    with pytest.raises(DataError, match=problem):
        classes_of_colors(torch.from_numpy(pixels).permute(2, 0, 1), COLORS, "x")


def parts_by_scipy(ids: np.ndarray) -> np.ndarray:
    parts = np.zeros_like(ids)
    for number in np.unique(ids):
        of_class, _ = ndimage.label(ids == number)
        parts += np.where(of_class > 0, of_class + parts.max(), 0)
    return parts


def made(ids: np.ndarray, divided: tuple[int, ...] = ()) -> np.ndarray:
    instances = connected_parts(torch.from_numpy(ids.astype(np.uint8))[None], divided)
    assert (instances.dtype, instances.shape) == (torch.int32, (1, *ids.shape))
    result: np.ndarray = instances[0].numpy()
    return result


SNAKE = np.zeros((41, 41), int)
SNAKE[::2] = SNAKE[1::4, -1] = SNAKE[3::4, 0] = 1


@pytest.mark.parametrize("ids", [SNAKE, np.eye(4, dtype=int), np.random.default_rng(0).integers(0, 4, (29, 17))])
def test_parts_are_those_of_scipy(ids: np.ndarray) -> None:
    found, expected = made(ids), parts_by_scipy(ids)
    n_pairs = len(set(zip(found.ravel().tolist(), expected.ravel().tolist(), strict=True)))
    assert n_pairs == len(np.unique(found)) == len(np.unique(expected))


def test_classes_that_are_not_divided_are_one_instance() -> None:
    ids = np.array([[0, 1, 0, 2, 0], [2, 1, 2, 2, 1]])
    numbers = made(ids, (2,))
    assert [len(np.unique(numbers[ids == k])) for k in range(3)] == [1, 1, 2]
    assert len(np.unique(numbers)) == 4
