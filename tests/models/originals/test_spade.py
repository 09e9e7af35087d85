"""Networks of SPADE and OASIS compute what the recorded originals do."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from losses import ADVERSARIAL_LOSSES
from losses.distances import kl_divergence
from losses.objective import LossInputs
from models.latent_inputs import StyleStem
from models.originals.format import OriginalWeightsError
from models.originals.weights import import_original, scheme_of
from models.patch_discriminator import DiscriminatorOutput
from models.segmentation_discriminator import SegmentationDiscriminator
from models.spade_generator import SpadeGenerator
from models.spectral_norm import add_spectral_norm
from models.style_encoder import StyleDistribution, StyleEncoder
from tests.losses.test_objective import logits_of, match_features
from tests.models.originals.cases import (
    FixedNoise,
    Weights,
    assert_close,
    assert_pass,
    block_of,
    empty_weights,
    network_of,
    oasis_generator_of,
    original_names,
    unet_of,
    weights_of,
    with_divided_weights,
)

RECORDED = Path(__file__).parents[2] / "reference"
FULL_SIZE = {
    name: of_network
    for family in ("spade", "oasis")
    for name, of_network in json.loads((RECORDED / f"{family}_state_dict_keys.json").read_text()).items()
}
MODES = pytest.mark.parametrize("mode", ["eval", "train"])


def resized(condition: Tensor, x: Tensor) -> Tensor:
    return F.interpolate(condition.double(), size=x.shape[2:], mode="nearest")


@pytest.mark.parametrize("name", ["identity", "learned", "learned_batch"])
@MODES
def test_blocks(reference: dict[str, Any], name: str, mode: str) -> None:
    case = reference[f"spade_resblock_{name}"]
    block = block_of(case).train(mode == "train")
    x = case["inputs"]["x"].double().requires_grad_()
    assert_pass(block, case, mode, block(x, resized(case["inputs"]["semantics"], x)), case["state_dict"], x=x)


@pytest.mark.parametrize("name", ["instance", "batch", "syncbatch", "more", "most"])
def test_generators(reference: dict[str, Any], name: str) -> None:
    case = reference[f"spade_generator_{'batch' if name == 'syncbatch' else name}"]
    weights = weights_of(reference, f"spade_generator_{name}")
    network = network_of(weights, case["config"])
    for mode in [mode for mode in ("eval", "train") if mode in case]:
        network.train(mode == "train")
        assert_pass(network, case, mode, network(case["inputs"]["semantics"].double()), weights)


def test_another_size(reference: dict[str, Any]) -> None:
    """The original's sides follow from its options; here the label map is resized to them."""
    case = reference["spade_generator_other_size"]
    network = network_of(weights_of(reference, "spade_generator_other_size"), case["config"]).eval()
    semantics = F.interpolate(case["inputs"]["semantics"].double(), size=(32, 64), mode="nearest")
    assert_close(network(semantics)[..., ::2, ::2], case["output"])


def test_a_generator_with_a_style(reference: dict[str, Any]) -> None:
    case, weights = reference["spade_generator_vae"], weights_of(reference, "spade_generator_vae")
    network = network_of(weights, case["config"]).eval()
    z = case["inputs"]["z"].double().requires_grad_()
    assert_pass(network, case, "eval", network(case["inputs"]["semantics"].double(), z), weights, z=z)


@MODES
def test_encoder(reference: dict[str, Any], mode: str) -> None:
    case, weights = reference["spade_encoder"], weights_of(reference, "spade_encoder")
    network = import_original(weights).network.train(mode == "train")
    image = case["inputs"]["image"].double().requires_grad_()
    assert_pass(network, case, mode, network(image), weights, image=image)


def discriminated(
    reference: dict[str, Any], mode: str
) -> tuple[nn.Module, list[list[DiscriminatorOutput]], dict[str, Tensor]]:
    """Return the discriminator, its outputs for the fake and the real image, and these."""
    case = reference["spade_discriminator"]
    network = network_of(weights_of(reference, "spade_discriminator"), case["config"]).train(mode == "train")
    images = {name: case["inputs"][name].double().requires_grad_() for name in ("fake", "real")}
    scales = network(case["inputs"]["semantics"].double(), torch.cat([*images.values()]))
    return network, [list(outputs) for outputs in zip(*(scale.chunk(2) for scale in scales), strict=True)], images


@MODES
def test_discriminator(reference: dict[str, Any], mode: str) -> None:
    network, outputs, images = discriminated(reference, mode)
    assert_pass(network, reference["spade_discriminator"], mode, outputs, {}, **images)


@pytest.mark.parametrize(
    ("theirs", "ours"), [("hinge", "hinge"), ("ls", "lsgan"), ("original", "vanilla"), ("w", "wgan")]
)
def test_losses(reference: dict[str, Any], theirs: str, ours: Any) -> None:
    case, loss = reference["spade_losses"], ADVERSARIAL_LOSSES[ours](over_scales="mean")
    _, outputs, _ = discriminated(reference, "eval")
    fake, real = (logits_of(*(scale.logits for scale in scales)) for scales in outputs)
    recorded = case["adversarial"][theirs]
    assert_close(loss.generator_loss(fake, real), recorded["generator"])
    terms = loss.discriminator_loss(real, fake)
    assert_close(terms["fake"], recorded["discriminator_fake"])
    assert_close(terms["real"], recorded["discriminator_real"])
    assert_close(10 * match_features(*outputs), case["feature_matching"])


