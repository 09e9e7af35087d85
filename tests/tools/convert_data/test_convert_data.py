"""Photographs become data sets of train.py."""

import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from configs.load import load_config
from configs.splits import open_split
from tests.conftest import save_image
from tests.tools.convert_data.conftest import Convert
from tools.convert_data.photos import draw_edges, split_of

SHARES = {"val": 0.1, "test": 0.1}


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Four photographs of 96x64, one of them in a folder below."""
    rng = np.random.default_rng(0)
    for number in range(4):
        pixels = rng.integers(0, 256, (4, 6, 3), dtype=np.uint8).repeat(16, 0).repeat(16, 1)
        save_image(tmp_path / "photos" / ("trip" if number == 0 else ".") / f"{number}.png", pixels)
    return tmp_path / "photos"


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*.*")) if p.suffix != ".yaml"}


def pixels_in(folder: Path) -> dict[str, np.ndarray]:
    return {name: np.array(Image.open(folder / name)) for name in files_in(folder)}


def test_nothing_is_overwritten_unless_asked_for(photos: Path, convert: Convert) -> None:
    target = photos.parent / "pairs"
    arguments = ("from-photos", photos, target)
    assert convert(*arguments, "--test", "0")[0] == 0
    made = files_in(target)
    assert len(made) == 8
    assert "already exists, as do 7 others" in convert.refusal(*arguments, "--test", "0", "--format", "png")
    keep = (*arguments, "--existing", "keep")
    assert "the same --val and --test as before" in convert.refusal(*keep, "--test", "0.8")
    assert files_in(target) == made

    save_image(photos / "new.png", np.zeros((40, 40, 3), np.uint8))
    assert convert(*keep, "--test", "0", "--format", "png")[0] == 0
    now = files_in(target)
    assert {name: now[name] for name in made} == made
    assert len(now) == 10

    assert convert(*arguments, "--test", "0", "--existing", "replace", "--format", "png")[0] == 0
    assert [name.endswith(".png") for name in files_in(target)] == [True] * 10


def test_a_name_stays_in_its_split_when_others_are_added() -> None:
    names = [f"trip/{number}" for number in range(2000)]
    splits = {name: split_of(name, SHARES) for name in names}
    shares = {split: sum(s == split for s in splits.values()) / len(names) for split in ("train", "val", "test")}
    assert shares == pytest.approx({"train": 0.8, "val": 0.1, "test": 0.1}, abs=0.03)
    assert splits["trip/0"] == "train"  # a hash of the name is the same on every machine and in every version
    assert [name for name in names[:40] if splits[name] == "test"] == ["trip/5", "trip/6", "trip/7", "trip/31"]


@pytest.mark.parametrize("source", ["grey", "edges"])
def test_pairs_have_one_size(photos: Path, tmp_path: Path, convert: Convert, source: str) -> None:
    save_image(photos / "large.png", np.zeros((30, 300, 3), np.uint8))
    (photos / "IMG_1.HEIC").write_bytes(b"x")
    options = ("--source", source, "--format", "png", "--size", "96", "--val", "0", "--test", "0")
    target = tmp_path / "pairs"
    code, out = convert("from-photos", photos, target, *options)
    assert code == 0
    assert "files of other formats: 1 .heic" in out
    made = pixels_in(target)
    for name, pixels in made.items():
        assert pixels.shape == made[name.replace("_B/", "_A/")].shape
    photo, drawn = made["train_B/1.png"], made["train_A/1.png"]
    assert np.array_equal(photo, np.array(Image.open(photos / "1.png")))
    assert not np.array_equal(photo, drawn)
    assert made["train_B/large.png"].shape == (9, 96, 3)
    assert len(np.unique(drawn)) == 2 if source == "edges" else len(np.unique(drawn)) > 2


def test_reduced_sources_have_whole_pixels_and_their_command_trains(photos: Path, convert: Convert) -> None:
    save_image(photos / "odd.png", np.random.default_rng(1).integers(0, 256, (67, 99, 3), dtype=np.uint8))
    save_image(photos / "line.png", np.zeros((3, 90, 3), np.uint8))
    arguments = ("from-photos", photos, photos.parent / "reduced", "--source", "reduced")
    code, out = convert(*arguments, "--format", "png")
    assert code == 2
    assert "line.png: is 90x3, too small to be reduced by 4" in out
    made = pixels_in(photos.parent / "reduced")
    split = split_of("odd", SHARES)
    large, small = made[f"{split}_B/odd.png"], made[f"{split}_A/odd.png"]
    assert np.array_equal(large, np.array(Image.open(photos / "odd.png"))[2:66, 2:98])  # its middle, uncut elsewhere
    assert small.shape == (16, 24, 3)
    means = large.reshape(16, 4, 24, 4, 3).mean((1, 3))
    assert abs(small - means).mean() < 16  # the photograph is noise, so a shift would give 60
    words = shlex.split(out.splitlines()[-1].partition("--config ")[2])
    assert words[-2:] == ["data.crop_width=32", "data.crop_height=32"]  # targets are then 128x128, as with factor 2
    config = load_config(Path(words[0]), words[1:])
    assert open_split(config, "train", needs_targets=True).names
    assert "--factor: invalid choice: 3" in convert.refusal(*arguments, "--factor", "3")


def test_noise_has_its_strength_and_is_that_of_the_photograph(photos: Path, convert: Convert) -> None:
    save_image(photos / "grey.png", np.full((64, 64, 3), 128, np.uint8))
    target = photos.parent / "noisy"
    arguments = ("from-photos", photos, target, "--source", "noisy", "--val", "0", "--test", "0")
    assert f"configs/denoising.yaml data.root={target}" in convert(*arguments)[1]
    made = pixels_in(target)["train_A/grey.png"].astype(float)
    assert (made.mean(), made.std()) == pytest.approx((128, 25), abs=1)
    convert(*arguments, "--existing", "replace")
    assert np.array_equal(made, pixels_in(target)["train_A/grey.png"])


REFUSED = {
    "from-photos {empty} {out}": "holds no image",
    "from-photos {photos} {photos}/pairs": "is within",
    "from-photos {photos} {out} --val 0.5 --test 0.5": "nothing to train on",
    "from-photos {photos} {out} --factor 4": "--factor has no effect with --source edges, only with reduced",
    "from-photos {photos} {out} --sigma 0": "'0' is not a number from 0.3",
}


def test_what_cannot_be_converted_ends_in_one_line(photos: Path, tmp_path: Path, convert: Convert) -> None:
    folders = {name: tmp_path / name for name in ("empty", "out")}
    folders["empty"].mkdir()
    for arguments, expected in REFUSED.items():
        assert expected in convert.refusal(*arguments.format(photos=photos, **folders).split())
    assert not folders["out"].exists()


def test_edges_are_thin_black_lines_where_brightness_changes() -> None:
    photo = torch.full((3, 40, 60), 60, dtype=torch.uint8)
    photo[:, 10:30, 20:40] = 200
    lines = draw_edges(photo, sigma=1.0)
    assert lines.shape == photo.shape
    assert lines.unique().tolist() == [0, 255]
    black = lines[0] == 0
    assert black[20].nonzero()[:, 0].tolist() == pytest.approx([20, 40], abs=1)  # one pixel on each side
    assert black[:, 30].nonzero()[:, 0].tolist() == pytest.approx([10, 30], abs=1)
    assert not black[:, :17].any()
    assert 60 <= int(black.sum()) <= 100  # the square is 20 pixels wide and high


def test_noise_and_flat_images_give_no_lines() -> None:
    flat = torch.full((3, 64, 64), 128, dtype=torch.uint8)
    assert (draw_edges(flat, sigma=1.0) == 255).all()
    noise = flat + torch.randint(0, 6, (3, 64, 64), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    assert (draw_edges(noise, sigma=1.0) == 255).all()


def test_a_line_goes_on_where_it_fades_and_none_begins_there() -> None:
    contrast = torch.cat([torch.full((30,), 40), torch.linspace(40, 9, 10), torch.full((40,), 9)]).to(torch.uint8)
    photo = torch.full((3, 80, 80), 60, dtype=torch.uint8)
    photo[:, 20:] += contrast
    black = draw_edges(photo, sigma=1.0)[0] == 0
    assert black[18:22].any(dim=0).all()
    photo[:, 20:] = 60 + 9  # this contrast is too weak to begin a line
    assert (draw_edges(photo, sigma=1.0) == 255).all()


@pytest.mark.parametrize("size", [(1, 1), (1, 50)])
def test_edges_of_tiny_images(size: tuple[int, int]) -> None:
    assert draw_edges(torch.zeros(3, *size, dtype=torch.uint8), sigma=3.0).shape == (3, *size)
