"""Row 12: pairs that do not match; reported before training, all at once, by training and check_data alike."""

import os
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import train
from data.batch import DataError, Sample
from data.checks.checking import Check
from data.layout import Layout, PairingError
from data.loader import TrainingDataset
from data.paired_folders import PairedFolders
from data.preprocessing import Preprocessing
from data.sampler import SampleKey
from data.side_by_side import SideBySide
from tests.conftest import save_image
from tests.reliability.command_line import CommandLine
from tools.check_data import __main__ as check_data

pytestmark = pytest.mark.row(12)

RGB = np.full((32, 32, 3), 99, dtype=np.uint8)
WHOLE = Preprocessing(
    mode="none", load_height=1, load_width=1, crop_height=1, crop_width=1, flip=False, size_multiple=8, min_size=8
)


def fill(root: Path, names: str = "abc", folders: tuple[str, ...] = ("train_A", "train_B")) -> None:
    for folder in folders:
        for name in names:
            save_image(root / folder / f"{name}.png", RGB)


def pairs(root: Path) -> PairedFolders:
    return PairedFolders(source_folder=root / "train_A", target_folder=root / "train_B", instance_folder=None)


def without_partner(root: Path) -> None:
    fill(root)
    (root / "train_B" / "b.png").unlink()
    save_image(root / "train_B" / "d.png", RGB)


def duplicate(root: Path) -> None:
    fill(root)
    save_image(root / "train_A" / "b.jpg", RGB)
    save_image(root / "train_A" / "b.bmp", RGB)


def duplicate_by_unicode(root: Path) -> None:
    fill(root)
    for folder in ("train_A", "train_B"):
        save_image(root / folder / f"{unicodedata.normalize('NFC', 'é')}.png", RGB)
    save_image(root / "train_A" / f"{unicodedata.normalize('NFD', 'é')}.png", RGB)


def empty(root: Path) -> None:
    fill(root, folders=("train_A",))
    (root / "train_B").mkdir()


def without_images(root: Path) -> None:
    fill(root, folders=("train_A",))
    (root / "train_B").mkdir()
    (root / "train_B" / "a.gif").write_bytes(b"GIF89a")


def missing_folder(root: Path) -> None:
    fill(root, folders=("train_A", "test_B"))


def both_missing(root: Path) -> None:
    fill(root, folders=("test_A",))


def only_through_a_link(root: Path) -> None:
    fill(root, folders=("train_A", "elsewhere"))
    (root / "train_B").mkdir()
    (root / "train_B" / "linked").symlink_to(root / "elsewhere", target_is_directory=True)


UNMATCHED: dict[str, tuple[Callable[[Path], None], list[str]]] = {
    "partner": (
        without_partner,
        [
            r"train_A/b\.png: without a partner of the same name in .*train_B$",
            r"train_B/d\.png: without a partner of the same name in .*train_A$",
        ],
    ),
    "duplicate stem": (
        duplicate,
        [r"train_A/b\.jpg and b\.bmp have the same name: keep", r"train_A/b\.png and b\.bmp have the same name: keep"],
    ),
    "duplicate in unicode": (duplicate_by_unicode, [r"train_A/.*\.png and .*\.png have the same name: keep one"]),
    "empty folder": (empty, [r"train_B: holds no image \(PNG, JPEG, .*\)$"]),
    "other files": (without_images, [r"train_B: holds no image \(PNG, JPEG, "]),
    "missing folder": (missing_folder, [r"train_B: no such folder; folders beside it: test_B, train_A$"]),
    "missing folders": (both_missing, [r"train_A: no such folder", r"train_B: no such folder"]),
    "links to folders": (only_through_a_link, [r"train_B: holds no image .*links to folders are not followed\)$"]),
}


@pytest.mark.parametrize("name", UNMATCHED)
def test_pairs_that_do_not_match_are_told_before_training(
    tiny_config: Path, tmp_path: Path, command_line: CommandLine, name: str
) -> None:
    make, reasons = UNMATCHED[name]
    root = tmp_path / "pairs"
    make(root)
    with pytest.raises(PairingError) as error:
        pairs(root)
    assert len(error.value.problems) == len(reasons)
    assert all(re.search(reason, problem) for reason, problem in zip(reasons, error.value.problems, strict=True))

    settings = ["data.layout=paired_folders", f"data.root={root}", "data.instance_edges=false"]
    assert command_line.refusal(train.main, "--config", str(tiny_config), *settings) == [f"error: {error.value}"]
    assert not (tmp_path / "runs" / "tiny").exists() or not list((tmp_path / "runs" / "tiny").glob("*.pt"))

    code, out, _ = command_line.run(check_data.main, "--config", str(tiny_config), *settings)
    assert code == 2
    assert set(error.value.problems) <= set(out.splitlines())


def test_many_are_told_in_short_and_by_check_data_in_full(tmp_path: Path) -> None:
    fill(tmp_path, "abcdefgh", folders=("train_A",))
    fill(tmp_path, "xyz", folders=("train_B",))
    with pytest.raises(PairingError, match=r"; and 6 more: python -m tools\.check_data lists all$") as error:
        pairs(tmp_path)
    assert len(error.value.problems) == 11
    assert re.search(r"a\.png, [^:]*e\.png: without a partner", str(error.value))


