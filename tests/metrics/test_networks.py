"""LPIPS and the features of FID against their originals, with random weights in the networks; what is refused."""

import hashlib
import inspect
import pickle
from itertools import pairwise
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
import torchmetrics.functional.image.lpips as torchmetrics_lpips
from torch import Tensor
from torch_fidelity.feature_extractor_inceptionv3 import FeatureExtractorInceptionV3
from torchvision.models import alexnet

from metrics.networks import ALEXNET, INCEPTION, N_FEATURES, Inception, Lpips
from tests.images import noise_image
from tests.metrics.networks import save_random_alexnet, save_random_inception
from utils.errors import ConfigError
from utils.pretrained import PretrainedFile, WeightsError

CPU = torch.device("cpu")


def by_the_formula(fake: Tensor, target: Tensor, weights_file: Path) -> float:
    """Equation 1 of Zhang et al. 2018: weighted squared distances of unit-length activations, averaged over pixels."""
    with torch.device("meta"):
        network = alexnet().features.eval()
    saved = torch.load(weights_file, weights_only=True)
    network.load_state_dict({key.removeprefix("features."): value for key, value in saved.items()}, assign=True)
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
def test_lpips_is_the_papers_formula(hub: Path) -> None:
    file = save_random_alexnet(hub)
    lpips = Lpips(CPU)
    one, other = (noise_image(seed, 64, 72) for seed in range(2))
    assert lpips(one, other) == pytest.approx(by_the_formula(one, other, file), rel=1e-3)
    assert lpips(one, one) == 0 < lpips(one, other)
    assert lpips(one[:, :1, :1], other[:, :1, :1]) > 0  # less than the network takes
    assert lpips.protocol["weights"] == file.name
    assert lpips.protocol["weights_sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()


def test_features_are_those_of_the_network_with_the_cached_weights(hub: Path) -> None:
    file = save_random_inception(hub)
    inception = Inception(CPU)
    image = noise_image(0)
    found = inception(image)
    assert found.shape == (N_FEATURES,)
    assert 0.01 < found.std() < 100
    original = FeatureExtractorInceptionV3("inception-v3-compat", ["2048"], str(file))  # it resizes in the same way
    torch.testing.assert_close(found, original(image[None])[0][0], rtol=1e-4, atol=0)
    assert inception.protocol["weights_sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()


def test_damaged_weights_are_refused(hub: Path) -> None:
    file = save_random_inception(hub)
    state = torch.load(file, weights_only=True)
    state["Conv2d_1a_3x3.conv.weight"][0, 0, 0, 0] = torch.nan
    torch.save(state, file)
    with pytest.raises(WeightsError, match=r"825d\.pth: .*Conv2d_1a_3x3\.conv\.weight"):
        Inception(CPU)


@pytest.mark.parametrize(
    ("file", "network", "problem"),
    [
        (ALEXNET, Lpips, r"be79\.pth: holds no features\.0\.weight .*; delete it"),
        (INCEPTION, Inception, r"825d\.pth: holds no InceptionV3.*; delete it"),
    ],
)
def test_a_file_of_another_network_is_refused_with_the_remedy(
    file: PretrainedFile, network: type[Lpips | Inception], problem: str, hub: Path
) -> None:
    torch.save({"features.0.weight": torch.zeros(2)}, hub / file.name)
    with pytest.raises(WeightsError, match=problem):
        network(CPU)


class Malicious:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.marker,)


def test_a_malicious_file_runs_nothing(tmp_path: Path, hub: Path) -> None:
    weights = {"fc.weight": Malicious(tmp_path / "ran")}
    for data in (pickle.dumps(weights), pickle.dumps(weights["fc.weight"])):
        (hub / INCEPTION.name).write_bytes(data)
        with pytest.raises(WeightsError, match=r"825d\.pth: cannot be read as weights"):
            Inception(CPU)
    torch.save(weights, hub / INCEPTION.name)
    with pytest.raises(WeightsError, match=r"825d\.pth: cannot be read as weights"):
        Inception(CPU)
    assert not (tmp_path / "ran").exists()


def test_without_the_package_the_message_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r'metrics.extra.*pip install "torch-fidelity'):
        Inception(CPU)
