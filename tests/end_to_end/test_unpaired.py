"""Runs without pairs: resumed, in two processes, from files of CycleGAN and of CUT; what they measure and show."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from models.originals.weights import import_original
from tests.conftest import save_image
from tests.processes import train_two
from tests.runs import (
    assert_equal,
    assert_resumes_exactly,
    assert_same_state,
    checkpoint,
    records,
    run,
    translate,
    with_slow,
)
from utils.checkpoint import CheckpointError
from utils.errors import ConfigError, UserError

UNPAIRED = ["data.layout=unpaired_folders", "data.instance_edges=false", "loss.l1=0"]
SIDES = [*UNPAIRED, "generator.n_blocks=2", "data.preprocess=crop", "data.crop_width=32", "data.crop_height=32"]
CUT = ["method.name=contrastive", "contrastive.channels=8"]
CUT += ["contrastive.n_patches=16"]
FASTCUT = [*CUT, "contrastive.identity=false", "contrastive.flip_equivariance=true", "contrastive.weight=10"]
CYCLE = ["method.name=cycle"]
MASKED = ["loss.outside_mask=10", "loss.class_weights={1: 0}"]
O2_BF16 = ["amp.dtype=bfloat16", "amp.opt_level=O2"]
POOLS = [*CYCLE, "train.pool_size=2"]
RESUMED = [
    [*FASTCUT, *MASKED, "augmentation.policy=[color]", "train.ema_decay=0.5", "train.discriminator_steps=2", *O2_BF16],
    [*POOLS, *MASKED, "train.ema_decay=0.5", "optimizer.max_gradient_norm=1", "augmentation.policy=[translation]"],
]
ALSO_RESUMED = [
    [*CUT, "generator.norm=batch", "train.batch_size=2", "loss.r1=1"],
    [*POOLS, "train.accumulation_steps=2", "data.workers=1", "train.activation_checkpointing=true", *O2_BF16],
]
COMBINED = [
    [*CUT, *MASKED, "generator.norm=batch", "loss.gan_mode=hinge", "data.preprocess=scale_width", "data.load_width=40"],
    [*POOLS, *MASKED, "cycle.weights=[0,0]", "loss.adversarial=2", "amp.opt_level=O2"],
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


@pytest.mark.parametrize("settings", [[*CUT, "contrastive.n_patches=5000"], CYCLE], ids=["contrastive", "cycle"])
def test_two_processes_have_the_gradients_of_one_on_the_joint_batch(config: Path, settings: list[str]) -> None:
    """The contrastive case compares all patches, so that none are drawn."""
    common = [*SIDES, *settings, "train.max_steps=1", "optimizer.learning_rate=1e-8", "init.distribution=normal:0.1"]
    train_two(config, [*common, "run.name=two"])
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
    equal = {name for name in ours if torch.equal(weight_of(ours[name]), weight_of(theirs[name]))}
    assert equal == set(networks)


def test_each_process_has_pools_of_its_own(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = [*SIDES, *POOLS, "data.flip=false"]
    runs = (["run.name=whole", "train.max_steps=2"], ["train.max_steps=1"], ["train.max_steps=2"])
    train_two(config, *([*common, *settings] for settings in runs))
    whole = checkpoint(config, 2, "whole")
    assert_same_state(config, 2)
    first, second = (pools["A"] for pools in whole["method_of_processes"])
    assert len(first) == len(second) == 2
    assert not torch.equal(first[0][1], second[0][1])
    run(config, *common, "train.max_steps=3")
    assert "the pools begin empty, because there were 2 processes" in capsys.readouterr().out


def test_a_checkpoint_of_another_method_is_refused_by_its_name(config: Path) -> None:
    run(config, *SIDES, *CUT, "train.max_steps=1", "data.preprocess=none")
    with pytest.raises(CheckpointError, match=r"trained with method\.name=contrastive, now it is cycle\. Set it back"):
        run(config, *SIDES, *CYCLE)


SMALL = [*UNPAIRED, "generator.n_blocks=6", "discriminator.n_layers=3", "discriminator.n_scales=1"]
SMALL += ["discriminator.padding=1", "train.max_steps=1", "optimizer.learning_rate=0"]
LAYERS = {"generator": ["downsample", "upsample"], "discriminator": ["downsample"]}
ANTIALIASED = [f"{network}.{layer}=antialiased" for network, layers in LAYERS.items() for layer in layers]


@pytest.fixture
def heaps(tmp_path: Path) -> list[str]:
    rng = np.random.default_rng(0)
    for side in ("trainA", "trainB", "valA", "valB"):
        save_image(tmp_path / "heaps" / side / "x.png", rng.integers(0, 256, (32, 40, 3), dtype=np.uint8))
    return [*SMALL, f"data.root={tmp_path / 'heaps'}"]


@pytest.fixture
def of_cyclegan(reference: dict[str, Any], tmp_path: Path) -> Path:
    """A folder of CycleGAN's with four networks."""
    folder = tmp_path / "originals"
    folder.mkdir()
    for kind, case in (("G", "cyclegan_generator"), ("D", "cyclegan_discriminator")):
        for side in "AB":
            weights = {key: value + 0.01 * (side == "B") for key, value in reference[case]["state_dict"].items()}
            torch.save(weights, folder / f"latest_net_{kind}_{side}.pth")
    return folder