def extensions(root: Path) -> None:
    fill(root)
    (root / "train_B" / "a.png").rename(root / "train_B" / "a.PNG")
    (root / "train_B" / "b.png").unlink()
    save_image(root / "train_B" / "b.JPeG.tiff".replace(".JPeG", ""), RGB)


def unicode_names(root: Path) -> None:
    fill(root, "bc")
    save_image(root / "train_A" / f"{unicodedata.normalize('NFC', 'Ångström é')}.png", RGB)
    save_image(root / "train_B" / f"{unicodedata.normalize('NFD', 'Ångström é')}.png", RGB)


def hidden(root: Path) -> None:
    fill(root)
    for name in ("._a.png", ".DS_Store", ".thumbnails/x.png", "Thumbs.db", "notes.txt"):
        path = root / "train_A" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"no image")


def link_loop(root: Path) -> None:
    fill(root)
    (root / "train_A" / "loop").symlink_to(root / "train_A", target_is_directory=True)
    (root / "train_A" / "up").symlink_to(root, target_is_directory=True)


def links_to_files(root: Path) -> None:
    fill(root)
    (root / "train_A" / "a.png").rename(root / "stored.png")
    (root / "train_A" / "a.png").symlink_to(root / "stored.png")


def other_entries(root: Path) -> None:
    fill(root)
    (root / "train_A" / "folder.png").mkdir()
    os.mkfifo(root / "train_A" / "pipe.png")


MATCHED = [extensions, unicode_names, hidden, link_loop, links_to_files, other_entries]


@pytest.mark.parametrize("make", MATCHED, ids=lambda make: make.__name__)
def test_what_belongs_together_is_matched_and_the_rest_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], make: Callable[[Path], None]
) -> None:
    make(tmp_path)
    layout = pairs(tmp_path)
    assert len(layout) == 3
    for index in range(3):
        assert layout.read(index).target is not None
    check_data.main([str(tmp_path)])
    lines = capsys.readouterr().out.splitlines()
    about_problems = [line for line in lines if "left out" not in line and not line.startswith("warning: ")]
    assert about_problems == ["train: 3 samples", "no problem in train; 3 warnings"]


def other_size(root: Path) -> None:
    fill(root)
    save_image(root / "train_B" / "b.png", RGB[:16])


def gone(root: Path) -> None:
    fill(root)


def dangling(root: Path) -> None:
    fill(root)
    (root / "train_B" / "b.png").unlink()
    (root / "train_B" / "b.png").symlink_to(root / "nowhere.png")


def looped(root: Path) -> None:
    fill(root)
    (root / "train_B" / "b.png").unlink()
    (root / "train_B" / "b.png").symlink_to(root / "train_B" / "b.png")


BROKEN = {
    "other size": (
        other_size,
        r"train_A/b\.png is 32x32 but its partner .*train_B/b\.png is 32x16: make them the same",
    ),
    "gone during the run": (gone, r"train_B/b\.png: no such file"),
    "link that leads nowhere": (dangling, r"train_B/b\.png: no such file"),
    "link to itself": (looped, r"train_B/b\.png: cannot be read as an image: Too many levels of symbolic links"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_pair_that_cannot_be_used_is_named(tmp_path: Path, name: str) -> None:
    make, reason = BROKEN[name]
    make(tmp_path)
    layout = pairs(tmp_path)
    if name == "gone during the run":
        (tmp_path / "train_B" / "b.png").unlink()
    loaded = TrainingDataset(layout, WHOLE, seed=0)[SampleKey(0, 1)]
    assert isinstance(loaded, DataError)
    assert re.search(reason, str(loaded))
    assert Check(layout, WHOLE, is_for_training=True)(1).problems == loaded.problems
    assert isinstance(TrainingDataset(layout, WHOLE, seed=0)[SampleKey(0, 0)], Sample)


def test_halves_of_odd_width_and_names_that_come_twice(tmp_path: Path) -> None:
    save_image(tmp_path / "odd.png", RGB[:, :31])
    save_image(tmp_path / "good.png", RGB)
    layout: Layout = SideBySide(folder=tmp_path, a_to_b=True)
    problems = [Check(layout, WHOLE, is_for_training=True)(index).problems for index in range(2)]
    assert problems[0] == ()
    assert re.search(r"odd\.png: is 31 pixels wide, expected two halves of equal width", problems[1][0])
    save_image(tmp_path / "good.jpg", RGB)
    with pytest.raises(PairingError, match=r"good\.png and good\.jpg have the same name: keep one of them"):
        SideBySide(folder=tmp_path, a_to_b=True)


def test_fewer_samples_than_a_batch(tiny_config: Path, tmp_path: Path, command_line: CommandLine) -> None:
    fill(tmp_path / "pairs")
    settings = ["data.layout=paired_folders", f"data.root={tmp_path / 'pairs'}", "data.instance_edges=false"]
    (line,) = command_line.refusal(train.main, "--config", str(tiny_config), *settings, "train.batch_size=4")
    expected = "the train split has 3 samples, fewer than train.batch_size x processes = 4: lower train.batch_size"
    assert line == f"error: {expected}"


def test_a_folder_that_cannot_be_listed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path)
    (tmp_path / "train_A" / "closed").mkdir()
    scandir = os.scandir

    def refuse(folder: str) -> object:  # as for a user without the right to, which root always has
        if Path(folder).name == "closed":
            raise PermissionError(13, "Permission denied", str(folder))
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(DataError, match=r"train_A/closed: Permission denied"):
        pairs(tmp_path)
