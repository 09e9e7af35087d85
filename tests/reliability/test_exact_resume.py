"""Runs that go on equal runs that were never stopped, bit for bit: rows 19 and 20."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.processes import train_two
from tests.reliability.faults import struck, throw
from tests.runs import OASIS, SPADE, STYLE, assert_equal, assert_same_state, checkpoint, records, run, with_slow
from training.methods.paired import Paired
from training.run import LoopState
from utils.checkpoint_folder import checkpoint_path, list_checkpoints

O1_BF16, O1_FP16 = ["amp.opt_level=O1", "amp.dtype=bfloat16"], ["amp.opt_level=O1", "amp.dtype=float16"]
ENHANCER = ["generator.name=local", "generator.n_enhancer_blocks=1", "data.synthetic.width=64"]
STAGES = [*ENHANCER, "data.synthetic.height=64", "train.freeze_global_epochs=1", "data.synthetic.train_samples=3"]
DECAY, EMA = ["train.epochs=1", "train.decay_epochs=9"], ["train.ema_decay=0.5"]
SPECTRAL = ["generator.spectral_norm=true", "discriminator.spectral_norm=inner"]
BATCH_NORM = ["generator.norm=batch", "discriminator.norm=batch"]
FEATURES = ["features.n_channels=2", "features.n_downsamplings=1"]
RECOMPUTED, ALTERNATING = ["train.activation_checkpointing=true"], ["train.retain_graph=false"]
ENDS = {2: 4, 3: 6, 5: 7}  # last step, by the step of the stop: within an epoch of 5 samples, and at its end

Case = tuple[int, str, list[str]]
CASES: list[Case] = [  # step of the stop, loader processes before and after it, settings; each part of a run is in one
    (5, "2, 2", STAGES),
    (3, "0, 2", [*O1_BF16, *DECAY]),
    (3, "0, 0", [*EMA, *BATCH_NORM, "amp.opt_level=O2", "amp.dtype=float16"]),
    (3, "0, 0", [*ALTERNATING, "amp.opt_level=O3", "amp.dtype=bfloat16"]),
    (3, "1, 0", ["data.cache=memory", "data.augment.elastic=[0,0.1]", "data.augment.quarter_turns=true"]),
    (2, "0, 0", [*ALTERNATING, "train.accumulation_steps=2", "train.pool_size=3"]),
    (3, "0, 0", [*O1_FP16, *RECOMPUTED, *SPECTRAL]),
    (2, "0, 0", [*SPADE, "generator.norm=batch", "train.batch_size=2"]),
    (3, "0, 0", [*STYLE, *O1_BF16, "generator.noise_channels=2"]),
    (2, "0, 0", ["generator.name=unet", "generator.n_downsamplings=5", "generator.dropout=true"]),
    (2, "0, 0", ["loss.gan_mode=wgan", "loss.gradient_penalty=10", "train.discriminator_steps=2", *FEATURES]),
    (2, "0, 0", ["augmentation.policy=[color,translation,cutout]", "train.freeze=[generator.stem]"]),
]
MORE_CASES: list[Case] = [
    *((stop, "0, 0", [*STAGES, "generator.n_enhancers=2"]) for stop in (2, 3)),
    *((3, "2, 2", [*precision, *state]) for precision in (O1_BF16, O1_FP16) for state in (EMA, ["train.pool_size=3"])),
    (5, "0, 2", [*DECAY, *EMA, *BATCH_NORM]),
    (3, "0, 0", ["amp.opt_level=O2", "amp.dtype=bfloat16", *SPECTRAL]),
    (3, "0, 0", ["amp.opt_level=O3", "amp.dtype=float16"]),
    (2, "0, 0", [*OASIS, *EMA]),
    (2, "0, 0", [*SPADE, *RECOMPUTED, "generator.spectral_iteration=v_first"]),
    (2, "0, 0", [*SPADE, *ALTERNATING, "generator.norm=batch", "data.instance_edges=false"]),
    (2, "0, 0", [*SPADE, *RECOMPUTED, "amp.dtype=bfloat16", "amp.opt_level=O3"]),
    (2, "0, 0", [*STYLE, *RECOMPUTED, "train.accumulation_steps=2"]),
    (2, "0, 0", [*STYLE, *EMA, *ALTERNATING, "train.discriminator_steps=2"]),
    (2, "0, 0", [*STYLE, "amp.dtype=bfloat16", "amp.opt_level=O2", "generator.norm=batch"]),
    (2, "0, 0", [*STYLE, "amp.dtype=bfloat16", "amp.opt_level=O3", "data.target_channels=1"]),
    (2, "0, 0", ["generator.upsample=residual", "generator.padding=reflect", *SPECTRAL]),
    (2, "0, 0", ["discriminator.name=pixel", "discriminator.norm=batch"]),
    (2, "0, 0", [*ALTERNATING, "discriminator.n_scales=1", "discriminator.padding=1", "loss.gan_mode=vanilla"]),
    (2, "0, 0", ["loss.gan_mode=hinge", "loss.r1=1", "optimizer.decay=cosine"]),
    (2, "0, 0", [*FEATURES, *SPADE]),
    (2, "0, 0", [*ALTERNATING, "features.n_channels=1", "features.regions=labels", "features.n_downsamplings=4"]),
]


def losses(config: Path, name: str, from_step: int) -> list[dict[str, float]]:
    """The recorded losses of each step after `from_step`."""
    recorded = [record for record in records(config, "loss/G/total", name) if record["step"] > from_step]
    return [{tag: record[tag] for tag in record if tag == "step" or tag.startswith("loss/")} for record in recorded]


def assert_resumes_exactly(
    config: Path, stop: int, settings: Sequence[str], before: str = "0", after: str = "0"
) -> None:
    """Train to the end, then again from the checkpoint of step `stop`, with other numbers of loader processes."""
    end, folder = ENDS[stop], config.parent / "runs" / "tiny"
    settings = [*settings, "log.every_steps=1", f"log.images_every_steps={stop + 1}", f"train.max_steps={end}"]
    settings += [f"checkpoint.every_steps={stop}", "checkpoint.keep=0"]
    run(config, *settings, f"data.workers={before}")
    whole, expected = checkpoint(config, end), losses(config, "tiny", 0)
    for path in list_checkpoints(folder):
        if path != checkpoint_path(folder, stop):
            path.unlink()
    run(config, *settings, f"data.workers={after}")
    assert_equal({**checkpoint(config, end), "config": None}, {**whole, "config": None})
    assert len(expected) == end
    assert losses(config, "tiny", 0) == expected


@pytest.mark.row(19)
@pytest.mark.parametrize(("stop", "workers", "settings"), with_slow(CASES, MORE_CASES), ids=lambda of: str(of)[-40:])
def test_one_process(tiny_config: Path, stop: int, workers: str, settings: list[str]) -> None:
    assert_resumes_exactly(tiny_config, stop, settings, *workers.split(", "))


@pytest.mark.row(19)
def test_a_run_that_forgets_its_place_is_noticed(tiny_config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control."""
    load = LoopState.load_state_dict

    def forgetful(self: LoopState, state: Mapping[str, Any]) -> None:
        load(self, state)
        self.batches -= 1

    monkeypatch.setattr(LoopState, "load_state_dict", forgetful)
    with pytest.raises(AssertionError):
        assert_resumes_exactly(tiny_config, 2, [])


