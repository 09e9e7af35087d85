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
from tests.models.originals.oasis_cases import (
    FixedNoise,
    discriminator_of,
    generator_of,
)
from tests.models.originals.spade_cases import (
    as_double,
    assert_close,
    assert_gradients,
    by_original_names,
    gradients_of,
    original_names,
    scalar,
    with_divided_weights,
)

FULL_SIZE = json.loads((Path(__file__).parents[2] / "reference" / "oasis_state_dict_keys.json").read_text())


def assert_pass(network: nn.Module, output: Tensor, case: dict[str, Any], mode: str) -> None:
    recorded = case[mode]
    assert_close(output[..., ::2, ::2], case["output"] if mode == "eval" else recorded["output"])
    value = scalar([output])
    assert_close(value, recorded["scalar"])
    value.backward()
    assert_gradients(by_original_names(network, gradients_of(network)), recorded)
    if mode == "eval":
        return
    state = by_original_names(network, network.state_dict())
    for key, expected in recorded["state_after"].items():
        ours = state[key]
        if key.endswith("norm_1.first_norm.running_mean"):  # the original's contains the bias
            ours = ours + case["state_dict"][key.replace("norm_1.first_norm.running_mean", "conv_0.bias")]
        assert_close(ours, expected)


@pytest.mark.parametrize(("name", "mode"), [("", "eval"), ("", "train"), ("_instance_without_noise", "eval")])
def test_generator(reference: dict[str, Any], name: str, mode: str) -> None:
    case = reference[f"oasis_generator{name}"]
    network = generator_of(case["state_dict"], case["config"]).train(mode == "train")
    if isinstance(network.noise, FixedNoise):
        network.noise.z = case["inputs"]["z"]
    output = network(case["inputs"]["semantics"].double())
    assert_pass(network, output, case, mode)


@pytest.mark.parametrize("mode", ["eval", "train"])
def test_discriminator(reference: dict[str, Any], mode: str) -> None:
    case = reference["oasis_discriminator"]
    network = discriminator_of(case["state_dict"], case["config"]).train(mode == "train")
    output = network(case["inputs"]["image"].double())
    assert_pass(network, output, case, mode)


def full_size_weights(name: str) -> dict[str, Tensor]:
    """Weights on the meta device with the names and shapes of a network of OASIS."""
    return {
        key: torch.empty(shape, dtype=torch.int64 if "tracked" in key else torch.float32, device="meta")
        for key, shape in FULL_SIZE[name]["keys"].items()
    }


@pytest.mark.parametrize(
    ("name", "n_classes", "n_noise"), [("ade20k", 151, 64), ("coco", 183, 64), ("cityscapes", 35, 64)]
)
def test_the_channels_of_noise_are_the_originals_default(name: str, n_classes: int, n_noise: int) -> None:
    network = import_original(full_size_weights(f"OASIS_G_{name}")).network
    assert isinstance(network, SpadeGenerator)
    assert network.noise.n_channels == n_noise
    assert network.stem.in_channels == n_classes + n_noise


def test_the_channels_of_noise_can_be_given(reference: dict[str, Any]) -> None:
    weights = reference["oasis_generator"]["state_dict"]  # 4 classes and 3 channels of noise
    networks = [import_original(weights, chosen).network for chosen in ({}, {"noise_channels": 3})]
    assert [cast_generator(network).noise.n_channels for network in networks] == [0, 3]
    with pytest.raises(OriginalWeightsError, match=r"takes 7 channels of noise and labels together, not 7 of noise"):
        import_original(weights, {"noise_channels": 7})
    with pytest.raises(OriginalWeightsError, match="has the weights of 5 upsamplings, not 6"):
        import_original(weights, {"n_upsamplings": 6})


def cast_generator(network: nn.Module) -> SpadeGenerator:
    assert isinstance(network, SpadeGenerator)
    return network


def recorded_weights(reference: dict[str, Any], name: str) -> dict[str, Tensor]:
    return as_double(reference[name]["state_dict"])


def translated(weights: dict[str, Tensor], case: dict[str, Any]) -> Tensor:
    return import_original(weights, {"noise_channels": 0}).network.eval()(case["inputs"]["semantics"].double())


def test_files_of_old_versions_of_torch_hold_the_divided_weight_and_prefixes_do_no_harm(
    reference: dict[str, Any],
) -> None:
    case = reference["oasis_generator_instance_without_noise"]
    old = with_divided_weights(recorded_weights(reference, "oasis_generator_instance_without_noise"))
    old = {f"module.{key}": value for key, value in old.items()}
    assert_close(translated(old, case)[..., ::2, ::2], case["output"])


def test_files_without_counts_and_without_spectral_norm(reference: dict[str, Any]) -> None:
    weights = recorded_weights(reference, "oasis_generator")
    without = {key: value for key, value in weights.items() if not key.endswith("num_batches_tracked")}
    with_zeros = {key: torch.zeros_like(value) if "tracked" in key else value for key, value in weights.items()}
    states = [import_original(state).network.state_dict() for state in (without, with_zeros)]
    torch.testing.assert_close(states[0], states[1], rtol=0, atol=0)

    network = import_original(weights).network.eval()
    plain = {key: value for key, value in without.items() if not key.endswith(("_u", "_v", "_orig"))}
    for key in [key for key in without if key.endswith("weight_orig")]:
        layer = original_to_module(key, network)
        plain[key.removesuffix("_orig")] = layer.weight.detach()
    source = torch.randn(1, 7, 64, 64, dtype=torch.float64)
    assert_close(import_original(plain).network.eval()(source), network(source))


def original_to_module(key: str, network: nn.Module) -> nn.Conv2d:
    ours = {original: ours for ours, original in original_names(network).items()}
    module = network.get_submodule(ours[key].removesuffix(".parametrizations.weight.original"))
    assert isinstance(module, nn.Conv2d)
    return module


def test_biases_before_norms_come_back_as_zeros(reference: dict[str, Any]) -> None:
    weights = recorded_weights(reference, "oasis_generator")
    network = import_original(weights).network
    names = set(original_names(network).values())
    assert weights.keys() - names == {f"body.{number}.conv_0.bias" for number in range(6)}
    assert names <= weights.keys()


def test_weights_that_only_resemble_oasis_are_refused_in_one_line(reference: dict[str, Any]) -> None:
    generator = recorded_weights(reference, "oasis_generator")
    discriminator = recorded_weights(reference, "oasis_discriminator")
    cases = [
        (generator | {"body.6.conv_0.bias": torch.zeros(1)}, "oasis network"),
        (generator | {"head_0.conv_0.bias": torch.zeros(1)}, r"head_0\.conv_0\.bias is unknown"),
        ({key: value for key, value in generator.items() if key != "fc.bias"}, r"stem\.bias"),
        (discriminator, "is unknown"),  # of other widths than OASIS's
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
        network = SegmentationDiscriminator(n_classes=2, **sizes)
        add_spectral_norm(network, outer=outer)
    with pytest.raises(OriginalWeightsError, match=f"OASIS has no such network: {message}"):
        export_original(network.to_empty(device="cpu"), "oasis_discriminator", biases_before_norms=True)
