"""The recorded cases of SPADE: weights of a case, digests, and networks of ours with these weights."""

from typing import Any, cast

import torch
from torch import Tensor, nn

from models.originals.format import original_keys
from models.originals.oasis import unet_names
from models.originals.spade import block_names
from models.originals.weights import FORMATS, import_original
from models.segmentation_discriminator import SegmentationUnet
from models.spade_generator import SpadeBlock
from models.spectral_norm import SpectralIteration, add_spectral_norm, spectral_norms
from tools.export.original_weights import scheme_of

Weights = dict[str, Tensor]
_N_UPSAMPLINGS = {"normal": 5, "more": 6, "most": 7}


def weights_of(reference: dict[str, Any], name: str) -> Weights:
    """The weights of a case in float64, with those of the cases that it builds on."""
    case = reference[name]
    below = weights_of(reference, case["state_dict_of"]) if "state_dict_of" in case else {}
    return below | as_double(case.get("state_dict", {}))


def as_double(weights: Weights) -> Weights:
    return {key: value.double() if value.is_floating_point() else value.clone() for key, value in weights.items()}


def with_divided_weights(weights: Weights) -> Weights:
    """The weights as files of old versions of torch hold those with spectral norm: divided, without the vector v."""
    old = dict(weights)
    for key in [key for key in old if key.endswith(".weight_v")]:
        layer = key.removesuffix("_v")
        matrix = old[f"{layer}_orig"].flatten(1)
        old[layer] = old[f"{layer}_orig"] / (old[f"{layer}_u"] @ matrix @ old.pop(key))
    return old


def network_of(weights: Weights, config: dict[str, Any]) -> nn.Module:
    """The network of ours with the weights of a generator or discriminator."""
    name = config.get("num_upsampling_layers")
    return import_original(weights, {"n_upsamplings": _N_UPSAMPLINGS[name]} if name else {}).network


def with_iteration(network: nn.Module, iteration: SpectralIteration) -> nn.Module:
    for norm in spectral_norms(network):
        norm._iteration = iteration
    return network


def block_of(case: dict[str, Any]) -> SpadeBlock:
    config = case["config"]
    block = SpadeBlock(
        config["fin"],
        config["fout"],
        config["semantic_nc"],
        hidden_channels=config["spade_hidden"],
        norm="batch" if "batch" in config["norm_G"] else "instance",
    ).double()
    add_spectral_norm(block, iteration="v_first")
    weights = as_double(case["state_dict"])
    bias = weights["conv_0.bias"]
    state = {ours: weights[original] for ours, original in original_names(block).items()}
    if "norm2.norm.running_mean" in state:
        state["norm2.norm.running_mean"] -= bias
    block.load_state_dict(state)
    return block


def original_names(network: nn.Module) -> dict[str, str]:
    """The original's names of the tensors of a network, or of a part of one, by ours."""
    match network:
        case SpadeBlock():
            return original_keys(network, block_names())
        case SegmentationUnet():
            return original_keys(network, unet_names(network))
    return original_keys(network, FORMATS[scheme_of(network)].names(network))


def by_original_names(network: nn.Module, tensors: Weights) -> Weights:
    """Tensors of a network by the names that the original has for them."""
    names = original_names(network)
    return {names[key]: value for key, value in tensors.items()}


def probe(tensor: Tensor) -> Tensor:
    return torch.arange(tensor.numel(), dtype=torch.float64).cos().view(tensor.shape)


def scalar(outputs: list[Tensor]) -> Tensor:
    return torch.stack([(output * probe(output)).sum() for output in outputs]).sum()


def digest(tensor: Tensor) -> Tensor:
    tensor = tensor.detach()
    return torch.stack([tensor.sum(), (tensor * probe(tensor)).sum(), tensor.norm()])


def assert_close(actual: Tensor, expected: Tensor, tolerance: float = 1e-12) -> None:
    scale = max(expected.abs().max().item(), 1e-30)
    assert (actual - expected).abs().max().item() <= tolerance * scale


def assert_digests(actual: Weights, expected: dict[str, Any], tolerance: float) -> None:
    """Compare the digests of tensors by the original's names; those that only the original has are left out."""
    values = dict(zip(expected["names"], expected["values"], strict=True))
    assert actual.keys() <= values.keys()
    assert all(name.endswith(("conv_0.bias", "num_batches_tracked")) for name in values.keys() - actual.keys())
    largest = expected["values"].abs().max().item()
    for name, value in actual.items():
        assert (digest(value.double()) - values[name]).abs().max().item() <= tolerance * largest, name


def assert_gradients(gradients: Weights, expected: dict[str, Any]) -> None:
    """Compare gradients by the original's names, within 1e-10 of the largest."""
    assert_digests(gradients, expected["gradient_digests"], 1e-10)
    largest = max(value.abs().max().item() for value in gradients.values())
    for name, gradient in expected["gradients"].items() if "gradients" in expected else ():
        assert (gradients[name] - gradient).abs().max().item() <= 1e-10 * largest, name


def gradients_of(network: nn.Module) -> Weights:
    return {name: cast(Tensor, weight.grad) for name, weight in network.named_parameters()}
