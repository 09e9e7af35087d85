"""LPIPS against its formula, with random weights in AlexNet's place."""

import hashlib
import inspect
from itertools import pairwise
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
import torchmetrics.functional.image.lpips as torchmetrics_lpips
from torch import Tensor
from torchvision.models import alexnet

from metrics.lpips import ALEXNET, Lpips
from tests.metrics.networks import save_random_alexnet
from utils.pretrained import WeightsError

CPU = torch.device("cpu")


def noise_image(seed: int, side: int = 64) -> Tensor:
    return torch.randint(0, 256, (3, side, side), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


def by_the_formula(fake: Tensor, target: Tensor, weights_file: Path) -> float:
    """Equation 1 of Zhang et al. 2018: weighted squared distances of unit-length activations, averaged over pixels."""
    network = alexnet().features.eval()
    saved = torch.load(weights_file, weights_only=True)
    network.load_state_dict({key.removeprefix("features."): value for key, value in saved.items()})
    folder = Path(inspect.getfile(torchmetrics_lpips)).parent
    linear = torch.load(folder / "lpips_models" / "alex.pth", map_location="cpu", weights_only=True)
    shift = torch.tensor([-0.030, -0.088, -0.188]).view(1, 3, 1, 1)
    scale = torch.tensor([0.458, 0.448, 0.450]).view(1, 3, 1, 1)
    x, y = ((image[None].float() / 127.5 - 1 - shift) / scale for image in (fake, target))
    total = 0.0
    for layer, (start, end) in enumerate(pairwise((0, 2, 5, 8, 10, 12))):  # relu1 .. relu5
        x, y = network[start:end](x), network[start:end](y)
        difference = (F.normalize(x, eps=1e-4) - F.normalize(y, eps=1e-4)).square()
        total += float((difference * linear[f"lin{layer}.model.1.weight"]).sum(1).mean())
    return total


@torch.no_grad()
def test_it_is_the_papers_formula(hub: Path) -> None:
    file = save_random_alexnet(hub)
    lpips = Lpips(CPU)
    found = lpips(noise_image(0), noise_image(1))
    assert found > 0
    assert found == pytest.approx(by_the_formula(noise_image(0), noise_image(1), file), rel=1e-3)
    assert lpips(noise_image(0), noise_image(0)) == 0
    assert lpips.protocol["weights"] == file.name
    assert lpips.protocol["weights_sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()


def test_tiny_images_have_a_distance_too(hub: Path) -> None:
    save_random_alexnet(hub)
    lpips = Lpips(CPU)
    assert lpips(noise_image(0, side=1), noise_image(1, side=1)) > 0


def test_weights_of_another_network_are_refused_with_the_remedy(hub: Path) -> None:
    torch.save({"features.0.weight": torch.zeros(2)}, hub / ALEXNET.name)
    with pytest.raises(WeightsError, match=r"be79\.pth: holds no features\.0\.weight .*; delete it"):
        Lpips(CPU)
