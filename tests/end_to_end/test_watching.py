"""The figures and pictures that a run shows while it trains."""

import json
import math
import sys
from pathlib import Path

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from data.files.image_files import read_rgb
from tests.conftest import write_tiny_config
from tests.runs import records, run
from training.report.sinks import JsonLines


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with everything that can be watched, killed after step 4 without its last checkpoint, and resumed."""
    config = write_tiny_config(tmp_path_factory.mktemp("watched"))
    settings = ["optimizer.max_gradient_norm=1e9", "log.activations=blocks.0", "log.images_every_steps=2"]
    settings += ["amp.opt_level=O1", "amp.dtype=float16", "discriminator.n_scales=1"]
    folder = config.parent / "runs" / "tiny"
    run(config, *settings, "checkpoint.every_steps=2")
    (folder / "checkpoint-00000004.pt").unlink()
    run(config, *settings, "train.max_steps=6")
    return config


@pytest.fixture(scope="module")
def events(watched: Path) -> EventAccumulator:
    found = EventAccumulator(str(watched.parent / "runs" / "tiny"))
    found.Reload()
    return found


def test_figures_are_in_json_lines_and_tensorboard_once_a_step(watched: Path, events: EventAccumulator) -> None:
    reported = records(watched, "loss/G/total")
    assert [record["step"] for record in reported] == [2, 4, 6]
    assert [event.step for event in events.Scalars("loss/G/total")] == [2, 4, 6]
    validations = records(watched, "validation/l1")
    assert [record["step"] for record in validations] == [2, 4, 6]
    assert all("logits/D/validation" in record for record in validations)
    losses = {"D/fake", "D/real", "D/total", "G/adversarial", "G/feature_matching", "G/l1", "G/total"}
    networks = {f"{tag}/generator" for tag in ("learning_rate", "amp/scale", "amp/skipped_steps", "gradient_norm")}
    tags = {f"loss/{name}" for name in losses} | networks | {"progress/images_per_s", "logits/D/real", "logits/D/fake"}
    assert tags <= set(events.Tags()["scalars"])
    assert tags <= set[str]().union(*reported)
    assert "waiting for data" in (watched.parent / "runs" / "tiny" / "log.txt").read_text()
    for record in reported:  # LSGAN: the mean of (logit - 1)² is at least the square of the mean's distance
        assert (record["logits/D/real"] - 1) ** 2 <= record["loss/D/real"]
        assert record["logits/D/fake"] ** 2 <= record["loss/D/fake"]


def test_pictures_and_activations_are_in_tensorboard(events: EventAccumulator) -> None:
    assert "activations/blocks.0" in events.Tags()["images"]
    pictures = events.Images("validation/source_translated_target")
    assert [(picture.step, picture.width, picture.height) for picture in pictures] == [
        (step, 3 * 32 + 2 * 4, 2 * 32 + 4)
        for step in (2, 4, 6)  # source | translated | target of two samples
    ]


def test_the_page_has_the_samples_of_all_validations(watched: Path) -> None:
    folder = watched.parent / "runs" / "tiny" / "web"
    page = (folder / "index.html").read_text()
    names = [f"images/sample_{number}_translated_{step:08d}.png" for step in (2, 4, 6) for number in (0, 1)]
    assert all(name in page and read_rgb(folder / name).shape == (3, 32, 32) for name in names)
    assert page.count("<article") == 6
    made, target, between = (
        read_rgb(folder / "images" / f"sample_0_{kind}.png").int()
        for kind in ("translated_00000004", "target", "difference_00000004")
    )
    assert torch.equal(between, (made - target).abs())


def test_a_line_that_was_cut_is_left_out_and_nan_is_null(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "a": 1}\n{"step": 2, "a": NaN}\n{"step": 3, "a": 0}\n{"step": 4, "a"')
    lines = JsonLines(path)
    lines.open(first_step=3)
    lines.append(3, {"a": 3})
    lines.append(4, {"a": math.inf})
    rows = [json.loads(line, parse_constant=pytest.fail) for line in path.read_text().splitlines()]
    assert rows == [{"step": step, "a": a} for step, a in ((1, 1), (2, None), (3, 3), (4, None))]


def test_a_bar_is_shown_in_a_terminal_alone(
    trained_config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    run(trained_config, "train.max_steps=8")
    shown = capsys.readouterr().err
    assert "/8" in shown
    assert "step/s" in shown or "s/step" in shown
