"""Spectral normalisation (Miyato et al. 2018)."""

from torch import nn
from torch.nn.utils.parametrizations import spectral_norm


def add_spectral_norm(network: nn.Module) -> nn.Module:
    """Divide the weight of every convolution of `network` by its largest singular value, in place; return `network`."""
    for module in list(network.modules()):
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
            spectral_norm(module)
    return network
