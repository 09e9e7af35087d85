"""Checkpoints that want to run code, or to fill memory: row 8."""

import io
import os
import pickle
import resource
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from inference.load import load_generator, load_network
from tests.runs import untrained_run
from utils.checkpoint import CheckpointError, read_weights_file
from utils.checkpoint_folder import checkpoint_path

pytestmark = pytest.mark.row(8)

PROTOCOL = 2  # torch's own


class Gadget:
    """Pickled as the call of a function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self._call = (function, arguments)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self._call


def gadgets(marker: Path) -> dict[str, Any]:
    touch = f"touch {marker}"
    write = f"open({str(marker)!r}, 'w').close()"
    return {
        "os.system": Gadget(os.system, touch),
        "eval": Gadget(eval, write),
        "Path.touch": Gadget(Path.touch, marker),
        "torch.load": Gadget(torch.load, io.BytesIO(pickle.dumps(Gadget(os.system, touch)))),
        "in a key": {"format": "pairgan-training", Gadget(os.system, touch): 1},
        "in a value": {"format": "pairgan-training", "generator": {"network": Gadget(os.system, touch)}},
        "beside tensors": {"weight": torch.ones(2), "more": [Gadget(os.system, touch)]},
        "in a tuple": ({"a": (Gadget(exec, write),)},),
    }


def write_zip(path: Path, records: Mapping[str, str | bytes], method: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in records.items():
            archive.writestr(name, content)


def as_zip(path: Path, content: Any) -> None:
    torch.save(content, path)


def as_legacy(path: Path, content: Any) -> None:
    torch.save(content, path, _use_new_zipfile_serialization=False)


def as_pickle(path: Path, content: Any) -> None:
    path.write_bytes(pickle.dumps(content, protocol=PROTOCOL))


@pytest.mark.parametrize(
    ("container", "name"),
    [*((as_zip, name) for name in gadgets(Path())), (as_legacy, "in a value"), (as_pickle, "os.system")],
)
def test_nothing_is_run(tmp_path: Path, name: str, container: Callable[[Path, Any], None]) -> None:
    marker, path = tmp_path / "marker", tmp_path / "checkpoint-00000001.pt"
    container(path, gadgets(marker)[name])
    for read in (read_weights_file, load_generator):
        with pytest.raises(CheckpointError, match=r"damaged or not a checkpoint: .*could run code"):
            read(path)
    assert not marker.exists()


def test_the_gadgets_are_live(tmp_path: Path) -> None:
    """The negative control: read without care, one of these files does run its code."""
    marker, path = tmp_path / "marker", tmp_path / "checkpoint-00000001.pt"
    as_pickle(path, gadgets(marker)["os.system"])
    pickle.loads(path.read_bytes())
    assert marker.exists()


def forged_size(path: Path) -> None:
    """A storage that claims 2**40 elements; the record holds four."""
    torch.save({"a": torch.ones(4)}, path)
    with zipfile.ZipFile(path) as archive:
        records = {record.filename: archive.read(record) for record in archive.infolist()}
    name = next(name for name in records if name.endswith("data.pkl"))
    before = records[name]
    records[name] = before.replace(b"K\x04tq", b"\x8a\x06" + struct.pack("<Q", 2**40)[:6] + b"tq")
    assert records[name] != before
    write_zip(path, records)


def bomb(path: Path) -> None:
    write_zip(path, {"archive/data.pkl": bytes(10**8)}, method=zipfile.ZIP_DEFLATED)


def deep(path: Path) -> None:
    """Lists in lists, deeper than an unpickler can go back up."""
    path.write_bytes(b"\x80\x02" + b"]" * 10**5 + b"a" * (10**5 - 1) + b".")


@pytest.mark.parametrize("forge", [forged_size, bomb, deep])
def test_forged_files_are_refused(tmp_path: Path, forge: Callable[[Path], None]) -> None:
    forge(tmp_path / "checkpoint-00000001.pt")
    with pytest.raises(CheckpointError, match=r"damaged or not a checkpoint|not a checkpoint"):
        read_weights_file(tmp_path / "checkpoint-00000001.pt")


def itself() -> list[Any]:
    values: list[Any] = []
    values.append(values)
    return values


def repeated() -> list[Any]:
    values: list[Any] = [1]
    for _ in range(30):
        values = [values, values]
    return values


MOST_TENSORS = 20
TOO_MANY = {f"{number}": torch.ones(()) for number in range(MOST_TENSORS + 1)}
WRONG: dict[str, tuple[Any, ...]] = {
    "step": (None, True, -1, 1.5, "7", 10**30, [], torch.ones(())),
    "epoch": (-1, 2**31, float("nan")),
    "samples_into_epoch": (-1, "x"),
    "n_samples": (-1, [2]),
    "networks": ([], None, 7, {1: {}}, {"generator": 7}, {"generator": {1: torch.ones(1)}}, {"generator": {"a": 1}}),
    "averages": (7, [], {"generator": []}, {"generator": {"module.a": None}}, {"generator": TOO_MANY}),
    "optimizers": (
        *(None, [], {"generator": 7}, {1: {}}),
        *({"generator": part} for part in ({"scaler": {"scale": "x"}}, {"scaler": [1]}, {"skipped_steps": "x"})),
    ),
    "method": ([], 7),
    "random_states": ({}, [7], [{"cpu": 7}]),
    "method_of_processes": ({}, [7]),
    "data": ("abc", torch.ones(())),
    "plateau": ([], {"best": "x"}, {"best": float("nan")}),
    "registered_losses": ([], {"a": "x"}),
    "best": (None, "x", float("nan"), torch.ones(1)),
    "patience": (7, [1], ["x", 0], [1.0, -1]),
    "measured_on": ([], {"l1": 7}),
    "other": (itself(), repeated(), torch.ones(1).expand(10**6, 10**6), torch.eye(3).to_sparse(), 10**30, {1.5: 1}, 1j),
}


@pytest.mark.parametrize("key", WRONG)
def test_content_that_no_run_writes_is_refused_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setattr("utils.checkpoint.MOST_TENSORS", MOST_TENSORS)
    path = tmp_path / "checkpoint-00000001.pt"
    for value in WRONG[key]:
        as_zip(path, {"format": "pairgan-training", "format_version": 3, "config": {}, "step": 1, key: value})
        with pytest.raises(CheckpointError, match=r"01\.pt: (ill-formed: |damaged)") as error:
            read_weights_file(path)
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("settings", [{"base_channels": 3000}, {"n_blocks": 300}])
def test_shapes_are_compared_before_memory_is_taken(tiny_config: Path, settings: dict[str, int]) -> None:
    path = checkpoint_path(untrained_run(tiny_config), 1)
    state = dict(read_weights_file(path))
    state["config"]["generator"] |= settings
    as_zip(path.with_name("forged.pt"), state)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CheckpointError, match="its weights do not fit its configuration"):
        load_generator(path.with_name("forged.pt"))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KiB; 3000 channels take 10 GB


@pytest.mark.parametrize(
    ("value", "reason"), [(float("nan"), "not finite"), (1j, "not finite real"), (7, "do not fit")]
)
def test_weights_that_are_no_finite_numbers_are_refused(tiny_config: Path, value: complex, reason: str) -> None:
    path = checkpoint_path(untrained_run(tiny_config), 1)
    state = dict(read_weights_file(path))
    weights = state["networks"]["generator"]
    name = next(iter(weights))
    weights[name] = torch.full(weights[name].shape, value)
    as_zip(path.with_name("forged.pt"), state)
    with pytest.raises(CheckpointError, match=reason):
        load_generator(path.with_name("forged.pt"))


def test_a_projection_of_very_many_layers_is_not_built(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint-00000001.pt"
    weights = {f"taps.{tap}.0.weight": torch.ones(1, 1) for tap in range(1001)}
    networks = {"networks": {"projection": weights}}
    as_zip(path, {"format": "pairgan-training", "format_version": 3, "config": {}, "step": 1, **networks})
    with pytest.raises(CheckpointError, match=r"01\.pt: expected a projection with 1 to 1000 layers\. "):
        load_network(path, "projection")
