"""The distribution of initial weights."""

from typing import Literal

from torch import nn

Init = Literal["normal", "xavier", "kaiming", "orthogonal"]


def initialize(network: nn.Module, init: Init, gain: float) -> None:
    """Draw new weights for every convolution and batch norm of `network`, in place, from torch's global generator.

    normal: N(0, gain), pix2pixHD's choice with gain 0.02; xavier: Glorot & Bengio 2010, normal; kaiming: He et al.
    2015, normal, for ReLU (it has no gain); orthogonal: Saxe et al. 2013. Biases stay as torch draws them, as in
    pix2pixHD. Batch norm's weights are drawn from N(1, gain).
    """
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
            match init:
                case "normal":
                    nn.init.normal_(module.weight, 0.0, gain)
                case "xavier":
                    nn.init.xavier_normal_(module.weight, gain)
                case "kaiming":
                    nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
                case "orthogonal":
                    nn.init.orthogonal_(module.weight, gain)
        elif isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.weight, 1.0, gain)
            nn.init.zeros_(module.bias)
