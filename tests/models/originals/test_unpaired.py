"""CycleGAN's and CUT's networks with the recorded weights compute the recorded outputs and gradients, float64."""

import re
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from losses.distances import patch_nce
from models.blocks import make_up
from models.global_generator import GlobalGenerator
from models.initialization import Init, initialize
from models.layers import AntialiasedDownsampling
from models.originals.weights import export_original, import_original
from models.patch_discriminator import MultiscalePatchDiscriminator
from models.patch_projection import PatchProjection
from tests.models.originals.cases import assert_close, by_original_names, digest, scalar, weights_of

GENERATORS = ["cyclegan_generator", "cut_generator", "cut_generator_no_antialias", "cut_generator_mixed"]
TAPPED = GENERATORS[1:]
_BIASES_AT_TAPS = ("model.1.bias", "model.4.bias", "model.8.bias")


def network_of(reference: dict[str, Any], name: str) -> nn.Module:
    chosen = {"biased_downs": name.startswith("cut")}  # the file without antialiasing does not show it
    return import_original(weights_of(reference, name), chosen).network.train()


def output_of(network: nn.Module, images: Tensor) -> Tensor:
    output: Any = network(images, images) if isinstance(network, MultiscalePatchDiscriminator) else network(images)
    return output if isinstance(output, Tensor) else output[0].logits


def assert_gradients(network: nn.Module, leaf: Tensor, outputs: list[Tensor], recorded: dict[str, Any]) -> None:
    """Compare the gradients of the outputs. Biases that norms cancel have gradients of 0 in the original too."""
    value = scalar(outputs)
    assert_close(value, recorded["scalar"])
    value.backward()
    assert_close(cast(Tensor, leaf.grad), recorded["input_gradients"], 1e-10)
    gradients = {
        name: torch.zeros_like(weight) if weight.grad is None else weight.grad
        for name, weight in network.named_parameters()
    }
    ours = by_original_names(network, gradients)
    expected = dict(zip(recorded["gradient_digests"]["names"], recorded["gradient_digests"]["values"], strict=True))
    assert ours.keys() <= expected.keys()
    largest = recorded["gradient_digests"]["values"].abs().max().item()
    for name, value in expected.items():
        actual = digest(ours[name]) if name in ours else torch.zeros(3, dtype=torch.float64)
        assert (actual - value).abs().max().item() <= 1e-10 * largest, name


@pytest.mark.parametrize("name", [*GENERATORS, "cyclegan_discriminator", "cut_discriminator"])
def test_outputs_and_gradients(reference: dict[str, Any], name: str) -> None:
    case, network = reference[name], network_of(reference, name)
    images = case["inputs"].double().requires_grad_()
    output = output_of(network, images)
    assert_close(output, case["output"])
    assert_gradients(network, images, [output], case["train"])
    if odd := case.get("odd"):  # sides that are no multiples of 4
        assert_close(output_of(network, odd["inputs"].double()), odd["output"])


def tapped_layers(generator: GlobalGenerator, numbers: list[int]) -> list[str]:
    """The layers of these numbers in the original's Sequential; for a norm the ReLU, which works in place there."""
    names = [name for name, _ in generator.named_modules() if re.fullmatch(r"(stem|downs\.\d|blocks)\.\d", name)]
    norms = [isinstance(generator.get_submodule(name), nn.InstanceNorm2d) for name in names]
    return [names[number + norms[number]] for number in numbers]


@pytest.mark.parametrize("name", TAPPED)
def test_features_and_their_gradients(reference: dict[str, Any], name: str) -> None:
    case, generator = reference[name], network_of(reference, name)
    assert isinstance(generator, GlobalGenerator)
    taps, images = tapped_layers(generator, case["taps"]), case["inputs"].double().requires_grad_()
    if name == "cut_generator":
        assert taps == ["stem.0", "downs.0.0", "downs.1.0", "blocks.0", "blocks.4"]
    features = generator.features(images, taps)
    for feature, expected in zip(features, case["features"], strict=True):
        assert_close(feature, expected)
    assert_gradients(generator, images, features, case["taps_train"])
    output, in_passing = generator.translate_with_features(images, taps)
    assert_close(output, case["output"])
    torch.testing.assert_close(in_passing, features, rtol=0, atol=0)
    aliased = case["aliased_taps"]
    found = generator.features(images, tapped_layers(generator, aliased["taps"]))
    largest = aliased["digests"].abs().max()
    for feature, expected in zip(found, aliased["digests"], strict=True):
        assert (digest(feature) - expected).abs().max() <= 1e-12 * largest


