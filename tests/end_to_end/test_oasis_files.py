"""OASIS's weight files: translated with, trained from, and written back."""

from pathlib import Path

import numpy as np
import pytest
import torch

from inference.load import load_generator, load_network
from models.initialization import initialize
from models.originals.format import OriginalWeightsError
from models.originals.weights import export_original
from models.segmentation_discriminator import SegmentationDiscriminator
from models.spade_generator import SpadeGenerator
from models.spectral_norm import add_spectral_norm
from tests.conftest import save_image
from tests.runs import OASIS, checkpoint, run, translate
from utils.errors import ConfigError

N_CLASSES = 5


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """best_EMA.pth, for 5 classes and 64 channels of noise, and best_D.pth, with OASIS's names."""
    torch.manual_seed(0)
    generator = SpadeGenerator(
        in_channels=N_CLASSES, base_channels=1, n_middle_blocks=1, noise_channels=64, norm="batch"
    )
    discriminator = SegmentationDiscriminator(n_classes=N_CLASSES)
    paths = {}
    for name, network, scheme in (("EMA", generator, "oasis"), ("D", discriminator, "oasis_discriminator")):
        initialize(network, "xavier", 0.5)
        add_spectral_norm(network, outer=False, iteration="v_first")
        paths[name] = tmp_path / f"best_{name}.pth"
        torch.save(export_original(network, scheme, biases_before_norms=True), paths[name])
    return paths


def test_a_generator_translates_label_maps_with_noise_by_the_seed(files: dict[str, Path], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, N_CLASSES, (41, 59), dtype=np.uint8)
    save_image(tmp_path / "in" / "a.png", labels)
    arguments = ["--checkpoint", str(files["EMA"]), "--input", str(tmp_path / "in")]
    for output, seed in (("first", 1), ("again", 1), ("other", 2)):
        translate(*arguments, "--output", str(tmp_path / output), "--seed", str(seed))
    pictures = {name: (tmp_path / name / "a.png").read_bytes() for name in ("first", "again", "other")}
    assert pictures["first"] == pictures["again"] != pictures["other"]


def test_the_settings_follow_from_the_shapes_but_for_the_noise(files: dict[str, Path]) -> None:
    loaded = load_generator(files["EMA"])
    settings = loaded.config.generator
    assert (settings.name, settings.base_channels, settings.hidden_channels) == ("spade", 1, 128)
    assert (settings.norm, settings.spectral_norm, settings.spectral_iteration) == ("batch", True, "v_first")
    assert (settings.n_upsamplings, settings.n_middle_blocks, settings.noise_channels) == (5, 1, 64)
    assert loaded.config.data.n_classes == N_CLASSES
    other = load_generator(files["EMA"], ["generator.noise_channels=9", "data.n_classes=60"])
    assert isinstance(other.generator, SpadeGenerator)
    assert (other.generator.noise.n_channels, other.config.data.n_classes) == (9, 60)
    with pytest.raises(ConfigError, match=r"n_classes is 5 by the shapes .* or change generator\.noise_channels=64"):
        load_generator(files["EMA"], ["data.n_classes=60"])
    with pytest.raises(OriginalWeightsError, match="not 69 of noise"):
        load_generator(files["EMA"], ["generator.noise_channels=69"])


LARGE = ["generator.n_upsamplings=5", "data.synthetic.height=64", "data.synthetic.width=64", "train.max_steps=1"]
THEIRS = [*OASIS, *LARGE, "generator.hidden_channels=128", "generator.base_channels=1"]


@pytest.mark.slow  # a discriminator of full width
def test_a_run_starts_from_the_files(tiny_config: Path, files: dict[str, Path], label_data_set: Path) -> None:
    settings = [*THEIRS, "generator.norm=batch", "generator.noise_channels=64", "data.layout=paired_folders"]
    settings += [
        "data.preprocess=resize_and_crop",
        *(f"data.{key}_{side}=64" for key in ("load", "crop") for side in SIDES),
    ]
    settings += ["discriminator.base_channels=64", "discriminator.n_downsamplings=6", "discriminator.norm=instance"]
    settings += [f"data.root={label_data_set}", f"data.n_classes={N_CLASSES}", "data.instance_edges=false"]
    settings += [f"init.generator={files['EMA'].parent}", f"init.discriminator={files['D']}"]
    run(tiny_config, *settings, "optimizer.learning_rate=0")
    state = checkpoint(tiny_config, 1)
    originals = {
        "generator": load_generator(files["EMA"]).generator,
        "discriminator": load_network(files["D"], "discriminator"),
    }
    for key, original in originals.items():
        trained = state["networks"][key]
        assert trained.keys() == original.state_dict().keys()
        for name, weight in original.named_parameters():
            assert torch.equal(trained[name], weight), name


SIDES = ("width", "height")
