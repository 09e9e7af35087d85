"""SPADE's style encoder, its generator with a style and their losses compute the recorded values."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from losses.distances import kl_divergence
from losses.loss_inputs import LossInputs
from models.latent_inputs import StyleStem
from models.originals.format import OriginalWeightsError
from models.originals.weights import export_original, import_original
from models.style_encoder import StyleDistribution, StyleEncoder
from tests.models.originals.spade_cases import (
    as_double,
    assert_close,
    assert_gradients,
    by_original_names,
    gradients_of,
    network_of,
    scalar,
)

FULL_SIZE = json.loads((Path(__file__).parents[2] / "reference" / "spade_state_dict_keys.json").read_text())


@pytest.mark.parametrize("mode", ["eval", "train"])
def test_encoder(reference: dict[str, Any], mode: str) -> None:
    case = reference["spade_encoder"]
    network = import_original(as_double(case["state_dict"])).network.train(mode == "train")
    image = case["inputs"]["image"].double().requires_grad_()
    outputs = network(image)
    recorded = case[mode]
    for output, expected in zip(outputs, case["output"] if mode == "eval" else recorded["output"], strict=True):
        assert_close(output, expected)
    value = scalar(list(outputs))
    assert_close(value, recorded["scalar"])
    value.backward()
    assert_gradients(by_original_names(network, gradients_of(network)), recorded)
    assert image.grad is not None
    assert_close(image.grad, recorded["input_gradients"]["image"], 1e-10)
    state = by_original_names(network, network.state_dict())
    for key, expected in recorded.get("state_after", {}).items():
        assert_close(state[key], expected)


def test_generator(reference: dict[str, Any]) -> None:
    case = reference["spade_generator_vae"]
    network = network_of(as_double(case["state_dict"]), case["config"]).eval()
    style = case["inputs"]["z"].double().requires_grad_()
    output = network(case["inputs"]["semantics"].double(), style)
    assert_close(output[..., ::2, ::2], case["output"])
    value = scalar([output])
    assert_close(value, case["eval"]["scalar"])
    value.backward()
    assert_gradients(by_original_names(network, gradients_of(network)), case["eval"])
    assert style.grad is not None
    assert_close(style.grad, case["eval"]["input_gradients"]["z"], 1e-10)


def test_losses(reference: dict[str, Any]) -> None:
    case = reference["spade_vae_losses"]
    style = StyleDistribution(*(case["inputs"][name].double().requires_grad_() for name in ("mu", "logvar")))
    assert_close(style.at(case["inputs"]["eps"].double()), case["z"])
    loss = kl_divergence(inputs_with(style))
    assert_close(loss, case["kld"])
    for found, expected in zip(torch.autograd.grad(loss, [*style]), case["gradients"].values(), strict=True):
        assert_close(found, expected)


def inputs_with(style: StyleDistribution) -> LossInputs:
    blank = torch.zeros(1, 3, 2, 2)
    return LossInputs(
        blank,
        blank,
        source=blank,
        discriminate_fake=list,
        discriminate_target=list,
        style=style,
    )


@pytest.fixture
def full_size() -> dict[str, Tensor]:
    """The generator for COCO with a style, without values."""
    shapes = FULL_SIZE["SPADE_G_coco"]["keys"] | FULL_SIZE["SPADE_G_vae_head_only"]["keys"]
    with torch.device("meta"):
        return {
            key: torch.empty(shape, dtype=torch.int64 if "tracked" in key else torch.float32)
            for key, shape in shapes.items()
        }


@pytest.mark.parametrize(("n_pixels", "sides"), [(64, (8, 8)), (32, (4, 8)), (2, (1, 2)), (1, (1, 1)), (12, (3, 4))])
def test_the_sides_of_the_map_are_as_near_as_its_pixels_allow(
    full_size: dict[str, Tensor], n_pixels: int, sides: tuple[int, int]
) -> None:
    with torch.device("meta"):
        fc = {"fc.weight": torch.empty(1024 * n_pixels, 256), "fc.bias": torch.empty(1024 * n_pixels)}
    stem = import_original(full_size | fc).network.get_submodule("stem")
    assert isinstance(stem, StyleStem)
    assert (stem.height, stem.width) == sides


def test_an_encoder_with_another_latent_is_not_of_spade() -> None:
    with pytest.raises(OriginalWeightsError, match=r"no such network: style\.channels other than 256"):
        export_original(StyleEncoder(style_channels=8, base_channels=2), "spade_encoder", biases_before_norms=True)


def test_weights_that_no_encoder_has_are_refused(reference: dict[str, Any]) -> None:
    weights = as_double(reference["spade_encoder"]["state_dict"])
    with pytest.raises(OriginalWeightsError, match=r"resembles the original's spade_encoder network.*layer7"):
        import_original(weights | {"layer7.0.weight_orig": torch.zeros(1)})
