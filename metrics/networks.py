"""LPIPS, FID and KID, computed by torchmetrics.

The networks are not part of torchmetrics' public interface. If a network is missing, only its metrics fail.
"""

import io
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from metrics.image_metrics import extended
from metrics.metric import SetScore
from utils.errors import ConfigError
from utils.pretrained import PretrainedFile, WeightsError

ALEXNET = PretrainedFile(
    url="https://download.pytorch.org/models/alexnet-owt-7be5be79.pth",
    what="lpips of metrics.extra needs AlexNet's weights",
    megabytes=233,
    alternative="use perceptual_distance instead of lpips",
)
# the weights of the original FID, converted from TensorFlow by torch-fidelity
INCEPTION = PretrainedFile(
    url="https://github.com/toshas/torch-fidelity/releases/download/v0.2.0/weights-inception-2015-12-05-6726825d.pth",
    what="fid and kid of metrics.extra need InceptionV3's weights",
    megabytes=91,
    alternative="set metrics.features=efficientnet_lite2",
    package="torch-fidelity>=0.4",
)
MIN_SIDE = 32  # pixels, which AlexNet's last layer reduces to one
N_FEATURES = 2048
KID_SUBSETS, KID_SUBSET_SIZE = 100, 1000
KID_PROTOCOL = f"polynomial kernel of degree 3, {KID_SUBSETS} subsets of up to {KID_SUBSET_SIZE} images"


class Lpips:
    """LPIPS 0.1 with AlexNet, a perceptual distance of two images (Zhang et al. 2018).

    torchmetrics includes the weights of the linear layers.

    Raises:
        WeightsError: AlexNet's weights cannot be read or downloaded.
        ConfigError: The installed torchmetrics has no LPIPS.
    """

    def __init__(self, device: torch.device) -> None:
        try:
            from torchmetrics.functional.image.lpips import _LPIPS

            network = _LPIPS(net="alex", pnet_rand=True)  # random weights, replaced below
            trunk = network.net.state_dict()
        except (ImportError, AttributeError, TypeError) as error:
            raise ConfigError(_missing("lpips", error)) from error
        trunk = {f"features.{key.partition('.')[2]}": value for key, value in trunk.items()}  # was slice2.3.weight
        weights = ALEXNET.load()
        weights.require({name: value.shape for name, value in trunk.items()})
        for name, value in trunk.items():
            value.copy_(weights.tensors[name])
        self._network, self._device = network.to(device), device
        self.protocol: dict[str, Any] = {"network": "AlexNet, linear layers of version 0.1", **weights.facts}

    @torch.inference_mode()
    def __call__(self, fake: Tensor, target: Tensor) -> float:
        """Return the distance of two (3, H, W) uint8 images, at least 0. Sides below 32 pixels are padded."""
        images = (extended(image[None].to(self._device).float() / 127.5 - 1, MIN_SIDE) for image in (fake, target))
        return float(self._network(*images))


class Inception:
    """InceptionV3 as in the definition of FID (Heusel et al. 2017), with TensorFlow's weights and resizing.

    Raises:
        ConfigError: The package torch-fidelity is missing, or the installed torchmetrics has no InceptionV3.
        WeightsError: The weights cannot be read or downloaded.
    """

    def __init__(self, device: torch.device) -> None:
        INCEPTION.require_package()
        try:
            from torchmetrics.image.fid import NoTrainInceptionV3  # takes half a second
        except ImportError as error:
            raise ConfigError(_missing("fid or kid", error)) from error
        weights = INCEPTION.load()
        found: Mapping[str, object] = weights.tensors
        floats = {key: value for key, value in found.items() if isinstance(value, Tensor) and value.is_floating_point()}
        weights.require({key: item.shape for key, item in floats.items()})
        # torch-fidelity unpickles files without checks; give it a copy of the weights that were loaded safely
        safe: Any = io.BytesIO()
        torch.save(dict(weights.tensors), safe)
        safe.seek(0)
        try:
            network = NoTrainInceptionV3("inception-v3-compat", [str(N_FEATURES)], safe, antialias=False)
        except (RuntimeError, TypeError, AttributeError) as error:
            raise WeightsError(f"{weights.path}: holds no InceptionV3 of torch-fidelity; {weights.remedy}") from error
        self._network, self._device = network.to(device), device
        self.protocol: dict[str, Any] = {
            "network": "InceptionV3 of TensorFlow, 2048 features",
            "resizing": "bilinear to 299x299, without antialiasing, as in TensorFlow 1",
            **weights.facts,
        }

    @torch.inference_mode()
    def __call__(self, image: Tensor, number: int = 0) -> Tensor:
        """Return the features of a (3, H, W) uint8 image, (2048,) float32 on the CPU."""
        return self._network(image[None].to(self._device))[0].cpu()


class _Identity(nn.Module):
    """Identity network for torchmetrics, which then accepts features instead of images."""

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.num_features = n_features  # torchmetrics reads this attribute

    def forward(self, features: Tensor) -> Tensor:
        return features


def frechet_distance(fakes: Sequence[Tensor], targets: Sequence[Tensor]) -> SetScore:
    """Return FID, the Frechet distance of Gaussians fitted to two sets of at least 2 (D,) features each."""
    from torchmetrics.image.fid import FrechetInceptionDistance  # takes half a second

    metric = FrechetInceptionDistance(feature=_Identity(len(fakes[0])), sync_on_compute=False)
    metric.update(torch.stack([*targets]), real=True)
    metric.update(torch.stack([*fakes]), real=False)
    return SetScore(max(0.0, float(metric.compute())))  # rounding can make it negative for equal sets


def kernel_distance(fakes: Sequence[Tensor], targets: Sequence[Tensor]) -> SetScore:
    """Return KID, the kernel distance of two sets of at least 2 (D,) features each (Binkowski et al. 2018).

    Value and deviation come from 100 random subsets of up to 1000 images. Each call draws the same subsets.
    """
    from torchmetrics.image.kid import KernelInceptionDistance

    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)  # torch.manual_seed seeds the GPUs too
        warnings.simplefilter("ignore", UserWarning)  # hides the warning that all features are stored
        size, network = min(KID_SUBSET_SIZE, len(fakes), len(targets)), _Identity(len(fakes[0]))
        metric = KernelInceptionDistance(network, subsets=KID_SUBSETS, subset_size=size, sync_on_compute=False)
        metric.update(torch.stack([*targets]), real=True)
        metric.update(torch.stack([*fakes]), real=False)
        mean, deviation = metric.compute()
    return SetScore(float(mean), float(deviation))


def _missing(names: str, error: Exception) -> str:
    remedy = 'Run pip install "torchmetrics>=1.9,<2".'
    return f"metrics.extra: the installed torchmetrics cannot compute {names} ({error}). {remedy}"
