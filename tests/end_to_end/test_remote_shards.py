"""Training on shards over HTTP and S3: the same bits as on this machine; a store that fails ends the run."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import train
from data import ranges
from data.ranges import StoreError
from tests.conftest import write_tiny_config
from tests.reliability.command_line import CommandLine
from tests.runs import assert_equal, checkpoint, run, translate, with_slow, without_config
from tests.servers import range_server, s3_server
from tests.shards import save_folders
from tools.check_data import __main__ as check_data
from tools.convert_data.shards import to_shards
from utils import worker_threads
from utils.checkpoint_folder import list_checkpoints

DATA = ["data.layout=shards", "data.instance_edges=false", "data.on_bad_sample=skip"]


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "PAUSES_S", (0.001, 0.001))


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pairs of 32x32 pixels: four of training in two tar files, two of each other split, in the folder `shards`."""
    root = tmp_path_factory.mktemp("data")
    for split, n_samples in {"train": 4, "val": 2, "test": 2}.items():
        save_folders(root / "pairs", f"{split}_A", f"{split}_B", n_samples=n_samples, side=32)
    to_shards(root / "pairs", root / "shards", 20_000, [])
    return root / "shards"


@pytest.fixture(scope="module")
def local(shards: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The checkpoint of step 6 of a run on this machine that was never stopped."""
    config = write_tiny_config(tmp_path_factory.mktemp("local"))
    run(config, *DATA, f"data.root={shards}", "train.max_steps=6")
    return without_config(checkpoint(config, 6))


@contextmanager
def served(scheme: str, shards: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield the address of the shards on a server."""
    pytest.importorskip("aiohttp")
    if scheme == "s3":
        with s3_server(shards.parent, monkeypatch):
            yield "s3://shards"
    else:
        with range_server(shards.parent) as server:
            yield f"{server.url}/shards/"


@pytest.mark.parametrize("scheme", ["http", "s3"])
def test_a_run_over_a_network_ends_with_the_bits_of_one_on_this_machine(
    tiny_config: Path, scheme: str, shards: Path, local: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(scheme, shards, monkeypatch) as address:
        run(tiny_config, *DATA, f"data.root={address}", "train.max_steps=3", "data.workers=2")
        run(tiny_config, *DATA, f"data.root={address}", "train.max_steps=6", "data.workers=1")
        assert_equal(without_config(checkpoint(tiny_config, 6)), local)
    # credentials came from the environment, and are nowhere in the run
    files = [path for path in tiny_config.parent.rglob("*") if path.is_file()]
    assert not [path for path in files if b"s3cret" in path.read_bytes()]


@pytest.mark.parametrize("workers", with_slow([1], [0]))
def test_a_server_that_dies_ends_the_run_which_goes_on_once_it_is_back(
    tiny_config: Path, shards: Path, local: dict[str, Any], command_line: CommandLine, workers: int
) -> None:
    pytest.importorskip("aiohttp")
    with range_server(shards) as server:
        arguments = ["--config", str(tiny_config), *DATA, f"data.root={server.url}", f"data.workers={workers}"]
        arguments += ["train.max_steps=6", "checkpoint.every_steps=1"]
        server.faults = [""] * 11 + ["drop"]
        (line,) = command_line.refusal(train.main, *arguments)
        assert line.startswith(f"error: {server.url}/train-00000")
        assert line.endswith(". Tried 3 times. Start again when it can be read.")
        saved = list_checkpoints(tiny_config.parent / "runs" / "tiny")
        assert saved
        assert len(saved) < 6

        server.faults = [""]
        train.main(arguments)
        assert_equal(without_config(checkpoint(tiny_config, 6)), local)


def test_translation_reads_over_a_network_and_ends_where_the_server_does(
    tiny_config: Path, shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("aiohttp")
    with range_server(shards) as server:
        run(tiny_config, *DATA, f"data.root={server.url}", "train.max_steps=1")
        command = ["--checkpoint", str(tmp_path / "runs" / "tiny"), "--output", str(tmp_path / "out")]
        server.requests.clear()
        translate(*command)
        assert {path.name for path in (tmp_path / "out").rglob("x.*.png")} == {"x.000.png", "x.001.png"}

        n_before = [path for path, *_ in server.requests].index("/test-000000.tar")
        server.requests.clear()
        monkeypatch.setattr(worker_threads, "MOST_THREADS", 1)
        server.faults = [""] * n_before + ["500"]
        with pytest.raises(StoreError, match=r"test-000000\.tar: .* Tried 3 times\."):
            translate(*command)
        assert len({asked for path, asked, _ in server.requests if path.endswith(".tar")}) == 1  # not the other sample


def test_check_data_takes_an_address(shards: Path, command_line: CommandLine) -> None:
    pytest.importorskip("aiohttp")
    with range_server(shards) as server:
        code, out, _ = command_line.run(check_data.main, server.url)
        assert code == 0
        assert "no problem in test, train, val" in out
        (line,) = command_line.refusal(check_data.main, f"{server.url}/missing")
        assert line.startswith(f"error: {server.url}/missing/shards.json: no such file")


def test_a_redirect_of_a_shard_is_not_followed(tiny_config: Path, shards: Path) -> None:
    pytest.importorskip("aiohttp")
    with range_server(shards.parent) as elsewhere, range_server(shards) as server:
        server.faults = ["", f"{elsewhere.url}/shards/shards.json"]
        with pytest.raises(StoreError, match=r"redirects to .*, which is not followed"):
            run(tiny_config, *DATA, f"data.root={server.url}")
        assert not elsewhere.requests
