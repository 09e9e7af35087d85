"""Data sets in tar files have the samples, names and fingerprints of their folders; damage is one line."""

import json
import operator
import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import torch

import tests.batches
from configs.load import config_from_dict
from configs.splits import open_split
from data.batch import DataError
from data.cache import CachedLayout, SampleCache
from data.folder import INDEX
from data.layout import Layout
from data.loader import SampleKey, TrainingDataset, difference, fingerprint
from tests.conftest import save_image
from tests.reliability.command_line import CommandLine
from tests.runs import assert_equal
from tools.check_data import __main__ as check_data
from tools.convert_data.shards import to_shards

CROPS = replace(tests.batches.CROPS, crop_height=8, crop_width=8, min_size=8)
batches = partial(tests.batches.batches, preprocessing=CROPS, size=3)


def save_folders(root: Path, *names: str, n_samples: int = 5) -> Path:
    """Write images of noise to folders. Label maps have ids below 5."""
    for number, folder in enumerate(names):
        for sample in range(n_samples):
            shape, most = ((16, 16), 5) if folder.endswith(("label", "inst", "weight")) else ((16, 16, 3), 256)
            pixels = np.random.default_rng([number, sample]).integers(0, most, shape, np.uint8)
            path = root / folder / ("sub" if sample else "") / f"x.{sample:03}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            if folder == "map/train":
                np.save(path.with_suffix(".npy"), pixels)
            elif folder == "depth/train":
                tifffile.imwrite(path.with_suffix(".tif"), pixels)
            else:
                save_image(path, pixels)
    return root


def opened(root: Path, *, needs_labels: bool = False, **settings: Any) -> Layout:
    """Open the training split, for a cycle if the layout is unpaired."""
    method = {"method": {"name": "cycle"}, "cycle": {"identity": 0}} if "layout" in settings else {}
    data = {"root": str(root), "layout": "paired_folders", "preprocess": "none"} | settings
    config = config_from_dict({"data": data} | method, "test", [])
    return open_split(config, "train", needs_targets=True, needs_labels=needs_labels)


@pytest.fixture
def tars(tmp_path: Path) -> Path:
    """Five pairs in several tar files."""
    to_shards(save_folders(tmp_path / "pairs", "train_A", "train_B"), tmp_path / "tars", 4000)
    assert len(list((tmp_path / "tars").glob("*.tar"))) > 2
    return tmp_path / "tars"


@pytest.mark.parametrize(
    ("folders", "settings"),
    [
        (["train_label", "train_img", "train_inst"], {"n_classes": 5, "instance_edges": True}),
        (
            ["rgb/train", "map/train", "depth/train", "train_B", "train_weight"],
            {
                "source_folder": ["rgb/{split}", "map/{split}", "depth/{split}"],
                "source_channels": 9,
                "source_range": [0, 255],
                "weight_folder": "{split}_weight",
            },
        ),
        (["train_A", "train_B", "train_A_label"], {"layout": "unpaired_folders", "needs_labels": True}),
    ],
)
def test_tar_files_have_the_samples_of_the_folders(
    tmp_path: Path, folders: list[str], settings: dict[str, Any]
) -> None:
    root = save_folders(tmp_path / "folders", *folders)
    to_shards(root, tmp_path / "tars", 4000)
    expected, found = opened(root, **settings), pickle.loads(pickle.dumps(opened(tmp_path / "tars", **settings)))
    assert list(found.names) == list(expected.names)
    for index in range(len(expected)):
        assert_equal(vars(found.read(index)), vars(expected.read(index)))
    assert torch.equal(fingerprint(found), fingerprint(expected))
    whole = batches(expected, 4)  # a run that starts with folders can resume with tar files
    for batch, again in zip(whole[1:], batches(found, 3, first=1, n_workers=1), strict=True):
        assert_equal(vars(batch), vars(again))


