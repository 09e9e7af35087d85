from pathlib import Path

import numpy as np
import pytest
import torch

from data.batch import DataError, Sample
from data.map_reader import MapReader
from tests.conftest import save_image

PHOTO = np.zeros((4, 6, 3), dtype=np.uint8)


def read(root: Path, labels: np.ndarray, *, n_classes: int = 5, ignore_id: int | None = None) -> Sample:
    paths = {kind: root / f"{kind}.png" for kind in ("source", "instances", "target")}
    for kind in ("source", "instances"):
        save_image(paths[kind], labels)
    save_image(paths["target"], np.zeros((*labels.shape, 3), dtype=np.uint8))
    return MapReader(n_classes, ignore_id).read("a", paths)


def test_maps_of_different_sizes_are_named(tmp_path: Path) -> None:
    paths = {"source": tmp_path / "A" / "a.png", "target": tmp_path / "B" / "a.png"}
    save_image(paths["source"], PHOTO)
    save_image(paths["target"], PHOTO[:2])
    with pytest.raises(DataError, match=r"A/a\.png is 6x4 but its partner .*B/a\.png is 6x2"):
        MapReader(0, None).read("a", paths)


def test_features_may_have_another_size(tmp_path: Path) -> None:
    paths = {"source": tmp_path / "source.png", "features": tmp_path / "features.png"}
    save_image(paths["source"], PHOTO)
    save_image(paths["features"], PHOTO[:2])
    features = MapReader(0, None).read("a", paths).features
    assert features is not None
    assert features.shape == (3, 2, 6)


def test_an_id_outside_the_classes_is_located(tmp_path: Path) -> None:
    labels = np.zeros((32, 48), dtype=np.uint8)
    labels[3, 11] = 255
    message = r"source\.png: pixel \(row 3, column 11\) holds id 255, allowed are 0 to 4: .*data\.ignore_id=255"
    with pytest.raises(DataError, match=message):
        read(tmp_path, labels)


def test_the_ignore_id_becomes_the_number_of_classes(tmp_path: Path) -> None:
    labels = np.array([[0, 1, 255, 4]], dtype=np.uint8)
    assert read(tmp_path, labels, ignore_id=255).source.tolist() == [[[0, 1, 5, 4]]]


def test_more_than_255_classes_are_kept_exactly(tmp_path: Path) -> None:
    labels = np.array([[0, 299, 65535]], dtype=np.uint16)
    source = read(tmp_path, labels, n_classes=300, ignore_id=65535).source
    assert source.tolist() == [[[0, 299, 300]]]
    assert source.dtype == torch.int32
