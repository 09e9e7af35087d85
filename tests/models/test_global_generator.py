"""pix2pixHD's generators."""

from copy import deepcopy
from typing import get_args

import pytest
import torch

from models.blocks import Norm, Skips
from models.global_generator import GlobalGenerator, LocalEnhancer


@pytest.mark.parametrize("tap", ["stem.2", "head.1", "downs.2.0"])  # a norm, a layer after the blocks, no layer
def test_unusable_taps_are_refused(tap: str) -> None:
    generator = GlobalGenerator(in_channels=3, base_channels=2, n_downsamplings=2, n_blocks=1)
    with pytest.raises(KeyError, match=rf"no layer {tap}; there are stem\.0, stem\.1, stem\.3, downs\.0\.0, "):
        generator.features(torch.zeros(1, 3, 8, 8), ["stem.0", tap])


@pytest.mark.parametrize("norm", get_args(Norm))
def test_options_without_a_reference_translate_and_train(norm: Norm) -> None:
    generator = GlobalGenerator(
        in_channels=5, out_channels=2, base_channels=4, n_downsamplings=2, n_blocks=1, dropout=True,
        downsample="antialiased", upsample="nearest", norm=norm,
    )  # fmt: skip
    output = generator(torch.randn(2, 5, 24, 32))
    assert output.shape == (2, 2, 24, 32)
    output.sum().backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in generator.parameters())
    biases = [name for name, _ in generator.named_parameters() if name.endswith("bias")]
    assert norm == "batch" or biases == ["head.1.bias"]


@pytest.mark.parametrize(("skips", "scale"), [("half", 2.0), ("half", 0.5), ("full", 1.0)])
def test_skips_carry_the_source_past_the_blocks(skips: Skips, scale: float) -> None:
    plain, skipping = (
        GlobalGenerator(in_channels=3, base_channels=4, n_downsamplings=2, n_blocks=1, scale=scale, skips=which)
        for which in ("none", skips)
    )
    lacking = skipping.load_state_dict(plain.state_dict(), strict=False).missing_keys
    assert lacking == (["join.1.weight"] if skips == "full" else [])
    source = torch.randn(1, 3, 16, 16)
    output, features = skipping.translate_with_features(source, ["stem.0", "blocks.0"])
    assert len(features) == 2
    assert torch.equal(output, skipping(source))
    for generator, passes in ((plain, False), (skipping, True)):
        generator.blocks.register_forward_hook(lambda *outputs: torch.zeros_like(outputs[-1]))
        assert (generator(source).std(dim=(2, 3)).min().item() > 1e-3) == passes


@pytest.mark.parametrize("n_enhancers", [1, 2])
def test_coarse_parts_are_all_but_the_finest_enhancer_and_the_head(n_enhancers: int) -> None:
    generator = LocalEnhancer(in_channels=4, base_channels=2, n_downsamplings=1, n_blocks=1, n_enhancers=n_enhancers)
    names = {name for name, _ in generator.named_parameters()}
    fine = {name for name in names if not name.startswith(tuple(f"{part}." for part in generator.coarse_parts))}
    assert fine == {name for name in names if name.startswith((f"enhancers.{n_enhancers - 1}.", "head."))}


def test_weights_from_before_the_stem_had_a_bias_are_loaded() -> None:
    generator = GlobalGenerator(in_channels=3, base_channels=2, n_downsamplings=1, n_blocks=1, biased_downs=True)
    old = {f"0.{name}": weight + 1 for name, weight in generator.state_dict().items() if name != "stem.1.bias"}
    parent = torch.nn.Sequential(generator)
    deepcopy(parent).load_state_dict(old)
    parent.load_state_dict(old)
    assert parent.state_dict().keys() == {*old, "0.stem.1.bias"}
    assert not generator.get_parameter("stem.1.bias").any()
    parent.load_state_dict(new := {name: weight + 1 for name, weight in parent.state_dict().items()})
    assert torch.equal(generator.get_parameter("stem.1.bias"), new["0.stem.1.bias"])
