"""SPADE's layers and networks with the recorded weights compute the recorded outputs, gradients and buffers."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from losses.adversarial import AdversarialLoss
from losses.distances import kl_divergence, match_features
from losses.loss_inputs import LossInputs
from models.latent_inputs import StyleStem
from models.originals.format import OriginalWeightsError
from models.originals.weights import export_original, import_original
from models.patch_discriminator import DiscriminatorOutput
from models.spade_generator import SpadeGenerator
from models.style_encoder import StyleDistribution, StyleEncoder
from tests.models.originals.cases import (
    assert_close,
    assert_pass,
    block_of,
    empty_weights,
    layer_of,
    network_of,
    weights_of,
    with_divided_weights,
)

FULL_SIZE = json.loads((Path(__file__).parents[2] / "reference" / "spade_state_dict_keys.json").read_text())
MODES = pytest.mark.parametrize("mode", ["eval", "train"])


def resized(condition: Tensor, x: Tensor) -> Tensor:
    return F.interpolate(condition.double(), size=x.shape[2:], mode="nearest")


def test_layer(reference: dict[str, Any]) -> None:
    case = reference["spade_layer_5x5"]
    layer = layer_of(case)
    x, semantics = (case["inputs"][name].double().requires_grad_() for name in ("x", "semantics"))
    assert_pass(layer, case, "eval", layer(x, resized(semantics, x)), {}, x=x, semantics=semantics)


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
    """The original's sides follow from its options; ours are those of the map, here resized to the original's."""
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
    case, loss = reference["spade_losses"], AdversarialLoss(ours, "mean")
    _, outputs, _ = discriminated(reference, "eval")
    fake_logits, real_logits = ([scale.logits for scale in scales] for scales in outputs)
    recorded = case["adversarial"][theirs]
    assert_close(loss.generator(fake_logits), recorded["generator"])
    assert_close(loss.discriminator(fake_logits, is_real=False), recorded["discriminator_fake"])
    assert_close(loss.discriminator(real_logits, is_real=True), recorded["discriminator_real"])
    fake_features, real_features = ([scale.features for scale in scales] for scales in outputs)
    assert_close(10 * match_features(fake_features, real_features), case["feature_matching"])


def test_the_loss_of_styles(reference: dict[str, Any]) -> None:
    case, blank = reference["spade_vae_losses"], torch.zeros(1, 3, 2, 2)
    style = StyleDistribution(*(case["inputs"][name].double().requires_grad_() for name in ("mu", "logvar")))
    assert_close(style.at(case["inputs"]["eps"].double()), case["z"])
    loss = kl_divergence(LossInputs(blank, blank, blank, discriminate_fake=list, discriminate_target=list, style=style))
    assert_close(loss, case["kld"])
    for found, expected in zip(torch.autograd.grad(loss, [*style]), case["gradients"].values(), strict=True):
        assert_close(found, expected)


@pytest.mark.parametrize("eps", ["1e-05", "0.5"])
def test_synchronised_batch_norm_of_two_replicas(reference: dict[str, Any], eps: str) -> None:
    """The statistics are those of torch's batch norm of all shards together; only the place of eps is another."""
    case = reference["sync_batch_norm_two_replicas"]
    by_eps = {float(key): value for key, value in case["by_eps"].items()}
    recorded = by_eps[float(eps)]
    shards = [shard.double() for shard in case["inputs"]["shards"]]
    norm = nn.BatchNorm2d(shards[0].shape[1], affine=False, eps=float(eps)).double()
    norm.load_state_dict(recorded["state_before"])
    ours = norm(torch.cat(shards)).split([len(shard) for shard in shards])
    for name in ("running_mean", "running_var"):
        assert_close(norm.state_dict()[name], recorded["state_after"][name])
    variance = torch.cat(shards).var(dim=(0, 2, 3), correction=0)[:, None, None]
    place_of_eps = ((variance + float(eps)) / variance.clamp_min(float(eps))).sqrt()
    for output, expected in zip(ours, recorded["outputs"], strict=True):
        assert_close(output * place_of_eps, expected)


@pytest.mark.parametrize(("name", "expected"), [("ade20k", 5), ("coco", 5), ("cityscapes", 6)])
def test_upsamplings_follow_from_the_channels_of_cityscapes_alone(name: str, expected: int) -> None:
    network = import_original(empty_weights(FULL_SIZE[f"SPADE_G_{name}"]["keys"])).network
    assert isinstance(network, SpadeGenerator)
    assert network.n_upsamplings == expected


def test_files_of_old_versions_of_torch_hold_the_divided_weight(reference: dict[str, Any]) -> None:
    case = reference["spade_generator_instance"]
    old = with_divided_weights(weights_of(reference, "spade_generator_instance"))
    assert_close(import_original(old).network.eval()(case["inputs"]["semantics"].double()), case["output"])


@pytest.mark.parametrize(("n_pixels", "sides"), [(64, (8, 8)), (32, (4, 8)), (2, (1, 2)), (1, (1, 1)), (12, (3, 4))])
def test_the_sides_of_the_map_are_as_near_as_its_pixels_allow(n_pixels: int, sides: tuple[int, int]) -> None:
    shapes = FULL_SIZE["SPADE_G_coco"]["keys"] | FULL_SIZE["SPADE_G_vae_head_only"]["keys"]
    shapes |= {"fc.weight": (1024 * n_pixels, 256), "fc.bias": (1024 * n_pixels,)}
    stem = import_original(empty_weights(shapes)).network.get_submodule("stem")
    assert isinstance(stem, StyleStem)
    assert (stem.height, stem.width) == sides


def test_an_encoder_with_another_latent_is_not_of_spade() -> None:
    with pytest.raises(OriginalWeightsError, match=r"no such network: style\.channels other than 256"):
        export_original(StyleEncoder(style_channels=8, base_channels=2), "spade_encoder", biases_before_norms=True)


def test_weights_that_no_encoder_has_are_refused(reference: dict[str, Any]) -> None:
    weights = weights_of(reference, "spade_encoder")
    with pytest.raises(OriginalWeightsError, match=r"resembles the original's spade_encoder network.*layer7"):
        import_original(weights | {"layer7.0.weight_orig": torch.zeros(1)})
