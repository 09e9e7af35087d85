"""Which scores are compared with each other."""

import json
import math
from pathlib import Path

import pytest
import torch

from configs.schema import CheckpointConfig, Config
from tests.runs import assert_equal, built, checkpoint, run, without_config
from training.validation import BEST, Patience, best_figure, has_scores_of, read_best
from utils.checkpoint import save_checkpoint
from utils.checkpoint_folder import checkpoint_path, latest_step
from utils.errors import ConfigError

BY_L1 = ["checkpoint.best=l1"]


def digests(config: Path, *settings: str) -> dict[str, str]:
    return dict(built(config, *settings).measured_on)


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        (["train.batch_size=2", "run.name=moved", "metrics.label_colors=cmp_facades", "optimizer.decay=plateau"], True),
        (["metrics.n_samples=1"], False),
        (["data.preprocess=scale_width", "data.load_width=64"], False),
    ],
    ids=str,
)
def test_digest_of_a_figure_depends_on_samples_and_metric(tiny_config: Path, change: list[str], is_same: bool) -> None:
    assert (digests(tiny_config, *BY_L1, *change)["l1"] == digests(tiny_config, *BY_L1)["l1"]) is is_same


@pytest.mark.parametrize(
    ("best", "figure", "has_scores"), [("psnr", "l1", False), ("auto", "l1", True), ("auto", "ssim", False)]
)
def test_best_score_belongs_only_to_its_figure_if_a_plateau_uses_another(
    best: str, figure: str, has_scores: bool
) -> None:
    measured_on = {"psnr": "digest", "l1": "another"}
    state = {"best": 12.5, "measured_on": measured_on, "config": {"checkpoint": {"best": best}}}
    assert has_scores_of(figure, state, {**measured_on, "ssim": "third"}) is has_scores


@pytest.mark.parametrize(
    ("setting", "split", "figure"),
    [("auto", "val", "swd"), ("auto", "held_back", "swd"), ("auto", "train", "none"), ("l1", "train", "l1")],
)
def test_automatic_best_figure_needs_samples_that_are_not_trained_on(setting: str, split: str, figure: str) -> None:
    config = Config(checkpoint=CheckpointConfig(best=setting))
    assert best_figure(config, split, progress="swd", n_samples=9) == figure


@pytest.mark.parametrize("settings", [["checkpoint.best=none"], ["data.validation_split=train"]], ids=str)
def test_patience_needs_a_best(tiny_config: Path, settings: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"^train\.patience is 2, expected null"):
        built(tiny_config, "train.patience=2", "checkpoint.best=auto", *settings)


def test_patience_counts_validations_since_the_best() -> None:
    patience = Patience("psnr", limit=2)
    reasons = []
    for psnr in (20.0, 19.0, 20.5, 20.5, math.nan):
        patience.update({"psnr": psnr})
        reasons.append(patience.end_reason)
    assert reasons == [None] * 4 + ["psnr has not improved for 2 validations, train.patience=2"]
    assert Patience("psnr", limit=None, n_without=99).end_reason is None
    without_best = Patience("none", limit=2)
    without_best.update({"psnr": 20.0})
    assert without_best.n_without == 0


def test_a_run_out_of_patience_ends_at_the_same_step_however_often_it_is_resumed(tiny_config: Path) -> None:
    settings = ["checkpoint.best=auto", "train.patience=1", "optimizer.learning_rate=0", "train.max_steps=20"]
    settings += ["log.images_every_steps=2", "checkpoint.every_steps=1", "checkpoint.keep=0"]
    folder = tiny_config.parent / "runs" / "tiny"
    run(tiny_config, *settings, "run.name=whole")
    run(tiny_config, *settings, "train.max_steps=1")  # its last validation does not count
    run(tiny_config, *settings)
    for step in (3, 4):  # a kill would lose these checkpoints
        checkpoint_path(folder, step).unlink()
    run(tiny_config, *settings)
    assert latest_step(folder) == 4  # 2 is the best, 4 is not better
    assert_equal(without_config(checkpoint(tiny_config, 4)), without_config(checkpoint(tiny_config, 4, "whole")))
    state = json.loads((folder / "state.json").read_text())
    assert (state["state"], state["reason"]) == ("finished", "l1 has not improved for 1 validations, train.patience=1")


def test_best_score_is_read_without_the_weights(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    save_checkpoint(path := tmp_path / BEST, {"best": 12.5, "weight": torch.ones(1000)})
    content = path.read_bytes()
    path.write_bytes(content.replace(torch.ones(1000).numpy().tobytes(), bytes(4000)))  # damage that only reading finds
    assert read_best(tmp_path)["best"] == 12.5
    path.write_bytes(content[:-1])
    assert read_best(tmp_path) == {}
    assert "best.pt is ignored" in caplog.text
