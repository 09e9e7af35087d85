"""Initial weights."""

from collections.abc import Collection
from typing import Literal

from torch import nn

Init = Literal["normal", "xavier", "kaiming", "orthogonal"]


def initialize(
    network: nn.Module, init: Init, gain: float, *, unchanged: Collection[nn.Module] = (), zero_biases: bool = False
) -> None:
    """Draw the weights of `network` in place: of convolutions, linear layers and batch norms.

    They come from torch's global generator.

    init: normal: N(0, gain²), in pix2pixHD with gain 0.02. xavier: Glorot & Bengio 2010, normal. kaiming: He et al.
    2015, normal, for ReLU, without gain. orthogonal: Saxe et al. 2013.

    Biases of the others keep torch's initial values, as in pix2pixHD, or are 0. Batch norm has weights from N(1, gain²)
    and biases of 0.

    unchanged: convolutions whose weights keep torch's initial values. zero_biases: whether all biases start at 0.
    """
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d | nn.Linear):
            if zero_biases and module.bias is not None:
                nn.init.zeros_(module.bias)
            if module in unchanged:
                continue
            match init:
                case "normal":
                    nn.init.normal_(module.weight, 0.0, gain)
                case "xavier":
                    nn.init.xavier_normal_(module.weight, gain)
                case "kaiming":
                    nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
                case "orthogonal":
                    nn.init.orthogonal_(module.weight, gain)
        elif isinstance(module, nn.BatchNorm2d) and module.affine:
            nn.init.normal_(module.weight, 1.0, gain)
            nn.init.zeros_(module.bias)
