"""Runs that go on equal runs that were never stopped, bit for bit: rows 19 and 20."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.reliability.faults import struck, throw
from tests.runs import OASIS, SPADE, STYLE, assert_resumes_exactly, figures, run, with_slow
from training.methods.paired import Paired
from training.run import LoopState

O1_BF16, O1_FP16 = ["amp.opt_level=O1", "amp.dtype=bfloat16"], ["amp.opt_level=O1", "amp.dtype=float16"]
O3_BF16 = ["amp.opt_level=O3", "amp.dtype=bfloat16"]
ENHANCER = ["generator.name=local", "generator.n_enhancer_blocks=1", "data.synthetic_size=[64,64]"]
STAGES = [*ENHANCER, "train.freeze_global_epochs=1", "data.synthetic_samples=[3,2,3]"]
UNET = ["generator.name=unet", "generator.n_downsamplings=5", "generator.dropout=true"]
DECAY, EMA = ["train.epochs=1", "train.decay_epochs=9"], ["train.ema_decay=0.5"]
UNPAIRED = ["data.layout=synthetic_day_night", "data.instance_edges=false", "loss.l1=0", "generator.n_blocks=2"]
FASTCUT = [*UNPAIRED, "method.name=contrastive", "contrastive.channels=8", "contrastive.n_patches=16"]
FASTCUT += ["contrastive.identity=false", "contrastive.flip_equivariance=true", "train.discriminator_steps=2"]
CYCLE = [*UNPAIRED, "method.name=cycle", "train.pool_size=2", "optimizer.max_gradient_norm=1"]
BATCH_NORM = ["generator.norm=batch", "discriminator.norm=batch"]
FEATURES = ["features.n_channels=2", "features.n_downsamplings=1"]
RECOMPUTED, ALTERNATING = ["train.activation_checkpointing=true"], ["train.retain_graph=false"]
ENDS = {2: 3, 3: 6, 5: 6}  # last step, by the step of the stop: within an epoch of 5 samples, and at its end

Case = tuple[int, str, list[str]]
CASES: list[Case] = [  # step of the stop, loader processes before and after it, settings; each part of a run is in one
    (5, "2, 2", STAGES),
    (3, "1, 0", [*O1_BF16, *DECAY, "data.cache=memory", "data.elastic=[0,0.1]"]),
    (3, "0, 0", [*EMA, *BATCH_NORM, "amp.opt_level=O2", "amp.dtype=float16"]),
    (2, "0, 0", [*SPADE, *O1_FP16, *RECOMPUTED, "generator.norm=batch", "train.batch_size=2"]),
    (3, "0, 2", [*STYLE, *O1_BF16, "generator.noise_channels=2"]),
    (2, "0, 0", [*UNET, *ALTERNATING, "train.accumulation_steps=2", "train.pool_size=3"]),
    (2, "0, 0", ["loss.gan_mode=wgan", "loss.gradient_penalty=10", "train.discriminator_steps=2", *FEATURES]),
    (2, "0, 0", [*ALTERNATING, *O3_BF16, "augmentation.policy=[color,cutout]", "train.freeze=[generator.stem]"]),
    (2, "0, 0", ["loss.r1=1", "loss.perceptual=9", "loss.perceptual_network=efficientnet_lite0"]),
    (2, "0, 0", ["loss.shift_reach=4", "data.synthetic_size=[64,64]", "train.accumulation_steps=2", *O1_BF16, *DECAY]),
    (2, "0, 0", [*FASTCUT, *EMA, "amp.opt_level=O2", "amp.dtype=bfloat16"]),
    (2, "0, 0", [*CYCLE, *EMA, "augmentation.policy=[translation]"]),
]
MORE_CASES: list[Case] = [
    (2, "0, 0", [*OASIS, *EMA]),
    (2, "0, 0", ["discriminator.name=projected", "data.synthetic_size=[64,64]", "augmentation.policy=[translation]"]),
    (2, "0, 0", [*STYLE, *EMA, *ALTERNATING, "train.discriminator_steps=2"]),
    (2, "0, 0", ["loss.gan_mode=hinge", "loss.r1=1", "optimizer.decay=cosine", *FEATURES, *SPADE]),
    (3, "0, 1", [*CYCLE, *RECOMPUTED, "train.accumulation_steps=2", "amp.opt_level=O2", "amp.dtype=bfloat16"]),
]


@pytest.mark.row(19)
@pytest.mark.parametrize(("stop", "workers", "settings"), with_slow(CASES, MORE_CASES), ids=lambda of: str(of)[-40:])
def test_one_process(tiny_config: Path, stop: int, workers: str, settings: list[str]) -> None:
    before, after = map(int, workers.split(", "))
    validated = f"log.images_every_steps={stop + 1}"
    assert_resumes_exactly(tiny_config, *settings, validated, stop=stop, end=ENDS[stop], before=before, after=after)


@pytest.mark.row(19)
def test_a_run_that_forgets_its_place_is_noticed(tiny_config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control."""
    load = LoopState.load_state_dict

    def forgetful(self: LoopState, state: Mapping[str, Any]) -> None:
        load(self, state)
        self.batches -= 1

    monkeypatch.setattr(LoopState, "load_state_dict", forgetful)
    with pytest.raises(AssertionError):
        assert_resumes_exactly(tiny_config, stop=2, end=4)


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
    assert [row["step"] for row in figures(tiny_config, "whole")] == [2, 4, 5, 6, 6]
    assert figures(tiny_config) == figures(tiny_config, "whole")


@pytest.mark.row(20)
def test_the_steps_of_tensorboard_rise(tiny_config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ["log.every_steps=1", "checkpoint.every_steps=2"]
    die_at_step(monkeypatch, 4, tiny_config, *settings, "train.max_steps=100")
    run(tiny_config, *settings, "train.max_steps=5")
    board = EventAccumulator(str(tiny_config.parent / "runs" / "tiny"), size_guidance={"scalars": 0})
    board.Reload()
    for tag in board.Tags()["scalars"]:
        steps = [event.step for event in board.Scalars(tag)]
        assert steps == sorted(set(steps)), tag
    assert [event.step for event in board.Scalars("loss/G/l1")] == list(range(1, 6))
