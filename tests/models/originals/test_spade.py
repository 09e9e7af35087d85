"""SPADE's layers and networks with the recorded weights compute the recorded outputs, gradients and buffers."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from losses.adversarial import AdversarialLoss
from losses.distances import match_features
from models.originals.weights import import_original
from models.patch_discriminator import DiscriminatorOutput
from models.spade_generator import SpadeGenerator, SpadeLayer
from tests.models.originals.spade_cases import (
    as_double,
    assert_close,
    assert_gradients,
    block_of,
    by_original_names,
    gradients_of,
    network_of,
    scalar,
    weights_of,
    with_divided_weights,
)

FULL_SIZE = json.loads((Path(__file__).parents[2] / "reference" / "spade_state_dict_keys.json").read_text())
GENERATORS = ["instance", "batch", "syncbatch", "more", "most"]


def resized(condition: Tensor, x: Tensor) -> Tensor:
    return F.interpolate(condition.double(), size=x.shape[2:], mode="nearest")


def test_layer(reference: dict[str, Any]) -> None:
    case = reference["spade_layer_5x5"]
    config = case["config"]
    layer = SpadeLayer(
        config["channels"],
        config["semantic_nc"],
        hidden_channels=config["spade_hidden"],
        norm="instance",
        kernel_size=5,
    ).double()
    weights, names = case["state_dict"], {"shared.0": "mlp_shared.0", "scale": "mlp_gamma", "shift": "mlp_beta"}
    keys = {f"{ours}.{tensor}": f"{names[ours]}.{tensor}" for ours in names for tensor in ("weight", "bias")}
    layer.load_state_dict({ours: weights[original] for ours, original in keys.items()})
    x, condition = (case["inputs"][name].double().requires_grad_() for name in ("x", "semantics"))
    output = layer(x, resized(condition, x))
    assert_close(output, case["output"])
    value = scalar([output])
    assert_close(value, case["eval"]["scalar"])
    value.backward()
    assert_gradients({keys[name]: gradient for name, gradient in gradients_of(layer).items()}, case["eval"])
    for name, tensor in (("x", x), ("semantics", condition)):
        assert tensor.grad is not None
        assert_close(tensor.grad, case["eval"]["input_gradients"][name], 1e-10)


@pytest.mark.parametrize("name", ["identity", "learned", "learned_batch"])
@pytest.mark.parametrize("mode", ["eval", "train"])
def test_blocks(reference: dict[str, Any], name: str, mode: str) -> None:
    case = reference[f"spade_resblock_{name}"]
    block = block_of(case).train(mode == "train")
    x = case["inputs"]["x"].double().requires_grad_()
    output = block(x, resized(case["inputs"]["semantics"], x))
    recorded = case[mode]
    assert_close(output, case["output"] if mode == "eval" else recorded["output"])
    value = scalar([output])
    assert_close(value, recorded["scalar"])
    value.backward()
    assert_gradients(by_original_names(block, gradients_of(block)), recorded)
    assert x.grad is not None
    assert_close(x.grad, recorded["input_gradients"]["x"], 1e-10)
    if mode == "train":
        assert_state(block, recorded["state_after"], case["state_dict"])


def assert_state(network: nn.Module, expected: dict[str, Tensor], weights: dict[str, Tensor]) -> None:
    """Compare the buffers that a pass has changed; the original's running mean contains conv_0's bias."""
    state = by_original_names(network, network.state_dict())
    for key, value in expected.items():
        ours = state[key]
        if key.endswith("norm_1.param_free_norm.running_mean"):
            ours = ours + weights[key.replace("norm_1.param_free_norm.running_mean", "conv_0.bias")]
        assert_close(ours, value, 1e-12)


@pytest.mark.parametrize("name", GENERATORS)
def test_generators(reference: dict[str, Any], name: str) -> None:
    case = reference[f"spade_generator_{name}"]
    weights = weights_of(reference, f"spade_generator_{name}")
    case = reference["spade_generator_batch"] if name == "syncbatch" else case
    step = {"more": 4, "most": 4, "batch": 2, "syncbatch": 2}.get(name, 1)
    network = network_of(weights, case["config"])
    for mode in [mode for mode in ("eval", "train") if mode in case]:
        network.train(mode == "train").zero_grad()
        output = network(case["inputs"]["semantics"].double())
        recorded = case[mode]
        if mode == "eval":
            assert_close(output[..., ::step, ::step], case["output"])
        else:
            assert_close(output[..., ::2, ::2], recorded["output"])
        value = scalar([output])
        assert_close(value, recorded["scalar"])
        value.backward()
        assert_gradients(by_original_names(network, gradients_of(network)), recorded)
    if "train" in case:
        assert_state(network, case["train"]["state_after"], weights)


def test_another_size(reference: dict[str, Any]) -> None:
    """The original's sides follow from its options; ours are those of the map, here resized to the original's."""
    case = reference["spade_generator_other_size"]
    network = network_of(weights_of(reference, "spade_generator_other_size"), case["config"]).eval()
    semantics = F.interpolate(case["inputs"]["semantics"].double(), size=(32, 64), mode="nearest")
    assert_close(network(semantics)[..., ::2, ::2], case["output"])


def discriminated(reference: dict[str, Any], network: nn.Module) -> tuple[list[DiscriminatorOutput], list[Tensor]]:
    inputs = reference["spade_discriminator"]["inputs"]
    images = [inputs[name].double().requires_grad_() for name in ("fake", "real")]
    return network(inputs["semantics"].double(), torch.cat(images)), images


@pytest.mark.parametrize("mode", ["eval", "train"])
def test_discriminator(reference: dict[str, Any], mode: str) -> None:
    case = reference["spade_discriminator"]
    network = network_of(as_double(case["state_dict"]), case["config"]).train(mode == "train")
    outputs, images = discriminated(reference, network)
    parts = [scale.chunk(2) for scale in outputs]
    ours = [[[*scale[image].features, scale[image].logits] for scale in parts] for image in range(2)]
    if mode == "eval":
        for of_image, expected_of_image in zip(ours, case["output"], strict=True):
            for activations, expected in zip(of_image, expected_of_image, strict=True):
                for activation, expected_activation in zip(activations, expected, strict=True):
                    assert_close(activation, expected_activation)
    recorded = case[mode]
    value = scalar([layer for of_image in ours for scale in of_image for layer in scale])
    assert_close(value, recorded["scalar"])
    value.backward()
    names = by_original_names(network, gradients_of(network))
    assert_gradients(names, recorded)
    for name, image in zip(("fake", "real"), images, strict=True):
        assert image.grad is not None
        assert_close(image.grad, recorded["input_gradients"][name], 1e-10)
    if mode == "train":
        state = by_original_names(network, network.state_dict())
        for key, expected in recorded["state_after"].items():
            assert_close(state[key], expected)


@pytest.mark.parametrize(
    ("theirs", "ours"), [("hinge", "hinge"), ("ls", "lsgan"), ("original", "vanilla"), ("w", "wgan")]
)
def test_losses(reference: dict[str, Any], theirs: str, ours: Any) -> None:
    case = reference["spade_losses"]
    discriminator = reference["spade_discriminator"]
    network = network_of(as_double(discriminator["state_dict"]), discriminator["config"]).eval()
    with torch.no_grad():
        outputs, _ = discriminated(reference, network)
    fakes, reals = zip(*(scale.chunk(2) for scale in outputs), strict=True)
    loss = AdversarialLoss(ours, "mean")
    recorded = case["adversarial"][theirs]
    fake_logits, real_logits = ([scale.logits for scale in scales] for scales in (fakes, reals))
    assert_close(loss.generator(fake_logits), recorded["generator"])
    assert_close(loss.discriminator(fake_logits, is_real=False), recorded["discriminator_fake"])
    assert_close(loss.discriminator(real_logits, is_real=True), recorded["discriminator_real"])
    fake_features, real_features = ([scale.features for scale in scales] for scales in (fakes, reals))
    assert_close(10 * match_features(fake_features, real_features), case["feature_matching"])


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


def test_upsamplings_follow_from_the_channels_of_cityscapes_alone() -> None:
    for name, expected in (("SPADE_G_ade20k", 5), ("SPADE_G_coco", 5), ("SPADE_G_cityscapes", 6)):
        with torch.device("meta"):
            weights = {key: torch.empty(shape) for key, shape in FULL_SIZE[name]["keys"].items()}
        network = import_original(weights).network
        assert isinstance(network, SpadeGenerator)
        assert network.n_upsamplings == expected


def test_files_of_old_versions_of_torch_hold_the_divided_weight(reference: dict[str, Any]) -> None:
    case = reference["spade_generator_instance"]
    old = with_divided_weights(weights_of(reference, "spade_generator_instance"))
    network = import_original(old).network.eval()
    assert_close(network(case["inputs"]["semantics"].double()), case["output"])
