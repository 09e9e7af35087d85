from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from configs.load import load_config
from configs.splits import open_splits
from data.batch import DataError
from data.checks import Check, check_all, shared_files
from data.folder import LocalFile
from data.map_reader import MapReader, palette_problems
from data.paired_folders import PairedFolders, SideBySide
from tests import processes  # noqa: F401 - its server forks at once
from tests.conftest import save_image
from tests.reliability.images import WHOLE
from training.report.plan import check_palettes

COLORS = np.array([[200, 0, 0], [0, 200, 0], [0, 0, 200], [90, 90, 90]], np.uint8)
IDS = np.arange(32 * 32).reshape(32, 32) // 8 % 3


def test_each_sample_is_checked_in_processes_as_in_this_one(tmp_path: Path) -> None:
    for name, width in {"a": 32, "b": 31, "c": 64}.items():
        save_image(tmp_path / f"{name}.png", np.zeros((16, width, 3), dtype=np.uint8))
    check = Check(SideBySide(folder=tmp_path, a_to_b=True), WHOLE, is_for_training=True)
    results = sorted(check_all(check, n_processes=2, timeout_s=60), key=lambda checked: checked.index)
    assert results == [check(index) for index in range(3)]
    assert [(checked.height, checked.width) for checked in results] == [(16, 16), (0, 0), (16, 32)]
    assert results[0].types == "uint8 source and uint8 target"
    assert [problem.endswith("expected two halves of equal width") for problem in results[1].problems] == [True]


def test_files_that_splits_may_share_are_masks_and_plain_images(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for kind in ("source", "target", "weights"):
        save_image(tmp_path / kind / "a.png", rng.integers(0, 3, (32, 32), np.uint8))
        save_image(tmp_path / kind / "b.png", np.ones((32, 32), np.uint8))
    folders = {kind: tmp_path / kind for kind in ("source", "target", "weights")}
    check = Check(PairedFolders(folders, MapReader(3)), WHOLE, is_for_training=False)
    assert [file.folder.path.name for file in check(0).files] == ["source", "target"]
    assert check(1).files == []


def save_palette_image(path: Path, order: list[int]) -> Path:
    image = Image.fromarray(IDS.astype(np.uint8)).convert("P")
    image.putpalette(COLORS[order].tobytes())
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path)
    return path


def test_one_palette_may_be_longer_and_of_another_format(tmp_path: Path) -> None:
    first = save_palette_image(tmp_path / "a.png", [0, 1, 2])
    longer = save_palette_image(tmp_path / "b.tif", [0, 1, 2, 3])
    save_image(tmp_path / "grey.png", IDS.astype(np.uint8))
    (tmp_path / "bad.png").write_bytes(b"")
    files = [first, longer, tmp_path / "grey.png", tmp_path / "bad.png", first]
    assert palette_problems(files) == []
    (problem,) = palette_problems([*files, save_palette_image(tmp_path / "c.bmp", [0, 2, 2, 3])])
    assert problem.startswith(f"{tmp_path / 'c.bmp'} and {longer} have different palettes")


@pytest.mark.parametrize("split", ["train", "test"])
def test_training_compares_the_palettes_of_all_splits(split: str, tiny_config: Path, tmp_path: Path) -> None:
    root = tmp_path / "pairs"
    for of_pair, name, order in (("train", "0", [0, 1, 2]), (split, "a", [1, 0, 2])):
        save_palette_image(root / f"{of_pair}_label" / f"{name}.png", order)
        save_image(root / f"{of_pair}_img" / f"{name}.png", np.zeros((32, 32, 3), np.uint8))
    data = ["data.layout=paired_folders", f"data.root={root}", "data.n_classes=4", "data.instance_edges=false"]
    settings = load_config(tiny_config, data)
    with pytest.raises(DataError, match=rf"{split}_label.a\.png and .*train_label.0\.png have different palettes"):
        check_palettes(settings, open_splits(settings))


def test_files_of_equal_bytes_in_two_splits(tmp_path: Path) -> None:
    begin = "0" * 100_000  # files of one size that differ only at their ends are no copies
    contents = {"a": "one", "b": "two", "c": "one", "d": "longer", "e": "two", "f": f"{begin}f", "g": f"{begin}g"}
    for name, content in contents.items():
        (tmp_path / name).write_text(content)

    def lines(**names: str) -> list[str]:
        return list(
            shared_files({split: [LocalFile.of(tmp_path / name) for name in own] for split, own in names.items()})
        )

    (line,) = lines(train="abf", val="dg", test="ce")
    assert line.startswith(f"train and test share 2 files, such as {tmp_path}/a and {tmp_path}/c. ")
    assert lines(train="ac", val="d") == []
