"""pix2pix's joined pictures as --input: the half that is the source is translated, not both as one."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from data.batch import DataError
from data.files.image_files import read_rgb
from tests.conftest import save_image, write_tiny_config
from tests.runs import run, translate


def noise(height: int, width: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of joined pictures whose halves are 40x32."""
    folder = tmp_path_factory.mktemp("joined")
    save_image(folder / "set" / "train" / "x.png", noise(32, 80, 0))
    sizes = [f"data.{part}_{side}=32" for part in ("load", "crop") for side in ("width", "height")]
    settings = ["data.layout=side_by_side", f"data.root={folder / 'set'}", "data.instance_edges=false", *sizes]
    run(write_tiny_config(folder), *settings, "data.preprocess=resize_and_crop", "train.max_steps=1")
    return folder / "runs" / "tiny"


@pytest.fixture
def arguments(run_folder: Path, tmp_path: Path) -> list[str]:
    """Joined pictures `a`, `b` in `joined`, their halves in `left` and `right`."""
    for seed, name in enumerate("ab"):
        pair = noise(32, 80, seed + 1)
        for folder, picture in (("joined", pair), ("left", pair[:, :40]), ("right", pair[:, 40:])):
            save_image(tmp_path / folder / f"{name}.png", np.ascontiguousarray(picture))
    return ["--checkpoint", str(run_folder), "--opt-level", "O0"]


def translated(folder: Path, *arguments: str) -> dict[str, torch.Tensor]:
    translate(*arguments, "--output", str(folder))
    return {name: read_rgb(folder / f"{name}.png") for name in "ab"}


@pytest.mark.parametrize(
    ("options", "half", "printed"),
    [
        ([], "left", "A, the left half of each of 2 images; --side none takes each as a source\n"),
        (["data.direction=BtoA"], "right", "B, the right half of each of 2 images; --side none"),
        (["--side", "B"], "right", "B, the right half of each of 2 images\n"),
        (["--side", "none"], "joined", ""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_the_half_of_the_source_is_translated(
    arguments: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str], options: list[str], half: str, printed: str
) -> None:
    joined = translated(tmp_path / "out", *arguments, "--input", str(tmp_path / "joined"), *options)
    said = capfd.readouterr().out
    assert printed in said
    assert said.count("side         ") == (1 if printed else 0)
    assert (tmp_path / "out" / "metrics.json").exists() == bool(printed)  # the other half is the target
    alone = translated(tmp_path / "alone", *arguments, "--input", str(tmp_path / half), "--side", "none")
    assert all(torch.equal(joined[name], alone[name]) for name in "ab")


def test_all_pictures_are_joined_whatever_their_proportions(
    arguments: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    save_image(tmp_path / "joined" / "c.png", noise(16, 88, 4))
    save_image(tmp_path / "joined" / "d.png", noise(32, 40, 5))
    translate(*arguments, "--input", str(tmp_path / "joined"), "--output", str(tmp_path / "out"))
    out = capfd.readouterr().out
    assert "side         A, the left half of each of 4 images; --side none" in out
    assert "1 of 4 images have the proportions of one half: add --side none if they are sources" in out
    sizes = [tuple(read_rgb(tmp_path / "out" / f"{name}.png").shape[1:]) for name in "abcd"]
    assert sizes == [(32, 40), (32, 40), (16, 44), (32, 20)]
    assert len(json.loads((tmp_path / "out" / "metrics.json").read_text())["images"]) == 4


def test_pictures_that_all_have_the_proportions_of_a_half_are_sources(
    arguments: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "left" / "c.png").write_bytes(b"no image")  # says nothing of the others
    with pytest.raises(DataError, match=r"c\.png"):
        translate(*arguments, "--input", str(tmp_path / "left"), "--output", str(tmp_path / "out"))
    out = capfd.readouterr().out
    assert "side         none: images of the proportions of one half; --side A takes the left half\n" in out
    assert {tuple(read_rgb(tmp_path / "out" / f"{name}.png").shape[1:]) for name in "ab"} == {(32, 40)}
    assert not (tmp_path / "out" / "metrics.json").exists()


def test_the_other_half_is_what_is_measured(arguments: list[str], tmp_path: Path) -> None:
    translated(tmp_path / "out", *arguments, "--input", str(tmp_path / "joined"))
    halves = ["--input", str(tmp_path / "left"), "--targets", str(tmp_path / "right")]
    translated(tmp_path / "halves", *arguments, *halves)
    joined, apart = (json.loads((tmp_path / name / "metrics.json").read_text()) for name in ("out", "halves"))
    assert joined["images"] == apart["images"]
    with pytest.raises(DataError, match=r"bring their targets\. Remove --targets, or add --side none"):
        translate(*arguments, "--input", str(tmp_path / "joined"), "--targets", str(tmp_path / "joined"))


def test_a_data_set_that_has_moved_leaves_the_size_of_the_network(
    arguments: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    save_image(tmp_path / "square" / "x.png", noise(32, 32, 3))
    away = ["--input", str(tmp_path / "square"), "--output", str(tmp_path / "out"), "data.root=nowhere"]
    translate(*arguments, *away)
    assert "side         none: images of the proportions of one half" in capfd.readouterr().out
    translate(*arguments, *away, "data.preprocess=scale_width")  # whose sizes are not known
    assert "side         A, the left half of each of 1 image; --side none" in capfd.readouterr().out


def test_an_odd_width_has_no_halves(arguments: list[str], tmp_path: Path) -> None:
    save_image(tmp_path / "odd" / "x.png", noise(32, 65, 3))
    with pytest.raises(DataError, match=r"x\.png: is 65 pixels wide, expected two halves of equal width"):
        translate(*arguments, "--input", str(tmp_path / "odd"), "--side", "A", "--output", str(tmp_path / "out"))


def test_label_maps_have_no_sides(tiny_run: Path, tmp_path: Path) -> None:
    for folder in ("in", "inst"):
        save_image(tmp_path / folder / "x.png", np.zeros((32, 64), np.uint8))
    folders = ["--input", str(tmp_path / "in"), "--instances", str(tmp_path / "inst")]
    with pytest.raises(DataError, match="--side A: sources are label maps, which have no sides"):
        translate("--checkpoint", str(tiny_run), *folders, "--side", "A")
