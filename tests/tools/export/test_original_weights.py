from pathlib import Path

import pytest
import torch
from torch import nn

from configs.build import build_discriminator, build_generator
from configs.load import load_config
from inference.load import load_network
from models.originals.format import OriginalWeightsError
from models.patch_projection import PatchProjection
from tests.runs import OASIS, SPADE, assert_equal, untrained_run, with_slow
from tools.export import __main__ as export
from tools.export.original import choose_family, write_network
from utils.checkpoint import load_checkpoint, save_checkpoint

AS_LARGE = ["discriminator.base_channels=64", "data.synthetic_size=[64,64]"]
CUT = ["generator.downsample=antialiased", "generator.n_downsamplings=2"]
SIZES = ["generator.n_upsamplings=5", "generator.hidden_channels=128", "generator.base_channels=1"]


def generator(config: Path, *settings: str) -> nn.Module:
    return build_generator(load_config(config, settings)).eval()


@pytest.mark.parametrize(("name", "family"), [("latest_net_G_A.pth", "CycleGAN"), ("latest_net_G.pth", "pix2pixHD")])
def test_an_original_is_written_back_with_the_biases_that_it_had(
    tiny_config: Path, tmp_path: Path, name: str, family: str
) -> None:
    file, output = tmp_path / name, tmp_path / "back.pth"
    write_network(generator(tiny_config, "generator.norm=batch"), file, family)
    export.main(["--checkpoint", str(file), "--format", "original", "--output", str(output)])
    before, after = (torch.load(path, weights_only=True) for path in (file, output))
    assert ("model.1.bias" in before) == (family == "pix2pixHD")
    assert_equal(after, before)


@pytest.mark.parametrize(
    ("settings", "family", "message"),
    [
        (["generator.dropout=true"], "pix2pixHD", "--family pix2pixHD has no such generator. Use pix2pix"),
        (["generator.skips=full"], "pix2pixHD", "pix2pixHD: skips is none .* not full"),
        (["generator.downsample=antialiased"], "pix2pix", r"^--family pix2pix has no such generator\. Use CUT\.$"),
        ([*CUT, "generator.spectral_norm=true"], None, "CUT: spectral_norm is false"),
        ([*SPADE, *SIZES, "generator.noise_channels=1"], None, r"SPADE: .* generator\.noise_channels=0, not 1"),
        ([*OASIS, *SIZES, "generator.n_upsamplings=3"], None, "OASIS: .* 5 upsamplings, not 3"),
    ],
)
def test_what_the_originals_do_not_have_is_refused(
    tiny_config: Path, settings: list[str], family: str | None, message: str
) -> None:
    with pytest.raises(OriginalWeightsError, match=message):
        choose_family(generator(tiny_config, *settings), family)


def test_nothing_is_overwritten(tiny_config: Path) -> None:
    original = untrained_run(tiny_config) / "latest_net_G.pth"
    export.main(["--checkpoint", str(original.parent), "--format", "original"])
    before = original.read_bytes()
    assert str(tiny_config.parent).encode() not in before
    for checkpoint in (original.parent, original):
        with pytest.raises(FileExistsError, match=r"already exists\. Choose .* --existing replace"):
            export.main(["--checkpoint", str(checkpoint), "--format", "original"])
    assert original.read_bytes() == before
    export.main(["--checkpoint", str(original.parent), "--format", "original", "--existing", "replace"])
    assert original.read_bytes() == before


THEIR_DISCRIMINATORS = {
    "pix2pixHD": ["discriminator.n_scales=2"],
    "pix2pix": ["discriminator.n_scales=1", "discriminator.padding=1", "discriminator.norm=batch"],
    "CUT": ["discriminator.n_scales=1", "discriminator.padding=1", "generator.downsample=antialiased"],
    "pix2pix, 1x1": ["discriminator.name=pixel", "loss.feature_matching=0"],
    "SPADE": ["discriminator.spectral_norm=inner"],
    "OASIS": [*OASIS, "discriminator.spectral_norm=inner", "discriminator.n_downsamplings=6", *AS_LARGE],
}


@pytest.mark.parametrize("family", with_slow(["pix2pixHD", "pix2pix", "pix2pix, 1x1", "CUT", "SPADE"], ["OASIS"]))
def test_a_discriminator_is_written_and_read_again(tiny_config: Path, family: str) -> None:
    folder = untrained_run(tiny_config, *THEIR_DISCRIMINATORS[family])
    arguments = ["--checkpoint", str(folder), "--format", "original", "--network", "discriminator"]
    export.main([*arguments, "--family", family.split(",")[0]])
    (checkpoint,) = folder.glob("checkpoint-*.pt")
    files = (checkpoint, folder / "latest_net_D.pth")
    ours, theirs = (load_network(path, "discriminator").state_dict() for path in files)
    assert_equal(ours, theirs)
    with pytest.raises(FileExistsError, match="already exists"):
        export.main(arguments)


def test_a_projection_is_written(tiny_config: Path) -> None:
    settings = ["method.name=contrastive", "data.layout=unpaired_folders", "data.root=.", "data.instance_edges=false"]
    folder = untrained_run(tiny_config, *settings, "loss.l1=0", "loss.perceptual=0", "loss.feature_matching=0")
    (checkpoint,) = folder.glob("checkpoint-*.pt")
    state, projection = load_checkpoint(checkpoint), PatchProjection([3, 8, 16], channels=5)
    state["networks"]["projection"] = projection.state_dict()
    save_checkpoint(checkpoint, state)
    export.main(["--checkpoint", str(folder), "--format", "original", "--network", "projection"])
    file = folder / "latest_net_F.pth"
    assert torch.load(file, weights_only=True).keys() >= {"mlp_0.0.weight", "mlp_2.2.bias"}
    for path in (checkpoint, file):
        assert_equal(load_network(path, "projection").state_dict(), projection.state_dict())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["discriminator.spectral_norm=all"], r"SPADE: scales\.0\.layers\.0\.0 is PairConv2d"),
        ([], "--family SPADE has no such discriminator. Use pix2pixHD"),
    ],
)
def test_a_discriminator_that_the_originals_do_not_have_is_refused(
    tiny_config: Path, settings: list[str], message: str
) -> None:
    discriminator = build_discriminator(load_config(tiny_config, ["discriminator.n_scales=2", *settings]))
    with pytest.raises(OriginalWeightsError, match=message):
        choose_family(discriminator, "SPADE")
