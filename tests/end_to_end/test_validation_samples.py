"""Which samples a run validates on, and that it says so."""

import json
from pathlib import Path

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from data.validation_split import split_validation
from tests.conftest import save_image
from tests.runs import built, records, run, translate
from utils.checkpoint import CheckpointError

LAST_DIGIT = r"\d$"  # names are 0 to 11: 0 and 10 are a group, as are 1 and 11


@pytest.fixture
def without_val(tmp_path: Path) -> list[str]:
    """Settings of a data set with 12 pairs in split train only."""
    rng = np.random.default_rng(0)
    for number in range(12):
        save_image(tmp_path / "pairs" / "train" / f"{number}.png", rng.integers(0, 255, (32, 64, 3), np.uint8))
    return ["data.layout=side_by_side", f"data.root={tmp_path / 'pairs'}", "data.instance_edges=false"]


def shown_split(config: Path) -> str:
    board = EventAccumulator(str(config.parent / "runs" / "tiny"))
    board.Reload()
    (event,) = board.Tensors("validation/split/text_summary")
    return str(event.tensor_proto.string_val[0].decode())


def test_validation_on_training_samples_is_said_everywhere(
    tiny_config: Path, without_val: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    run(tiny_config, *without_val, "checkpoint.best=l1")
    log = (tiny_config.parent / "runs" / "tiny" / "log.txt").read_text()
    for text in (capfd.readouterr().out, log):
        assert "validation     2 samples of train, which are training samples. To change this, add a split val" in text
        assert "warning        checkpoint.best=l1 depends on training samples" in text
        assert "validation (train)   L1" in text
    assert [record["split"] for record in records(tiny_config, "validation/l1")] == ["train"]
    assert shown_split(tiny_config) == "train"


def test_groups_that_are_held_back_are_in_no_batch_and_stay_held_back(
    tiny_config: Path, without_val: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    share = [*without_val, "train.validation_share=0.65"]
    settings = [*share, rf"train.validation_group={LAST_DIGIT}", "checkpoint.best=l1"]
    training = built(tiny_config, *settings)
    rest, held_back = split_validation(built(tiny_config, *without_val).splits.train, 0.65, LAST_DIGIT)
    assert (rest.names, len(held_back)) == (["1", "11"], 10)
    assert training.splits.train.names == rest.names
    assert training.validation is not None
    assert [sample.name for sample in training.validation.samples] == held_back.names[:2]
    assert training.loop.batches_per_epoch == len(rest)

    run(tiny_config, *settings, "train.max_steps=3")  # into the second epoch
    out = capfd.readouterr().out
    n_groups = len({name[-1] for name in held_back.names})
    assert f"2 of {len(held_back)} training samples" in out
    assert f"train.validation_share=0.65, {n_groups} of 10 groups of train.validation_group={LAST_DIGIT}\n" in out
    assert out.endswith("runs/tiny\n")
    measured_on = "training samples kept for validation"
    output = ["--split", "held_back", "--output", str(tiny_config.parent / "out")]
    translate("--checkpoint", str(tiny_config.parent / "runs" / "tiny"), *output)
    assert f"measured on  {measured_on}\n" in capfd.readouterr().out
    report = json.loads((tiny_config.parent / "out" / "metrics.json").read_text())
    assert (report["measured_on"], sorted(report["images"])) == (measured_on, sorted(held_back.names))
    assert "depends on training samples" not in out
    run(tiny_config, *settings, "train.max_steps=4")
    assert {record["split"] for record in records(tiny_config, "validation/l1")} == {"held_back"}
    message = r"split has changed since.*\. Set train\.validation_share and train\.validation_group back, or"
    with pytest.raises(CheckpointError, match=message):
        run(tiny_config, *without_val, "train.max_steps=5")
