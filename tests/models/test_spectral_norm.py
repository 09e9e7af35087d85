"""Spectral norm in both iteration orders, compared with torch's, and in low precision."""

import copy
import warnings
from collections.abc import Callable
from typing import cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations
from torch.nn.utils import spectral_norm as former_hook

from models.patch_discriminator import MultiscalePatchDiscriminator, PixelDiscriminator
from models.spectral_norm import SpectralIteration, add_spectral_norm, settle_spectral_norm, spectral_norms
from utils.device import Precision

CONVOLUTIONS: list[Callable[[], nn.Module]] = [
    lambda: nn.Conv2d(3, 4, 3, padding=1),
    lambda: nn.ConvTranspose2d(3, 4, 3, stride=2),
]


VECTORS = "parametrizations.weight.0."


@pytest.mark.parametrize("iteration", ["u_first", "v_first"])
@pytest.mark.parametrize("make", CONVOLUTIONS)
def test_u_first_is_torchs_parametrization_and_v_first_its_former_hook_bit_for_bit(
    make: Callable[[], nn.Module], iteration: SpectralIteration
) -> None:
    torch.manual_seed(0)
    plain = make()
    ours = add_spectral_norm(copy.deepcopy(plain), iteration=iteration)
    names = {"original": "parametrizations.weight.original", "u": VECTORS + "_u", "v": VECTORS + "_v"}
    if iteration == "u_first":
        theirs, their_names = parametrizations.spectral_norm(plain), names
    else:
        with warnings.catch_warnings(action="ignore"):  # deprecated
            theirs = former_hook(plain)
        their_names = {"original": "weight_orig", "u": "weight_u", "v": "weight_v"}
    for key in ("u", "v"):
        ours.get_buffer(names[key]).copy_(theirs.get_buffer(their_names[key]))
    x = torch.randn(2, 3, 5, 6)
    for is_training in (True, True, False, True):
        results = [network.train(is_training)(x) for network in (ours, theirs)]
        assert torch.equal(*results)
        for network, result in zip((ours, theirs), results, strict=True):
            network.zero_grad()
            result.square().sum().backward()
        weights = ours.get_parameter(names["original"]), theirs.get_parameter(their_names["original"])
        assert torch.equal(*(cast(Tensor, weight.grad) for weight in weights))
        for key in ("u", "v"):
            assert torch.equal(ours.get_buffer(names[key]), theirs.get_buffer(their_names[key])), key


@pytest.mark.parametrize("outer", [True, False])
def test_inner_spares_the_first_and_the_last_convolution(outer: bool) -> None:
    network = add_spectral_norm(MultiscalePatchDiscriminator(source_channels=2, base_channels=2), outer=outer)
    plain = {name for name, part in network.named_modules() if isinstance(part, nn.Conv2d) and not spectral_norms(part)}
    ends = {f"scales.{scale}.{name}" for scale in range(2) for name in ("layers.0.0", "head")}
    assert plain == (set() if outer else ends)
    pixel = add_spectral_norm(PixelDiscriminator(source_channels=2, base_channels=2), outer=outer)
    assert len(spectral_norms(pixel)) == (3 if outer else 1)


@pytest.mark.parametrize("level", ["O1", "O2", "O3"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_iteration_is_in_float32_at_every_level(level: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    network = add_spectral_norm(nn.Conv2d(8, 8, 3))
    precision = Precision("cpu", dtype, level)  # type: ignore[arg-type]
    low = precision.compute_copy(network)
    exact = copy.deepcopy(low).float()
    with precision.autocast(), torch.no_grad():
        low(torch.randn(1, 8, 4, 4))
    exact(torch.randn(1, 8, 4, 4))
    for ours, theirs in zip(low.buffers(), exact.buffers(), strict=True):
        assert ours.dtype == torch.float32
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("iteration", ["u_first", "v_first"])
def test_vectors_settle_on_another_weight(iteration: str) -> None:
    torch.manual_seed(0)
    network = add_spectral_norm(nn.Conv2d(64, 64, 3), iteration=iteration)  # type: ignore[arg-type]
    original = network.get_parameter("parametrizations.weight.original")
    original.data += 0.02 * torch.randn_like(original)  # half of its own deviation
    settle_spectral_norm(network)
    assert sigma_of(network.eval()) == pytest.approx(1, abs=0.01)
    before = [buffer.clone() for buffer in network.buffers()]
    for _ in range(10):
        settle_spectral_norm(network)
    assert sigma_of(network) == pytest.approx(1, abs=1e-3)
    assert not any(torch.equal(*pair) for pair in zip(before, network.buffers(), strict=True))


def sigma_of(convolution: nn.Module) -> float:
    return torch.linalg.matrix_norm(cast(Tensor, convolution.weight).flatten(1), 2).item()
