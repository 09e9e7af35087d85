"""Layout `unpaired_folders`: its order, its two sides, and the stream of its batches."""

import os
import signal
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from configs.schema import Config, CycleConfig, DataConfig, LossConfig, MethodConfig
from configs.splits import measured_settings, open_split
from data.batch import DataError, LoadingError, Sample
from data.cache import CachedLayout, SampleCache, room
from data.facades.dataset import SyntheticFacades
from data.folder import local_folder
from data.layout import Layout, PairingError
from data.loader import SampleKey, TrainingDataset, read_fixed
from data.map_reader import RGB_IMAGES
from data.paired_folders import PairedFolders
from data.preprocessing import Preprocessing
from data.unpaired_folders import UnpairedFolders
from data.validation_split import possible_shares, split_validation
from tests import processes  # noqa: F401 - its server forks at once
from tests.batches import CROPS, batches
from tests.conftest import save_image
from tests.images import save_npy
from tests.runs import assert_equal

CUT = torch.load(Path(__file__).parents[1] / "reference" / "unpaired.pt", weights_only=True)


@pytest.mark.parametrize(("n_source", "n_target", "n_used"), [(11, 4, 11), (4, 11, 10), (8, 8, 8), (7, 1, 6)])
def test_no_picture_comes_twice_before_all_others_have_come(n_source: int, n_target: int, n_used: int) -> None:
    facades = partial(SyntheticFacades, split="train", seed=0, height=32, width=32)
    layout = UnpairedFolders(facades(n_samples=n_source), facades(n_samples=n_target))
    orders = [layout.epoch_order(3, epoch, n_used) for epoch in range(30)]
    drawn = np.array([[[place for _, place in layout.places(index)] for index in order] for order in orders])
    longer, shorter = (drawn[..., side] for side in ((0, 1) if n_source >= n_target else (1, 0)))
    assert all(len(set(epoch)) == n_used for epoch in longer.tolist())
    n_shorter = min(n_source, n_target)
    stream = shorter.ravel()
    cycles = stream[: len(stream) // n_shorter * n_shorter].reshape(-1, n_shorter)
    assert all(sorted(cycle) == list(range(n_shorter)) for cycle in cycles.tolist())
    if n_shorter > 1:
        assert len({tuple(cycle) for cycle in cycles.tolist()}) > 1
        pairings = [{tuple(pair) for pair in epoch} for epoch in drawn.tolist()]
        assert all(first != second for first, second in pairwise(pairings))


def heaps(root: Path, n_source: int = 5, n_target: int = 3, names: tuple[str, str] = ("train_A", "train_B")) -> Path:
    rng = np.random.default_rng(0)
    for folder, count, height in zip(names, (n_source, n_target), (24, 33), strict=True):
        for number in range(count):
            pixels = rng.integers(0, 255, (height, 20 + 4 * number, 3), dtype=np.uint8)
            save_image(root / folder / f"{number}.png", pixels)
    return root


def opened(
    root: Path,
    *,
    split: str = "train",
    target_folder: str | None = None,
    direction: str = "AtoB",
    needs_targets: bool = True,
    needs_labels: bool = False,
) -> Layout:
    places: dict[str, Any] = {"root": local_folder(root), "source_folder": None, "target_folder": target_folder}
    places |= {"direction": direction, "reader": RGB_IMAGES}
    return UnpairedFolders.open(split, **places, needs_targets=needs_targets, needs_labels=needs_labels)


def test_a_stream_can_go_on_in_the_middle_of_an_epoch_in_any_number_of_processes(tmp_path: Path) -> None:
    layout = opened(heaps(tmp_path))
    expected = batches(layout, 6)
    for other in (batches(layout, 3, n_workers=2, first=3), batches(layout, 3, first=3)):
        assert_equal([vars(batch) for batch in other], [vars(batch) for batch in expected[3:]])
    ranks = [batches(layout, 6, size=1, rank=rank, ranks=2) for rank in (0, 1)]
    for batch, *shares in zip(expected, *ranks, strict=True):
        assert torch.equal(batch.source, torch.cat([share.source for share in shares]))


def test_each_side_is_cropped_and_mirrored_by_itself(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (20, 20, 3), dtype=np.uint8)
    for folder in ("train_A", "train_B"):
        for name in ("x", "y"):
            save_image(tmp_path / folder / f"{name}.png", pixels)
    drawn = [(batch.source, batch.target) for batch in batches(opened(tmp_path), 16)]
    assert sum(torch.equal(source, target) for source, target in drawn if target is not None) <= 2


@pytest.mark.parametrize("names", [("train_A", "train_B"), ("trainA", "trainB")])
def test_folders_have_names_of_this_program_or_of_the_originals(tmp_path: Path, names: tuple[str, str]) -> None:
    root = heaps(tmp_path, names=names)
    layout = opened(root)
    assert [str(folder) for folder in layout.folders] == [str(root / name) for name in names]
    sample = read_fixed(layout, CROPS, 4)
    assert (sample.name, sample.source.shape, sample.maps["target"].shape) == ("4", (3, 24, 32), (3, 32, 24))
    turned = opened(root, direction="BtoA")
    assert [str(folder) for folder in turned.folders] == [str(root / name) for name in names[::-1]]
    assert len(opened(root, direction="BtoA", needs_targets=False)) == 3


def test_folders_that_leave_open_which_side_is_meant_are_refused(tmp_path: Path) -> None:
    heaps(tmp_path)
    with pytest.raises(DataError, match=r"train_A: is the folder of both domains\. Set data\.source_folder"):
        opened(tmp_path, target_folder="{split}_A")
    heaps(tmp_path, names=("train_A", "trainB"))
    with pytest.raises(DataError, match=r"train_B and \S*trainB: two folders of one domain"):
        opened(tmp_path)
    assert len(opened(tmp_path, target_folder="trainB").sides[1]) == 3
    where: dict[str, Any] = {"root": local_folder(tmp_path), "source_folder": None, "target_folder": "trainB"}
    assert UnpairedFolders.has_split("train", **where, direction="AtoB")


def test_sources_alone_do_without_the_other_folder(tmp_path: Path) -> None:
    root = heaps(tmp_path, names=("test_A", "train_B"))
    alone = opened(root, split="test", needs_targets=False)
    assert (len(alone), alone.read(0).target) == (5, None)
    with pytest.raises(PairingError, match=r"test_B: no such folder.*; validation needs both domains"):
        opened(root, split="test")


def test_each_picture_is_cached_once(tmp_path: Path) -> None:
    layout = opened(heaps(tmp_path))
    cache = SampleCache(tmp_path / "cache")
    cached = layout.by_side(lambda side: CachedLayout(side, CROPS, cache))
    for _ in range(2):
        for plain, found in zip(batches(layout, 8), batches(cached, 8), strict=True):
            assert_equal(vars(found), vars(plain))
    assert len({path.stat().st_ino for path in (tmp_path / "cache").rglob("*.pt")}) == 8
    sizes = [sum(tensor.nbytes for tensor in side.read(0).maps.values()) for side in cached.sides]
    assert room(cached, 0)[0] == sum(len(side) * n for side, n in zip(cached.sides, sizes, strict=True))


def test_samples_of_both_sides_are_held_back(tmp_path: Path) -> None:
    layout = opened(heaps(tmp_path, 40, 25))
    least, most = possible_shares(opened(heaps(tmp_path / "few", 5, 1)))
    assert least > most
    rest, held_back = split_validation(layout, possible_shares(layout)[0])
    for side, kept, held in zip(layout.sides, rest.sides, held_back.sides, strict=True):
        assert len(held)
        assert sorted([*kept.names, *held.names]) == sorted(side.names)
    assert set(held_back.sides[0].names) & {str(i) for i in range(25)} == set(held_back.sides[1].names)


def test_a_bad_picture_is_named_and_replaced_without_its_partner(tmp_path: Path) -> None:
    root = heaps(tmp_path, 12, 8)
    (root / "train_B/3.png").write_bytes(b"")
    layout = opened(root)
    dataset = TrainingDataset(layout, CROPS, 0, "skip")
    plain = TrainingDataset(opened(heaps(tmp_path / "good", 12, 8)), CROPS, 0)
    replaced = 0
    for key in [SampleKey(0, int(index)) for index in layout.epoch_order(0, 0, 12)]:
        sample, expected = dataset[key], plain[key]
        assert isinstance(sample, Sample)
        assert isinstance(expected, Sample)
        assert torch.equal(sample.source, expected.source)
        if layout.places(key.index)[1][1] == 3:
            assert [(bad.side, bad.index) for bad in sample.replaces] == [(1, 3)]
            assert "train_B/3.png: cannot be read" in sample.replaces[0].reason
            replaced += 1
    assert replaced > 0


def test_label_maps_beside_sources_are_placed_as_these(tmp_path: Path) -> None:
    heaps(tmp_path, 2, 2)
    for number in range(2):
        ids = np.asarray(Image.open(tmp_path / f"train_A/{number}.png"))[..., 0]
        save_image(tmp_path / f"train_A_label/{number}.png", ids)
    for batch in batches(opened(tmp_path, needs_labels=True), 4):
        assert torch.equal(batch.maps["labels"], batch.source[:, :1].int())
    (tmp_path / "train_A_label/1.png").unlink()
    with pytest.raises(PairingError, match=r"train_A/1\.png: has no partner of the same name in .*train_A_label"):
        opened(tmp_path, needs_labels=True)


def test_sides_may_be_stacked_deep_and_of_other_channels(tmp_path: Path) -> None:
    for number in range(2):
        save_npy(tmp_path / f"train_a/{number}.npy", np.full((20 + number, 24), 7 + 2 * number, np.uint16))
        save_image(tmp_path / f"train_b/{number}.png", np.full((20 + number, 24, 3), number, np.uint8))
        save_npy(tmp_path / f"train_c/{number}.npy", np.full((32, 30), (0.5, 1e4)[number], np.float32))
    folders: dict[str, Any] = {"source_folder": ["{split}_a", "{split}_b"], "target_folder": "{split}_c"}
    folders |= {"source_channels": 4, "target_channels": 1}
    data = DataConfig(layout="unpaired_folders", root=str(tmp_path), **folders)
    config = Config(
        data=data, loss=LossConfig(perceptual=0), method=MethodConfig("cycle"), cycle=CycleConfig(identity=0)
    )
    layout = open_split(config, "train", needs_targets=True)
    measured = measured_settings(config, layout)
    assert measured["source_range"] == [7, 9, 0, 255, 0, 255, 0, 255]
    assert (measured["target_range"], measured["target_files"]) == ([0.5, 10000.0], "float32.npy")
    layout = open_split(replace(config, data=replace(data, **measured)), "train", needs_targets=True)
    sample = layout.read(1)
    assert (sample.source.shape, sample.source.dtype) == ((4, 21, 24), torch.uint16)
    assert torch.equal(sample.maps["target"], torch.full((1, 32, 30), 1e4))


def is_ours(row: dict[str, Any]) -> bool:
    """Whether this program takes the settings: crops of multiples of 4, no heights that CUT stretches to a crop's."""
    width, height = row["size"]
    is_stretched = row["preprocess"].startswith("scale_width") and row["load_size"] * height / width < row["crop_size"]
    is_stretched &= row["result"] != "ValueError"
    return "shortside" not in row["preprocess"] and row["crop_size"] % 4 == 0 and not is_stretched


@pytest.mark.parametrize("row", [row for row in CUT["cut_preprocess_sizes"]["rows"] if is_ours(row)])
def test_sizes_are_those_of_cut_where_it_has_the_same_mode(row: dict[str, Any]) -> None:
    (width, height), load, crop = row["size"], row["load_size"], row["crop_size"]
    preprocessing = Preprocessing(row["preprocess"], load, load, crop, crop, False, size_multiple=4, min_size=4)
    sample = Sample("x", source=torch.zeros(3, height, width, dtype=torch.uint8))
    if row["result"] == "ValueError":
        with pytest.raises(DataError, match="too small for a crop"):
            preprocessing.draw(sample, np.random.default_rng(0))
    else:
        placement = preprocessing.draw(sample, np.random.default_rng(0))
        assert [placement.crop_width, placement.crop_height] == row["result"]


def test_indices_below_the_length_are_the_serial_pairs_of_cut(tmp_path: Path) -> None:
    reference = CUT["unaligned_order"]
    for side, names in reference["files"].items():
        for name in (name for name in names if not name.endswith(".txt")):
            save_image(tmp_path / f"train_{side}" / name, np.zeros((4, 4, 3), np.uint8))
    layout = opened(tmp_path)
    (serial,) = (run["pairs"] for run in reference["runs"] if run["serial"])
    files = [layout.provenance(index).files.values() for index in range(len(layout))]
    assert len(layout) == reference["length"]
    assert [(a.name, b.name) for a, b in files] == [tuple(pair) for pair in serial]


def test_a_process_that_ends_names_the_picture_of_the_side_that_it_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = opened(heaps(tmp_path))
    read = PairedFolders.read

    def read_or_end(side: PairedFolders, index: int) -> Sample:
        if side is layout.sides[1] and index == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return read(side, index)

    monkeypatch.setattr(PairedFolders, "read", read_or_end)
    with pytest.raises(LoadingError, match=rf"ended by SIGKILL while it read sample 1 of {tmp_path}/train_B; "):
        batches(layout, 6, n_workers=1)
