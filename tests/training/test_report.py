"""What a run reports: log.txt, state.json, the page of its validation samples, the plan and a dry run."""

import json
import platform
import re
import shutil
import threading
from contextlib import suppress
from pathlib import Path
from signal import Signals
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from torch import nn

from configs.load import load_config
from configs.splits import HELD_BACK, Splits
from data.batch import Batch
from data.loader import read_fixed
from data.paired_folders import SideBySide
from data.validation_split import Subset
from losses.perceptual import VGG19
from metrics.networks import INCEPTION
from tests.conftest import save_image
from tests.runs import built
from training import run_folder
from training.launch import train
from training.report import plan
from training.report.plan import (
    Layer,
    describe_time,
    describe_validation,
    downloads,
    table,
    watch_pass,
    watched_layers,
    without_downloads,
)
from training.report.sinks import SHOWN_VALIDATIONS, Page, Progress, Report, TensorBoard
from training.run_folder import read_state, recorded
from utils.errors import ConfigError, Interrupted, UserError
from utils.log import logger


def messages(folder: Path) -> list[str]:
    """The lines of log.txt without their times."""
    return [line.split(" ", 2)[2] for line in (folder / "log.txt").read_text().splitlines()]


def state(name: str, step: int, signal: str | None = None, reason: str | None = None) -> dict[str, Any]:
    return {"state": name, "step": step, "signal": signal, "reason": reason}


LOST = RuntimeError("[gloo] Connection closed by peer")


@pytest.mark.parametrize(
    ("error", "expected", "last_line"),
    [
        (None, state("finished", 3, reason="enough"), "finished at step 3"),
        (Interrupted(Signals.SIGTERM, 3), state("stopped", 3, "SIGTERM"), "stopped by SIGTERM and saved at step 3"),
        (RuntimeError("a\nb"), state("failed", 3, reason="RuntimeError: a"), "failed at step 3: RuntimeError: a b"),
        (LOST, state("lost", 3, reason=f"RuntimeError: {LOST}"), f"failed at step 3: RuntimeError: {LOST}"),
    ],
)
def test_state_and_log_record_how_and_when_a_run_ended(
    tmp_path: Path, error: BaseException | None, expected: dict[str, Any], last_line: str
) -> None:
    logger.setLevel("INFO")
    folder = tmp_path / "run"
    with suppress(RuntimeError, Interrupted), recorded(folder) as session:
        logger.info("before there is a folder")
        folder.mkdir()
        session.begin(2)
        assert json.loads((folder / "state.json").read_text()) == state("running", 2)
        session.end_step()
        session.end_reason = "enough"
        logger.info("later")
        if error:
            raise error
    logger.info("of another run")
    first, *others = messages(folder)
    assert first.startswith("pairgan ")
    assert f"Python {platform.python_version()}, torch {torch.__version__}" in first
    assert others == ["before there is a folder", "later", last_line]
    assert json.loads((folder / "state.json").read_text()) == expected


def test_failed_start_is_recorded_if_the_folder_exists(tmp_path: Path) -> None:
    (tmp_path / "checkpoint-00000002.pt").touch()
    with pytest.raises(ValueError, match="a mistake"), recorded(tmp_path):
        raise ValueError("a mistake")
    assert messages(tmp_path)[1:] == ["not started: ValueError: a mistake"]
    assert read_state(tmp_path) == state("failed", 2, reason="ValueError: a mistake")


def test_state_is_replaced_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with recorded(tmp_path) as session:
        session.begin(2)
        monkeypatch.setattr(run_folder, "replacing", Mock(side_effect=OSError(28, "No space left on device")))
    assert read_state(tmp_path) == state("finished", 2)
    assert not caplog.text


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_folder_that_was_removed_ends_the_run_in_a_line(tiny_config: Path, is_replaced: bool) -> None:
    folder = tiny_config.parent / "runs" / "tiny"

    def remove(step: int, scalars: object) -> None:
        shutil.rmtree(folder)
        if is_replaced:
            folder.mkdir()

    config = load_config(tiny_config, ["train.max_steps=2", "log.every_steps=1"])
    with pytest.raises(UserError, match=r"tiny: the folder was removed while the run trained\. Start the run again\.$"):
        train(config, on_report=remove)
    assert folder.exists() is is_replaced


