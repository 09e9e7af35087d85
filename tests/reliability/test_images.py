"""Row 10: images of all kinds, on either side of a pair."""

import re
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest
import torch
from PIL import Image

from data.batch import DataError, Sample
from data.checks import Check
from data.loader import SampleKey, TrainingDataset
from data.map_reader import MapReader
from data.paired_folders import PairedFolders
from tests.reliability.images import CASES, PIXELS, TURNED, WHOLE, Case, encoded, oriented, png, size_of, write
from tools.check_data import __main__ as check_data

pytestmark = pytest.mark.row(10)

CROPS = replace(WHOLE, mode="crop", crop_height=16, crop_width=16, min_size=16)


def layout_with(root: Path, case: Case, side: str) -> PairedFolders:
    write(root / side / "x", case)
    other = {"A": "B", "B": "A"}[side]
    write(root / other / "x", Case(encoded(Image.fromarray(PIXELS).resize(size_of(case)))))
    return PairedFolders({"source": root / "A", "target": root / "B"})


def forbid(monkeypatch: pytest.MonkeyPatch, forbidden: Path) -> None:
    """Reading a file fails as for a user without the right to, which root always has."""
    opened = Path.open

    def open_(path: Path, *arguments: Any, **options: Any) -> IO[Any]:
        if path == forbidden:
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", open_)


@pytest.mark.parametrize(("name", "side"), list(zip(CASES, cycle("AB"), strict=False)))
def test_an_image_is_read_or_named_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, side: str
) -> None:
    case = CASES[name]
    layout = layout_with(tmp_path, case, side)
    if name == "unreadable":
        forbid(monkeypatch, tmp_path / side / "x.png")
    loaded = TrainingDataset(layout, CROPS, seed=0)[SampleKey(0, 0)]
    checked = Check(layout, CROPS, is_for_training=True)(0)
    if case.refused is not None:
        assert isinstance(loaded, DataError)
        assert re.search(case.refused, str(loaded))
        of_sample, of_file = f"sample x of {tmp_path / 'A'} is", f"{tmp_path / side / 'x'}{case.suffix}: "
        assert str(loaded).startswith(of_sample if "crop" in case.refused else of_file)
        assert "\n" not in str(loaded)
        assert checked.problems == loaded.problems
        return
    assert isinstance(loaded, Sample)
    assert checked.problems == ()
    sample = layout.read(0)
    read = sample.source if side == "A" else sample.target
    assert read is not None
    if case.pixels is not None:
        assert torch.equal(read, torch.from_numpy(case.pixels.copy()).permute(2, 0, 1))


@pytest.mark.parametrize("orientation", TURNED)
def test_labels_and_instances_are_turned_as_photos_are(tmp_path: Path, orientation: int) -> None:
    labels = PIXELS[..., 0] // 64
    turned = TURNED[orientation][..., 0] // 64
    label, inst, img = (tmp_path / name for name in ("label", "inst", "img"))
    maps: dict[Path, np.ndarray] = {label: turned, inst: turned.astype(np.uint16) * 300, img: TURNED[orientation]}
    for folder, pixels in maps.items():
        write(folder / "x", Case(oriented(pixels, orientation)))
    layout = PairedFolders({"source": label, "target": img, "instances": inst}, MapReader(n_classes=4))
    sample = layout.read(0)
    assert torch.equal(sample.source[0], torch.from_numpy(labels))
    assert torch.equal(sample.maps["instances"][0], torch.from_numpy(labels.astype(np.int32) * 300))
    assert torch.equal(sample.maps["target"], torch.from_numpy(PIXELS).permute(2, 0, 1))


@pytest.mark.parametrize(("width", "height"), [(60000, 1), (1, 60000)])
def test_a_strip_fills_no_memory_when_it_is_scaled(tmp_path: Path, width: int, height: int) -> None:
    strip = png(width, height, 8, 0, (b"\0" + bytes(width)) * height)
    for side in "AB":
        write(tmp_path / side / "x", Case(strip))
    layout = PairedFolders({"source": tmp_path / "A", "target": tmp_path / "B"})
    loaded = TrainingDataset(layout, replace(WHOLE, mode="scale_width", load_width=1024), seed=0)[SampleKey(0, 0)]
    if height == 1:
        assert isinstance(loaded, Sample)
        assert loaded.source.shape == (3, 8, 1024)
    else:
        what = "is 1x60000, which data.preprocess=scale_width resizes to 1024x61440000: too large"
        assert f"sample x of {tmp_path / 'A'} {what}" in str(loaded)


def test_all_that_stands_against_a_data_set_is_told_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused = [case for name, case in CASES.items() if case.refused and name != "unreadable"]
    for number, case in enumerate(CASES.values()):
        side, other = ("A", "B") if number % 2 else ("B", "A")
        write(tmp_path / f"train_{side}" / f"{number}", case)
        write(tmp_path / f"train_{other}" / f"{number}", Case(encoded(Image.fromarray(PIXELS).resize(size_of(case)))))
    with pytest.raises(SystemExit) as stopped:
        check_data.main([str(tmp_path), "data.preprocess=crop", "data.crop_width=32", "data.crop_height=32"])
    assert stopped.value.code == 2
    first, *lines, last = capsys.readouterr().out.splitlines()
    assert first == f"train: {len(CASES)} samples"
    assert last == f"{len(lines)} problems in train"
    broken = [case for case in refused if "crop" not in str(case.refused)]
    assert len(lines) == len(broken) + 1  # all others are too small for this crop, which is one line
    for number, case in enumerate(CASES.values()):
        if case in broken:
            assert any(re.search(rf"/{number}{case.suffix}: {case.refused}", line) for line in lines), case
