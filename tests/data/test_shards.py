"""Layouts of shards: the samples of the folders that they were made of, in an order that can be resumed anywhere."""

import json
import pickle
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tests.batches
from configs import build
from configs.load import config_from_dict
from data.batch import DataError
from data.cache import CachedLayout, SampleCache
from data.fingerprint import difference, fingerprint
from data.held_back import hold_back
from data.layout import Layout
from data.ranges import RemoteFile, StoreError
from tests.runs import assert_equal
from tests.servers import range_server
from tests.shards import save_folders
from tools.convert_data.shards import to_shards

CROPS = replace(tests.batches.CROPS, crop_height=8, crop_width=8, min_size=8)
batches = partial(tests.batches.batches, preprocessing=CROPS, size=3)


def opened(root: Path | str, *, needs_labels: bool = False, **settings: Any) -> Layout:
    """The training split of a data set by the settings of section `data`; of cycles where it has two sides."""
    is_unpaired = settings.get("layout", "shards").startswith("unpaired")
    method = {"method": {"name": "cycle"}, "cycle": {"identity": 0}} if is_unpaired else {}
    values = {"data": {"root": str(root), "layout": "shards", "preprocess": "none"} | settings} | method
    config = config_from_dict(values, "test", [])
    return build.build_layout(config, "train", needs_targets=True, needs_labels=needs_labels)


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    """Pairs in ten shards of two samples."""
    folders = save_folders(tmp_path / "pairs", "train_A", "train_B", n_samples=20)
    to_shards(folders, tmp_path / "shards", 5000, [])
    return tmp_path / "shards"


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The places of the files that are read by ranges."""
    places, read = list[str](), RemoteFile.read

    def recorded(file: RemoteFile, start: int, end: int) -> bytes:
        places.append(str(file))
        return read(file, start, end)

    monkeypatch.setattr(RemoteFile, "read", recorded)
    return places


@pytest.mark.parametrize(
    ("folders", "settings"),
    [
        (["train_A", "train_B"], {}),
        (["train_A", "train_B"], {"direction": "BtoA"}),
        (
            ["train_label", "train_img", "train_inst", "train_weight"],
            {"n_classes": 5, "instance_edges": True, "weight_folder": "{split}_weight"},
        ),
        (
            ["train_rgb", "train_map", "train_B"],
            {"source_folder": ["{split}_rgb", "{split}_map"], "source_channels": 6, "source_range": [0, 255]},
        ),
        (["train"], {"layout": "side_by_side"}),
        (["trainA", "trainB"], {"layout": "unpaired_folders"}),
        (["train_A", "train_B"], {"layout": "unpaired_folders", "direction": "BtoA"}),
        (["train_A", "train_B", "train_A_label"], {"layout": "unpaired_folders"}),
    ],
)
def test_shards_hold_the_samples_of_the_folders(tmp_path: Path, folders: list[str], settings: dict[str, Any]) -> None:
    root = save_folders(tmp_path / folders[-1], *folders)
    layout = settings.pop("layout", "paired_folders")
    named = [f"data.{key}={json.dumps(settings[key])}" for key in settings.keys() & {"source_folder"}]
    to_shards(root, tmp_path / "shards", 4000, [f"data.layout={layout}", *named])
    settings["needs_labels"] = "train_A_label" in folders
    expected = opened(root, layout=layout, **settings)
    made = "unpaired_shards" if layout == "unpaired_folders" else "shards"
    shards = opened(tmp_path / "shards", layout=made, **settings)
    assert list(shards.names) == list(expected.names)
    for index in range(len(expected)):
        assert_equal(vars(shards.read(index)), vars(expected.read(index)))
    assert len(shards.archives) > 1


@pytest.mark.parametrize("shuffle", ["full", "blocks"])
@pytest.mark.parametrize("layout", ["shards", "unpaired_shards"])
def test_a_run_that_was_stopped_goes_on_with_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shuffle: str, layout: str
) -> None:
    monkeypatch.setattr("data.layout._WINDOW", 4)
    root = save_folders(tmp_path / "folders", "train_A", "train_B", n_samples=10)
    folders = "unpaired_folders" if layout == "unpaired_shards" else "paired_folders"
    to_shards(root, tmp_path / "shards", 5000, [f"data.layout={folders}"])
    samples = opened(tmp_path / "shards", layout=layout, shuffle=shuffle)
    whole = batches(samples, 8)
    for batch, again in zip(whole[4:], batches(samples, 4, first=4, n_workers=2), strict=True):
        assert_equal(vars(batch), vars(again))


def test_blocks_are_read_one_after_the_other(shards: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_any_order = opened(shards).epoch_order(1, 2, 20)
    assert in_any_order.tolist() == np.random.default_rng([1, 2]).permutation(20).tolist()
    layout = opened(shards, shuffle="blocks")
    assert layout.epoch_order(1, 2, 20).tolist() == in_any_order.tolist()  # one window has all of them
    monkeypatch.setattr("data.layout._WINDOW", 4)
    side = layout.by_side(lambda side: CachedLayout(side, CROPS, SampleCache(shards)))
    training, held_back = hold_back(layout, 0.3)
    for drawn in (layout, side, training):
        order = drawn.epoch_order(1, 2, len(drawn))
        assert sorted(order.tolist()) == list(range(len(drawn)))
        assert order.tolist() != drawn.epoch_order(1, 3, len(drawn)).tolist()
        windows = [order[start : start + 4] for start in range(0, len(order), 4)]
        starts = drawn.blocks
        assert starts is not None
        blocks = [set(np.searchsorted(starts, window, side="right").tolist()) for window in windows]
        assert all(len(first & second) <= 1 for first, second in pairwise(blocks))  # of windows, one may share a block
        assert max(map(len, blocks)) <= 4
    assert held_back.archives == layout.archives


def test_all_maps_of_a_sample_are_one_request(shards: Path, requests: list[str]) -> None:
    layout = opened(shards)
    requests.clear()
    for index in (0, 7, 19):
        layout.read(index)
    assert [Path(place).name for place in requests] == ["train-000000.tar", "train-000003.tar", "train-000009.tar"]


def test_the_cache_knows_a_sample_without_reading_it(shards: Path, tmp_path: Path, requests: list[str]) -> None:
    layout = opened(shards)
    cached = CachedLayout(layout, CROPS, SampleCache(tmp_path / "cache"))
    first = cached.read(3)
    n_requests = len(requests)
    shutil.copytree(shards, tmp_path / "copy")
    again = CachedLayout(opened(tmp_path / "copy"), CROPS, SampleCache(tmp_path / "cache"))
    n_opened = len(requests)
    assert_equal(vars(again.read(3)), vars(first))
    assert len(requests) == n_opened
    assert n_requests == 1


def test_fingerprints_are_digests_of_shards(shards: Path, tmp_path: Path) -> None:
    layout, before = opened(shards), fingerprint(opened(shards))
    shutil.copytree(shards, tmp_path / "copy")
    assert torch.equal(fingerprint(opened(tmp_path / "copy")), before)
    assert len(before) == len(layout.archives) < len(layout)
    folders = save_folders(tmp_path / "others", "train_A", "train_B", n_samples=21)
    to_shards(folders, tmp_path / "others" / "shards", 5000, [])
    change = difference(before, opened(tmp_path / "others" / "shards"))
    assert change is not None
    assert "2 names or files are new or of another size (train-000009.tar, train-000010.tar), 1 are gone" in change


def test_another_process_maps_the_index_itself(shards: Path) -> None:
    layout = opened(shards)
    text = pickle.dumps(layout)
    assert len(text) < 8000
    assert list(pickle.loads(text).names) == list(layout.names)
    assert layout.names[-1] == layout.names[19] == "x.000"
    assert layout.names[:2] == ["sub/x.001", "sub/x.002"]


def _shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-600])


def _change(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[512 * 3 : 512 * 20] = bytes(512 * 17)
    path.write_bytes(content)


def _replaced(old: str, new: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(path.read_text().replace(old, new))


def _stored(field: str, value: object) -> Callable[[Path], object]:
    def store(path: Path) -> None:
        table = np.load(path)
        (table if field == "name" else table["source"])[field][0] = value
        np.save(path, table)

    return store


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("train-000000.tar", Path.unlink, "no such file"),
        ("train-000000.tar", _shorten, r"has \d+ bytes, not \d+"),
        ("train-000000.tar", _change, "is not at its place in the tar file"),
        ("train-000001.tar.npy", Path.unlink, "cannot be read as an index: .*No such file"),
        ("train-000001.tar.npy", _shorten, "cannot be read as an index"),
        ("train-000001.tar.npy", lambda path: np.save(path, np.zeros(3)), "is not the index of 2 samples"),
        ("train-000001.tar.npy", lambda path: np.save(path, np.array([{}])), "cannot be read as an index"),
        ("train-000000.tar.npy", _stored("name", b"../x"), "has no name of a sample"),
        ("train-000000.tar.npy", _stored("name", b"/etc/x"), "has no name of a sample"),
        ("train-000000.tar.npy", _stored("offset", -1000), "its place is outside of the tar file"),
        ("train-000000.tar.npy", _stored("offset", 2**40), "its place is outside of the tar file"),
        ("train-000000.tar.npy", _stored("size", 2**40), "its place is outside of the tar file"),
        ("train-000000.tar.npy", _stored("size", 100), "is not at its place"),
        ("shards.json", _shorten, "is no manifest of version 1"),
        ("shards.json", _replaced('"version": 1', '"version": 2'), "is no manifest of version 1"),
        ("shards.json", _replaced('"n_samples": 2', '"n_samples": 2.0'), "is no manifest of version 1"),
        ("shards.json", lambda path: path.write_text('{"version": 1, "sets": {"train": []}}'), "is no manifest of"),
        ("shards.json", lambda path: path.write_text("[" * 10**5), "is no manifest of version 1"),
        ("shards.json", _replaced("train-000000.tar", "../train-0.tar"), "of files below it"),
        ("shards.json", _replaced("train-000000.tar", "/train-0.tar"), "of files below it"),
    ],
)
def test_damaged_shards_end_the_run_in_one_line(
    shards: Path, name: str, damage: Callable[[Path], object], message: str
) -> None:
    damage(shards / name)
    with pytest.raises(StoreError, match=message) as error:
        batches(opened(shards), 7)
    assert "\n" not in str(error.value)
    assert str(shards / name.removesuffix(".npy")) in str(error.value)


def test_sizes_may_be_binary_as_other_writers_have_them(shards: Path) -> None:
    path = shards / "train-000000.tar"
    expected, content = opened(shards).read(0).source, bytearray(path.read_bytes())
    with tarfile.open(path) as tar:
        for member in tar.getmembers():
            header = memoryview(content)[member.offset : member.offset_data]
            header[124:136] = b"\x80" + member.size.to_bytes(11, "big")
            header[148:156] = b" " * 8  # as which its own digits count in the checksum
            header[148:156] = b"%06o\0 " % sum(header)
    path.write_bytes(content)
    assert_equal(opened(shards).read(0).source, expected)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layout": "unpaired_shards"}, r"has no shards of train_A, but of train$"),
        ({"instance_edges": True}, r"train: no map instances; the shards have source, target; to make them"),
        ({"weight_folder": "any"}, r"no map weights; .*data\.weight_folder=null"),
        ({"source_folder": ["A", "B"], "source_channels": 6}, r"no map source_2; the shards have source, target$"),
        ({"layout": "paired_folders"}, r"train_A: no such folder, but shards\.json; data\.layout=shards or unpaired"),
    ],
)
def test_what_shards_lack_is_named(shards: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        opened(shards, **settings)


def test_a_folder_without_a_manifest_is_no_data_set_of_shards(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has no shards\.json: python -m tools\.convert_data index-shards"):
        opened(tmp_path)


def test_a_server_is_asked_once_for_each_sample(shards: Path) -> None:
    pytest.importorskip("aiohttp")
    expected = batches(opened(shards), 8)
    with range_server(shards) as server:
        layout = opened(server.url)
        for batch, remote in zip(expected, batches(layout, 8), strict=True):
            assert_equal(vars(batch), vars(remote))
        asked = [path for path, *_ in server.requests if path.endswith(".tar")]
        assert len(asked) == 24
        for batch, remote in zip(expected[3:], batches(layout, 5, first=3, n_workers=2), strict=True):
            assert_equal(vars(batch), vars(remote))
        assert str(layout.provenance(0).files["source"]) == f"{server.url}/train-000000.tar/sub/x.001.source.png"


@pytest.mark.parametrize("name", ["%2e%2e/outside.tar", "100%41#?.tar"])
def test_names_in_a_manifest_are_no_parts_of_an_address(shards: Path, name: str) -> None:
    pytest.importorskip("aiohttp")
    place = shards.parent / "outside.tar" if "outside" in name else shards / name
    for end in ("", ".npy"):
        (shards / f"train-000000.tar{end}").rename(f"{place}{end}")
    _replaced("train-000000.tar", name)(shards / "shards.json")
    with range_server(shards.parent) as server:
        if "outside" in name:
            with pytest.raises(StoreError, match=r"%252e%252e/outside\.tar\.npy: no such file"):
                opened(f"{server.url}/shards")
        else:
            assert opened(f"{server.url}/shards").read(0).name == "sub/x.001"


@pytest.mark.parametrize("fault", ["500", "drop", "truncated", "shifted", "404", "whole"])
def test_a_server_that_fails_ends_the_run_and_no_sample_is_skipped(
    shards: Path, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("aiohttp")
    monkeypatch.setattr("data.ranges.PAUSES_S", (0.0,))
    with range_server(shards) as server:
        layout = opened(server.url)
        layout.read(0)
        server.faults = [fault]
        with pytest.raises(StoreError, match=rf"^{server.url}/train-00000\d\.tar(\.npy)?: ") as error:
            batches(layout, 1, skips=True)
    assert "\n" not in str(error.value)
