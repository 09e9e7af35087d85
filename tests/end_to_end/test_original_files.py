"""Weight files of SPADE: trained from, and translated with."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from data.files.image_files import read_rgb
from inference.load import load_generator
from inference.requested_predictor import encode_style
from models.latent_inputs import StyleStem
from models.originals.weights import import_original
from models.spectral_norm import spectral_norms
from tests.conftest import save_image
from tests.models.originals.cases import weights_of
from tests.runs import SPADE, checkpoint, run, translate
from utils.errors import ConfigError


@pytest.fixture
def of_spade(reference: dict[str, Any], tmp_path: Path) -> dict[str, Path]:
    """latest_net_G.pth, for 4 classes, and latest_net_D.pth."""
    weights = {"G": weights_of(reference, "spade_generator_batch"), "D": reference["spade_discriminator"]["state_dict"]}
    paths = {}
    for name, state in weights.items():
        paths[name] = tmp_path / f"latest_net_{name}.pth"
        floats = {key: value.float() if value.is_floating_point() else value for key, value in state.items()}
        torch.save(floats, paths[name])
    return paths


def assert_parameters(network: nn.Module, expected: dict[str, Tensor]) -> None:
    for name, weight in network.named_parameters():
        assert torch.equal(expected[name], weight), name


def test_a_run_starts_from_files_of_spade(tiny_config: Path, of_spade: dict[str, Path], label_data_set: Path) -> None:
    settings = [*SPADE, "generator.n_upsamplings=5", "generator.norm=batch", "generator.base_channels=2"]
    settings += ["generator.hidden_channels=6", "discriminator.n_layers=3", "data.layout=paired_folders"]
    settings += [f"data.root={label_data_set}", "data.n_classes=4", "data.ignore_id=4", "data.instance_edges=false"]
    settings += [f"init.generator={of_spade['G']}", f"init.discriminator={of_spade['D'].parent}"]
    run(tiny_config, *settings, "train.max_steps=1", "optimizer.learning_rate=0")
    original = load_generator(of_spade["G"]).generator
    assert_parameters(original, checkpoint(tiny_config, 1)["networks"]["generator"])
    norms = spectral_norms(original)
    assert torch.equal(norms[0]._u, original.state_dict()["blocks.0.conv1.parametrizations.weight.0._u"])


@pytest.fixture
def styled(reference: dict[str, Any], tmp_path: Path) -> Path:
    """latest_net_G.pth of a generator with a style, without the file of its encoder."""
    torch.save(reference["spade_generator_vae"]["state_dict"], tmp_path / "latest_net_G.pth")
    return tmp_path / "latest_net_G.pth"


@pytest.fixture
def with_encoder(reference: dict[str, Any], styled: Path) -> Path:
    """The same with latest_net_E.pth next to it, for styles of 256 numbers as in SPADE."""
    weights = torch.load(styled, weights_only=True)
    weights["fc.weight"] = torch.randn(len(weights["fc.bias"]), 256, generator=torch.Generator().manual_seed(0))
    torch.save(weights, styled)
    torch.save(reference["spade_encoder"]["state_dict"], styled.with_name("latest_net_E.pth"))
    return styled


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    """A folder with a label map of 64x64."""
    save_image(tmp_path / "in" / "a.png", np.random.default_rng(0).integers(0, 4, (64, 64), dtype=np.uint8))
    return tmp_path / "in"


def test_styles_of_images_are_encoded_by_the_file_next_to_them(
    reference: dict[str, Any], with_encoder: Path, labels: Path, tmp_path: Path
) -> None:
    loaded = load_generator(with_encoder)
    assert (loaded.config.style.channels, loaded.config.style.size) == (256, [1, 2])
    image = np.random.default_rng(0).integers(0, 256, (256, 256, 3), dtype=np.uint8)
    save_image(tmp_path / "photo.png", image)
    style = encode_style(loaded, tmp_path / "photo.png")
    encoder = import_original(reference["spade_encoder"]["state_dict"]).network.eval()
    torch.testing.assert_close(style, encoder(torch.from_numpy(image).permute(2, 0, 1)[None] / 127.5 - 1).mean)
    arguments = ["--checkpoint", str(with_encoder), "--input", str(labels), "--output"]
    translate(*arguments, str(tmp_path / "styled"), "--style", str(tmp_path / "photo.png"))
    translate(*arguments, str(tmp_path / "drawn"))
    assert (read_rgb(tmp_path / "styled" / "a.png") != read_rgb(tmp_path / "drawn" / "a.png")).any()
    other = load_generator(with_encoder, ["style.size=[2,1]"]).generator.get_submodule("generator.stem")
    assert isinstance(other, StyleStem)
    assert (other.height, other.width) == (2, 1)
    with pytest.raises(ConfigError, match=r"style.size=\[8,2\] is 16 pixels, the weights need 2"):
        load_generator(with_encoder, ["style.size=[8,2]"])
    with pytest.raises(ConfigError, match=r"style\.channels=256, not 8"):
        load_generator(with_encoder, ["style.channels=8"])
