from pathlib import Path
from typing import Any

import pytest
import torch

from inference.load import load_generator, load_network
from models.originals.format import OriginalWeightsError
from models.originals.weights import import_original
from tests.runs import OASIS, untrained_run
from tools.export import __main__ as export

AS_LARGE = ["discriminator.base_channels=64", *(f"data.synthetic.{side}=64" for side in ("height", "width"))]


def exported(config: Path, *settings: str, family: str | None = None) -> dict[str, torch.Tensor]:
    run_folder = untrained_run(config, *settings)
    (run_folder / "latest_net_G.pth").unlink(missing_ok=True)
    arguments = ["--checkpoint", str(run_folder), "--format", "original"]
    export.main([*arguments, *(["--family", family] if family else [])])
    assert str(config.parent).encode() not in (run_folder / "latest_net_G.pth").read_bytes()
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
    ours, theirs = load_generator(checkpoint).generator.eval(), import_original(weights).network.eval()
    source = torch.randn(1, 13, 64, 64)
    assert torch.equal(ours(source), theirs(source))


def test_biases_before_norms_are_the_familys(tiny_config: Path) -> None:
    norm = "generator.norm=batch"
    weights = exported(tiny_config, norm)
    assert torch.equal(weights["model.1.bias"], torch.zeros(4))
    assert "model.1.bias" not in exported(tiny_config, norm, family="pix2pix")
    assert "model.1.bias" not in exported(tiny_config, norm, "generator.dropout=true")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("generator.spectral_norm=true", "no such network: spectral_norm"),
        ("generator.upsample=residual", "no such network: upsample"),
        ("generator.upsample=nearest", "no such network: upsample"),
        ("generator.padding=reflect", "no such network: padding=reflect"),
        ("generator.dropout=true", "--family pix2pixHD has no such generator, only pix2pix"),
    ],
)
def test_what_the_originals_do_not_have_is_refused(tiny_config: Path, setting: str, message: str) -> None:
    with pytest.raises(OriginalWeightsError, match=message):
        exported(tiny_config, setting, family="pix2pixHD")


def test_nothing_is_overwritten(tiny_config: Path) -> None:
    exported(tiny_config)
    original = tiny_config.parent / "runs" / "tiny" / "latest_net_G.pth"
    before = original.read_bytes()
    for checkpoint in (original.parent, original):
        with pytest.raises(FileExistsError, match="already exists; choose another --output, or --existing replace"):
            export.main(["--checkpoint", str(checkpoint), "--format", "original"])
    assert original.read_bytes() == before
    export.main(["--checkpoint", str(original.parent), "--format", "original", "--existing", "replace"])
    assert original.read_bytes() == before


def test_a_batch_norm_unet_of_the_originals_comes_back_with_its_names(
    reference: dict[str, Any], tmp_path: Path
) -> None:
    weights = reference["pix2pix_unet_batch"]["state_dict"]
    torch.save(weights, tmp_path / "latest_net_G.pth")
    arguments = ["--checkpoint", str(tmp_path / "latest_net_G.pth"), "--format", "original"]
    export.main([*arguments, "--output", str(tmp_path / "back.pth")])
    assert torch.load(tmp_path / "back.pth", weights_only=True).keys() == weights.keys()


THEIR_DISCRIMINATORS = {
    "pix2pixHD": ["discriminator.n_scales=2"],
    "pix2pix": ["discriminator.n_scales=1", "discriminator.padding=1", "discriminator.norm=batch"],
    "pix2pix, 1x1": ["discriminator.name=pixel", "loss.feature_matching=0"],
    "SPADE": ["discriminator.spectral_norm=inner"],
    "OASIS": [*OASIS, "discriminator.spectral_norm=inner", "discriminator.n_downsamplings=6", *AS_LARGE],
}


@pytest.mark.parametrize("family", THEIR_DISCRIMINATORS)
def test_a_discriminator_is_written_and_read_again(tiny_config: Path, family: str) -> None:
    folder = untrained_run(tiny_config, *THEIR_DISCRIMINATORS[family])
    arguments = ["--checkpoint", str(folder), "--format", "original", "--network", "discriminator"]
    export.main([*arguments, "--family", family.split(",")[0]])
    (checkpoint,) = folder.glob("checkpoint-*.pt")
    files = (checkpoint, folder / "latest_net_D.pth")
    ours, theirs = (load_network(path, "discriminator").state_dict() for path in files)
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[key], theirs[key]) for key in ours)
    with pytest.raises(FileExistsError, match="already exists"):
        export.main(arguments)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["discriminator.spectral_norm=all"], "SPADE has no such network: spectral_norm all"),
        (["discriminator.padding=1"], "SPADE has no such network: padding 1"),
        ([], "--family SPADE has no such discriminator, only pix2pixHD"),
    ],
)
def test_a_discriminator_that_the_originals_do_not_have_is_refused(
    tiny_config: Path, settings: list[str], message: str
) -> None:
    run_folder = untrained_run(tiny_config, "discriminator.n_scales=2", *settings)
    arguments = ["--checkpoint", str(run_folder), "--format", "original"]
    with pytest.raises(OriginalWeightsError, match=message):
        export.main([*arguments, "--network", "discriminator", "--family", "SPADE"])
