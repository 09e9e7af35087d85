from pathlib import Path

import numpy as np
import pytest
import torch

from data.layout import PairingError
from data.map_reader import MapReader
from data.paired_folders import PairedFolders, SideBySide
from tests.conftest import save_image

UNPAIRED = "data.layout=unpaired_folders and method.name=contrastive or cycle"
GREY = np.zeros((4, 6), dtype=np.uint8)
RGB = np.zeros((4, 6, 3), dtype=np.uint8)


def label_folders(root: Path) -> PairedFolders:
    folders = {"source": "train_label", "target": "train_img", "instances": "train_inst"}
    return PairedFolders({kind: root / name for kind, name in folders.items()}, MapReader(n_classes=5))


def pairs(root: Path, a: list[str], b: list[str], weights: list[str] | None = None) -> PairedFolders:
    """Folders A, B and W with files of these names."""
    for folder, names in {"A": a, "B": b, "W": weights or []}.items():
        for name in names:
            save_image(root / folder / name, GREY if folder == "W" else RGB)
    weight_folder = None if weights is None else root / "W"
    return PairedFolders({"source": root / "A", "target": root / "B", "weights": weight_folder})


def test_pairs_are_matched_by_name_not_by_order(tmp_path: Path) -> None:
    for value, name in enumerate(("x1", "x2", "x10")):
        save_image(tmp_path / "A" / f"{name}.png", RGB + np.uint8(value))
        save_image(tmp_path / "B" / f"{name}.bmp", RGB + np.uint8(value + 100))
        save_image(tmp_path / "W" / f"{name}.png", GREY + np.uint8(value + 200))
    layout = pairs(tmp_path, [], [], [])
    assert [str(folder) for folder in layout.folders] == [str(tmp_path / name) for name in "ABW"]
    for index, value in enumerate((0, 2, 1)):
        sample = vars(layout.read(index))
        levels = [int(sample[kind].max()) for kind in ("source", "target", "weights")]
        assert levels == [value, value + 100, value + 200]


def test_names_may_end_differently_by_folder_and_a_sample_has_that_of_its_source(tmp_path: Path) -> None:
    for value, city in enumerate(("aachen_000000_000019", "bochum_000001_000019")):
        save_image(tmp_path / "train_label" / f"{city}_gtFine_labelIds.png", GREY + np.uint8(value))
        save_image(tmp_path / "train_inst" / f"{city}_gtFine_instanceIds.png", GREY + np.uint8(value))
        save_image(tmp_path / "train_img" / f"{city}_leftImg8bit.png", RGB + np.uint8(value))
    sample = vars(label_folders(tmp_path).read(1))
    assert sample["name"] == "bochum_000001_000019_gtFine_labelIds"
    assert [sample[kind].unique().tolist() for kind in ("source", "instances", "target")] == [[1]] * 3


def test_the_complete_pairs_are_left_where_some_have_no_partner(tmp_path: Path) -> None:
    problem = rf"d\.png: has no partner .* in {tmp_path / 'A'}: for images that are not pairs set {UNPAIRED}$"
    with pytest.raises(PairingError, match=problem) as error:
        pairs(tmp_path, ["a.png", "b.png", "c.png"], ["b.png", "d.png"])
    assert list(error.value.rest.names) == ["b"]


@pytest.mark.parametrize(
    ("a", "b", "problem"),
    [
        ([f"f{k}_a.png" for k in range(4)], [f"f{k}_b.png" for k in (0, 1, 3)], r"A/f2_a\.png: has no partner"),
        (["x_1.png", "y_1.png"], ["x_2.png", "y_2.png"], "has no partner"),  # numbers are no endings
        (["photo_cat.png"], ["photo_dog.png"], "has no partner"),  # a single file has no ending
        (["x.PNG"], ["X.png"], r"has no partner .*; X\.png differs "),
    ],
)
def test_a_missing_partner_is_found_whatever_the_names_end_in(
    tmp_path: Path, a: list[str], b: list[str], problem: str
) -> None:
    with pytest.raises(PairingError, match=problem):
        pairs(tmp_path, a, b)


def test_a_missing_map_has_a_remedy(tmp_path: Path, label_data_set: Path) -> None:
    (label_data_set / "train_inst").rename(label_data_set / "elsewhere")
    with pytest.raises(PairingError, match=r"train_inst: no such folder; .*data\.instance_edges=false"):
        label_folders(label_data_set)
    with pytest.raises(PairingError, match=r"A/x\.png: has no partner of the same name in .*W"):
        pairs(tmp_path, ["x.png"], ["x.png"], ["y.png"])


@pytest.mark.parametrize(("a_to_b", "source_level"), [(True, 10), (False, 200)])
def test_either_half_can_be_the_source(tmp_path: Path, a_to_b: bool, source_level: int) -> None:
    pair = np.full((4, 12, 3), 200, dtype=np.uint8)
    pair[:, :6] = 10
    save_image(tmp_path / "1.png", pair)
    maps = SideBySide(folder=tmp_path, a_to_b=a_to_b).read(0).maps
    for kind, level in (("source", source_level), ("target", 210 - source_level)):
        assert torch.equal(maps[kind], torch.full((3, 4, 6), level))