def test_the_cache_notices_tar_files_that_were_packed_again(tars: Path, tmp_path: Path) -> None:
    def first() -> torch.Tensor:
        layout = opened(tars).by_side(lambda side: CachedLayout(side, CROPS, SampleCache(tmp_path / "cache")))
        return layout.read(0).source

    saved, before = fingerprint(opened(tars)), first()
    assert torch.equal(first(), before)
    name = next((tmp_path / "pairs" / "train_A").rglob(f"{opened(tars).names[0]}.png"))
    save_image(name, np.zeros((16, 16, 3), np.uint8))
    for path in tars.iterdir():
        path.unlink()
    to_shards(tmp_path / "pairs", tars, 4000)
    assert not first().any()
    assert "1 were removed or changed in size" in (difference(saved, opened(tars)) or "")


@pytest.mark.parametrize(
    "damage",
    [
        lambda rows: rows.pop(),
        lambda rows: rows.insert(2, rows.pop(-1)),  # tar files are no longer one after the other
        lambda rows: rows.append({"tar": 1}),
        lambda rows: operator.setitem(rows[1], 0, "x\0.tar"),
        lambda rows: operator.setitem(rows[1], 1, "../x.png"),  # fields: tar, name, offset, bytes, CRC
        lambda rows: operator.setitem(rows[1], 3, 10**40),
        lambda rows: operator.setitem(rows[1], 2, -512),
        lambda rows: operator.setitem(rows[0], 0, "tar_index 2"),
        lambda rows: operator.setitem(rows[2], 2, 0),
    ],
)
def test_a_damaged_index_is_one_line(tars: Path, damage: Callable[[list[Any]], object]) -> None:
    rows = [json.loads(line) for line in (tars / INDEX).read_text().splitlines()]
    damage(rows)
    (tars / INDEX).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with pytest.raises(DataError, match=rf"^{tars}/{INDEX}: is damaged\. Copy it again, or run .* {tars}$"):
        opened(tars)


def test_a_tar_file_that_changes_while_it_is_read_is_an_error_of_its_samples(tars: Path) -> None:
    layout, sample = opened(tars), opened(tars).read(0)
    (tars / INDEX).write_bytes(b"")  # overwritten in place, as by cp
    assert_equal(vars(layout.read(0)), vars(sample))
    first, *_, last = sorted(tars.glob("*.tar"))
    content = bytearray(first.read_bytes())
    content[600] ^= 1
    first.write_bytes(content)
    last.unlink()
    dataset = TrainingDataset(layout, CROPS, 0)
    errors = [str(found) for index in range(5) if isinstance(found := dataset[SampleKey(0, index)], DataError)]
    assert len(errors) == 2
    for problem in (f"{first.name} differs from {INDEX}", f"{last.name}: No such file or directory"):
        assert sum(f"cannot be read as an image: {problem}" in error for error in errors) == 1


def test_a_file_or_folder_that_is_missing_or_damaged_is_named(tars: Path) -> None:
    with pytest.raises(DataError, match=rf"^{tars}/nowhere: no such folder; folders next to it: train_A, train_B"):
        opened(tars, source_folder="nowhere")
    path = tars / "000000.tar"
    os.truncate(path, 600)
    with pytest.raises(DataError, match=rf"^{path}: is shorter than when it was indexed"):
        opened(tars)
    path.unlink()
    with pytest.raises(DataError, match=rf"^{path}: No such file or directory"):
        opened(tars)
    for content in (b"\xff\n", b"[" * 100_000):
        (tars / INDEX).write_bytes(content)
        with pytest.raises(DataError, match="is damaged"):
            opened(tars)
    (tars / INDEX).rename(tars / "index")
    with pytest.raises(DataError, match=rf"no such folder; .* index-shards {tars} turns the tar files into a data set"):
        opened(tars)


def test_an_address_is_refused_and_not_shown(command_line: CommandLine) -> None:
    (line,) = command_line.refusal(check_data.main, "s3://key:secret@bucket/x")
    assert line.startswith("error: data.root: is an address. Mount it, and name the folder")
    assert "secret" not in line


def test_the_former_layout_of_shards_is_that_of_folders() -> None:
    values = {"data": {"layout": "shards", "root": "x", "shuffle": "blocks"}}
    assert config_from_dict(values, "checkpoint.pt").data.layout == "paired_folders"