def test_cyclegans_folder_starts_the_networks_of_both_directions(
    tiny_config: Path, heaps: list[str], of_cyclegan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, originals = of_cyclegan, {}
    for file in folder.iterdir():
        weights = torch.load(file, weights_only=True)
        originals[file.stem.removeprefix("latest_net_")] = import_original(weights).network.state_dict()
    init = [f"init.generator={folder}", f"init.discriminator={folder}", f"init.generator_BtoA={folder}"]
    run(tiny_config, *heaps, "method.name=cycle", *init)
    assert "\ninit.generator_BtoA  " in capsys.readouterr().out
    networks = checkpoint(tiny_config, 1)["networks"]
    assert_equal(networks["generator_AtoB"], originals["G_A"])
    assert_equal(networks["generator_BtoA"], originals["G_B"])
    assert_equal(networks["discriminator_B"], originals["D_A"])  # D_A judges the images of G_A
    assert_equal(networks["discriminator_A"], originals["D_B"])


def test_cyclegans_file_of_one_direction_starts_no_network_of_the_other(
    tiny_config: Path, heaps: list[str], of_cyclegan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = of_cyclegan / "latest_net_D_A.pth"
    refusal = r"_D_A\.pth has direction AtoB, and discriminator_A has BtoA\. Set init\.discriminator_B, or"
    with pytest.raises(ConfigError, match=rf"^init\.discriminator_A: \S+{refusal}"):
        run(tiny_config, *heaps, "method.name=cycle", f"init.discriminator_A={file}")
    renamed = file.rename(file.with_name("mine.pth"))
    run(tiny_config, *heaps, "method.name=cycle", f"init.discriminator_A={renamed}")
    assert f"tensors loaded from {renamed} into discriminator_A;" in capsys.readouterr().out


def test_cuts_file_starts_a_generator_with_its_biases(
    tiny_config: Path, heaps: list[str], reference: dict[str, Any]
) -> None:
    weights, file = reference["cut_generator"]["state_dict"], tiny_config.parent / "latest_net_G.pth"
    torch.save(weights, file)
    settings = ["method.name=contrastive", "generator.base_channels=3", f"init.generator={file}"]
    run(tiny_config, *heaps, *ANTIALIASED, *settings)
    found = checkpoint(tiny_config, 1)["networks"]["generator"]
    assert torch.equal(found["downs.0.0.bias"], weights["model.4.bias"])
    assert_equal(found, import_original(weights, {"biased_downs": True}).network.state_dict())


MEASURED = [*UNPAIRED, "data.preprocess=none", "log.images_every_steps=1", "checkpoint.best=swd"]
OF_12_BITS = [*CYCLE, "cycle.identity=0", "data.source_channels=1", "data.source_range=[0,4095]"]


@pytest.fixture
def measured(tiny_config: Path) -> Path:
    """A configuration of two sides: grey images of 12 bits, and fewer photographs of other sizes."""
    rng, root = np.random.default_rng(0), tiny_config.parent / "set"
    for split in ("train", "test"):
        for number in range(3):
            save_image(root / f"{split}_A" / f"{number}.png", rng.integers(0, 4096, (32, 48), dtype=np.uint16))
        for number in range(2):
            save_image(root / f"{split}_B" / f"{number}.png", rng.integers(0, 256, (40, 32, 3), dtype=np.uint8))
    tiny_config.write_text(tiny_config.read_text().replace("data:\n", f"data:\n  root: {root}\n"))
    return tiny_config


def test_both_directions_are_measured_shown_and_chosen_by(measured: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(measured, *MEASURED, *OF_12_BITS, "train.max_steps=2", "metrics.n_samples=3")
    assert "to compare     SWD " in capsys.readouterr().out
    folder = measured.parent / "runs" / "tiny"
    for tag in ("validation/swd", "validation_BtoA/swd"):
        assert [record["step"] for record in records(measured, tag)] == [1, 2]
    assert (folder / "best.pt").is_file()
    row = json.loads((folder / "web" / "rows.jsonl").read_text().splitlines()[0])
    kinds = ["source", "translated", "reconstructed", "real", "real_translated", "real_reconstructed"]
    assert [kind for kind in row["images"] if (folder / "web" / row["images"][kind]).is_file()] == kinds
    for direction, n_images, n_real in (("AtoB", 3, 2), ("BtoA", 2, 3)):
        output = measured.parent / direction
        translate("--checkpoint", str(folder), "--direction", direction, "--output", str(output))
        report = json.loads((output / "metrics.json").read_text())
        assert (report["n_images"], report["n_real"]) == (n_images, n_real)
        assert report["whole"].keys() == report["floor"].keys() == report["ceiling"].keys() == {"swd"}
        assert all(value > 0 for name in ("whole", "floor", "ceiling") for value in report[name].values())
        assert "images" not in report  # none has a target of its own
        assert report["protocol"]["laplacian_patches"] == {"patches_per_image_and_level": 128}


def test_test_py_measures_nothing_where_there_is_no_other_side_and_pairs_where_it_gets_them(measured: Path) -> None:
    root = measured.parent
    shutil.copytree(root / "set" / "train_B", root / "set" / "photos")
    photos = ["data.source_folder={split}_B", "data.target_folder=photos"]
    run(measured, *MEASURED, *CUT, *photos, "train.max_steps=1")
    common, images = ["--checkpoint", str(root / "runs" / "tiny"), "--output"], str(root / "set" / "test_B")
    translate(*common, str(root / "of_split"), "--split", "train")
    assert "floor" in json.loads((root / "of_split" / "metrics.json").read_text())
    translate(*common, str(root / "alone"), "--input", images)
    assert not (root / "alone" / "metrics.json").exists()
    translate(*common, str(root / "in"), "--input", images, "--targets", images)
    assert {"l1", "psnr", "ssim"} <= json.loads((root / "in" / "metrics.json").read_text())["mean"].keys()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("metrics.extra=[lpips]", r"metrics\.extra is .*lpips"),
        ("checkpoint.best=ssim", r"checkpoint\.best is ssim"),
        ("checkpoint.best=kid", r"checkpoint\.best is kid"),
    ],
)
def test_metrics_of_pairs_are_refused_by_name(measured: Path, setting: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        run(measured, *MEASURED, *OF_12_BITS, setting)
