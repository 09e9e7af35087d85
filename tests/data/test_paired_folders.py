from pathlib import Path

import numpy as np
import pytest
import torch

from data.batch import DataError
from data.layout import PairingError
from data.map_reader import MapReader
from data.paired_folders import PairedFolders
from tests.conftest import save_image

GREY = np.zeros((4, 6), dtype=np.uint8)
RGB = np.zeros((4, 6, 3), dtype=np.uint8)


def label_folders(root: Path) -> PairedFolders:
    return PairedFolders(
        source_folder=root / "train_label",
        target_folder=root / "train_img",
        instance_folder=root / "train_inst",
        reader=MapReader(n_classes=5),
    )


def rgb_folders(root: Path) -> PairedFolders:
    return PairedFolders(source_folder=root / "A", target_folder=root / "B", instance_folder=None)


def test_labels_instances_and_photos_are_read(label_data_set: Path) -> None:
    layout = label_folders(label_data_set)
    assert [layout.read(index).name for index in range(len(layout))] == ["a", "b", "c"]
    sample = layout.read(0)
    assert sample.instances is not None
    assert sample.target is not None
    assert sample.source.shape == (1, 32, 64)
    assert sample.source.dtype == torch.uint8
    assert torch.equal(sample.instances, sample.source.int() * 1000 + 7)
    assert sample.target.shape == (3, 32, 64)


def test_pairs_are_matched_by_name_not_by_order(tmp_path: Path) -> None:
    for value, name in enumerate(("x1", "x2", "x10")):
        save_image(tmp_path / "A" / f"{name}.png", RGB + np.uint8(value))
        save_image(tmp_path / "B" / f"{name}.bmp", RGB + np.uint8(value + 100))
    layout = rgb_folders(tmp_path)
    for index in range(3):
        sample = layout.read(index)
        assert sample.target is not None
        assert torch.equal(sample.source + 100, sample.target)


def test_names_may_end_differently_by_folder_and_a_sample_has_that_of_its_source(tmp_path: Path) -> None:
    for value, city in enumerate(("aachen_000000_000019", "bochum_000001_000019")):
        save_image(tmp_path / "train_label" / f"{city}_gtFine_labelIds.png", GREY + np.uint8(value))
        save_image(tmp_path / "train_inst" / f"{city}_gtFine_instanceIds.png", GREY + np.uint8(value))
        save_image(tmp_path / "train_img" / f"{city}_leftImg8bit.png", RGB + np.uint8(value))
    sample = label_folders(tmp_path).read(1)
    assert sample.name == "bochum_000001_000019_gtFine_labelIds"
    assert sample.instances is not None
    assert sample.target is not None
    assert sample.source.unique() == sample.instances.unique() == sample.target.unique() == 1


def test_what_has_no_partner_is_listed_by_folder(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        save_image(tmp_path / "A" / f"{name}.png", RGB)
    for name in ("b", "d"):
        save_image(tmp_path / "B" / f"{name}.png", RGB)
    with pytest.raises(PairingError) as error:
        rgb_folders(tmp_path)
    a, b = tmp_path / "A", tmp_path / "B"
    assert error.value.problems == (
        f"{a / 'a.png'}: without a partner of the same name in {b}",
        f"{a / 'c.png'}: without a partner of the same name in {b}",
        f"{b / 'd.png'}: without a partner of the same name in {a}",
    )
    assert error.value.rest is not None
    assert list(error.value.rest.names) == ["b"]


def test_a_missing_file_is_found_among_names_with_different_endings(tmp_path: Path) -> None:
    for number in range(4):
        save_image(tmp_path / "A" / f"frame_{number}_labels.png", RGB)
        if number != 2:
            save_image(tmp_path / "B" / f"frame_{number}_photo.png", RGB)
    with pytest.raises(DataError, match=r"^\S*A/frame_2_labels\.png: without a partner .*B$"):
        rgb_folders(tmp_path)


def test_numbers_and_single_files_are_no_endings(tmp_path: Path) -> None:
    for folder, names in {"A": ["x_1", "y_1"], "B": ["x_2", "y_2"]}.items():
        for name in names:
            save_image(tmp_path / folder / f"{name}.png", RGB)
    with pytest.raises(DataError, match="without a partner"):
        rgb_folders(tmp_path)
    for folder, name in {"A": "photo_cat", "B": "photo_dog"}.items():
        save_image(tmp_path / "single" / folder / f"{name}.png", RGB)
    with pytest.raises(DataError, match="without a partner"):
        rgb_folders(tmp_path / "single")


def test_an_empty_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "A").mkdir()
    (tmp_path / "B").mkdir()
    with pytest.raises(DataError, match=r"A: holds no image"):
        rgb_folders(tmp_path)


def test_missing_instance_maps_have_a_remedy(label_data_set: Path) -> None:
    (label_data_set / "train_inst").rename(label_data_set / "elsewhere")
    with pytest.raises(PairingError) as error:
        label_folders(label_data_set)
    (problem,) = error.value.problems
    assert problem.startswith(f"{label_data_set / 'train_inst'}: no such folder")
    assert "data.instance_edges=false" in problem
