"""The figures and pictures that a run shows while it trains."""

import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from data.files.image_files import read_rgb
from tests.runs import assert_equal, checkpoint, run, translate, without_config
from training.diagnostics import Diagnostics
from training.json_lines import JsonLines
from training.validation import channel_table
from utils.checkpoint import load_checkpoint
from utils.errors import ConfigError


def records(config: Path) -> list[dict[str, Any]]:
    lines = (config.parent / "runs" / "tiny" / "metrics.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if "loss/G/total" in record]


def validations(config: Path) -> list[dict[str, Any]]:
    lines = (config.parent / "runs" / "tiny" / "metrics.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if "validation/l1" in record]


def tags(config: Path) -> dict[str, Any]:
    board = EventAccumulator(str(config.parent / "runs" / "tiny"))
    board.Reload()
    return dict(board.Tags())


def test_figures_are_in_a_file_of_json_lines_that_goes_on(tiny_config: Path) -> None:
    run(tiny_config, "train.max_steps=4", "checkpoint.every_steps=2")
    (tiny_config.parent / "runs" / "tiny" / "checkpoint-00000004.pt").unlink()  # as if killed before
    run(tiny_config, "train.max_steps=6")
    reported = records(tiny_config)
    assert [record["step"] for record in reported] == [2, 4, 6]
    for record in reported:
        assert {"loss/G/total", "logits/D/real", "logits/D/fake", "progress/images_per_s"} <= record.keys()
    assert "logits/D/real" in tags(tiny_config)["scalars"]
    assert [record["step"] for record in validations(tiny_config)] == [4, 6]
    assert all("logits/D/validation" in record for record in validations(tiny_config))
    assert "logits/D/validation" in tags(tiny_config)["scalars"]


def test_a_line_that_was_cut_is_left_out_and_nan_is_null(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "a": 1}\n{"step": 2, "a": NaN}\n{"step": 3, "a"')
    lines = JsonLines(path, first_step=3, keeps_rows=True)
    lines.append(3, {"a": 3})
    lines.append(4, {"a": math.inf})
    assert lines.rows == [{"step": step, "a": a} for step, a in ((1, 1), (2, None), (3, 3), (4, None))]
    assert [json.loads(line, parse_constant=pytest.fail) for line in path.read_text().splitlines()] == lines.rows


def test_the_judgement_is_the_mean_of_the_logits(tiny_config: Path) -> None:
    """With LSGAN the loss of real images is the mean of (logit - 1)²: at least the square of the mean's distance."""
    run(tiny_config, "train.max_steps=2", "discriminator.n_scales=1")
    (reported,) = records(tiny_config)
    assert (reported["logits/D/real"] - 1) ** 2 <= reported["loss/D/real"]
    assert reported["logits/D/fake"] ** 2 <= reported["loss/D/fake"]


def test_norms_and_activations_are_shown_on_request(tiny_config: Path) -> None:
    run(tiny_config, "optimizer.max_gradient_norm=1e9", "log.activations=blocks.0")
    assert records(tiny_config)[-1]["gradient_norm/generator"] > 0
    assert "activations/blocks.0" in tags(tiny_config)["images"]


def test_watching_changes_nothing(tiny_config: Path) -> None:
    run(tiny_config, "run.name=whole")
    run(tiny_config, "optimizer.max_gradient_norm=1e9", "log.activations=stem", "checkpoint.best=none")
    assert_equal(without_config(checkpoint(tiny_config, 4)), without_config(checkpoint(tiny_config, 4, "whole")))


def test_a_module_that_is_not_there_is_told(tiny_config: Path) -> None:
    with pytest.raises(ConfigError, match=r"log\.activations: the generator has no module 'block'; some are stem"):
        run(tiny_config, "log.activations=block")


def test_channels_are_shown_each_from_its_least_to_its_greatest_value() -> None:
    activations = torch.arange(2 * 3 * 5, dtype=torch.float32).view(1, 2, 3, 5) * 7 - 100
    table = channel_table(activations)
    assert table.shape == (3, 3, 5 + 4 + 5)
    for start in (0, 9):
        assert table[:, :, start : start + 5].min() == 0
        assert table[:, :, start : start + 5].max() == 255


def test_the_page_grows_and_goes_on(tiny_config: Path) -> None:
    run(tiny_config, "log.images_every_steps=2")
    run(tiny_config, "log.images_every_steps=2", "train.max_steps=6")
    folder = tiny_config.parent / "runs" / "tiny" / "web"
    page = (folder / "index.html").read_text()
    for step in (2, 4, 6):
        for number in (0, 1):
            name = f"images/sample_{number}_translated_{step:08d}.png"
            assert name in page
            assert read_rgb(folder / name).shape == (3, 32, 32)
    made, target, between = (
        read_rgb(folder / "images" / f"sample_0_{kind}.png").int()
        for kind in ("translated_00000004", "target", "difference_00000004")
    )
    assert torch.equal(between, (made - target).abs())
    assert page.count("<article") == 6


@pytest.mark.parametrize("metric", ["l1", "psnr", "ssim"])
def test_the_best_weights_are_kept_and_can_be_used(tiny_config: Path, tmp_path: Path, metric: str) -> None:
    settings = [f"checkpoint.best={metric}", "log.images_every_steps=1", "optimizer.learning_rate=0.01"]
    run(tiny_config, *settings, "train.max_steps=8")
    folder = tiny_config.parent / "runs" / "tiny"
    rows = [json.loads(line) for line in (folder / "web" / "rows.jsonl").read_text().splitlines()]
    by_step: dict[int, list[float]] = {}
    for row in rows:
        by_step.setdefault(row["step"], []).append(row["metrics"][metric])
    choose = min if metric == "l1" else max
    best = choose(by_step, key=lambda step: sum(by_step[step]) / len(by_step[step]))
    assert load_checkpoint(folder / "best.pt")["step"] == best
    run(tiny_config, *settings, "train.max_steps=9")
    assert load_checkpoint(folder / "best.pt")["step"] in (best, 9)
    translate("--checkpoint", str(folder / "best.pt"), "--output", str(tmp_path / "out"))


def test_a_discriminator_that_has_won_is_told_once() -> None:
    hints = Diagnostics("lsgan")
    won, level = {"logits/D/real": 0.95, "logits/D/fake": 0.03}, {"logits/D/real": 0.6, "logits/D/fake": 0.4}
    reported = [len(hints(scalars)) for scalars in (won, won, level, won, won, won, won, level, won, won, won)]
    assert reported == [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]
    assert not any(Diagnostics("wgan")(won) for _ in range(5))


def test_a_scale_that_has_fallen_is_told_once_and_no_scaler_is_none() -> None:
    hints = Diagnostics("lsgan")
    scales = [65536.0, 32.0, 16.0, 128.0, 8.0, 1.0]
    assert [len(hints({"amp/scale/generator": scale})) for scale in scales] == [0, 1, 0, 0, 1, 0]
    (reported,) = Diagnostics("lsgan")({"amp/scale/generator": 32.0})
    assert "scale of the generator's gradients has fallen to 32" in reported


def test_a_bar_is_shown_in_a_terminal_alone(
    trained_config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    run(trained_config, "train.max_steps=8")
    shown = capsys.readouterr().err
    assert "/8" in shown
    assert "step/s" in shown or "s/step" in shown
