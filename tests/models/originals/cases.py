"""The recorded cases of SPADE and OASIS: networks of ours with the weights of a case, and what they compute."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from models.originals.format import original_keys, renamed
from models.originals.spade import BLOCK, UNET
from models.originals.weights import FORMATS, import_original, scheme_of
from models.segmentation_discriminator import SegmentationUnet
from models.spade_generator import SpadeBlock, SpadeGenerator
from models.spectral_norm import SpectralIteration, add_spectral_norm, spectral_norms

Weights = dict[str, Tensor]
_N_UPSAMPLINGS = {"normal": 5, "more": 6, "most": 7}


def weights_of(reference: dict[str, Any], name: str) -> Weights:
    """The weights of a case, and of the cases that it extends, in float64."""
    case = reference[name]
    below = weights_of(reference, case["state_dict_of"]) if "state_dict_of" in case else {}
    return below | as_double(case.get("state_dict", {}))


def as_double(weights: Weights) -> Weights:
    return {key: value.double() if value.is_floating_point() else value.clone() for key, value in weights.items()}


def empty_weights(shapes: Mapping[str, Sequence[int]]) -> Weights:
    """Weights on the meta device with the names and shapes of a network of the originals."""
    return {
        key: torch.empty(shape, dtype=torch.int64 if "tracked" in key else torch.float32, device="meta")
        for key, shape in shapes.items()
    }


def with_divided_weights(weights: Weights) -> Weights:
    """The weights as in files of old versions of torch: divided by spectral norm, without the vector v."""
    old = dict(weights)
    for key in [key for key in old if key.endswith(".weight_v")]:
        layer = key.removesuffix("_v")
        matrix = old[f"{layer}_orig"].flatten(1)
        old[layer] = old[f"{layer}_orig"] / (old[f"{layer}_u"] @ matrix @ old.pop(key))
    return old


def network_of(weights: Weights, config: dict[str, Any]) -> nn.Module:
    """The network of ours with the weights of a network of SPADE."""
    name = config.get("num_upsampling_layers")
    return import_original(weights, {"n_upsamplings": _N_UPSAMPLINGS[name]} if name else {}).network


def with_iteration(network: nn.Module, iteration: SpectralIteration) -> nn.Module:
    for norm in spectral_norms(network):
        norm._iteration = iteration  # SPADE's later spectral norm has another order
    return network


def block_of(case: dict[str, Any]) -> SpadeBlock:
    config = case["config"]
    norm = "batch" if "batch" in config["norm_G"] else "instance"
    sizes = config["fin"], config["fout"], config["semantic_nc"]
    block = SpadeBlock(*sizes, hidden_channels=config["spade_hidden"], norm=norm).double()  # type: ignore[arg-type]
    return with_recorded_weights(add_spectral_norm(block, iteration="v_first"), case)


def unet_of(case: dict[str, Any]) -> SegmentationUnet:
    config = case["config"]
    network = SegmentationUnet(config["widths"], config["last_width"], config["semantic_nc"] + 1).double()
    return with_recorded_weights(add_spectral_norm(network, outer=False, iteration="v_first"), case)


def with_recorded_weights(network: Any, case: dict[str, Any]) -> Any:
    weights, names = as_double(case["state_dict"]), original_names(network)
    state = {ours: weights[original] for ours, original in names.items()}
    if "norm2.norm.running_mean" in state:
        state["norm2.norm.running_mean"] -= weights["conv_0.bias"]
    network.load_state_dict(state)
    return network


class FixedNoise(nn.Module):
    """Recorded noise instead of NoiseChannels, (N, n_channels)."""

    def __init__(self) -> None:
        super().__init__()
        self.z = torch.zeros(0)

    def forward(self, condition: Tensor) -> Tensor:
        z = self.z.double()[:, :, None, None].expand(-1, -1, *condition.shape[2:])
        return torch.cat([z, condition], dim=1)


def oasis_generator_of(weights: Weights, config: dict[str, Any]) -> SpadeGenerator:
    """Our generator; with noise, set `network.noise.z`."""
    has_noise = not config["no_3dnoise"]
    network = import_original(as_double(weights), {"noise_channels": config["z_dim"] if has_noise else 0}).network
    assert isinstance(network, SpadeGenerator)
    if has_noise:
        network.noise = FixedNoise()  # type: ignore[assignment]
    return network


def original_names(network: nn.Module) -> dict[str, str]:
    """The original's names of the tensors of a network, or of a part of one, by ours."""
    match network:
        case SpadeBlock():
            names = renamed(BLOCK, network)
        case SegmentationUnet():
            names = renamed(UNET, network)
        case SpadeGenerator():  # smaller than the originals' networks
            names = FORMATS["oasis" if network.n_middle_blocks == 1 else "spade"].names(network)
        case _:
            names = FORMATS[scheme_of(network)].names(network)
    return original_keys(network, names)


def by_original_names(network: nn.Module, tensors: Weights, weights: Weights | None = None) -> Weights:
    """Tensors of a network by the original's names.

    weights: The original's weights, because its running mean contains the bias of the convolution before it.
    """
    names = original_names(network)
    named = {names[key]: value for key, value in tensors.items()}
    for key in named if weights else ():
        if "norm_1." in key and key.endswith("running_mean"):
            assert weights is not None
            named[key] = named[key] + weights[f"{key.partition('norm_1.')[0]}conv_0.bias"]
    return named


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
    """Compare the digests of tensors by the original's names, without tensors that only the original has."""
    values = dict(zip(expected["names"], expected["values"], strict=True))
    assert actual.keys() <= values.keys()
    assert all(name.endswith(("conv_0.bias", "num_batches_tracked")) for name in values.keys() - actual.keys())
    largest = expected["values"].abs().max().item()
    for name, value in actual.items():
        assert (digest(value.double()) - values[name]).abs().max().item() <= tolerance * largest, name


def assert_pass(
    network: nn.Module, case: dict[str, Any], mode: str, outputs: Any, weights: Weights, **leaves: Tensor
) -> None:
    """Compare outputs, or some of their pixels, gradients, and changed buffers of a pass.

    weights: The original's weights. leaves: Inputs by name, to compare their gradients.
    """
    recorded, flat = case[mode], flattened(outputs)
    for output, expected in zip(
        flat, flattened(case["output"] if mode == "eval" else recorded.get("output", flat)), strict=True
    ):
        step = round(output.shape[-1] / expected.shape[-1])
        assert_close(output[..., ::step, ::step] if step > 1 else output, expected)
    value = scalar(flat)
    assert_close(value, recorded["scalar"])
    network.zero_grad()
    value.backward()
    gradients = {name: cast(Tensor, weight.grad) for name, weight in network.named_parameters()}
    gradients = by_original_names(network, gradients)
    assert_digests(gradients, recorded["gradient_digests"], 1e-10)
    largest = max(value.abs().max().item() for value in gradients.values())
    for name, gradient in recorded.get("gradients", {}).items():
        assert (gradients[name] - gradient).abs().max().item() <= 1e-10 * largest, name
    for name, leaf in leaves.items():
        assert_close(cast(Tensor, leaf.grad), recorded["input_gradients"][name], 1e-10)
    state = by_original_names(network, network.state_dict(), weights)
    for key, expected in recorded.get("state_after", {}).items():
        assert_close(state[key], expected)


def flattened(outputs: Any) -> list[Tensor]:
    return [outputs] if isinstance(outputs, Tensor) else [tensor for part in outputs for tensor in flattened(part)]
