"""Random weights of the networks that metrics need; the figures that they give mean nothing."""

from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch_fidelity import feature_extractor_inceptionv3
from torchvision.models import alexnet

from metrics.networks import ALEXNET, INCEPTION


def save_random_alexnet(folder: Path) -> Path:
    """Write a file as torchvision's alexnet-owt-7be5be79.pth into a folder; return it."""
    torch.save(random_alexnet(), folder / ALEXNET.name)
    return folder / ALEXNET.name


@cache
def random_alexnet() -> dict[str, Tensor]:
    torch.manual_seed(0)
    with pytest.MonkeyPatch.context() as patch:  # only the convolutions are used; the others take half a second
        patch.setattr(torch.nn.Linear, "reset_parameters", lambda _: None)
        return {f"features.{key}": value for key, value in alexnet().features.state_dict().items()}


def save_random_inception(folder: Path) -> Path:
    """Write a file as torch-fidelity's weights-inception-2015-12-05-6726825d.pth into a folder; return it."""
    torch.save(random_inception(), folder / INCEPTION.name)
    return folder / INCEPTION.name


@cache
def random_inception() -> dict[str, Tensor]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feature_extractor_inceptionv3, "load_state_dict_from_url", lambda *_, **__: {})
        patch.setattr(feature_extractor_inceptionv3.FeatureExtractorInceptionV3, "load_state_dict", lambda *_: None)
        torch.manual_seed(0)
        network = feature_extractor_inceptionv3.FeatureExtractorInceptionV3("inception-v3-compat", ["2048"])
    state: dict[str, Tensor] = network.state_dict()
    for key, value in state.items():
        if value.dim() == 4:  # so that activations neither vanish nor grow
            state[key] = torch.randn_like(value) * (2 / value[0].numel()) ** 0.5
    return state
