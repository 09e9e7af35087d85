"""`train` of training/launch.py, and a run that is loaded into memory: it translates as test.py does."""

import json
import re
import shlex
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from PIL import Image

from configs.load import load_config
from tests.runs import assert_equal, checkpoint, run, translate, translation_script, uninterrupted, without_config
from training import launch
from training.loaded_run import load
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


CYCLE = ["data.layout=synthetic_day_night", "method.name=cycle", "data.instance_edges=false", "loss.l1=0"]


@pytest.mark.parametrize(
    ("settings", "n_networks"),
    [(["train.ema_decay=0.5", "features.n_channels=2", "features.n_downsamplings=2"], 2), (CYCLE, 4)],
)
def test_a_run_is_loaded(tiny_config: Path, tmp_path: Path, settings: list[str], n_networks: int) -> None:
    run(tiny_config, *settings, "train.max_steps=1")
    torch.manual_seed(3)
    before = torch.get_rng_state()
    loaded = load(tiny_config.parent / "runs" / "tiny", device="cpu")
    assert torch.equal(torch.get_rng_state(), before)
    assert (loaded.file.name, loaded.step) == ("checkpoint-00000001.pt", 1)
    trained = checkpoint(tiny_config, 1)["networks"]
    assert_equal({name: dict(network.state_dict()) for name, network in loaded.networks.items()}, trained)
    assert len(trained) == n_networks

    batch = loaded.batch("test", [0, 2])
    translate("--checkpoint", str(loaded.file), "--output", str(tmp_path / "out"))
    for name, image in zip(batch.names, loaded.predictor.translate(batch), strict=True):
        translated = np.asarray(Image.open(tmp_path / "out" / f"{name}.png"))
        assert np.array_equal(translated, image.permute(1, 2, 0).numpy())

    report = json.loads((tmp_path / "out" / "metrics.json").read_text())
    figures = loaded.evaluate("test")
    if settings is CYCLE:
        assert list(figures) == ["swd"]
    else:
        assert figures.keys() == {"l1", "psnr", "ssim", "ms_ssim", "sharpness"}
        assert figures == pytest.approx({name: report["mean"][name] for name in figures})
    with pytest.raises(UserError, match=r"^split held_back: train.validation_share"):
        loaded.evaluate("held_back")

    losses = loaded.losses(batch)
    for indices in ([99], [-1, 0], []):
        with pytest.raises(UserError, match=f"^split test: indices are {re.escape(str(indices))}, expected .* 0 to 2$"):
            loaded.batch("test", indices)

    assert any(tag.startswith("loss/G") for tag in losses.terms)
    losses.generator.backward(retain_graph=True)
    losses.discriminator.backward()
    for network in loaded.networks.values():
        assert any(weight.grad is not None and weight.grad.any() for weight in network.parameters())


def test_loading_another_file_is_an_error_of_one_line(tmp_path: Path) -> None:
    torch.save({"weight": torch.ones(1)}, tmp_path / "other.pth")
    for path in (tmp_path / "gone", tmp_path / "other.pth"):
        with pytest.raises(UserError, match=path.name) as error:
            load(path, device="cpu")
        assert "\n" not in str(error.value)
    with pytest.raises(UserError, match=r"^device=tpu: no such device\. Use device=auto, device=cpu or device=cuda\.$"):
        load(tmp_path, device="tpu")  # type: ignore[arg-type]
