"""test.py with several checkpoints writes the mean of the translations and, with --spread, their standard deviation."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from data.batch import Batch, DataError, Sample
from data.files.image_files import read_pixels, read_rgb
from data.files.tiff_tags import write_tiff
from inference.load import load_generator
from inference.request import Request
from inference.requested_predictor import load_ensemble
from tests.conftest import save_image, write_tiny_config
from tests.runs import STYLE, translate, untrained_run
from tests.videos import write_video
from utils.checkpoint_folder import checkpoint_path
from utils.errors import UserError
from utils.files import sha256_of_file

PHOTOS = ["data.layout=paired_folders", "data.root=somewhere", "data.instance_edges=false"]
FLOATS = [*PHOTOS, "data.target_channels=1", "data.target_range=[-1024,3071]"]
MEMBERS: tuple[list[str], ...] = ([], ["generator.base_channels=6", "generator.n_blocks=2"], ["generator.norm=batch"])


def runs(folder: Path, *settings: str) -> list[Path]:
    """Write three runs with different weights. Their generators have different numbers of layers."""
    config = write_tiny_config(folder)
    return [untrained_run(config, *settings, *own, f"run.name=run{n}") for n, own in enumerate(MEMBERS)]


def named(folders: list[Path]) -> list[str]:
    return [word for folder in folders for word in ("--checkpoint", str(folder))]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return runs(tmp_path_factory.mktemp("photos"), *PHOTOS)


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """Three RGB images: x and y have the same size, and the sides of z are not multiples of 4."""
    for seed, (name, size) in enumerate({"x": (48, 64), "y": (48, 64), "z": (41, 50)}.items()):
        pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)
        save_image(tmp_path / "in" / f"{name}.png", pixels)
    return tmp_path / "in"


def outputs(folders: list[Path], image: Tensor) -> Tensor:
    """The outputs of all generators for an RGB image, in [-1, 1]."""
    loaded, batch = (
        [load_generator(checkpoint_path(folder, 1)) for folder in folders],
        Batch.of([Sample("x", source=image)]),
    )
    with torch.no_grad():
        return torch.cat([each.generator.eval()(each.conditioning(batch)) for each in loaded])


@pytest.mark.parametrize(
    ("is_rgb", "options"), [(True, []), (False, ["--tile", "16"]), (True, ["--batch-size", "2"])], ids=str
)
def test_mean_and_spread_are_those_of_the_translations_before_rounding(
    photos: list[Path], sources: Path, tmp_path: Path, options: list[str], *, is_rgb: bool
) -> None:
    folders, output = photos if is_rgb else runs(tmp_path, *FLOATS), tmp_path / "out"
    arguments = [*named(folders), "--spread", "--input", str(sources), "--output", str(output), "--opt-level", "O0"]
    translate(*arguments, *options)
    half, low = (127.5, 0) if is_rgb else (4095 / 2, -1024)
    expected = outputs(folders, read_rgb(sources / "x.png")).double()
    mean, spread = (expected.mean(0) + 1) * half + low, expected.std(0, correction=0) * half
    image, tolerance = read_pixels(output / f"x.{'png' if is_rgb else 'tif'}"), half * 1e-5
    assert (image - mean).abs().max() <= 0.5 * is_rgb + tolerance
    assert (read_pixels(output / "x_spread.tif") - spread).abs().max() <= tolerance
    assert spread.mean() > 0.01 * half  # the generators differ
    assert read_pixels(output / "z_spread.tif").shape == (*spread.shape[:1], 41, 50)


def test_the_mean_alone_is_one_file_that_names_its_checkpoints(
    photos: list[Path], sources: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    translate(*named(photos[:2]), "--input", str(sources), "--opt-level", "O0")
    output = tmp_path / "results" / "run0" / "in_step1_mean_of_2"
    assert {path.stem for path in output.glob("*.*")} == {"x", "y", "z", "contact_sheet", "index"}
    mean = outputs(photos[:2], read_rgb(sources / "x.png")).mean(0)
    assert (read_rgb(output / "x.png") - (mean + 1) * 127.5).abs().max() <= 0.51
    record = json.loads((output / "gallery" / "origin.json").read_text())
    assert record["checkpoint_sha256"].split(", ") == [sha256_of_file(checkpoint_path(run, 1)) for run in photos[:2]]


def test_earlier_results_are_kept_only_with_the_same_checkpoints_and_files(
    photos: list[Path], sources: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"
    arguments = ["--input", str(sources), "--output", str(output)]
    save_image(output / "y_spread.tif", np.zeros((8, 8), np.uint8))
    with pytest.raises(DataError, match=r"would overwrite .*y_spread\.tif, which test\.py did not write"):
        translate(*named(photos), *arguments, "--spread")
    (output / "y_spread.tif").unlink()
    translate(*named(photos), *arguments, "--spread")
    (output / "x_spread.tif").unlink()
    translate(*named(photos), *arguments, "--spread", "--existing", "keep")
    assert "kept         2 existing images" in capfd.readouterr().out
    assert (output / "x_spread.tif").exists()
    for options, found in {(photos[0], photos[2]): "checkpoint_sha256", (photos[0],): "weights, .*spread"}.items():
        with pytest.raises(DataError, match=rf"made with other settings \(.*{found}"):
            translate(*named([*options]), *arguments, "--existing", "keep")
    translate(*named(photos), *arguments)
    assert list(output.glob("*_spread.tif")) == []


def test_pixels_without_data_have_no_spread(photos: list[Path], tmp_path: Path) -> None:
    pixels = torch.randint(1, 256, (3, 32, 32), dtype=torch.uint8)
    pixels[:, :5] = 0
    (tmp_path / "in").mkdir()
    write_tiff(tmp_path / "in" / "x.tif", pixels, no_data=0)
    translate(*named(photos), "--spread", "--input", str(tmp_path / "in"), "--output", str(tmp_path / "out"))
    assert torch.equal(read_pixels(tmp_path / "out" / "x_spread.tif").isnan(), pixels == 0)


@pytest.mark.parametrize(
    ("settings", "more", "message"),
    [
        (PHOTOS, ["data.target_channels=1"], r"run1.*differs from .*run0.* in conditioning\."),
        (FLOATS, ["data.target_range=[-1000,3071]"], r"in ranges, conditioning\. Name checkpoints with the same data"),
        (
            PHOTOS,
            ["generator.n_downsamplings=3"],
            r"needs multiples of 8 pixels, at least \d+\. Name this checkpoint first",
        ),
        (STYLE, [], r"run0.*: takes features, noise or styles"),
        (["features.n_channels=2", "features.base_channels=4"], [], r"run0.*: takes features, noise or styles"),
    ],
    ids=["channels", "range", "sides", "style", "features"],
)
def test_checkpoints_that_cannot_be_averaged_are_refused(
    tiny_config: Path, settings: list[str], more: list[str], message: str
) -> None:
    first, other = (
        untrained_run(tiny_config, *settings, *own) for own in (["run.name=run0"], ["run.name=run1", *more])
    )
    with pytest.raises(UserError, match=message) as refusal:
        load_ensemble(Request(first, more_checkpoints=[other]))
    assert "\n" not in str(refusal.value)


def test_a_spread_needs_several_checkpoints_images_and_free_names(
    photos: list[Path], sources: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        translate("--checkpoint", str(photos[0]), "--spread")
    assert "error: --spread needs a second --checkpoint: add it" in capfd.readouterr().err
    (sources / "y.png").rename(sources / "x_spread.png")
    output = ["--output", str(tmp_path / "out")]
    with pytest.raises(DataError, match=r"--input: x_spread has the name of a result file\. Rename the input"):
        translate(*named(photos), "--spread", "--input", str(sources), *output)
    clip = write_video(tmp_path / "clip.mp4", n_frames=2)
    with pytest.raises(DataError, match="--spread cannot be used with a video"):
        translate(*named(photos), "--spread", "--input", str(clip), *output)
