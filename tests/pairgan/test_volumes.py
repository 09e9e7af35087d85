"""pairgan.py translates volumes as test.py does."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pairgan
from data.volume_cache import value_window
from tests.pairgan.conftest import returning, rng, trained
from tests.runs import translate
from tests.volumes import OF_VOLUMES, noise, save_volume

CASES: dict[str, Any] = torch.load(Path(__file__).parents[1] / "reference" / "volumes_reference.pt", weights_only=True)
TWO = ["data.source_folder=[{split}_T1,{split}_T2]", "data.source_channels=2"]
SIZE = (11, 9, 14)  # more slices than a batch; sides that are padded


def identity(folder: Path, n_channels: int, *settings: str) -> pairgan.Model:
    """Return a model whose translations are the channels of its input, in the order of the slices."""
    wide = [*OF_VOLUMES, "data.source_range=[-9e4,9e4]", "data.target_range=[-9e4,9e4]", *settings]
    return returning("source", folder, {"source": f"floatx{n_channels}"}, "float", *wide)


def test_slices_are_stacked_as_in_the_reference(tmp_path: Path) -> None:
    for case in CASES["stacks"]:
        volume = np.moveaxis(case["volume"].numpy(), ["axial", "coronal", "sagittal"].index(case["axis"]), 0)
        expected = case["expected"].flatten(0, 1).numpy()
        model = identity(tmp_path, case["expected"].shape[1], f"data.neighbours={case['neighbours']}")
        assert np.array_equal(model(volume), expected)
    model = identity(tmp_path, 6, "data.neighbours=1", *TWO)
    found = model([volume.numpy() for volume in CASES["two_sources"]["volumes"]])
    assert np.array_equal(found, CASES["two_sources"]["expected"].flatten(0, 1).numpy())


def test_each_volume_has_its_own_range(tmp_path: Path) -> None:
    case = CASES["ranges"]
    found = identity(tmp_path, 1, "data.source_range=volume")(case["mr"].numpy())
    assert np.allclose(2 * found.clip(0, 1) - 1, case["mr_seen"].numpy(), rtol=0, atol=case["tolerance"])
    for volume in (noise(0), np.full((2, 3, 4), 7, np.int16), rng.random((3, 4, 5), dtype=np.float32)):
        low, high = map(np.float32, value_window(volume))
        assert np.array_equal(pairgan._scaled(volume), (volume.astype(np.float32) - low) / (high - low))


@pytest.mark.parametrize(
    ("settings", "axis"),
    [
        (["data.neighbours=2", "data.preprocess=crop", "data.crop_height=12", "data.crop_width=12"], 0),
        ([*TWO, "data.source_range=[-1000,2000]", "data.axis=coronal"], 1),
    ],
    ids=["5 slices, own range, padded to the crop", "two sources, coronal"],
)
def test_volumes_are_translated_as_by_test_py(tmp_path: Path, settings: list[str], axis: int) -> None:
    SimpleITK = pytest.importorskip("SimpleITK")  # noqa: N806 - the name of the package
    run_folder = trained(tmp_path, *OF_VOLUMES, *settings)
    folders = [tmp_path / "T1", tmp_path / "T2"] if axis else [tmp_path / "T1"]
    volumes = [noise(number, SIZE) for number, _ in enumerate(folders)]
    for folder, volume in zip(folders, volumes, strict=True):
        save_volume(folder / "p.nii.gz", volume)
    inputs = ["--checkpoint", run_folder, "--input", *folders, "--output", tmp_path / "out"]
    translate(*map(str, inputs), "--opt-level", "O0")
    wanted = SimpleITK.GetArrayFromImage(SimpleITK.ReadImage(str(tmp_path / "out" / "p.nii.gz")))
    model = pairgan.load(run_folder / "generator.onnx", device="cpu")
    given = [np.moveaxis(volume, axis, 0) for volume in volumes]
    found = np.moveaxis(model(given if axis else given[0]), 0, axis)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape) == (np.int16, SIZE)
    assert wanted.std() > 100
    assert abs(found.astype(int) - wanted).max() <= 1
    assert model.card["target"] == "volume, values -1024 to 3071"
    assert ("along axis coronal" if axis else "5 slices along axis axial") in model.card["source"]


def test_unbounded_translations_are_clipped_to_the_range_of_the_targets(tmp_path: Path) -> None:
    model = identity(tmp_path, 1, "data.target_range=[-1024,3071]")
    volume = np.array([[[-2000, 5, 4000]]], np.int16)
    assert model(volume).tolist() == [[[-1024, 5, 3071]]]
    np.save(tmp_path / "p.npy", volume)
    assert [found.tolist() for found in model.batch([volume, tmp_path / "p.npy"])] == 2 * [[[[-1024, 5, 3071]]]]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (noise(0)[0], r"shapes \[\(5, 6\)\]. Give 1 finite \(D, H, W\) array"),
        ([noise(0), noise(1)], r"shapes \[\(4, 5, 6\), \(4, 5, 6\)\]. Give 1 "),
        ([], r"shapes \[\]"),
        (np.zeros((0, 5, 6)), "Give 1 finite"),
        (np.full((2, 3, 4), np.nan), "Give 1 finite"),
        (np.zeros((2, 3, 4), complex), "Give 1 finite"),
        ("p001.nii.gz", r"p001\.nii\.gz: cannot be read"),
    ],
    ids=range(7),
)
def test_other_inputs_are_refused(tmp_path: Path, given: Any, problem: str) -> None:
    with pytest.raises(pairgan.ImageError, match=problem) as caught:
        identity(tmp_path, 1)(given)
    assert "\n" not in str(caught.value)


def test_a_volume_needs_an_output_that_holds_it(tmp_path: Path, command: Callable[..., tuple[object, str]]) -> None:
    model = identity(tmp_path, 1)
    np.save(tmp_path / "p.npy", noise(0))
    code, error = command(model.path, tmp_path / "p.npy", tmp_path / "p.png")
    assert code == 2
    assert re.fullmatch(r"error: .*p\.png: cannot hold 4 float32 channels\. End OUT in \.npy\.\n", error)
    assert command(model.path, tmp_path / "p.npy", tmp_path / "out.npy") == (0, "")
    assert np.array_equal(np.load(tmp_path / "out.npy"), noise(0))
