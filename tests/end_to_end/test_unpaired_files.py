"""Trainings that start from the weight files of CycleGAN and of CUT."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from models.originals.weights import import_original
from tests.conftest import save_image
from tests.runs import assert_equal, checkpoint, run

SMALL = ["data.layout=unpaired_folders", "data.instance_edges=false", "loss.feature_matching=0", "loss.vgg=0"]
SMALL += ["loss.l1=0", "generator.n_blocks=6", "discriminator.n_layers=3", "discriminator.n_scales=1"]
SMALL += ["discriminator.padding=1", "train.max_steps=1", "optimizer.learning_rate=0"]
LAYERS = {"generator": ["downsample", "upsample"], "discriminator": ["downsample"]}
ANTIALIASED = [f"{network}.{layer}=antialiased" for network, layers in LAYERS.items() for layer in layers]


@pytest.fixture
def heaps(tmp_path: Path) -> list[str]:
    rng = np.random.default_rng(0)
    for side in ("trainA", "trainB", "valA", "valB"):
        save_image(tmp_path / "heaps" / side / "x.png", rng.integers(0, 256, (32, 40, 3), dtype=np.uint8))
    return [*SMALL, f"data.root={tmp_path / 'heaps'}"]


def test_cyclegans_folder_starts_the_networks_of_both_directions(
    tiny_config: Path, heaps: list[str], reference: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, originals = tiny_config.parent / "originals", {}
    folder.mkdir()
    for kind, case in (("G", "cyclegan_generator"), ("D", "cyclegan_discriminator")):
        for side in "AB":
            weights = {key: value + 0.01 * (side == "B") for key, value in reference[case]["state_dict"].items()}
            torch.save(weights, folder / f"latest_net_{kind}_{side}.pth")
            originals[f"{kind}_{side}"] = import_original(weights).network.state_dict()
    init = [f"init.generator={folder}", f"init.discriminator={folder}", f"init.generator_BtoA={folder}"]
    run(tiny_config, *heaps, "method.name=cycle", *init)
    assert "\ninit.generator_BtoA  " in capsys.readouterr().out
    networks = checkpoint(tiny_config, 1)["networks"]
    assert_equal(networks["generator_AtoB"], originals["G_A"])
    assert_equal(networks["generator_BtoA"], originals["G_B"])
    assert_equal(networks["discriminator_B"], originals["D_A"])  # which judges what G_A makes
    assert_equal(networks["discriminator_A"], originals["D_B"])


@pytest.mark.parametrize("name", ["cut_generator", "cut_generator_no_antialias"])
def test_cuts_file_starts_a_generator_with_its_biases(
    tiny_config: Path, heaps: list[str], reference: dict[str, Any], name: str
) -> None:
    weights, file = reference[name]["state_dict"], tiny_config.parent / "latest_net_G.pth"
    torch.save(weights, file)
    layers = ANTIALIASED if name == "cut_generator" else []
    settings = ["method.name=contrastive", "generator.base_channels=3", f"init.generator={file}"]
    run(tiny_config, *heaps, *layers, *settings)
    found = checkpoint(tiny_config, 1)["networks"]["generator"]
    assert torch.equal(found["downs.0.0.bias"], weights["model.4.bias"])
    assert_equal(found, import_original(weights, {"biased_downs": True}).network.state_dict())
