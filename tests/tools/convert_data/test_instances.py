"""Instance maps are written from label maps, and are those of data.instances=connected."""

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
from utils.label_colors import read_label_colors

COLORS = np.array([[70, 130, 180], [128, 64, 128], [0, 0, 142], [0, 0, 0]], np.uint8)
FILE = "sky: [70, 130, 180]\nroad: [128, 64, 128]\ncar: [0, 0, 142]\nignored: [[0, 0, 0]]\n"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Pairs of 48x32: train_label in ids, 255 where there is no class, and colored in colours."""
    rng = np.random.default_rng(0)
    for name in ("a", "city/b"):
        ids = rng.integers(0, 4, (8, 12)).repeat(4, 0).repeat(4, 1)
        save_image(tmp_path / "train_label" / f"{name}.png", np.where(ids == 3, 255, ids).astype(np.uint8))
        save_image(tmp_path / "colored" / f"{name}.png", COLORS[ids])
        save_image(tmp_path / "train_img" / f"{name}.png", COLORS[ids])
    (tmp_path / "colors.yaml").write_text(FILE)
    return tmp_path


def read_all(data: Path, *, divided: frozenset[int] | None) -> list[torch.Tensor]:
    """Return the instance maps of the pairs, from files where there is no class to divide."""
    layout = PairedFolders(
        source_folder=data / "train_label",
        target_folder=data / "train_img",
        instance_folder=data / "train_inst" if divided is None else None,
        reader=MapReader(3, 255, divided_classes=divided),
    )
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


def test_existing_maps_are_kept_or_replaced(data: Path, convert: Convert) -> None:
    save_image(data / "train_inst" / "a.png", np.full((32, 48), 7, np.uint8))
    folders = (data / "train_label", data / "train_inst")
    for existing, expected in (("refuse", (2, 1, False)), ("keep", (0, 1, True)), ("replace", (0, 20, True))):
        code = convert("to-instances", *folders, "--existing", existing)[0]
        n_instances = min(len(read_ids(data / "train_inst" / "a.png").unique()), 20)
        assert (code, n_instances, (data / "train_inst" / "city" / "b.png").exists()) == expected


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
