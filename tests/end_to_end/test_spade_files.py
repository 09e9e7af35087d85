"""SPADE's weight files: translated with, trained from, and written back."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from inference.load import load_generator
from models.originals.layer_names import OriginalWeightsError
from models.spade_generator import SpadeGenerator
from models.spectral_norm import spectral_norms
from tests.conftest import save_image
from tests.models.originals.spade_cases import weights_of
from tests.runs import SPADE, checkpoint, run, translate
from tools.export import __main__ as export


@pytest.fixture
def files(reference: dict[str, Any], tmp_path: Path) -> dict[str, Path]:
    """latest_net_G.pth, for 4 classes, and latest_net_D.pth."""
    weights = {
        "G": weights_of(reference, "spade_generator_batch"),
        "D": reference["spade_discriminator"]["state_dict"],
    }
    paths = {}
    for name, state in weights.items():
        paths[name] = tmp_path / f"latest_net_{name}.pth"
        floats = {key: value.float() if value.is_floating_point() else value for key, value in state.items()}
        torch.save(floats, paths[name])
    return paths


def test_a_generator_translates_label_maps_of_any_size(files: dict[str, Path], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name, size in (("a", (64, 128)), ("b", (41, 59))):
        save_image(tmp_path / "in" / f"{name}.png", rng.integers(0, 4, size, dtype=np.uint8))
    translate("--checkpoint", str(files["G"]), "--input", str(tmp_path / "in"), "--output", str(tmp_path / "out"))
    assert {path.stem for path in (tmp_path / "out").glob("*.png")} >= {"a", "b"}


def test_the_settings_follow_from_the_shapes_but_for_the_upsamplings(files: dict[str, Path]) -> None:
    loaded = load_generator(files["G"])
    settings = loaded.config.generator
    assert (settings.name, settings.base_channels, settings.hidden_channels) == ("spade", 2, 6)
    assert (settings.norm, settings.spectral_norm, settings.spectral_iteration) == ("batch", True, "v_first")
    assert (settings.n_upsamplings, loaded.config.data.n_classes) == (5, 4)
    more = load_generator(files["G"], ["generator.n_upsamplings=6"]).generator
    assert isinstance(more, SpadeGenerator)
    assert len(more.reductions) == 7
    with pytest.raises(OriginalWeightsError, match="has the weights of 5 or 6 upsamplings"):
        load_generator(files["G"], ["generator.n_upsamplings=7"])


def test_a_file_is_written_back(files: dict[str, Path], tmp_path: Path) -> None:
    output = tmp_path / "back.pth"
    export.main(["--checkpoint", str(files["G"]), "--format", "original", "--output", str(output)])
    before, after = (torch.load(path, weights_only=True) for path in (files["G"], output))
    assert before.keys() == after.keys()
    generators = [load_generator(path).generator.eval() for path in (files["G"], output)]
    source = torch.randn(1, 4, 64, 64)
    assert torch.equal(generators[0](source), generators[1](source))


LARGE = ["generator.n_upsamplings=5", "data.synthetic.height=64", "data.synthetic.width=64", "train.max_steps=1"]


def test_a_run_is_written_in_the_format_of_spade(tiny_config: Path) -> None:
    run(tiny_config, *SPADE, *LARGE, "generator.norm=batch")
    folder = tiny_config.parent / "runs" / "tiny"
    export.main(["--checkpoint", str(folder), "--format", "original"])
    ours, theirs = (
        load_generator(path).generator.eval() for path in (*folder.glob("*1.pt"), folder / "latest_net_G.pth")
    )
    source = torch.randn(1, 13, 32, 64)
    assert torch.equal(ours(source), theirs(source))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["generator.spectral_norm=false"], "no spectral_norm"),
        (["generator.n_upsamplings=3"], "n_upsamplings below 5"),
        (["generator.noise_channels=1"], "noise_channels"),
    ],
)
def test_a_generator_that_spade_does_not_have_is_refused(tiny_config: Path, settings: list[str], message: str) -> None:
    run(tiny_config, *SPADE, *LARGE, *settings)
    with pytest.raises(OriginalWeightsError, match=f"the original has no such network: {message}"):
        export.main(["--checkpoint", str(tiny_config.parent / "runs" / "tiny"), "--format", "original"])


def test_a_run_starts_from_the_files(tiny_config: Path, files: dict[str, Path], label_data_set: Path) -> None:
    settings = [*SPADE, "generator.n_upsamplings=5", "generator.norm=batch", "generator.base_channels=2"]
    settings += ["generator.hidden_channels=6", "discriminator.n_layers=3", "data.layout=paired_folders"]
    settings += [f"data.root={label_data_set}", "data.n_classes=4", "data.ignore_id=4", "data.instance_edges=false"]
    settings += [f"init.generator={files['G']}", f"init.discriminator={files['D']}", "optimizer.learning_rate=0"]
    run(tiny_config, *settings, "train.max_steps=1")
    trained = checkpoint(tiny_config, 1)["generator"]["network"]
    original = load_generator(files["G"]).generator
    for name, weight in original.named_parameters():
        assert torch.equal(trained[name], weight), name
    norms = spectral_norms(original)
    assert torch.equal(norms[0]._u, original.state_dict()["blocks.0.conv1.parametrizations.weight.0._u"])
