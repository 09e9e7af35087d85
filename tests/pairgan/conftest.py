"""Exported runs of label maps and of photographs."""

from pathlib import Path

import pytest

import pairgan
from tests.pairgan.exported import photo_pairs, trained


@pytest.fixture(scope="session")
def of_labels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of label maps and instance edges."""
    return trained(tmp_path_factory.mktemp("labels"))


@pytest.fixture(scope="session")
def of_photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of RGB images."""
    folder = tmp_path_factory.mktemp("photos")
    return trained(folder, *photo_pairs(folder))


@pytest.fixture(scope="session")
def model(of_labels: Path) -> pairgan.Model:
    return pairgan.load(of_labels / "generator.onnx", device="cpu")