def test_the_loss_of_styles(reference: dict[str, Any]) -> None:
    case, blank = reference["spade_vae_losses"], torch.zeros(1, 3, 2, 2)
    style = StyleDistribution(*(case["inputs"][name].double().requires_grad_() for name in ("mu", "logvar")))
    assert_close(style.at(case["inputs"]["eps"].double()), case["z"])
    loss = kl_divergence(LossInputs(blank, blank, blank, discriminate_fake=list, discriminate_target=list, style=style))
    assert_close(loss, case["kld"])
    for found, expected in zip(torch.autograd.grad(loss, [*style]), case["gradients"].values(), strict=True):
        assert_close(found, expected)


@pytest.mark.parametrize(("name", "expected"), [("coco", 5), ("cityscapes", 6)])
def test_upsamplings_follow_from_the_channels_of_cityscapes_alone(name: str, expected: int) -> None:
    network = import_original(empty_weights(FULL_SIZE[f"SPADE_G_{name}"]["keys"])).network
    assert isinstance(network, SpadeGenerator)
    assert network.n_upsamplings == expected


@pytest.mark.parametrize(("n_pixels", "sides"), [(64, (8, 8)), (12, (3, 4))])
def test_the_sides_of_the_map_are_as_near_as_its_pixels_allow(n_pixels: int, sides: tuple[int, int]) -> None:
    shapes = FULL_SIZE["SPADE_G_coco"]["keys"] | FULL_SIZE["SPADE_G_vae_head_only"]["keys"]
    shapes |= {"fc.weight": (1024 * n_pixels, 256), "fc.bias": (1024 * n_pixels,)}
    stem = import_original(empty_weights(shapes)).network.get_submodule("stem")
    assert isinstance(stem, StyleStem)
    assert (stem.height, stem.width) == sides


def test_an_encoder_with_another_latent_is_not_of_spade() -> None:
    with pytest.raises(OriginalWeightsError, match=r"SPADE: style_channels is 256 .* not 8"):
        scheme_of(add_spectral_norm(StyleEncoder(style_channels=8, base_channels=2)))


@pytest.mark.parametrize(("name", "mode"), [("", "eval"), ("", "train"), ("_instance_without_noise", "eval")])
def test_generator(reference: dict[str, Any], name: str, mode: str) -> None:
    case = reference[f"oasis_generator{name}"]
    network = oasis_generator_of(case["state_dict"], case["config"]).train(mode == "train")
    if isinstance(network.noise, FixedNoise):
        network.noise.z = case["inputs"]["z"]
    assert_pass(network, case, mode, network(case["inputs"]["semantics"].double()), case["state_dict"])


@MODES
def test_oasis_discriminator(reference: dict[str, Any], mode: str) -> None:
    case = reference["oasis_discriminator"]
    network = unet_of(case).train(mode == "train")
    assert_pass(network, case, mode, network(case["inputs"]["image"].double()), {})


def generator_with(weights: Weights, **chosen: int) -> SpadeGenerator:
    network = import_original(weights, chosen).network.eval()
    assert isinstance(network, SpadeGenerator)
    return network


def test_the_channels_of_noise_are_the_originals_default_or_chosen(reference: dict[str, Any]) -> None:
    network = generator_with(empty_weights(FULL_SIZE["OASIS_G_coco"]["keys"]))
    assert (network.noise.n_channels, network.stem.in_channels) == (64, 183 + 64)
    weights = reference["oasis_generator"]["state_dict"]  # 4 classes and 3 channels of noise
    assert generator_with(weights).noise.n_channels == 0
    assert generator_with(weights, noise_channels=3).noise.n_channels == 3
    with pytest.raises(OriginalWeightsError, match=r"takes 7 channels .* lower than 7"):
        import_original(weights, {"noise_channels": 7})


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
    for weights, message in (
        (generator | {"head_0.conv_0.bias": torch.zeros(1)}, r"head_0\.conv_0\.bias is unknown"),
        ({key: value for key, value in generator.items() if key != "fc.bias"}, r"stem\.bias"),
    ):
        with pytest.raises(OriginalWeightsError, match=message) as raised:
            import_original(weights)
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("sizes", "outer", "message"),
    [({"base_channels": 32}, False, "base_channels is 64 .* not 32"), ({}, True, r"unet\.head is Conv2d")],
)
def test_discriminators_that_oasis_does_not_have_are_refused(sizes: dict[str, int], outer: bool, message: str) -> None:
    with torch.device("meta"):
        network: nn.Module = SegmentationDiscriminator(n_classes=2, **sizes)
        add_spectral_norm(network, outer=outer)
    with pytest.raises(OriginalWeightsError, match=f"OASIS: {message}"):
        scheme_of(network)