@pytest.mark.parametrize(
    ("name", "layer"),
    [("cut_downsample", AntialiasedDownsampling()), ("cut_upsample", make_up(3, 3, "instance", "antialiased")[0])],  # type: ignore[index]
)
def test_antialiased_layers_for_any_sides(reference: dict[str, Any], name: str, layer: nn.Module) -> None:
    for case in reference[name]["cases"]:
        images = case["inputs"].double().requires_grad_()
        output = layer(images)
        assert_close(output, case["output"])
        scalar([output]).backward()
        assert_close(cast(Tensor, images.grad), case["input_gradients"], 1e-10)


@pytest.mark.parametrize(("name", "n_filters"), [("cut_generator", 4), ("cut_discriminator", 3)])
def test_the_filters_of_antialiased_layers_are_written(reference: dict[str, Any], name: str, n_filters: int) -> None:
    network, weights = network_of(reference, name), reference[name]["state_dict"]
    scheme = "cut" if name == "cut_generator" else "cut_discriminator"
    written = export_original(network, scheme, biases_before_norms=True)
    filters = {key: value for key, value in weights.items() if key.endswith(".filt")}
    assert len(filters) == n_filters
    torch.testing.assert_close({key: written[key] for key in filters}, filters, rtol=1e-7, atol=0)
    kept = {key: value.double() for key, value in weights.items() if key in _BIASES_AT_TAPS}
    torch.testing.assert_close({key: written[key].double() for key in kept}, kept, rtol=0, atol=0)


def test_projection(reference: dict[str, Any]) -> None:
    case, network = reference["patch_sample"], network_of(reference, "patch_sample")
    features, recorded = [feature.double().requires_grad_() for feature in case["inputs"]], case["results"]["mlp"]
    vectors = network(features, case["ids"])
    for vector, expected in zip(vectors, recorded["outputs"], strict=True):
        assert_close(vector, expected)
    scalar(vectors).backward()
    for feature, expected in zip(features, recorded["input_gradients"], strict=True):
        assert_close(cast(Tensor, feature.grad), expected, 1e-10)
    gradients = by_original_names(network, {name: cast(Tensor, p.grad) for name, p in network.named_parameters()})
    digests = recorded["gradient_digests"]
    assert list(gradients) == digests["names"]
    for value, expected in zip(gradients.values(), digests["values"], strict=True):
        assert (digest(value) - expected).abs().max() <= 1e-10 * digests["values"].abs().max()


@pytest.mark.parametrize("number", range(4))
def test_patch_nce(reference: dict[str, Any], number: int) -> None:
    case = reference["patch_nce"]
    recorded, queries = case["results"][number], case["inputs"]["q"].double().requires_grad_()
    keys = case["inputs"]["k"].double().requires_grad_()
    n_groups = 1 if recorded["all_negatives"] else case["config"]["batch_size"]
    loss = patch_nce(queries, keys, n_groups=n_groups, temperature=recorded["T"])
    assert_close(loss, recorded["mean"])
    loss.backward()
    assert_close(cast(Tensor, queries.grad), recorded["gradient_q_of_mean"], 1e-10)
    assert keys.grad is None


def full_size(name: str) -> nn.Module:
    if name == "F":
        return PatchProjection([3, 128, 256, 256, 256])
    if name == "D":
        return MultiscalePatchDiscriminator(source_channels=0, n_scales=1, padding=1, downsample="antialiased")
    layers: dict[str, Any] = {} if name == "cyclegan_G" else {"downsample": "antialiased", "upsample": "antialiased"}
    return GlobalGenerator(in_channels=3, n_downsamplings=2, **layers, biased_downs=name == "G")


@pytest.mark.parametrize(
    ("name", "init"), [("G", "xavier"), ("D", "xavier"), ("F", "xavier"), ("cyclegan_G", "normal")]
)
def test_initial_weights(reference: dict[str, Any], name: str, init: Init) -> None:
    """The deviations of the original's formula; 5 standard errors of the drawn weights are allowed."""
    torch.manual_seed(0)
    network, recorded = full_size(name), reference["cut_xavier_statistics"]["statistics"][name]
    initialize(network, init, 0.02, zero_biases=True)
    assert not any(bias.any() for key, bias in network.named_parameters() if key.endswith("bias"))
    weights = by_original_names(network, dict(network.named_parameters()))
    for key, (deviation, _, _, n_elements) in zip(recorded["names"], recorded["values"].tolist(), strict=True):
        assert weights[key].numel() == n_elements
        assert weights[key].std().item() == pytest.approx(deviation, rel=5 / (2 * n_elements) ** 0.5), key
