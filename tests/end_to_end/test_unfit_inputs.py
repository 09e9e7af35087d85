"""Inputs of another depth, unit or number of channels than the training images end in one line, or are reported."""

from pathlib import Path

import numpy as np
import pytest

from data.batch import DataError
from tests.conftest import save_image
from tests.end_to_end.test_other_images import CONFIG
from tests.images import save_npy, tifffile
from tests.runs import run, translate

RNG = np.random.default_rng(0)
UINT8 = RNG.integers(0, 256, (32, 32), dtype=np.uint8)
UINT16 = RNG.integers(0, 60000, (32, 32)).astype(np.uint16)
FLOATS = RNG.random((32, 32)).astype(np.float32)


def trained(folder: Path, pixels: np.ndarray) -> Path:
    """Return the folder of a run whose sources and targets are `pixels`, as .npy, or as PNG of RGB."""
    n_channels = 3 if pixels.ndim == 3 else 1
    for split in ("train", "test"):
        for kind in "AB":
            path = folder / "pairs" / f"{split}_{kind}" / "0.npy"
            (save_image if n_channels == 3 else save_npy)(
                path.with_suffix(".png" if n_channels == 3 else ".npy"), pixels
            )
    config = folder / "config.yaml"
    text = CONFIG.format(root=folder).replace(", show_channels: [3, 2, 1]", "")
    channels = f"source_channels: {n_channels}, target_channels: {n_channels}"
    config.write_text(text.replace("source_channels: 4, target_channels: 1", channels))
    run(config, "train.max_steps=1")
    return folder / "runs" / "tiny"


@pytest.fixture(scope="module")
def run_of_16_bits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("sixteen"), UINT16)


def translated(run_folder: Path, source: Path, *options: str) -> None:
    output = source.parent / "out" / source.stem
    translate("--checkpoint", str(run_folder), "--input", str(source), "--output", str(output), *options)


def test_8_bits_for_16_are_refused(run_of_16_bits: Path, tmp_path: Path) -> None:
    save_image(tmp_path / "x.png", UINT8)
    message = (
        r"x\.png: holds 8 bits, the training images values up to 59\d+.*: store it as those, or set data\.source_r"
    )
    with pytest.raises(DataError, match=message):
        translated(run_of_16_bits, tmp_path / "x.png")
    translated(run_of_16_bits, tmp_path / "x.png", "data.source_range=[0,255]")


def test_8_bit_targets_for_16_are_refused(run_of_16_bits: Path, tmp_path: Path) -> None:
    save_image(tmp_path / "in" / "x.png", UINT16)
    save_image(tmp_path / "targets" / "x.png", UINT8)
    with pytest.raises(DataError, match=r"targets/x\.png: holds 8 bits, .* or set data\.target_range=\[0,255\]"):
        translated(run_of_16_bits, tmp_path / "in", "--targets", str(tmp_path / "targets"))


def test_other_channels_are_refused(run_of_16_bits: Path, tmp_path: Path) -> None:
    tifffile().imwrite(tmp_path / "x.tif", np.stack([UINT16] * 4), photometric="minisblack")
    with pytest.raises(DataError, match=r"x\.tif: has 4 channels, the training images 1: give images like those"):
        translated(run_of_16_bits, tmp_path / "x.tif")


def test_values_in_another_unit_are_reported(
    run_of_16_bits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_image(tmp_path / "in" / "right.png", UINT16)
    translated(run_of_16_bits, tmp_path / "in" / "right.png")
    assert "do not fit" not in capsys.readouterr().out
    save_npy(tmp_path / "unit" / "x.npy", FLOATS)
    translated(run_of_16_bits, tmp_path / "unit" / "x.npy")
    shown = capsys.readouterr().out
    assert "1 of 1 sources do not fit the values of the training" in shown
    assert "such as x with " in shown
    save_image(tmp_path / "x.png", UINT16)
    save_image(tmp_path / "tenth.png", UINT16 // 10)
    translated(run_of_16_bits, tmp_path / "tenth.png")
    assert "1 of 1 sources do not fit the values of the training, " in capsys.readouterr().out
    translated(trained(tmp_path / "floats", FLOATS), tmp_path / "x.png")
    assert "1 of 1 sources do not fit the values of the training, " in capsys.readouterr().out


def test_bands_and_arrays_for_rgb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_folder = trained(tmp_path, np.stack([UINT8] * 3, axis=2))
    tifffile().imwrite(tmp_path / "x.tif", np.stack([UINT8] * 5), photometric="minisblack")
    translated(run_folder, tmp_path / "x.tif")
    assert "1 file of several images or bands, of which the first is translated, such as " in capsys.readouterr().out
    save_npy(tmp_path / "x.npy", FLOATS)
    with pytest.raises(DataError, match=r"x\.npy: .*it is a NumPy array, expected an 8-bit image"):
        translated(run_folder, tmp_path / "x.npy")
