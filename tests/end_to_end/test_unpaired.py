"""Runs without pairs: in two processes, from files of CycleGAN and of CUT; what they measure and show."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from models.originals.weights import import_original
from tests.conftest import save_image, write_tiny_config
from tests.processes import train_two
from tests.runs import assert_equal, assert_same_state, checkpoint, records, run, translate

UNPAIRED = ["data.layout=unpaired_folders", "data.instance_edges=false", "loss.l1=0"]
SIDES = [*UNPAIRED, "generator.n_blocks=2", "data.preprocess=crop", "data.crop_width=32", "data.crop_height=32"]
CUT = ["method.name=contrastive", "contrastive.channels=8"]
CUT += ["contrastive.n_patches=16"]
CYCLE = ["method.name=cycle"]
MASKED = ["loss.outside_mask=10", "loss.class_weights={1: 0}"]
POOLS = [*CYCLE, "train.pool_size=2"]
ONE_STEP = [*SIDES, "train.max_steps=1", "optimizer.learning_rate=1e-8", "init.distribution=normal:0.1"]
ALL_PATCHES = {"contrastive": [*CUT, "contrastive.n_patches=5000"], "cycle": CYCLE}  # none are drawn
NO_FLIPS = [*SIDES, *POOLS, "data.flip=false"]
COMBINED = [
    [*CUT, *MASKED, "generator.norm=batch", "loss.gan_mode=hinge", "data.preprocess=scale_width", "data.load_width=40"],
    [*POOLS, *MASKED, "cycle.weights=[0,0]", "loss.adversarial=2", "amp.opt_level=O2"],
    [*CYCLE, "generator.name=unet", "generator.n_downsamplings=5", "discriminator.norm=batch", "loss.gan_mode=vanilla"],
]


def flat(moments: dict[str, Any]) -> torch.Tensor:
    """The mean gradients of all parameters."""
    return torch.cat([of_one["exp_avg"].flatten() for of_one in moments.values()])


def write_config(folder: Path) -> Path:
    """Write the tiny configuration with 5 pictures of domain A and 4 larger ones of domain B."""
    rng, config = np.random.default_rng(0), write_tiny_config(folder)
    for split, n_images, side in (("train_A", 5, 32), ("train_B", 4, 40), ("val_A", 2, 32), ("val_B", 2, 40)):
        for number in range(n_images):
            picture = rng.integers(0, 256, (side, side, 3), dtype=np.uint8)
            save_image(folder / "domains" / split / f"{number}.png", picture)
            if split == "train_A":
                save_image(folder / "domains" / "train_A_label" / f"{number}.png", picture[..., 0] // 64)
    config.write_text(config.read_text().replace("data:\n", f"data:\n  root: {folder / 'domains'}\n"))
    return config


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return write_config(tmp_path)


@pytest.fixture(scope="module")
def of_two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration of runs of the same two processes, one after the other. Only to be read."""
    config = write_config(tmp_path_factory.mktemp("of_two"))
    runs = [[*ONE_STEP, *settings, f"run.name={name}"] for name, settings in ALL_PATCHES.items()]
    runs += [[*NO_FLIPS, "run.name=whole", "train.max_steps=2"], *([*NO_FLIPS, f"train.max_steps={n}"] for n in (1, 2))]
    train_two(config, *runs)
    return config


@pytest.mark.parametrize("settings", COMBINED, ids=lambda settings: settings[0] + settings[-1])
def test_settings_go_together(config: Path, settings: list[str]) -> None:
    run(config, *SIDES, "amp.dtype=bfloat16", *settings, "train.max_steps=2")
    for network in checkpoint(config, 2)["networks"].values():
        assert all(bool(value.isfinite().all()) for value in network.values())


@pytest.mark.parametrize("name", ALL_PATCHES)
def test_two_processes_have_the_gradients_of_one_on_the_joint_batch(of_two: Path, name: str) -> None:
    run(of_two, *ONE_STEP, *ALL_PATCHES[name], f"run.name={name}_alone", "train.batch_size=2")
    one, two = (checkpoint(of_two, 1, of_run)["optimizers"] for of_run in (f"{name}_alone", name))
    for group in one:
        for network, moments in one[group]["moments"].items():
            ours, theirs = (flat(of_run[group]["moments"][network]) for of_run in (one, two))
            assert len(ours) == len(theirs) > len(moments)
            assert (ours - theirs).norm() < 1e-4 * ours.norm(), network


def test_each_process_has_pools_of_its_own(of_two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = checkpoint(of_two, 2, "whole")
    assert_same_state(of_two, 2)
    first, second = (pools["A"] for pools in whole["method_of_processes"])
    assert len(first) == len(second) == 2
    assert not torch.equal(first[0][1], second[0][1])
    run(of_two, *NO_FLIPS, "train.max_steps=3")
    assert "train.pool_size: image pools start empty" in capsys.readouterr().out


SMALL = [*UNPAIRED, "generator.n_blocks=6", "discriminator.n_layers=3", "discriminator.n_scales=1"]
SMALL += ["discriminator.padding=1", "train.max_steps=1", "optimizer.learning_rate=0"]
ANTIALIASED = ["generator.downsample=antialiased", "generator.upsample=antialiased"]


@pytest.fixture
def domains(tmp_path: Path) -> list[str]:
    rng = np.random.default_rng(0)
    for side in ("trainA", "trainB", "valA", "valB"):
        save_image(tmp_path / "domains" / side / "x.png", rng.integers(0, 256, (32, 40, 3), dtype=np.uint8))
    return [*SMALL, f"data.root={tmp_path / 'domains'}"]


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
    tiny_config: Path, domains: list[str], of_cyclegan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, originals = of_cyclegan, {}
    for file in folder.iterdir():
        weights = torch.load(file, weights_only=True)
        originals[file.stem.removeprefix("latest_net_")] = import_original(weights).network.state_dict()
    init = [f"init.generator={folder}", f"init.discriminator={folder}", f"init.generator_BtoA={folder}"]
    run(tiny_config, *domains, "method.name=cycle", *init)
    assert "\ninit.generator_BtoA  " in capsys.readouterr().out
    networks = checkpoint(tiny_config, 1)["networks"]
    assert_equal(networks["generator_AtoB"], originals["G_A"])
    assert_equal(networks["generator_BtoA"], originals["G_B"])
    assert_equal(networks["discriminator_B"], originals["D_A"])  # D_A judges the images of G_A
    assert_equal(networks["discriminator_A"], originals["D_B"])


def test_cuts_file_starts_a_generator_with_its_biases(
    tiny_config: Path, domains: list[str], reference: dict[str, Any]
) -> None:
    weights, file = reference["cut_generator"]["state_dict"], tiny_config.parent / "latest_net_G.pth"
    torch.save(weights, file)
    settings = ["method.name=contrastive", "generator.base_channels=3", f"init.generator={file}"]
    run(tiny_config, *domains, *ANTIALIASED, *settings)
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