OF_TWO = [(5, "2, 2", EMA), (7, "0, 0", [*STAGES, "data.synthetic.train_samples=12"])]
OF_TWO += [(6, "0, 2", [*O1_BF16, *DECAY]), (7, "0, 0", [*O1_BF16, *EMA]), (7, "2, 2", [*O1_FP16, *DECAY])]
OF_TWO += [(7, "2, 2", [*O1_BF16, "augmentation.policy=[color,translation,cutout]"])]


@pytest.mark.row(19)
@pytest.mark.slow  # tests/end_to_end/test_distributed.py has a shorter one
@pytest.mark.parametrize(("stop", "workers", "settings"), OF_TWO)
def test_two_processes(tiny_config: Path, stop: int, workers: str, settings: list[str]) -> None:
    settings = ["data.synthetic.train_samples=12", *settings, "log.every_steps=1", "log.images_every_steps=9"]
    before, after = (f"data.workers={n}" for n in workers.split(", "))
    end = f"train.max_steps={stop + 6}"
    runs = ([end, "run.name=whole", before], [f"train.max_steps={stop}", before], [end, after])
    train_two(tiny_config, *([*settings, *arguments] for arguments in runs))
    assert_same_state(tiny_config, stop + 6)
    assert losses(tiny_config, "tiny", stop) == losses(tiny_config, "whole", stop)


def die_at_step(monkeypatch: pytest.MonkeyPatch, step: int, config: Path, *settings: str) -> None:
    with monkeypatch.context() as context:
        context.setattr(Paired, "step", struck(Paired.step, [step], lambda: throw(MemoryError())))
        with pytest.raises(MemoryError):
            run(config, *settings)


@pytest.mark.row(19)
def test_means_of_an_interrupted_report_are_those_of_a_whole_run(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is saved at step 3, between the reports of steps 2 and 4, and dies after it."""
    settings = ["log.every_steps=2", "log.images_every_steps=5", "checkpoint.every_steps=3", "train.max_steps=6"]
    run(tiny_config, *settings, "run.name=whole")
    die_at_step(monkeypatch, 4, tiny_config, *settings)
    run(tiny_config, *settings)
    speed = {"progress/images_per_s", "progress/waiting_for_data"}
    whole, resumed = (
        [{tag: row[tag] for tag in row.keys() - speed} for row in records(tiny_config, "", name)]
        for name in ("whole", "tiny")
    )
    assert [row["step"] for row in whole] == [2, 4, 5, 6, 6]
    assert resumed == whole


@pytest.mark.row(20)
@pytest.mark.parametrize("is_killed", [False, True])
def test_the_steps_of_tensorboard_rise(tiny_config: Path, monkeypatch: pytest.MonkeyPatch, is_killed: bool) -> None:
    settings = ["log.every_steps=1", "checkpoint.every_steps=2"]
    if is_killed:
        die_at_step(monkeypatch, 4, tiny_config, *settings, "train.max_steps=100")
    else:
        run(tiny_config, *settings, "train.max_steps=2")
    run(tiny_config, *settings, "train.max_steps=5")
    board = EventAccumulator(str(tiny_config.parent / "runs" / "tiny"), size_guidance={"scalars": 0})
    board.Reload()
    for tag in board.Tags()["scalars"]:
        steps = [event.step for event in board.Scalars(tag)]
        assert steps == sorted(set(steps)), tag
    assert [event.step for event in board.Scalars("loss/G/l1")] == list(range(1, 6))
