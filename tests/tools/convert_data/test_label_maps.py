"""Label maps drawn in colours become ids and a table of their colours; their instances are those of training."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from data.class_ids import classes_of_colors, connected_parts
from data.conditioning import instance_edges
from data.files.image_files import read_ids, read_rgb
from data.map_reader import MapReader
from data.paired_folders import PairedFolders
from tests.conftest import save_image
from tests.tools.convert_data.conftest import Convert
from tools.convert_data import conversion
from tools.convert_data.label_maps import color_warnings, count_colors
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


OF_CLASSES = np.array([[70, 130, 180], [128, 64, 128], [0, 0, 142], [0, 0, 0]], np.uint8)
FILE = "sky: [70, 130, 180]\nroad: [128, 64, 128]\ncar: [0, 0, 142]\nignored: [[0, 0, 0]]\n"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Pairs of 48x32: train_label in ids, 255 where there is no class, and colored in colours."""
    rng = np.random.default_rng(0)
    for name in ("a", "city/b"):
        ids = rng.integers(0, 4, (8, 12)).repeat(4, 0).repeat(4, 1)
        save_image(tmp_path / "train_label" / f"{name}.png", np.where(ids == 3, 255, ids).astype(np.uint8))
        save_image(tmp_path / "colored" / f"{name}.png", OF_CLASSES[ids])
        save_image(tmp_path / "train_img" / f"{name}.png", OF_CLASSES[ids])
    (tmp_path / "colors.yaml").write_text(FILE)
    return tmp_path


def read_all(data: Path, *, divided: frozenset[int] | None) -> list[torch.Tensor]:
    """Return the instance maps of the pairs, from files where there is no class to divide."""
    stored = {"instances": data / "train_inst"} if divided is None else {}
    folders = {"source": data / "train_label", "target": data / "train_img", **stored}
    layout = PairedFolders(folders, MapReader(3, 255, divided_classes=divided))
    maps = [layout.read(index).instances for index in range(len(layout))]
    assert len(maps) == 2
    return [found for found in maps if found is not None]


@pytest.mark.parametrize("classes", [(), (2,), (0, 2)])
def test_they_are_those_of_connected(data: Path, convert: Convert, classes: tuple[int, ...]) -> None:
    chosen = ["--classes", ",".join(map(str, classes))] if classes else []
    code, out = convert("to-instances", data / "train_label", data / "train_inst", *chosen)
    assert code == 0
    assert f"{data / 'train_inst'}: 2 instance maps" in out
    assert "data.instance_edges=true" in out
    made, wanted = read_all(data, divided=None), read_all(data, divided=frozenset(classes))
    for of_file, connected in zip(made, wanted, strict=True):
        assert torch.equal(instance_edges(of_file[None]), instance_edges(connected[None]))
        pairs = torch.stack([of_file.flatten(), connected.flatten()]).unique(dim=1)  # the regions are the same, too
        assert pairs.shape[1] == len(of_file.unique()) == len(connected.unique())
    with Image.open(data / "train_inst" / "a.png") as image:
        assert image.mode == "I;16"


def test_coloured_maps_give_the_same(data: Path, convert: Convert) -> None:
    colors = ["--colors", str(data / "colors.yaml")]
    assert convert("to-instances", data / "train_label", data / "of_ids", "--classes", "2")[0] == 0
    assert convert("to-instances", data / "colored", data / "of_colors", "--classes", "car", *colors)[0] == 0
    made = [read_ids(data / folder / "city" / "b.png") for folder in ("of_ids", "of_colors")]
    assert torch.equal(*made)
    table = read_label_colors(str(data / "colors.yaml"))
    classes = classes_of_colors(read_rgb(data / "colored" / "city" / "b.png"), table, "b")
    assert torch.equal(made[1], connected_parts(classes, [2]))


def test_more_than_65536_instances_become_a_tiff(tmp_path: Path, convert: Convert) -> None:
    save_image(tmp_path / "maps" / "x.png", (np.indices((260, 260)).sum(0) % 2).astype(np.uint8))
    save_image(tmp_path / "inst" / "x.png", np.zeros((260, 260), np.uint8))
    code, out = convert("to-instances", tmp_path / "maps", tmp_path / "inst", "--existing", "replace")
    assert (code, "more than 65536 instances, written as 32-bit TIFF: x" in out) == (0, True)
    assert [path.name for path in (tmp_path / "inst").iterdir()] == ["x.tif"]
    assert len(read_ids(tmp_path / "inst" / "x.tif").unique()) == 260 * 260
    assert convert("to-instances", tmp_path / "maps", tmp_path / "inst")[0] == 2  # the TIFF is the existing file


def test_what_cannot_be_used_is_left_out(data: Path, convert: Convert) -> None:
    (data / "train_label" / "bad.png").write_bytes(b"")
    code, out = convert("to-instances", data / "train_label", data / "train_inst")
    assert (code, "left out: " in out, "bad.png" in out) == (2, True, True)
    code, out = convert("to-instances", data / "colored", data / "other")
    assert (code, out.count("expected one integer id per pixel")) == (2, 2)
    (data / "colors.yaml").write_text("sky: [70, 130, 180]\nroad: [128, 64, 128]\n")
    code, out = convert("to-instances", data / "colored", data / "other", "--colors", data / "colors.yaml")
    assert (code, out.count("which is none of data.label_colors")) == (2, 2)


def test_classes_that_do_not_exist_are_named(data: Path, convert: Convert) -> None:
    folders = (str(data / "train_label"), str(data / "train_inst"))
    colors = str(data / "colors.yaml")
    for chosen, message in (
        (["--classes", "car"], "--classes: 'car', expected ids from 0 to 16777215; names need --colors FILE"),
        (["--classes", "3", "--colors", colors], "'3', expected ids from 0 to 2 or names: sky, road"),
        (["--classes", "car,,"], "expected classes, such as car,rider"),
        (["--colors", "none.yaml"], "--colors: no such file: none.yaml"),
    ):
        assert message in convert.refusal("to-instances", *folders, *chosen)
    assert not (data / "train_inst").exists()
    code, out = convert("to-instances", *folders, "--classes", "2,17")
    assert (code, "warning: --classes: in no map: 17" in out) == (0, True)
