"""`train` and `smoke` of training/launch.py."""

import json
import re
import shlex
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from configs.load import load_config
from tests.runs import assert_equal, checkpoint, run, translate, translation_script, uninterrupted, without_config
from training import launch
from utils.errors import ConfigError, UserError
from utils.log import logger


def test_the_printed_command_runs_as_printed(
    trained_config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run(trained_config)
    found = re.search("^finished: python test.py (.*)$", capfd.readouterr().out, re.MULTILINE)
    assert found is not None
    translation_script()  # is read from the working directory
    monkeypatch.chdir(tmp_path)
    translate(*shlex.split(found[1]))
    assert len(list((tmp_path / "results").glob("tiny/*/*.png"))) > 0


def test_a_run_has_its_folder_its_last_figures_and_its_best_checkpoint(tiny_config: Path) -> None:
    called: list[tuple[str, int, Mapping[str, float]]] = []

    def callback(what: str, step: int, figures: dict[str, float]) -> None:
        called.append((what, step, dict(figures)))
        figures.clear()  # its own copy

    settings = ["train.max_steps=5", "log.every_steps=2", "log.images_every_steps=2", "checkpoint.best=l1"]
    config = load_config(tiny_config, settings)
    ended = launch.train(config, on_report=partial(callback, "report"), on_validation=partial(callback, "validation"))
    assert [step for _, step, _ in called] == [2, 2, 4, 4, 5, 5]
    assert [what for what, _, _ in called] == ["report", "validation"] * 3
    assert {"loss/G/total", "loss/G/l1", "learning_rate/generator"} <= called[-2][2].keys()
    assert ended.metrics == called[-1][2]
    assert ended.folder == tiny_config.parent / "runs" / "tiny"
    assert ended.best == ended.folder / "best.pt"
    handlers = list(logger.handlers)
    assert launch.train(config) == ended  # finished before
    assert len(logger.handlers) == len(handlers) == 1


def test_finished_run_with_other_settings_is_an_error(trained_config: Path) -> None:
    folder = trained_config.parent / "runs" / "tiny"
    places = ["data.workers=0", "log.every_steps=1", f"run.root={trained_config.parent}/other/../runs"]
    (trained_config.parent / "other").mkdir()
    before = launch.train(load_config(trained_config))
    assert launch.train(load_config(trained_config, places)).metrics == before.metrics
    for setting in ("loss.l1=3", "train.max_steps=3", "checkpoint.best=ssim"):
        wanted = rf"runs/tiny: finished at step 4 with other settings \({setting.partition('=')[0]} .* -> .*\)\. Set "
        with pytest.raises(ConfigError, match=wanted):
            launch.train(load_config(trained_config, [setting]))
    assert [path.name for path in folder.glob("*.pt")] == ["checkpoint-00000004.pt"]
    launch.train(load_config(trained_config, ["train.max_steps=1", "loss.l1=3"]), resume="never")
    assert checkpoint(trained_config, 1)["config"]["loss"]["l1"] == 3


def test_run_that_a_callback_ended_resumes_exactly(tiny_config: Path) -> None:
    config = load_config(tiny_config, ["train.max_steps=6", "log.every_steps=3"])

    def on_report(step: int, _: Mapping[str, float]) -> bool:
        torch.rand(step)  # the caller draws random numbers
        with pytest.raises(UserError, match="run tiny: this process trains another run"):
            launch.train(config)
        return True

    ended = launch.train(config, on_report=on_report)
    assert (ended.metrics, ended.best) == ({}, None)
    assert [path.name for path in ended.folder.glob("*.pt")] == ["checkpoint-00000003.pt"]
    launch.train(config)
    assert_equal(without_config(checkpoint(tiny_config, 6)), uninterrupted())


def test_an_error_of_a_callback_is_raised_when_the_run_is_saved(tiny_config: Path) -> None:
    error = SystemExit(3)
    with pytest.raises(SystemExit) as raised:
        launch.train(load_config(tiny_config, ["log.images_every_steps=2"]), on_validation=Mock(side_effect=error))
    assert raised.value is error
    folder = tiny_config.parent / "runs" / "tiny"
    assert (folder / "checkpoint-00000002.pt").is_file()
    state = json.loads((folder / "state.json").read_text())
    assert (state["state"], state["reason"]) == ("failed", "SystemExit: 3")


def test_a_run_in_another_thread_than_the_main_one_gets_no_signals(tiny_config: Path) -> None:
    config = load_config(tiny_config, ["data.workers=1", "train.max_steps=1"])
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(launch.train, config).result()
    assert (ended.folder / "checkpoint-00000001.pt").is_file()