def test_the_page_of_a_long_run_shows_the_latest_steps(tmp_path: Path) -> None:
    web, n_steps = tmp_path / "run" / "web", 1000
    web.mkdir(parents=True)
    row = {"images": {"translated": "x.png"}, "metrics": {}}
    rows = [{"step": step, "name": name, **row} for step in range(n_steps) for name in "ab"]
    (web / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    Page(web).write()
    page = (web / "index.html").read_text()
    steps = [int(step) for step in re.findall(r'data-name="a, step (\d+)"', page)]
    assert steps == list(range(n_steps - 1, n_steps - 1 - SHOWN_VALIDATIONS, -1))
    assert page.count("<article") == 2 * len(steps)
    assert f"<h1>run, {len(steps)} of 1000 validations</h1>" in page


def test_damaged_rows_are_left_out_of_the_page(tmp_path: Path) -> None:
    web = tmp_path / "run" / "web"
    web.mkdir(parents=True)
    good: dict[str, Any] = {"step": 1, "name": "good", "images": {"translated": "x.png"}, "metrics": {"l1": None}}
    wrong: list[dict[str, Any]] = [
        {"images": 3},
        {"images": {"source": 3}},
        {"metrics": [1]},
        {"metrics": {"l1": "a"}},
        {"name": None},
    ]
    rows = [good, *(good | {"name": "wrong"} | change for change in wrong)]
    (web / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    Page(web).write()
    assert re.findall('data-name="(.*?)"', (web / "index.html").read_text()) == ["good, step 1"]


def test_the_plan_warns_of_names_that_begin_alike(tiny_config: Path, tmp_path: Path) -> None:
    for name in ("p001_s1", "p001_s2", "p002_s1", "p003_s1"):
        save_image(tmp_path / f"{name}.png", np.zeros((4, 8, 3), np.uint8))
    layout = SideBySide(folder=tmp_path, a_to_b=True)
    config = load_config(tiny_config, ["train.validation_share=0.5"])
    leaking = Splits(Subset(layout, [0, 2]), Subset(layout, [1, 3]), HELD_BACK)
    _, warning = describe_validation(config, leaking, 2)
    assert "p001_s1 and p001_s2" in warning
    assert r"train.validation_group='p\d+_s'" in warning
    whole = Splits(Subset(layout, [0, 1]), Subset(layout, [2, 3]), HELD_BACK)
    assert len(describe_validation(config, whole, 2)) == 1


@pytest.mark.parametrize("settings", [[], ["train.retain_graph=false", "amp.opt_level=O2", "amp.dtype=bfloat16"]])
def test_each_layer_is_listed_once_and_memory_grows_with_the_batch(tiny_config: Path, settings: list[str]) -> None:
    training = built(tiny_config, *settings)
    samples = [read_fixed(training.splits.train, training.preprocessing, index) for index in range(2)]
    lines, memory = watch_pass(training.method, Batch.of(samples[:1]))
    assert watch_pass(training.method, Batch.of(samples))[1] == pytest.approx(2 * memory, rel=0.1)
    sums = [int(line.split()[2].replace(",", "")) for line in lines if line.startswith("in all")]
    networks = training.method.networks.values()
    assert sums == [sum(weight.numel() for weight in network.module.parameters()) for network in networks]


@pytest.mark.parametrize(
    ("settings", "loading_s", "expected"),
    [
        ([], 0.1, "about 0:05:50 (0.35 s a step)"),  # 1000 steps, loaded in the same process
        (["data.workers=2"], 2.0, "about 0:16:40 (1 s a step, most of it loading)"),
        (["data.workers=2", "data.cache=memory"], 2.0, "about 0:04:10 (0.25 s a step)"),
    ],
)
def test_time_estimate_includes_slow_loading(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch, settings: list[str], loading_s: float, expected: str
) -> None:
    monkeypatch.setattr(plan, "time_steps", lambda *_: 0.25)
    training = built(tiny_config, "train.max_steps=1000", *settings)
    batch = Batch.of([read_fixed(training.splits.train, training.preprocessing, 0)])
    assert describe_time(training, batch, loading_s) == [f"time           {expected}"]
    training.loop.step = 1000
    assert describe_time(training, batch, loading_s) == []


def test_the_first_call_of_a_layer_has_its_output_parameters_and_arithmetic() -> None:
    network = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1, stride=2),
        nn.InstanceNorm2d(4),
        nn.ConvTranspose2d(4, 2, 3, stride=2, padding=1, output_padding=1, bias=False),
    )
    with watched_layers(network) as layers:
        network(torch.zeros(2, 3, 8, 6))
        network(torch.zeros(1, 3, 8, 6))
    assert layers == [
        Layer("0", (2, 4, 4, 3), 3 * 4 * 9 + 4, 2 * 3 * 4 * 9 * 2 * 4 * 3),
        Layer("2", (2, 2, 8, 6), 4 * 2 * 9, 2 * 4 * 2 * 9 * 2 * 4 * 3),  # its weights meet each position of the input
    ]
    assert table("net", layers)[-1].split() == ["in", "all", "184", "0.000"]


@pytest.mark.usefixtures("hub")
def test_downloads_are_only_missing_files_that_are_needed(tiny_config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load_config(tiny_config, ["loss.perceptual=1", "metrics.extra=[fid,kid]", "checkpoint.best=kid"])
    missing = downloads(config)
    assert missing == [VGG19, INCEPTION]
    reduced = without_downloads(config)
    assert (reduced.loss.perceptual, reduced.metrics.extra, reduced.checkpoint.best) == (0, [], "none")
    assert (reduced.loss.l1, reduced.data) == (config.loss.l1, config.data)
    for file in missing:
        file.cached.touch()
    assert downloads(config) == []
    assert without_downloads(config) == config
    VGG19.cached.unlink()
    assert downloads(load_config(tiny_config, [])) == []
    INCEPTION.cached.unlink()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "torch_fidelity" else name)
    with pytest.raises(ConfigError, match=r"^fid and kid .* the package torch-fidelity, which is not installed\. Run "):
        without_downloads(config)
    packaged = ["metrics.extra=[fid,kid]", "metrics.features=efficientnet_lite2"]
    assert downloads(load_config(tiny_config, packaged)) == []


def test_a_disk_error_of_tensorboard_is_one_warning_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    resource, hook = pytest.importorskip("resource"), Mock()
    monkeypatch.setattr(threading, "excepthook", hook)
    report = Report([TensorBoard(tmp_path)], 0)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**14, hard))
    try:
        report.each(lambda sink: sink.progress(Progress(1, {f"loss/{n}": 0.0 for n in range(1000)}, 0.0)))
        report.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [message.partition(":")[0] for message in caplog.messages] == ["TensorBoard's events"]
    hook.assert_not_called()
    assert threading.excepthook is hook
