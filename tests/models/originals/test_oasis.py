"""OASIS's networks with the recorded weights compute the recorded outputs, gradients and buffers, float64."""

from typing import Any

import pytest
from torch import Tensor, nn

from tests.models.originals.oasis_cases import (
    FixedNoise,
    by_original_names,
    discriminator_of,
    generator_of,
    our_discriminator_name,
    our_generator_name,
)
from tests.models.originals.spade_cases import assert_close, assert_gradients, gradients_of, scalar


def assert_pass(network: nn.Module, output: Tensor, case: dict[str, Any], mode: str, our_name: Any) -> None:
    recorded = case[mode]
    assert_close(output[..., ::2, ::2], case["output"] if mode == "eval" else recorded["output"])
    value = scalar([output])
    assert_close(value, recorded["scalar"])
    value.backward()
    originals = list(case["state_dict"])
    assert_gradients(by_original_names(gradients_of(network), originals, our_name), recorded)
    if mode == "eval":
        return
    state = by_original_names(network.state_dict(), originals, our_name)
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
    assert_pass(network, output, case, mode, our_generator_name)


@pytest.mark.parametrize("mode", ["eval", "train"])
def test_discriminator(reference: dict[str, Any], mode: str) -> None:
    case = reference["oasis_discriminator"]
    network = discriminator_of(case["state_dict"], case["config"]).train(mode == "train")
    output = network(case["inputs"]["image"].double())
    assert_pass(network, output, case, mode, our_discriminator_name)
