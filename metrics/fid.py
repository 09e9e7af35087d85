"""FID and KID: distances of two sets of images, by InceptionV3's activations."""

import importlib.util
import io
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from metrics.metric import SetScore
from metrics.torchmetrics_internals import inception_network
from utils.errors import ConfigError
from utils.pretrained import PretrainedFile, WeightsError

# the weights of the original FID, converted from TensorFlow by torch-fidelity
INCEPTION = PretrainedFile(
    url="https://github.com/toshas/torch-fidelity/releases/download/v0.2.0/weights-inception-2015-12-05-6726825d.pth",
    what="fid and kid of metrics.extra need InceptionV3's weights",
    megabytes=91,
    without="leaving fid and kid out of metrics.extra",
)
N_FEATURES = 2048
KID_SUBSETS, KID_SUBSET_SIZE = 100, 1000
KID_PROTOCOL = f"polynomial kernel of degree 3, {KID_SUBSETS} subsets of up to {KID_SUBSET_SIZE} images"


class Inception:
    """InceptionV3 as FID is defined on it (Heusel et al. 2017): with TensorFlow's weights and resizing."""

    def __init__(self, device: torch.device) -> None:
        """Read the weights from torch's cache.

        Raises:
            ConfigError: the package torch-fidelity is missing, or the installed torchmetrics has no InceptionV3.
            WeightsError: the weights cannot be read or downloaded.
        """
        if importlib.util.find_spec("torch_fidelity") is None:
            raise ConfigError(
                'metrics.extra has fid or kid, which need the package torch-fidelity: pip install "torch-fidelity>=0.4"'
            )
        weights = INCEPTION.load()
        weights.require({key: value.shape for key, value in weights.tensors.items() if _is_real(value)})
        # torch-fidelity unpickles its file of weights without checks: it gets a copy of what was read safely
        safe: Any = io.BytesIO()
        torch.save(dict(weights.tensors), safe)
        safe.seek(0)
        try:
            network = inception_network(safe, N_FEATURES)
        except (RuntimeError, TypeError, AttributeError) as error:
            raise WeightsError(f"{weights.path}: holds no InceptionV3 of torch-fidelity; {weights.remedy}") from error
        self._network = network.to(device)
        self._device = device
        self.protocol: dict[str, Any] = {
            "network": "InceptionV3 of TensorFlow, 2048 features",
            "resizing": "bilinear to 299x299, without antialiasing, as in TensorFlow 1",
            "weights": weights.path.name,
            "weights_sha256": weights.sha256,
        }

    @torch.inference_mode()
    def __call__(self, image: Tensor, number: int = 0) -> Tensor:
        """Return (2048,) float32 features, on the CPU, of a (3, H, W) uint8 image."""
        features: Tensor = self._network(image[None].to(self._device))[0].cpu()
        return features


def _is_real(value: object) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


class _Identity(nn.Module):
    """The network of a torchmetrics metric that is given features instead of images."""

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.num_features = n_features  # torchmetrics reads it

    def forward(self, features: Tensor) -> Tensor:
        return features


def frechet_distance(fakes: Sequence[Tensor], targets: Sequence[Tensor]) -> SetScore:
    """Return FID, the Frechet distance of two sets of at least 2 (D,) features, as Gaussians; lower is better."""
    from torchmetrics.image.fid import FrechetInceptionDistance  # takes half a second

    metric = FrechetInceptionDistance(feature=_Identity(len(fakes[0])), sync_on_compute=False)  # all features are here
    metric.update(torch.stack([*targets]), real=True)
    metric.update(torch.stack([*fakes]), real=False)
    return SetScore(max(0.0, float(metric.compute())))  # rounding makes the distance of equal sets negative


def kernel_distance(fakes: Sequence[Tensor], targets: Sequence[Tensor]) -> SetScore:
    """Return KID, the kernel distance of two sets of at least 2 (D,) features (Binkowski et al. 2018); lower is better.

    The value is the mean over 100 random subsets of up to 1000 images, which are the same in each
    call; the deviation is that of the subsets.
    """
    from torchmetrics.image.kid import KernelInceptionDistance

    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)  # torch.manual_seed seeds the GPUs too
        warnings.simplefilter("ignore", UserWarning)  # that it stores all features, which are in memory already
        size, network = min(KID_SUBSET_SIZE, len(fakes), len(targets)), _Identity(len(fakes[0]))
        metric = KernelInceptionDistance(network, subsets=KID_SUBSETS, subset_size=size, sync_on_compute=False)
        metric.update(torch.stack([*targets]), real=True)
        metric.update(torch.stack([*fakes]), real=False)
        mean, deviation = metric.compute()
    return SetScore(float(mean), float(deviation))
