from pathlib import Path

import pytest
import torch

import train
from models.original_names import OriginalWeightsError
from models.original_weights import import_original
from tools import export
from trained import load_trained


def exported(config: Path, *settings: str, family: str | None = None) -> dict[str, torch.Tensor]:
    train.main(["--config", str(config), "train.max_steps=1", *settings])
    run_folder = config.parent / "runs" / "tiny"
    arguments = ["--checkpoint", str(run_folder), "--format", "original"]
    export.main([*arguments, *(["--family", family] if family else [])])
    return dict(torch.load(run_folder / "latest_net_G.pth", weights_only=True))


@pytest.mark.parametrize(
    "settings",
    [
        ["generator.name=global"],
        ["generator.name=local", "data.synthetic.width=64"],
        ["generator.name=unet", "generator.n_downsamplings=5"],
    ],
    ids=lambda settings: settings[0],
)
def test_an_exported_generator_computes_the_same_when_it_is_read_again(tiny_config: Path, settings: list[str]) -> None:
    weights = exported(tiny_config, *settings)
    (checkpoint,) = (tiny_config.parent / "runs" / "tiny").glob("checkpoint-*.pt")
    ours, theirs = load_trained(checkpoint).generator.eval(), import_original(weights).network.eval()
    source = torch.randn(1, 13, 64, 64)
    assert torch.equal(ours(source), theirs(source))


def test_biases_before_norms_are_the_familys(tiny_config: Path) -> None:
    norm = "generator.norm=batch"
    weights = exported(tiny_config, norm)
    assert torch.equal(weights["model.1.bias"], torch.zeros(4))
    assert "model.1.bias" not in exported(tiny_config, norm, "run.name=tiny", family="pix2pix")


def test_what_the_originals_do_not_have_is_refused(tiny_config: Path) -> None:
    for setting in ("generator.spectral_norm=true", "generator.upsample=residual"):
        with pytest.raises(OriginalWeightsError, match="the original has no such network"):
            exported(tiny_config, setting, "--resume", "never")
