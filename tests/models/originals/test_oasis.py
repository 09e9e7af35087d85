"""OASIS's networks with the recorded weights compute the recorded outputs, gradients and buffers, float64."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from models.originals.format import OriginalWeightsError
from models.originals.weights import export_original, import_original
from models.segmentation_discriminator import SegmentationDiscriminator
from models.spade_generator import SpadeGenerator
from models.spectral_norm import add_spectral_norm
from tests.models.originals.cases import (
    FixedNoise,
    Weights,
    assert_close,
    assert_pass,
    empty_weights,
    oasis_generator_of,
    original_names,
    unet_of,
    weights_of,
    with_divided_weights,
)

FULL_SIZE = json.loads((Path(__file__).parents[2] / "reference" / "oasis_state_dict_keys.json").read_text())


@pytest.mark.parametrize(("name", "mode"), [("", "eval"), ("", "train"), ("_instance_without_noise", "eval")])
def test_generator(reference: dict[str, Any], name: str, mode: str) -> None:
    case = reference[f"oasis_generator{name}"]
    network = oasis_generator_of(case["state_dict"], case["config"]).train(mode == "train")
    if isinstance(network.noise, FixedNoise):
        network.noise.z = case["inputs"]["z"]
    assert_pass(network, case, mode, network(case["inputs"]["semantics"].double()), case["state_dict"])


@pytest.mark.parametrize("mode", ["eval", "train"])
def test_discriminator(reference: dict[str, Any], mode: str) -> None:
    case = reference["oasis_discriminator"]
    network = unet_of(case).train(mode == "train")
    assert_pass(network, case, mode, network(case["inputs"]["image"].double()), {})


def generator_with(weights: Weights, **chosen: int) -> SpadeGenerator:
    network = import_original(weights, chosen).network.eval()
    assert isinstance(network, SpadeGenerator)
    return network


@pytest.mark.parametrize(("name", "n_classes"), [("ade20k", 151), ("coco", 183), ("cityscapes", 35)])
def test_the_channels_of_noise_are_the_originals_default(name: str, n_classes: int) -> None:
    network = generator_with(empty_weights(FULL_SIZE[f"OASIS_G_{name}"]["keys"]))
    assert (network.noise.n_channels, network.stem.in_channels) == (64, n_classes + 64)


def test_the_channels_of_noise_can_be_given(reference: dict[str, Any]) -> None:
    weights = reference["oasis_generator"]["state_dict"]  # 4 classes and 3 channels of noise
    assert generator_with(weights).noise.n_channels == 0
    assert generator_with(weights, noise_channels=3).noise.n_channels == 3
    with pytest.raises(OriginalWeightsError, match=r"takes 7 channels of noise and labels together, not 7 of noise"):
        import_original(weights, {"noise_channels": 7})
    with pytest.raises(OriginalWeightsError, match="has the weights of 5 upsamplings, not 6"):
        import_original(weights, {"n_upsamplings": 6})


def test_files_of_old_versions_of_torch_hold_the_divided_weight_and_prefixes_do_no_harm(
    reference: dict[str, Any],
) -> None:
    case = reference["oasis_generator_instance_without_noise"]
    old = with_divided_weights(weights_of(reference, "oasis_generator_instance_without_noise"))
    network = generator_with({f"module.{key}": value for key, value in old.items()}, noise_channels=0)
    assert_close(network(case["inputs"]["semantics"].double())[..., ::2, ::2], case["output"])


def test_files_without_counts_and_without_spectral_norm(reference: dict[str, Any]) -> None:
    weights = weights_of(reference, "oasis_generator")
    without = {key: value for key, value in weights.items() if not key.endswith("num_batches_tracked")}
    with_zeros = {key: torch.zeros_like(value) if "tracked" in key else value for key, value in weights.items()}
    states = [generator_with(state).state_dict() for state in (without, with_zeros)]
    torch.testing.assert_close(states[0], states[1], rtol=0, atol=0)

    network = generator_with(weights)
    plain = {key: value for key, value in without.items() if not key.endswith(("_u", "_v", "_orig"))}
    for ours, original in original_names(network).items():
        if original.endswith("weight_orig"):
            layer = network.get_submodule(ours.removesuffix(".parametrizations.weight.original"))
            assert isinstance(layer.weight, Tensor)
            plain[original.removesuffix("_orig")] = layer.weight.detach()
    source = torch.randn(1, 7, 64, 64, dtype=torch.float64)
    assert_close(generator_with(plain)(source), network(source))


def test_weights_that_only_resemble_oasis_are_refused_in_one_line(reference: dict[str, Any]) -> None:
    generator = weights_of(reference, "oasis_generator")
    cases = [
        (generator | {"body.6.conv_0.bias": torch.zeros(1)}, "oasis network"),
        (generator | {"head_0.conv_0.bias": torch.zeros(1)}, r"head_0\.conv_0\.bias is unknown"),
        ({key: value for key, value in generator.items() if key != "fc.bias"}, r"stem\.bias"),
        (weights_of(reference, "oasis_discriminator"), "is unknown"),  # of other widths than OASIS's
    ]
    for weights, message in cases:
        with pytest.raises(OriginalWeightsError, match=message) as raised:
            import_original(weights)
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("sizes", "outer", "message"),
    [
        ({"base_channels": 32}, False, "n_downsamplings, base_channels, max_channels other than 6, 64, 512"),
        ({"n_downsamplings": 5}, False, "n_downsamplings"),
        ({"image_channels": 1}, False, "a grey target"),
        ({}, True, "spectral_norm all"),
    ],
)
def test_discriminators_that_oasis_does_not_have_are_refused(sizes: dict[str, int], outer: bool, message: str) -> None:
    with torch.device("meta"):
        network: nn.Module = SegmentationDiscriminator(n_classes=2, **sizes)
        add_spectral_norm(network, outer=outer)
    with pytest.raises(OriginalWeightsError, match=f"OASIS has no such network: {message}"):
        export_original(network.to_empty(device="cpu"), "oasis_discriminator", biases_before_norms=True)
