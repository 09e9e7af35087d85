"""Row 12: pairs that do not match; reported before training, all at once, by training and check_data alike."""

import re
import unicodedata
from pathlib import Path

import numpy as np
import pytest

import train
from data.batch import DataError, Sample
from data.checks import Check
from data.layout import PairingError
from data.loader import SampleKey, TrainingDataset
from data.paired_folders import PairedFolders
from tests.reliability.command_line import CommandLine
from tests.reliability.images import WHOLE, fill
from tools.check_data import __main__ as check_data

pytestmark = pytest.mark.row(12)

RGB = np.full((32, 32, 3), 99, dtype=np.uint8)
A = "train_A/a.png train_A/b.png train_A/c.png"
PAIRS = f"{A} train_B/a.png train_B/b.png train_B/c.png"
COMPOSED, DECOMPOSED = (unicodedata.normalize(form, "Ångström_é") for form in ("NFC", "NFD"))


def pairs(root: Path, entries: str = PAIRS) -> PairedFolders:
    fill(root, entries, RGB)
    return PairedFolders({"source": root / "train_A", "target": root / "train_B"})


NO_PARTNER = "has no partner of the same name in"
UNMATCHED = {
    "partner": (
        f"{PAIRS} -train_B/b.png train_B/d.png",
        [rf"train_A/b\.png: {NO_PARTNER} .*train_B$", rf"train_B/d\.png: {NO_PARTNER} .*train_A$"],
    ),
    "duplicate stem": (
        f"{PAIRS} train_A/b.jpg train_A/b.bmp",
        [r"train_A/b\.jpg and b\.bmp have the same name: keep", r"train_A/b\.png and b\.bmp have the same name: keep"],
    ),
    "duplicate in unicode": (
        f"{PAIRS} train_A/{COMPOSED}.png train_B/{COMPOSED}.png train_A/{DECOMPOSED}.png",
        [r"train_A/.*\.png and .*\.png have the same name: keep one"],
    ),
    "empty folder": (f"{A} train_B/", [r"train_B: holds no image \(PNG, JPEG, .*\)$"]),
    "other files": (f"{A} train_B/a.gif:", [r"train_B: holds no image \(PNG, JPEG, "]),
    "missing folder": (f"{A} test_B/a.png", [r"train_B: no such folder; folders next to it: test_B, train_A$"]),
    "links to folders": (
        f"{A} elsewhere/a.png train_B/linked->elsewhere",
        [r"train_B: holds no image .*links to folders are not followed\)$"],
    ),
}


@pytest.mark.parametrize("name", UNMATCHED)
def test_pairs_that_do_not_match_are_told_before_training(
    tiny_config: Path, tmp_path: Path, command_line: CommandLine, name: str
) -> None:
    (entries, reasons), root = UNMATCHED[name], tmp_path / "pairs"
    with pytest.raises(PairingError) as error:
        pairs(root, entries)
    assert len(error.value.problems) == len(reasons)
    assert all(re.search(reason, problem) for reason, problem in zip(reasons, error.value.problems, strict=True))

    settings = ["data.layout=paired_folders", f"data.root={root}", "data.instance_edges=false"]
    if name == "partner":
        assert command_line.refusal(train.main, "--config", str(tiny_config), *settings) == [f"error: {error.value}"]
        assert not (tmp_path / "runs" / "tiny").exists()
        code, out, _ = command_line.run(check_data.main, "--config", str(tiny_config), *settings)
        assert code == 2
        assert set(error.value.problems) <= set(out.splitlines())


def test_many_are_told_in_short_and_by_check_data_in_full(tmp_path: Path) -> None:
    entries = [*(f"train_A/{name}.png" for name in "abcdefgh"), *(f"train_B/{name}.png" for name in "xyz")]
    with pytest.raises(
        PairingError, match=r"; and 6 more: python -m tools\.check_data lists all: for images that are not pairs set "
    ) as error:
        pairs(tmp_path, " ".join(entries))
    assert len(error.value.problems) == 11


MATCHED = {
    "other extensions": f"{A} train_B/a.PNG train_B/b.tiff train_B/c.png",
    "unicode": f"{A} -train_A/a.png train_B/b.png train_B/c.png train_A/{COMPOSED}.png train_B/{DECOMPOSED}.png",
    "hidden files": f"{PAIRS} train_A/._a.png: train_A/.DS_Store: train_A/.thumbnails/x.png: train_A/Thumbs.db:",
    "loops of links": f"{PAIRS} train_A/loop->train_A train_A/up->.",
    "links to files": f"{PAIRS} stored.png train_A/a.png->stored.png",
    "other entries": f"{PAIRS} train_A/notes.txt: train_A/folder.png/ train_A/pipe.png|",
}


@pytest.mark.parametrize("entries", MATCHED.values(), ids=MATCHED.keys())
def test_what_belongs_together_is_matched_and_the_rest_left_alone(tmp_path: Path, entries: str) -> None:
    layout = pairs(tmp_path, entries)
    assert len(layout) == 3
    for index in range(3):
        assert layout.read(index).target is not None


BROKEN = {  # what replaces train_B/b.png
    "-train_B/b.png": r"train_B/b\.png: no such file",
    "train_B/b.png->nowhere.png": r"train_B/b\.png: no such file",
    "train_B/b.png->train_B/b.png": r"train_B/b\.png: cannot be read as an image: Too many levels of symbolic links",
    "train_B/b.png": r"train_A/b\.png is 32x32 but its partner .*train_B/b\.png is 32x16: make them the same",
}


@pytest.mark.parametrize("entry", BROKEN)
def test_a_pair_that_cannot_be_used_is_named(tmp_path: Path, entry: str) -> None:
    layout = pairs(tmp_path)
    fill(tmp_path, entry, RGB[:16])
    loaded = TrainingDataset(layout, WHOLE, seed=0)[SampleKey(0, 1)]
    assert isinstance(loaded, DataError)
    assert re.search(BROKEN[entry], str(loaded))
    assert Check(layout, WHOLE, is_for_training=True)(1).problems == loaded.problems
    assert isinstance(TrainingDataset(layout, WHOLE, seed=0)[SampleKey(0, 0)], Sample)
