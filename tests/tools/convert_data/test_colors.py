"""Label maps drawn in colours become ids, and a table of their colours; doubtful classes are warned about."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from data.files.image_files import read_ids
from tests.conftest import save_image
from tests.tools.convert_data.conftest import Convert
from tools.convert_data import conversion
from tools.convert_data.colors import color_warnings, count_colors
from utils.label_colors import LabelColors, read_label_colors

COLORS = np.array([[0, 0, 0], [0, 90, 200], [128, 64, 128]], np.uint8)  # in order of their values
BLACK_AND_BLUE = LabelColors("test", ("sky", "sea"), ((0, 0, 0), (0, 0, 200)))
IDS = np.arange(32 * 48).reshape(32, 48) % 48 // 16


@pytest.fixture
def maps(tmp_path: Path) -> Path:
    """Two maps of 48x32 with three classes; the second has 32 antialiased pixels, and is below a folder."""
    save_image(tmp_path / "maps" / "a.png", COLORS[IDS])
    blended = COLORS[IDS]
    blended[:, 16] = [100, 63, 128]  # near the third
    save_image(tmp_path / "maps" / "city" / "b.png", blended)
    return tmp_path / "maps"


def ids_in(folder: Path, name: str) -> np.ndarray:
    return read_ids(folder / "ids" / name)[0].numpy()


def test_colours_are_found_and_blends_get_the_nearest(maps: Path, tmp_path: Path, convert: Convert) -> None:
    code, out = convert("colors-to-ids", maps, tmp_path / "ids")
    assert code == 0
    assert np.array_equal(ids_in(tmp_path, "a.png"), IDS)
    expected = IDS.copy()
    expected[:, 16] = 2
    assert np.array_equal(ids_in(tmp_path, "city/b.png"), expected)
    assert "class_1 [0, 90, 200]: 992 pixels (32.29%)" in out
    assert "32 pixels (1.04%) of 1 other colour get the id of the nearest; the most frequent: [100, 63, 128] 32" in out
    assert f"to train on them: data.n_classes=3; other splits: --colors {tmp_path / 'ids.yaml'}" in out
    table = read_label_colors(str(tmp_path / "ids.yaml"))
    assert table.names == ("class_0", "class_1", "class_2")
    assert torch.equal(table.colors, torch.from_numpy(COLORS))


def test_colours_of_a_file_keep_their_order_and_ignored_ones_get_255(
    maps: Path, tmp_path: Path, convert: Convert
) -> None:
    file = tmp_path / "colors.yaml"
    file.write_text("road: [128, 64, 128]\nno: [0, 90, 200]\nignored: [[0, 0, 0], [9, 9, 9]]\n")
    code, out = convert("colors-to-ids", maps, tmp_path / "ids", "--colors", file)
    assert code == 0
    assert np.array_equal(ids_in(tmp_path, "a.png"), np.array([255, 1, 0])[IDS])
    assert "data.n_classes=2 data.ignore_id=255" in out
    assert "255 ignored [0, 0, 0], [9, 9, 9]: 1024 pixels (33.33%)" in out
    assert read_label_colors(str(tmp_path / "ids.yaml")).names == ("road", "no")


def test_palettes_of_their_own_become_the_same_ids(tmp_path: Path, convert: Convert) -> None:
    (tmp_path / "maps").mkdir()
    for name, ids in (("a", IDS), ("b", 2 - IDS)):
        image = Image.fromarray(COLORS[ids]).convert("P", palette=Image.Palette.ADAPTIVE, colors=3)
        image.save(tmp_path / "maps" / f"{name}.png")
    assert convert("colors-to-ids", tmp_path / "maps", tmp_path / "ids")[0] == 0
    assert np.array_equal(ids_in(tmp_path, "b.png"), 2 - IDS)


def test_shades_of_jpeg_are_one_colour(maps: Path, tmp_path: Path, convert: Convert) -> None:
    for path in list(maps.rglob("*.png")):
        Image.open(path).save(path.with_suffix(".jpg"), quality=60)
        path.unlink()
    assert convert("colors-to-ids", maps, tmp_path / "ids")[0] == 0
    assert (ids_in(tmp_path, "a.png") == IDS).mean() > 0.95


def test_kept_maps_keep_their_ids(
    maps: Path, tmp_path: Path, convert: Convert, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, other = tmp_path / "ids.yaml", tmp_path / "other.yaml"
    other.write_text("a: [0, 0, 0]\nb: [0, 90, 200]\nignored: [[128, 64, 128]]\n")
    write = conversion.write_png

    def write_after_the_table(path: Path, image: torch.Tensor) -> None:
        assert table.exists()
        write(path, image)

    monkeypatch.setattr(conversion, "write_png", write_after_the_table)  # what an interruption leaves
    assert convert("colors-to-ids", maps, tmp_path / "ids")[0] == 0
    new = COLORS[IDS]
    new[:, 32:] = [0, 0, 90]  # a new colour, which would be class 1
    save_image(maps / "c.png", new)
    assert convert("colors-to-ids", maps, tmp_path / "ids", "--existing", "keep")[0] == 0
    assert np.array_equal(ids_in(tmp_path, "c.png"), np.array([0, 1, 0])[IDS])
    code, out = convert("colors-to-ids", maps, tmp_path / "ids", "--existing", "keep", "--colors", other)
    assert (code, "existing maps have other colours" in out) == (2, True)
    table.unlink()
    code, out = convert("colors-to-ids", maps, tmp_path / "ids")
    assert (code, "already exists" in out) == (2, True)
    code, out = convert("colors-to-ids", maps, tmp_path / "ids", "--existing", "keep")
    message = f"maps without their colour table {table}. Use --existing replace, or --colors FILE"
    assert (code, message in out, table.exists()) == (2, True, False)
    assert convert("colors-to-ids", maps, tmp_path / "ids", "--existing", "keep", "--colors", other)[0] == 0


def test_photographs_and_bad_files_are_refused(maps: Path, tmp_path: Path, convert: Convert) -> None:
    rng = np.random.default_rng(0)
    save_image(tmp_path / "photos" / "x.png", rng.integers(0, 256, (32, 32, 3), np.uint8))
    for arguments, message in (
        ((maps / "a.png",), "a.png: is a file, expected a folder"),
        ((tmp_path / "photos",), "areas of 0 colours, expected 2 to 255: name the classes' colours with --colors FILE"),
        ((maps, "--colors", "none.yaml"), "error: --colors: no such file: none.yaml"),
    ):
        code, out = convert("colors-to-ids", arguments[0], tmp_path / "ids", *arguments[1:])
        assert (code, message in out, "from-photos" in out, (tmp_path / "ids").exists()) == (2, True, False, False)
    (maps / "bad.png").write_bytes(b"")
    code, out = convert("colors-to-ids", maps, tmp_path / "ids")
    assert (code, "left out: " in out) == (2, True)
    assert sorted(path.name for path in (tmp_path / "ids").rglob("*.png")) == ["a.png", "b.png"]


NEAR = "1 colour of areas merged, being near: [0, 9, 0] (5.00%) into sky [0, 0, 0]"
FAR = "1 colour far from all classes merged: [255, 0, 0] (2.00%) into sky [0, 0, 0]"


@pytest.mark.parametrize(
    ("rows", "is_jpeg", "expected"),
    [
        ({}, False, []),
        ({(0, 2): [0, 9, 0]}, False, []),  # a line of a near colour
        ({(0, 2): [255, 0, 0]}, False, [FAR]),
        ({(0, 5): [0, 9, 0]}, False, [NEAR]),
        (
            {(k, k + 2): [0, 10 + k, 0] for k in range(0, 20, 2)},
            False,
            ["20% of the pixels have a colour that is not that of a class"],
        ),
        ({(0, 20): [1, 2, 0]}, True, []),  # shades that JPEG makes of areas
    ],
)
def test_colours_that_may_be_classes_are_named(
    rows: dict[tuple[int, int], list[int]], is_jpeg: bool, expected: list[str]
) -> None:
    """Of a map of 100x100, blue in the lower half, with rows of other colours."""
    picture = np.zeros((100, 100, 3), np.uint8)
    picture[50:] = [0, 0, 200]
    for (top, bottom), color in rows.items():
        picture[top:bottom] = color
    counts = count_colors(torch.from_numpy(picture).permute(2, 0, 1))
    lines = color_warnings(counts, BLACK_AND_BLUE, is_jpeg=is_jpeg)
    assert lines == [f"{line}; name it with --colors FILE if it is a class" for line in expected]


def test_the_shades_of_a_gradient_are_named() -> None:
    shades = tuple((shade, shade, shade) for shade in range(0, 256, 4))
    colors = LabelColors("test", tuple(map(str, range(64))), shades)
    (line,) = color_warnings(count_colors(torch.zeros(3, 9, 9, dtype=torch.uint8)), colors, is_jpeg=False)
    assert line.startswith("64 of 64 classes are within 8 of another, as the shades of a gradient are")


def test_transparent_pixels_are_named(tmp_path: Path, convert: Convert) -> None:
    picture = np.zeros((32, 32, 4), np.uint8)
    picture[16:] = [0, 0, 200, 255]
    save_image(tmp_path / "maps" / "a.png", picture)
    picture[..., 3] = 255
    save_image(tmp_path / "maps" / "opaque.png", picture)
    code, out = convert("colors-to-ids", tmp_path / "maps", tmp_path / "ids")
    assert code == 0
    assert f"warning: 1 map with transparent pixels, such as {tmp_path / 'maps' / 'a.png'}: they get the class" in out
