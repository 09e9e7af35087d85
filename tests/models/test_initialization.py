"""Initial weights: their distributions, and their transfer from other networks."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from configs.build import build_discriminator, build_generator
from configs.load import load_config
from models.global_generator import GlobalGenerator, LocalEnhancer
from models.initialization import Init, initialize, transfer_weights
from models.patch_discriminator import MultiscalePatchDiscriminator
from models.spectral_norm import add_spectral_norm
from tests.runs import OASIS, SPADE, STYLE


@pytest.mark.parametrize(
    ("init", "std"),
    [
        ("normal", 0.02),
        ("xavier", 0.02 * (2 / (64 * 9 + 32 * 9)) ** 0.5),  # Glorot & Bengio 2010, times the gain
        ("kaiming", (2 / (64 * 9)) ** 0.5),  # He et al. 2015
    ],
)
def test_convolutions_have_the_deviation_of_the_method(init: Init, std: float) -> None:
    torch.manual_seed(0)
    convolution = nn.Conv2d(64, 32, 3)
    bias = convolution.bias.clone() if convolution.bias is not None else None
    initialize(nn.Sequential(convolution), init, gain=0.02)
    assert convolution.weight.std().item() == pytest.approx(std, rel=0.03)
    assert abs(convolution.weight.mean().item()) < std / 10
    assert convolution.bias is not None
    assert bias is not None
    assert torch.equal(convolution.bias, bias)


def test_a_global_generator_becomes_the_trunk_of_a_local_one() -> None:
    sizes = {"in_channels": 3, "n_downsamplings": 2, "n_blocks": 1}
    small = GlobalGenerator(base_channels=8, **sizes)  # type: ignore[arg-type]
    large = LocalEnhancer(base_channels=4, n_enhancer_blocks=1, **sizes)  # type: ignore[arg-type]
    transfer = transfer_weights(small, large)
    features = nn.Sequential(small.stem, small.downs, small.blocks, small.ups)
    source = torch.randn(1, 3, 16, 16)
    assert torch.equal(large.trunk(source), features(source))
    assert transfer.left == ["head.1.weight"]  # it has another width
    assert all(name.startswith(("enhancers.", "head.1.weight")) for name in transfer.new)


@pytest.mark.parametrize(("n_before", "n_after"), [(2, 3), (3, 2), (2, 2)])
def test_the_scales_of_a_discriminator_keep_their_resolutions(n_before: int, n_after: int) -> None:
    before = MultiscalePatchDiscriminator(source_channels=3, base_channels=2, n_scales=n_before)
    after = MultiscalePatchDiscriminator(source_channels=3, base_channels=2, n_scales=n_after)
    transfer_weights(before, after)
    for scale in range(1, min(n_before, n_after) + 1):  # the lowest resolution first
        for first, second in zip(before.scales[-scale].parameters(), after.scales[-scale].parameters(), strict=True):
            assert torch.equal(first, second)


@pytest.mark.parametrize("normalized", ["source", "target"])
def test_weights_are_transferred_from_and_to_spectral_norm(normalized: str) -> None:
    sizes = {"in_channels": 3, "base_channels": 2, "n_downsamplings": 1, "n_blocks": 1}
    source, target = GlobalGenerator(**sizes), GlobalGenerator(**sizes)  # type: ignore[arg-type]
    add_spectral_norm(source if normalized == "source" else target)
    transfer = transfer_weights(source, target)
    assert (transfer.left, transfer.new) == ([], [])
    assert len(transfer.loaded) == 7
    if normalized == "source":  # the divided weights are copied
        x = torch.randn(1, 3, 8, 8)
        torch.testing.assert_close(target.eval()(x), source.eval()(x))


WIDE = ["generator.base_channels=16", "generator.hidden_channels=64", "discriminator.base_channels=32"]


@pytest.mark.parametrize(
    ("settings", "network", "keeps_normed"),
    [
        ([*STYLE, *WIDE], "generator", True),
        ([*SPADE, *WIDE], "discriminator", True),
        ([*OASIS, *WIDE], "discriminator", False),
        (
            ["init.distribution=xavier", "generator.spectral_norm=true", "generator.base_channels=16"],
            "generator",
            False,
        ),
    ],
)
def test_convolutions_under_spectral_norm_keep_torchs_weights_as_in_spades_runs(
    tiny_config: Path, settings: list[str], network: str, keeps_normed: bool
) -> None:
    torch.manual_seed(0)
    config = load_config(tiny_config, settings)
    built = build_generator(config) if network == "generator" else build_discriminator(config)
    for name, module in built.named_modules():
        if not isinstance(module, nn.Conv2d | nn.Linear):
            continue
        assert config.generator.name == "global" or module.bias is None or not module.bias.any(), name
        weight: Tensor = module.parametrizations.weight.original if is_parametrized(module) else module.weight  # type: ignore[union-attr,assignment]
        fan_in = weight[0].numel()
        fans = fan_in + weight.shape[0] * weight[0, 0].numel()
        is_torchs = keeps_normed and is_parametrized(module)
        expected = (1 / (3 * fan_in)) ** 0.5 if is_torchs else 0.02 * (2 / fans) ** 0.5
        assert weight.std().item() == pytest.approx(expected, rel=0.25), name
