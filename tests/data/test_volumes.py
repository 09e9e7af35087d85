"""Layouts of volumes: which slices are samples, what a sample holds, and how the volumes of patients are found."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from configs.load import load_config
from configs.schema import Config
from configs.splits import Splits, open_split, open_splits
from data.batch import DataError, LoadingError
from data.conditioning import ValueRange
from data.files.volume_file import Geometry
from data.layout import Layout, PairingError
from data.loader import fingerprint
from data.validation_split import split_validation
from data.volumes import SliceRule
from tests.batches import CROPS, batches
from tests.volumes import CASES, EXTRAS, RAS, SERIES, SIZE, noise, save_files, save_patients, save_volume

SLICES = EXTRAS["slices"]
SETTINGS = ["data.layout=paired_volumes", "data.source_channels=1", "data.target_channels=1", "data.preprocess=none"]
SETTINGS += ["data.instance_edges=false"]
MASKED = "data.mask_folder={split}_mask"

Configured = Callable[..., Config]
Opened = Callable[..., Layout]


@pytest.fixture
def configured(tiny_config: Path, tmp_path: Path) -> Configured:
    """Load the settings of a run with the volumes in tmp_path."""
    places = [f"data.root={tmp_path}", f"data.cache={tmp_path}/cache"]
    return lambda *settings: load_config(tiny_config, [*SETTINGS, *places, *settings])


@pytest.fixture
def opened(configured: Configured) -> Opened:
    """Open a split, by default for training."""

    def open_layout(*settings: str, split: str = "train", needs_targets: bool = True) -> Layout:
        return open_split(configured(*settings), split, needs_targets=needs_targets)

    return open_layout


@pytest.fixture
def skipping(configured: Configured) -> Callable[..., Splits]:
    return lambda *settings: open_splits(configured(*settings, "data.on_bad_sample=skip"))


def assert_stack(slices: np.ndarray, axis: str, neighbours: int, index: int, expected: Tensor) -> None:
    rule = SliceRule(neighbours=neighbours)
    along = np.moveaxis(slices, ["axial", "coronal", "sagittal"].index(axis), 0)
    assert torch.equal(torch.from_numpy(rule.source(along, index, (0, 1))), expected)


@pytest.mark.parametrize("case", CASES["stacks"], ids=lambda case: f"{case['axis']} {case['neighbours']}")
def test_neighbours_are_stacked_and_the_ends_are_repeated(case: dict[str, Any], opened: Opened, tmp_path: Path) -> None:
    volume, axis, neighbours = (case[key] for key in ("volume", "axis", "neighbours"))
    for index, expected in enumerate(case["expected"]):
        assert_stack(volume.numpy(), axis, neighbours, index, expected)
    if len(volume) > 1:  # single slices are refused
        save_volume(tmp_path / "train_A" / "p.mha", volume)
        layout = opened(f"data.axis={axis}", f"data.neighbours={neighbours}", needs_targets=False)
        assert torch.equal(torch.stack([layout.read(index).source for index in range(len(layout))]), case["expected"])
        assert list(layout.names) == [f"p/{index:04}" for index in range(len(case["expected"]))]


def test_stacks_of_the_extras() -> None:
    volume = SLICES["volume"].numpy()
    for neighbours in range(3):
        for index, expected in SLICES[f"k{neighbours}"].items():
            assert_stack(volume, "axial", neighbours, index, expected)
    for name, expected in SLICES["axes_k1"].items():
        axis, _, place = name.partition("_")
        assert_stack(volume, axis, 1, volume.shape[2] - 1 if place == "last" else int(place), expected)
    single = SLICES["single_slice_k2"]
    assert_stack(single["volume"].numpy(), "axial", 2, 0, single["slice_0"])


@pytest.mark.parametrize(
    ("volumes", "neighbours", "expected"),
    [
        (CASES["two_sources"]["volumes"], CASES["two_sources"]["neighbours"], CASES["two_sources"]["expected"]),
        ((SLICES["volume"], SLICES["two_sources_k1"]["second"]), 1, SLICES["two_sources_k1"]["slice_0"][None]),
    ],
    ids=["int16 and float32", "int16 and uint16"],
)
def test_offsets_of_the_first_source_come_first(
    opened: Opened, tmp_path: Path, volumes: Any, neighbours: int, expected: Tensor
) -> None:
    for folder, volume in zip("tu", volumes, strict=True):
        save_volume(tmp_path / folder / "p.nrrd", volume)
    stacked = ["data.source_folder=[t,u]", "data.source_channels=2", f"data.neighbours={neighbours}"]
    layout = opened(*stacked, needs_targets=False)
    for index, stack in enumerate(expected):
        assert torch.equal(layout.read(index).source, stack)
        assert layout.read(index).source.dtype == stack.dtype


def test_slices_that_touch_the_mask_are_samples(opened: Opened, tmp_path: Path) -> None:
    case = CASES["samples"]
    for number, (name, mask) in enumerate(case["masks"].items()):
        volumes = {"A": noise(number, mask.shape), "B": noise(-number - 1 & 99, mask.shape), "mask": mask}
        for kind, array in volumes.items():
            save_volume(tmp_path / f"train_{kind}" / f"{name}.mha", array)
    layout = opened(MASKED)
    assert list(layout.names) == case["names"]
    assert [f"{name}/{index:04}" for name, index in case["index"]] == case["names"]
    sizes = [len(list(group)) for _, group in groupby(layout.groups)]
    assert list(np.cumsum([0, *sizes])[:-1]) == case["blocks"]
    n_all = len(layout) + case["n_skipped"]
    assert ("slices", f"{len(layout)} of {n_all} slices of 3 patients; the others are empty or outside the mask") in (
        layout.notes
    )
    for index, (name, number) in enumerate(case["index"]):
        sample = layout.read(index)
        assert torch.equal(sample.maps["weights"][0] == 255, case["masks"][name][number] > 0)
        assert set(sample.maps["weights"].unique().tolist()) <= {0, 255}


def test_without_masks_source_and_target_must_vary(opened: Opened, tmp_path: Path) -> None:
    case, kept = CASES["samples_without_mask"], SLICES["kept"]
    for name, source, target in (("p1", case["source"], case["target"]), ("p2", kept["source"], kept["source"])):
        save_volume(tmp_path / "train_A" / f"{name}.mha", source)
        save_volume(tmp_path / "train_B" / f"{name}.mha", target)
        save_volume(tmp_path / "train_mask" / f"{name}.mha", kept["mask"])
    expected = [f"p1/{index:04}" for index in case["used"]] + [f"p2/{index:04}" for index in kept["without_mask"]]
    assert list(opened().names) == expected
    for folder in ("train_A", "train_B"):  # p1 then has only a mask
        (tmp_path / folder / "p1.mha").unlink()
    assert list(opened(MASKED).names) == [f"p2/{index:04}" for index in kept["with_mask"]]


def test_each_mr_volume_has_its_own_range(opened: Opened, tmp_path: Path) -> None:
    case = CASES["ranges"]
    save_volume(tmp_path / "train_A" / "p.mha", case["mr"])
    layout = opened("data.source_range=volume", needs_targets=False)
    low, high = (f"{case[end]} to {case[end]}" for end in ("low", "high"))
    assert ("ranges", f"each source volume has its own; lower ends {low}, upper ends {high}") in layout.notes
    seen = torch.stack([layout.read(index).source for index in range(len(layout))])
    assert seen.dtype == torch.float32
    assert torch.allclose(ValueRange.of([0, 1]).to_float(seen)[:, 0], case["mr_seen"], rtol=0, atol=case["tolerance"])


def test_all_axes_give_slices_of_one_patient(opened: Opened, tmp_path: Path) -> None:
    volume = noise(1, (3, 4, 5))
    save_volume(tmp_path / "train_A" / "p.mha", volume)
    layout = opened("data.axis=all", needs_targets=False)
    assert [layout.names[index] for index in (0, 3, 7, 11)] == [
        "p/axial/0000", "p/coronal/0000", "p/sagittal/0000", "p/sagittal/0004",
    ]  # fmt: skip
    assert np.array_equal(layout.read(8).source[0].numpy(), volume[:, :, 1])
    assert set(layout.groups) == {"p"}
    assert [file.name for file in layout.files] == ["p.mha"]


def test_splits_keep_patients_together_and_files_are_listed_once(opened: Opened, tmp_path: Path) -> None:
    case = CASES["split"]
    for number, name in enumerate(case["patients"]):
        for folder in ("train_A", "train_B"):
            save_volume(tmp_path / folder / f"{name}.mha", noise(number, (2, 3, 4)))
    layout = opened()
    rest, held_back = split_validation(layout, case["share"])
    assert list(dict.fromkeys(held_back.groups)) == case["held_back"]
    assert sorted({*rest.groups, *held_back.groups}) == case["patients"]
    assert not {*rest.groups} & {*held_back.groups}
    assert len(rest) + len(held_back) == len(layout) == 24
    assert len(list(held_back.files)) == 2 * len(case["held_back"])
    assert len(fingerprint(layout)) == 24 + 24  # names and files


@pytest.mark.parametrize("case", CASES["agreement"], ids=lambda case: case.get("names", "agrees"))
def test_source_and_target_must_have_one_geometry(case: dict[str, Any], opened: Opened, tmp_path: Path) -> None:
    geometries = [Geometry(**{key: tuple(value) for key, value in case[kind].items()}) for kind in ("source", "target")]
    difference = geometries[0].difference(geometries[1])
    assert (difference is None) == case["agrees"]
    assert difference is None or difference.startswith(case["names"])
    for folder, geometry in zip(("train_A", "train_B"), geometries, strict=True):
        array = np.zeros(geometry.size[::-1], np.uint8)
        array[1, 1, 1] = 1
        places = geometry.spacing, geometry.origin, geometry.direction
        save_volume(tmp_path / folder / "p.mha", array, *places)
    if case["agrees"]:
        assert len(opened()) == 1
    else:
        with pytest.raises(PairingError, match=r"^p: .*train_A/p\.mha and .*train_B/p\.mha have the .* Resample one"):
            opened()


def test_volumes_of_any_orientation_are_compared_as_seen(opened: Opened, tmp_path: Path) -> None:
    volume = noise(0)
    save_volume(tmp_path / "train_A" / "p.mha", volume)
    save_volume(tmp_path / "train_B" / "p.nii", volume[:, ::-1, ::-1].copy(), origin=(5, 4, 0), direction=RAS)
    sample = opened().read(2)
    assert torch.equal(sample.source, sample.maps["target"])


PATTERNS: list[Any] = [
    (
        ["data.source_folder={patient}/mr", "data.target_folder={patient}/ct", "data.mask_folder={patient}/mask"],
        [f"{patient}/{kind}.mha" for patient in ("AB/1ABA001", "AB/1ABA002") for kind in ("mr", "ct", "mask")],
        ["AB/1ABA001", "AB/1ABA002"],
    ),
    (
        [],
        ["train_A/p1_mr.nii", "train_A/p2_mr.mha", "train_B/p1_ct.mha", "train_B/p2_ct.mha"],
        ["p1_mr", "p2_mr"],
    ),
    ([], ["train_A/p1_0000.nii", "train_A/p2_0000.nii", "train_B/p1.nii", "train_B/p2.nii"], ["p1_0000", "p2_0000"]),
    (
        ["data.source_folder={split}/{patient}_0000", "data.target_folder={split}/{patient}_0001"],
        ["train/p1_0000.nii", "train/p2_0000.nii", "train/p1_0001.nii", "train/p2_0001.nii"],
        ["p1", "p2"],
    ),
    (["data.direction=BtoA"], ["train_A/1.2.840.nrrd", "train_B/1.2.840.nii.gz"], ["1.2.840"]),
    ([], ["train_A/p1/", "train_A/p2.nii", "train_B/p1/", "train_B/p2.mha", "train_A/notes.txt"], ["p1", "p2"]),
    (["data.source_folder={patient}/mr", "data.target_folder={patient}/ct"], ["x/p1/mr/", "x/p1/ct.mha"], ["x/p1"]),
]


@pytest.mark.parametrize(("settings", "files", "names"), PATTERNS, ids=lambda value: str(value)[:40])
def test_patterns_find_patients(
    opened: Opened, tmp_path: Path, settings: list[str], files: list[str], names: list[str]
) -> None:
    for name in files:
        if name.endswith("/"):
            save_files(tmp_path / name, SERIES["files"])
        elif name.endswith(".txt"):
            (tmp_path / name).write_text("")
        else:
            place = SERIES["spacing"], SERIES["origin"], SERIES["direction"].ravel()
            save_volume(tmp_path / name, noise(3, SERIES["array"].shape), *place)
    layout = opened(*settings)
    assert list(dict.fromkeys(layout.groups)) == names
    sample = layout.read(0)
    assert sample.source.shape == sample.maps["target"].shape == (1, *SERIES["array"].shape[1:])
    files = [str(file) for file in layout.files]
    assert len(files) == len(set(files)) == len(names) * (2 + ("mask_folder" in str(settings)))


@pytest.fixture
def heads(tmp_path: Path) -> Path:
    """Two patients with masks."""
    return save_patients(tmp_path, {"train": 2})


def test_missing_and_ambiguous_volumes_are_named(opened: Opened, heads: Path) -> None:
    def problems(*settings: str, **options: Any) -> list[str]:
        with pytest.raises(PairingError) as error:
            opened(*settings, **options)
        return [problem.replace(f"{heads}/", "") for problem in error.value.problems]

    remedy = "; to train without masks, set data.mask_folder=null"
    folders = "no such folder; folders next to it: cache, train_A, train_B, train_mask"
    opened()
    assert problems("data.mask_folder=m") == [f"m: {folders}{remedy}"]
    assert problems("data.source_folder=a") == [f"a: {folders}"]
    (found,) = problems("data.source_folder={patient}/mr", "data.target_folder=train_B")
    assert found.startswith(f"{heads}: holds no volume of the split train, expected {{patient}}/mr with .nii, ")
    (heads / "train_mask" / "p002.nii.gz").unlink()
    lacking = "p002.nii.gz: has no partner of the same name in train_mask"
    assert problems(MASKED) == [f"train_A/{lacking}", f"train_B/{lacking}"]
    (heads / "train_B" / "p001.nii.gz").rename(heads / "train_B" / "P001.nii.gz")
    assert "P001.nii.gz differs only in upper and lower case: rename one file" in problems()[0]
    (heads / "train_B" / "P001.nii.gz").rename(heads / "train_B" / "p001.nii.gz")
    save_volume(heads / "train_B" / "p001.nii", noise(0))
    with pytest.raises(DataError, match=r"B/p001\.nii\.gz and \S*/p001\.nii have the same name: keep one of them$"):
        opened()


def test_folders_without_split_are_for_training_only(opened: Opened, heads: Path) -> None:
    (heads / "train_A").rename(heads / "val_A")
    (heads / "train_B").rename(heads / "val_B")
    with pytest.raises(DataError, match=r"^data\.mask_folder=train_mask does not contain \{split\}"):
        opened("data.mask_folder=train_mask", split="val")
    maps = opened("data.mask_folder=train_mask", split="val", needs_targets=False).read(0).maps
    assert maps.keys() == {"source", "target"}  # volumes that exist are read
    for name in ("p001", "p002"):
        save_volume(heads / "val_B" / f"{name}.nii.gz", np.zeros(SIZE, np.uint8))
    with pytest.raises(DataError, match="no slice is used, because all are constant or outside the masks"):
        opened(split="val")


def test_training_can_leave_out_damaged_volumes(
    opened: Opened, skipping: Callable[..., Splits], heads: Path, caplog: pytest.LogCaptureFixture
) -> None:
    damaged = heads / "train_B" / "p001.nii.gz"
    damaged.write_bytes(damaged.read_bytes()[:-40])
    problem = f"{damaged}: is damaged or incomplete. Copy it again."
    with pytest.raises(PairingError) as error:
        opened(MASKED)
    assert error.value.problems == (problem,)
    assert {*error.value.rest.groups} == {"p002"}
    splits = skipping(MASKED)
    assert {*splits.train.groups} == {*splits.validation.groups} == {"p002"}
    assert splits.train.read(0).maps.keys() == {"source", "target", "weights"}
    assert [record.message for record in caplog.records] == [f"skipped a patient: {problem}"]
    with pytest.raises(LoadingError, match=r"^/dev/null/x/volumes: cannot store \S*: Not a directory\. Free space"):
        skipping("data.cache=/dev/null/x")  # no fault of a patient
    save_volume(heads / "train_A" / "p002.nii.gz", noise(0))
    with pytest.raises(PairingError, match=r"p001.*damaged.*; p002: .* sizes 6x5x4 and 16x20x8"):
        skipping()


def test_small_slices_are_padded_to_the_crop(opened: Opened, heads: Path) -> None:
    layout = opened(MASKED, "data.neighbours=1", "data.preprocess=crop", "data.crop_width=24", "data.crop_height=16")
    plain = opened(MASKED, "data.neighbours=1")
    for index in (0, 5):
        maps, expected = layout.read(index).maps, plain.read(index).maps
        for kind, n_channels, value in (("source", 3, None), ("target", 1, -1024), ("weights", 1, 0)):
            assert maps[kind].shape == (n_channels, 20, 24)
            assert torch.equal(maps[kind][..., 4:20], expected[kind])
            if value is not None:
                assert (maps[kind][..., :4] == value).all()
                assert (maps[kind][..., 20:] == value).all()
        assert (maps["source"][..., 20:] == maps["source"][0, 0, 0]).all()
        assert maps["source"][0, 0, 0] <= expected["source"].min()


def test_volumes_of_several_types_fit_in_one_batch(opened: Opened, tmp_path: Path) -> None:
    for number, kind in enumerate((np.int16, np.uint16, np.float32)):
        for folder in ("train_A", "train_B"):
            save_volume(tmp_path / folder / f"p{number}.mha", abs(noise(number)).astype(kind))
    layout = opened("data.preprocess=crop", "data.crop_width=8", "data.crop_height=8")
    (batch,) = batches(layout, 1, preprocessing=replace(CROPS, crop_width=8, crop_height=8, min_size=8), size=12)
    assert batch.source.dtype == batch.maps["target"].dtype == torch.float32
    tiff = opened("data.source_folder=train_A", "data.target_folder=train_A")
    assert torch.equal(tiff.read(5).source[0], torch.from_numpy(abs(noise(1)).astype(np.float32))[1])


def test_sides_without_pairs_have_patients_of_their_own(opened: Opened, tmp_path: Path) -> None:
    for folder, names in (("A", "abc"), ("B", "xy"), ("mask", "abcxyz")):
        for number, name in enumerate(names):
            array = np.arange(4)[:, None, None].repeat(5, 1).repeat(6, 2) if folder == "mask" else noise(number)
            save_volume(tmp_path / f"train_{folder}" / f"{name}.mha", array.astype(np.int16))
    unpaired = ["data.layout=unpaired_volumes", "method.name=cycle", "loss.l1=0", "data.source_range=volume"]
    layout = opened(*unpaired, "data.target_range=[-1000,2000]", MASKED)
    assert [list(dict.fromkeys(side.groups)) for side in layout.sides] == [["a", "b", "c"], ["x", "y"]]
    assert [len(side) for side in layout.sides] == [9, 6]  # slice 0 is outside of the masks
    sample = layout.read(8)
    assert sample.maps.keys() == {"source", "target"}
    assert torch.equal(sample.maps["target"][0], torch.from_numpy(noise(0)[3]))
    assert (sample.source.dtype, layout.names[8]) == (torch.float32, "c/0003")
    assert len(list(layout.files)) == 10
    (tmp_path / "train_B" / "y.mha").write_bytes(b"")
    with pytest.raises(PairingError, match=r"^\S*train_B/y\.mha: is damaged or incomplete"):
        opened(*unpaired, "data.target_range=[-1000,2000]")
    shutil.rmtree(tmp_path / "train_B")
    assert len(opened(*unpaired, "data.target_range=[0,1]", needs_targets=False)) == 12
