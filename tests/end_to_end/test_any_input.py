"""test.py takes images of any size and kind, from anywhere, and names those that it cannot take."""

import json
from pathlib import Path

import numpy as np
import pytest

from data.batch import DataError
from data.files.image_files import read_rgb
from tests.conftest import save_image, write_tiny_config
from tests.runs import run, translate

RGB = ("data.layout=paired_folders", "data.instance_edges=false")


@pytest.fixture(scope="module")
def rgb_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that translates RGB images and was trained at 32x32."""
    folder = tmp_path_factory.mktemp("rgb")
    for side in "AB":
        save_image(folder / f"train_{side}" / "x.png", noise(40, 40))
    sizes = [f"data.{part}_{side}=32" for part in ("load", "crop") for side in ("width", "height")]
    run(write_tiny_config(folder), f"data.root={folder}", *RGB, "data.preprocess=resize_and_crop", *sizes)
    return folder / "runs" / "tiny"


def noise(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def test_every_size_keeps_its_size(rgb_run: Path, tmp_path: Path) -> None:
    sizes = [(1, 1), (1, 7), (9, 1), (2, 3), (8, 8), (31, 33), (32, 32), (5, 70)]
    for height, width in sizes:
        save_image(tmp_path / "in" / f"{height}x{width}.png", noise(height, width))
    translate("--checkpoint", str(rgb_run), "--input", str(tmp_path / "in"), "--output", str(tmp_path / "out"))
    for height, width in sizes:
        assert read_rgb(tmp_path / "out" / f"{height}x{width}.png").shape == (3, height, width)


def test_a_file_that_cannot_be_read_is_left_out_and_told(rgb_run: Path, tmp_path: Path) -> None:
    for name in ("a", "b", "c", "d"):
        save_image(tmp_path / "in" / f"{name}.png", noise(20, 20))
    for name in ("a", "c"):  # the first too
        (tmp_path / "in" / f"{name}.png").write_bytes(b"no image")
    with pytest.raises(DataError) as error:
        translate("--checkpoint", str(rgb_run), "--input", str(tmp_path / "in"), "--targets", str(tmp_path / "in"),
                  "--output", str(tmp_path / "out"))  # fmt: skip
    assert {Path(problem.partition(":")[0]).name for problem in error.value.problems} == {"a.png", "c.png"}
    assert {path.stem for path in (tmp_path / "out").glob("?.png")} == {"b", "d"}
    assert set(json.loads((tmp_path / "out" / "metrics.json").read_text())["images"]) == {"b", "d"}
    page = (tmp_path / "out" / "index.html").read_text()
    assert page.count("<article") == 2


def test_the_trainings_size_is_taken_where_it_is_asked_for(rgb_run: Path, tmp_path: Path) -> None:
    save_image(tmp_path / "in" / "x.png", noise(50, 70))
    arguments = ["--checkpoint", str(rgb_run), "--input", str(tmp_path / "in"), "--output", str(tmp_path / "out")]
    for choice, size in (
        (["--size", "trained"], (32, 32)),
        (["data.preprocess=none"], (48, 72)),  # rounded as in the originals
        (["--size", "own", "data.preprocess=none"], (50, 70)),
        ([], (50, 70)),
    ):
        translate(*arguments, *choice)
        assert read_rgb(tmp_path / "out" / "x.png").shape[1:] == size
    root = rgb_run.parent.parent
    translate("--checkpoint", str(rgb_run), "--split", "train", "--output", str(tmp_path / "split"))
    assert read_rgb(tmp_path / "split" / "x.png").shape[1:] == (32, 32)
    translate("--checkpoint", str(rgb_run), "--split", "train", "--size", "own", "--output", str(tmp_path / "split"))
    assert read_rgb(tmp_path / "split" / "x.png").shape[1:] == read_rgb(root / "train_A" / "x.png").shape[1:]


def test_files_folders_and_lists_keep_their_sub_folders(
    rgb_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "photos"
    for name in ("a/x.png", "a/deep/y.png", "b/x.png", "c.png"):
        save_image(root / name, noise(12, 12))

    def results(*arguments: str) -> list[str]:
        output = tmp_path / f"out{len(list(tmp_path.iterdir()))}"
        translate("--checkpoint", str(rgb_run), "--output", str(output), *arguments)
        files = {path.relative_to(output).as_posix() for path in output.rglob("*.png")}
        return sorted(name for name in files if not name.startswith(("gallery", "contact")))

    assert results("--input", str(root)) == ["a/deep/y.png", "a/x.png", "b/x.png", "c.png"]
    assert results("--input", str(root / "a")) == ["deep/y.png", "x.png"]
    assert results("--input", str(root / "a"), str(root / "b")) == ["a/deep/y.png", "a/x.png", "b/x.png"]
    assert results("--input", str(root / "a" / "x.png")) == ["x.png"]
    assert results("--input", str(root / "a" / "x.png"), str(root / "c.png")) == ["a/x.png", "c.png"]
    assert results("--input", str(root / "c.png"), "--size", "trained", "data.flip=false") == ["c.png"]
    assert results("--input", str(root / "c.png"), "data.flip=false") == ["c.png"]  # a setting after the paths
    monkeypatch.chdir(root)
    assert results("--input", "c.png") == ["c.png"]  # results may be next to inputs


def test_listed_files_have_partners_by_name(rgb_run: Path, tmp_path: Path) -> None:
    for folder in ("in", "target"):
        for name in "ab":
            save_image(tmp_path / folder / f"{name}.png", noise(20, 20, ord(name)))
    save_image(tmp_path / "in" / "a.bmp", noise(20, 20))
    save_image(tmp_path / "small" / "a.png", noise(10, 20))
    arguments = ["--checkpoint", str(rgb_run), "--output", str(tmp_path / "out"), "--targets"]
    files = [str(tmp_path / "in" / name) for name in ("a.png", "b.png", "a.bmp")]
    translate(*arguments, str(tmp_path / "target"), "--input", *files[:2])
    assert '"n_images": 2' in (tmp_path / "out" / "metrics.json").read_text()
    for target, names, message in (
        ("target", ["nowhere.png"], "--input: nowhere.png: no such file or folder"),
        ("target", files, r"a\.bmp and .*a\.png have the same name"),
        ("small", files[:2], r"b\.png: has no partner b in .*small"),
        ("small", files[:1], r"a\.png is 20x20 but its partner .*a\.png is 20x10"),
    ):
        with pytest.raises(DataError, match=message):
            translate(*arguments, str(tmp_path / target), "--input", *names)
