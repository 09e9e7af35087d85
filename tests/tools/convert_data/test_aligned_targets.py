"""Displaced targets of all kinds are found by check_data and shifted back by align-targets."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from data.facades.dataset import SyntheticFacades
from data.files.image_files import read_pixels, write_jpeg, write_png
from data.files.tiff_tags import write_tiff
from tests.reliability.command_line import CommandLine
from tests.tools.convert_data.conftest import Convert
from tools.check_data import __main__ as check_data

FACADES = SyntheticFacades(split="train", seed=0, n_samples=9, height=112, width=112)
MARGIN = 8  # pixels
SHIFTS = [(4, 0), (-3, 2), (0, -4), (3, 3), (-4, -3), (0, 3), (-3, 0), (2, -3), (4, 4)]


def cropped(image: Tensor, x: int = 0, y: int = 0) -> Tensor:
    return image[:, MARGIN - y : 112 - MARGIN - y, MARGIN - x : 112 - MARGIN - x].contiguous()


def save(path: Path, image: Tensor) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".tif":
        write_tiff(path, image)
    elif path.suffix == ".npy":
        np.save(path, image.numpy())
    elif path.suffix == ".bmp":
        Image.fromarray(image.permute(1, 2, 0).squeeze(2).numpy()).save(path)
    else:
        (write_jpeg if path.suffix == ".jpg" else write_png)(path, image)


def write_pairs(root: Path, suffix: str, convert: Callable[[Tensor], Tensor], *, ids: bool, n: int) -> None:
    """Write pairs with displaced targets, and a weight map of each."""
    for number in range(n):
        sample, shift = FACADES.read(number), SHIFTS[number]
        photo, target = cropped(sample.maps["target"]), cropped(sample.maps["target"], *shift)
        source = cropped(sample.source).byte() if ids else 255 - photo
        save(root / f"train_{'label' if ids else 'A'}" / f"{number}.png", source)
        save(root / f"train_{'img' if ids else 'B'}" / f"{number}{suffix}", convert(target))
        save(root / "train_weight" / f"{number}.png", target[:1])


KINDS: Mapping[str, tuple[str, Callable[[Tensor], Tensor], bool]] = {
    "RGB": (".png", lambda image: image, False),
    "JPEG": (".jpg", lambda image: image, True),
    "grey": (".png", lambda image: image[:1], False),
    "16 bit": (".tif", lambda image: image.to(torch.uint16), True),
    "floats": (".npy", lambda image: image[:1] / 7, True),
    "BMP": (".bmp", lambda image: image, False),
    "grey BMP": (".bmp", lambda image: image[:1], False),
}


@pytest.mark.parametrize("kind", KINDS)
def test_targets_of_all_formats_are_shifted(kind: str, tmp_path: Path, convert: Convert) -> None:
    suffix, of, ids = KINDS[kind]
    write_pairs(tmp_path / "from", suffix, of, ids=ids, n=2)
    (tmp_path / "from" / "note.txt").write_text("copied")
    code, out = convert("align-targets", tmp_path / "from", tmp_path / "to")
    assert (code, out) == (0, "train: 2 of 2 targets shifted, by 4 pixels at most and 3.5 in the median\n")
    folder, inside = "train_img" if ids else "train_B", (..., slice(8, -8), slice(8, -8))
    for number in range(2):
        target = read_pixels(tmp_path / "to" / folder / f"{number}{suffix}")
        expected = of(cropped(FACADES.read(number).maps["target"]))
        assert (target.dtype, target.shape) == (expected.dtype, expected.shape)
        difference = (target[inside].float() - expected[inside].float()).abs()
        assert difference.mean() < (6 if kind == "JPEG" else 1e-9)
        weights = read_pixels(tmp_path / "to" / "train_weight" / f"{number}.png")[inside]
        assert torch.equal(weights, cropped(FACADES.read(number).maps["target"])[:1][inside])
    assert (tmp_path / "to" / "note.txt").read_text() == "copied"


def test_check_data_warns_before_and_not_after(tmp_path: Path, convert: Convert, command_line: CommandLine) -> None:
    write_pairs(tmp_path / "from", ".png", lambda image: image, ids=True, n=9)
    flat = torch.full((3, 96, 96), 9, dtype=torch.uint8)
    save(tmp_path / "from" / "train_img" / "0.png", flat)
    reported = []
    for name in ("from", "to"):
        _, out, _ = command_line.run(check_data.main, str(tmp_path / name))
        reported.append([line for line in out.splitlines() if "shifted" in line])
        if name == "from":
            _, out = convert("align-targets", tmp_path / "from", tmp_path / "to")
            assert out.endswith("1 unchanged, without a clear displacement: 0\n")
    (warning,), none = reported
    assert "targets are shifted by 3 pixels (median of 8 pairs)" in warning
    assert none == []
    assert torch.equal(read_pixels(tmp_path / "to" / "train_img" / "0.png"), flat)


def test_what_cannot_be_aligned_is_refused(tmp_path: Path, convert: Convert) -> None:
    save(tmp_path / "halves" / "train" / "x.png", torch.zeros(3, 64, 128, dtype=torch.uint8))
    assert "needs pairs in folders such as train_A and train_B" in convert.refusal(
        "align-targets", tmp_path / "halves", tmp_path / "to"
    )
    for name in ("train_A/a", "train_B/b", "only_sources/test_A/a"):
        save(tmp_path / "unpaired" / f"{name}.png", FACADES.read(0).maps["target"])
    for name in ("unpaired", "unpaired/only_sources"):
        refusal = convert.refusal("align-targets", tmp_path / name, tmp_path / "to")
        assert "needs pairs in folders such as train_A and train_B" in refusal
    assert not (tmp_path / "to").exists()
    write_pairs(tmp_path / "grey", ".png", lambda image: image, ids=False, n=1)
    (tmp_path / "grey" / "train_B" / "0.png").unlink()
    target = cropped(FACADES.read(0).maps["target"], *SHIFTS[0])[0].numpy().astype(">u2")
    (tmp_path / "grey" / "train_B" / "0.ppm").write_bytes(b"P5 96 96 65535\n" + target.tobytes())
    refusal = convert.refusal("align-targets", tmp_path / "grey", tmp_path / "written")
    assert "0.ppm: a .ppm file with uint16 values cannot be written. Convert it to TIFF" in refusal
    write_pairs(tmp_path / "pairs", ".png", lambda image: image, ids=False, n=1)
    (tmp_path / "to").mkdir()
    assert "already exists" in convert.refusal("align-targets", tmp_path / "pairs", tmp_path / "to")


def test_sources_drawn_in_colours_are_measured_and_links_without_a_file_left_out(
    tmp_path: Path, convert: Convert
) -> None:
    write_pairs(tmp_path / "from", ".png", lambda image: image, ids=False, n=1)
    (tmp_path / "from" / "train_A").rename(tmp_path / "from" / "train_label")
    (tmp_path / "from" / "train_B").rename(tmp_path / "from" / "train_img")
    (tmp_path / "from" / "notes").symlink_to(tmp_path / "gone")
    code, out = convert("align-targets", tmp_path / "from", tmp_path / "to")
    assert (code, out) == (0, "train: 1 of 1 target shifted, by 4 pixels at most and 4 in the median\n")
