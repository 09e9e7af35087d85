"""Label maps that are drawn in colours: the class of each pixel, and colours of no class."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from data.batch import DataError
from data.class_ids import classes_of_colors
from data.folder_store import LocalFile
from data.map_reader import MapReader
from utils.label_colors import LabelColors

TABLE = {"sky": [70, 130, 180], "road": [128, 64, 128], "car": [0, 0, 142], "ignored": [[0, 0, 0]]}
COLORS = LabelColors.of(TABLE, "test", "test")
ALL = LabelColors("test", COLORS.names, COLORS.rgb[:3])  # none is ignored
IDS = np.random.default_rng(0).integers(0, 4, (9, 13))  # 3: ignored


def picture(ids: np.ndarray) -> np.ndarray:
    return COLORS.colors.numpy()[ids]


def test_each_pixel_gets_the_class_of_its_colour() -> None:
    classes = classes_of_colors(torch.from_numpy(picture(IDS)).permute(2, 0, 1), COLORS, "x")
    assert classes.dtype == torch.uint8
    assert torch.equal(classes[0].long(), torch.from_numpy(IDS))


def test_many_classes_are_int32() -> None:
    many = LabelColors.of({f"class {k}": [k % 256, k // 256, 7] for k in range(300)}, "test", "test")
    pixels = many.colors[torch.arange(300)].view(3, 100, 3).permute(2, 0, 1)
    classes = classes_of_colors(pixels, many, "x")
    assert classes.dtype == torch.int32
    assert classes.flatten().tolist() == list(range(300))


@pytest.mark.parametrize("color", [[0, 0, 143], [255, 255, 255], [0, 0, 1]])
def test_another_colour_is_named_with_its_pixel_and_the_remedy(color: list[int]) -> None:
    pixels = picture(IDS)
    pixels[4, 7] = pixels[8, 12] = color
    with pytest.raises(DataError) as error:
        classes_of_colors(torch.from_numpy(pixels).permute(2, 0, 1), COLORS, "maps/x.png")
    (problem,) = error.value.problems
    assert problem.startswith(
        f"maps/x.png: pixel (row 4, column 7) has the colour {color}, which is none of data.label_colors, as 1.71% of "
        "its pixels. Smoothed borders and JPEG make such colours: python -m tools.convert_data colors-to-ids"
    )


def test_blue_and_red_in_each_others_place_are_named() -> None:
    with pytest.raises(DataError, match=r"In the order BGR all its colours are there: .*; exchange red and blue"):
        classes_of_colors(torch.from_numpy(picture(IDS)[..., ::-1].copy()).permute(2, 0, 1), COLORS, "x")


@pytest.mark.parametrize(
    ("ids", "colors", "ignored"),
    [
        (IDS % 3, ALL, ""),
        (IDS % 3, COLORS, " data.ignore_id=255"),
        (np.where(IDS > 2, 255, IDS), ALL, " data.ignore_id=255"),
    ],
)
def test_ids_are_recognized_where_colours_are_expected(ids: np.ndarray, colors: LabelColors, ignored: str) -> None:
    pixels = torch.from_numpy(ids.astype(np.uint8)).expand(3, -1, -1)
    problem = rf"^x: these are ids already, .*: set data\.n_classes=3{ignored} data\.label_colors=null$"
    with pytest.raises(DataError, match=problem):
        classes_of_colors(pixels, colors, "x")


def test_other_levels_of_grey_are_no_ids() -> None:
    pixels = torch.from_numpy((IDS + 3).astype(np.uint8)).expand(3, -1, -1)
    with pytest.raises(DataError, match=r"none of data\.label_colors"):
        classes_of_colors(pixels, COLORS, "x")


@pytest.mark.parametrize("kind", ["RGB", "RGBA", "palette"])
def test_colours_are_the_same_in_every_kind_of_file(tmp_path: Path, kind: str) -> None:
    image = Image.fromarray(picture(IDS))
    if kind == "RGBA":
        image = image.convert("RGBA")
    elif kind != "RGB":  # in which the index of a colour is another one than that of its class
        image = image.quantize(4)
    image.save(tmp_path / "x.png")
    sample = MapReader(3, None, colors=COLORS).read("x", {"source": tmp_path / "x.png"})
    assert torch.equal(sample.source[0].long(), torch.from_numpy(IDS))


def test_the_origin_of_a_sample_knows_the_colours(tmp_path: Path) -> None:
    other = LabelColors.of({"road": TABLE["road"], "sky": TABLE["sky"], "car": TABLE["car"]}, "test", "test")
    files = {"source": LocalFile.of(tmp_path / "x.png")}
    readers = [MapReader(3, None), MapReader(3, None, colors=COLORS), MapReader(3, None, colors=other)]
    readers += [MapReader(3, None, colors=COLORS, divided_classes=frozenset(parts)) for parts in ((), (1,))]
    assert len({reader.origin(files).rule for reader in readers}) == len(readers)
    assert readers[0].origin(files).rule == "['source'] 3 None"  # that of earlier versions, whose caches stay valid
