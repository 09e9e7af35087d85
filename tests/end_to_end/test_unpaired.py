"""Runs without pairs: with every switch they resume exactly, and two processes train like one."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.conftest import save_image
from tests.end_to_end.test_distributed import run_with_torchrun
from tests.runs import assert_equal, assert_resumes_exactly, checkpoint, run, with_slow, without_config
from utils.checkpoint import CheckpointError

SIDES = ["data.layout=unpaired_folders", "data.instance_edges=false", "loss.l1=0", "generator.n_blocks=2"]
SIDES += ["data.preprocess=crop", "data.crop_width=32", "data.crop_height=32"]
CUT = ["method.name=contrastive", "contrastive.taps=[stem.0,downs.0.0,blocks.1]", "contrastive.channels=8"]
CUT += ["contrastive.n_patches=16"]
FASTCUT = [*CUT, "contrastive.identity=false", "contrastive.flip_equivariance=true", "contrastive.weight=10"]
CYCLE = ["method.name=cycle"]
MASKED = ["loss.outside_mask=10", "loss.class_weights={1: 0}"]
POOLS = [*CYCLE, "train.pool_size=2"]
RESUMED = [
    [*FASTCUT, *MASKED, "augmentation.policy=[color,cutout]", "train.accumulation_steps=2"],
    [*CUT, "train.ema_decay=0.5", "train.discriminator_steps=2", "amp.dtype=bfloat16", "amp.opt_level=O2"],
    [*POOLS, *MASKED, "train.ema_decay=0.5", "optimizer.max_gradient_norm=1", "augmentation.policy=[translation]"],
]
ALSO_RESUMED = [
    [*CUT, "generator.norm=batch", "train.batch_size=2", "contrastive.all_negatives=true"],
    [*CUT, "train.activation_checkpointing=true", "loss.r1=1", "generator.dropout=true"],
    [*CUT, "amp.dtype=float16", "amp.opt_level=O2"],
    [*CUT, "amp.dtype=bfloat16", "amp.opt_level=O3"],
    [*POOLS, "train.accumulation_steps=2", "data.workers=1", "amp.dtype=bfloat16", "amp.opt_level=O1"],
    [
        *POOLS,
        "train.batch_size=2",
        "train.activation_checkpointing=true",
        "train.ema_decay=0.5",
        "generator.norm=batch",
    ],
    [*CYCLE, "cycle.identity=0", "data.source_channels=1", "amp.dtype=float16", "amp.opt_level=O2"],
    [*CYCLE, "loss.r1=1", "amp.dtype=bfloat16", "amp.opt_level=O1", "train.freeze=[generator_AtoB.stem]"],
    [*CYCLE, "amp.dtype=bfloat16", "amp.opt_level=O3"],
]
COMBINED = [
    [*CUT, *MASKED, "loss.adversarial=0.3", "contrastive.weight=3", "train.discriminator_steps=2", "amp.opt_level=O1"],
    [*CUT, "generator.norm=batch", "loss.gan_mode=hinge", "data.preprocess=scale_width", "data.load_width=40"],
    [
        *FASTCUT,
        *MASKED,
        "contrastive.weight=0",
        "amp.opt_level=O2",
        "data.preprocess=scale_width",
        "data.load_width=32",
    ],
    [*POOLS, *MASKED, "cycle.weight_a=0", "cycle.weight_b=0", "loss.adversarial=2", "amp.opt_level=O2"],
    [*CYCLE, "generator.name=unet", "generator.n_downsamplings=5", "discriminator.norm=batch", "loss.gan_mode=vanilla"],
]


def flat(moments: dict[str, Any]) -> torch.Tensor:
    """The mean gradients of all parameters."""
    return torch.cat([of_one["exp_avg"].flatten() for of_one in moments.values()])


def weight_of(network: dict[str, torch.Tensor]) -> torch.Tensor:
    return next(iter(network.values()))


@pytest.fixture
def config(tiny_config: Path, tmp_path: Path) -> Path:
    """The tiny configuration with 5 pictures of side A and 4 larger ones of side B."""
    rng = np.random.default_rng(0)
    for folder, n_images, side in (("train_A", 5, 32), ("train_B", 4, 40), ("val_A", 2, 32), ("val_B", 2, 40)):
        for number in range(n_images):
            picture = rng.integers(0, 256, (side, side, 3), dtype=np.uint8)
            save_image(tmp_path / "sides" / folder / f"{number}.png", picture)
            if folder == "train_A":
                save_image(tmp_path / "sides" / "train_A_label" / f"{number}.png", picture[..., 0] // 64)
    tiny_config.write_text(tiny_config.read_text().replace("data:\n", f"data:\n  root: {tmp_path / 'sides'}\n"))
    return tiny_config


@pytest.mark.parametrize("settings", with_slow(RESUMED, ALSO_RESUMED), ids=lambda settings: settings[0] + settings[-1])
def test_resume_is_exact(config: Path, settings: list[str]) -> None:
    assert_resumes_exactly(config, *SIDES, *settings, stop=3, end=6)


@pytest.mark.parametrize("settings", COMBINED, ids=lambda settings: settings[0] + settings[-1])
def test_settings_go_together(config: Path, settings: list[str]) -> None:
    run(config, *SIDES, "amp.dtype=bfloat16", *settings, "train.max_steps=2")
    for network in checkpoint(config, 2)["networks"].values():
        assert all(bool(value.isfinite().all()) for value in network.values())


@pytest.mark.slow
@pytest.mark.parametrize("settings", [CUT, POOLS], ids=["contrastive", "cycle"])
def test_batch_norm_goes_with_several_processes(config: Path, settings: list[str]) -> None:
    run_with_torchrun(
        config, *SIDES, *settings, "generator.norm=batch", "discriminator.norm=batch", "train.max_steps=2"
    )


@pytest.mark.parametrize(
    "settings",
    with_slow(
        [[*CUT, "contrastive.n_patches=5000"], CYCLE],
        [[*CUT, "contrastive.n_patches=5000", "train.accumulation_steps=2"]],
    ),
    ids=["contrastive", "cycle", "passes"],
)
def test_two_processes_have_the_gradients_of_one_on_the_joint_batch(config: Path, settings: list[str]) -> None:
    """contrastive: with all patches, of which no draw chooses some."""
    common = [*SIDES, *settings, "train.max_steps=1", "optimizer.learning_rate=1e-8", "init.gain=0.1"]
    run_with_torchrun(config, *common, "run.name=two")
    run(config, *common, "run.name=one", "train.batch_size=2")
    one, two = (checkpoint(config, 1, name)["optimizers"] for name in ("one", "two"))
    for group in one:
        for network, moments in one[group]["moments"].items():
            ours, theirs = (flat(of_run[group]["moments"][network]) for of_run in (one, two))
            assert len(ours) == len(theirs) > len(moments)
            assert (ours - theirs).norm() < 1e-4 * ours.norm(), network


@pytest.mark.parametrize(
    ("settings", "networks"),
    [(CUT, ["generator", "discriminator", "projection"]), (CYCLE, ["generator_BtoA", "discriminator_A"])],
    ids=["contrastive", "cycle"],
)
def test_networks_start_from_those_of_a_run_by_name(config: Path, settings: list[str], networks: list[str]) -> None:
    run(config, *SIDES, *settings, "run.name=first", "train.max_steps=1")
    first = config.parent / "runs" / "first"
    files = [f"init.{network}={first}" for network in networks]
    still = [*SIDES, *settings, "optimizer.learning_rate=1e-30", "train.max_steps=1", "run.seed=1"]
    run(config, *still, *files)
    ours, theirs = (checkpoint(config, 1, name)["networks"] for name in ("tiny", "first"))
    equal = [name for name in ours if torch.equal(weight_of(ours[name]), weight_of(theirs[name]))]
    assert equal == networks


def test_each_process_has_pools_of_its_own(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = [*SIDES, *POOLS, "data.flip=false"]
    run_with_torchrun(config, *common, "run.name=whole", "train.max_steps=4")
    run_with_torchrun(config, *common, "train.max_steps=2")
    run_with_torchrun(config, *common, "train.max_steps=4")
    whole = checkpoint(config, 4, "whole")
    assert_equal(without_config(checkpoint(config, 4)), without_config(whole))
    first, second = (pools["A"] for pools in whole["method_of_processes"])
    assert len(first) == len(second) == 2
    assert not torch.equal(first[0][1], second[0][1])
    run(config, *common, "train.max_steps=5")
    assert "the pools begin empty, since there were 2 processes" in capsys.readouterr().out


def test_a_checkpoint_of_another_method_is_refused_by_its_name(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(config, *SIDES, *CUT, "train.max_steps=1", "data.preprocess=none")
    assert "5 sources, the first is 32x32 and 4 targets, the first is 40x40" in capsys.readouterr().out
    with pytest.raises(CheckpointError, match=r"trained with method\.name=contrastive, now it is cycle: set it back"):
        run(config, *SIDES, *CYCLE)
