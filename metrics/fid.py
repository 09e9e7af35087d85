"""FID and KID: how alike two sets of images are, by InceptionV3's activations."""

import importlib.util
import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from utils.errors import ConfigError
from utils.pretrained import PretrainedFile, WeightsError

# the weights of the original FID, converted from TensorFlow by torch-fidelity
INCEPTION = PretrainedFile(
    url="https://github.com/toshas/torch-fidelity/releases/download/v0.2.0/weights-inception-2015-12-05-6726825d.pth",
    what="fid and kid of metrics.extra need InceptionV3's weights",
    megabytes=91,
    setting="metrics.inception_weights",
    without="leaving fid and kid out of metrics.extra",
)
N_FEATURES = 2048
KID_SUBSETS, KID_SUBSET_SIZE = 100, 1000


class Inception:
    """InceptionV3 as FID was defined on it (Heusel et al. 2017): TensorFlow's weights and its way to resize."""

    def __init__(self, weights_path: Path | None, device: torch.device) -> None:
        """Read the weights, from torch's cache where `weights_path` is None.

        Raises:
            ConfigError: the package torch-fidelity is missing.
            WeightsError: the weights cannot be had.
        """
        if importlib.util.find_spec("torch_fidelity") is None:
            raise ConfigError(
                'metrics.extra has fid or kid, which need the package torch-fidelity: pip install "torch-fidelity>=0.4"'
            )
        from torchmetrics.image.fid import NoTrainInceptionV3  # takes half a second, as below

        weights = INCEPTION.load(weights_path)
        weights.require({key: value.shape for key, value in weights.tensors.items() if _is_real(value)})
        # torch-fidelity would unpickle a file of weights without asking what is in it: it gets what was read safely
        safe: Any = io.BytesIO()
        torch.save(dict(weights.tensors), safe)
        safe.seek(0)
        try:
            network = NoTrainInceptionV3("inception-v3-compat", [str(N_FEATURES)], safe, antialias=False)
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
    def __call__(self, image: Tensor) -> Tensor:
        """(2048,) float32 features, on the CPU, of a (3, H, W) uint8 image."""
        features: Tensor = self._network(image[None].to(self._device))[0].cpu()
        return features


def _is_real(value: object) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


class _Given(nn.Module):
    """Takes the place of the network where features are known."""

    num_features = N_FEATURES

    def forward(self, features: Tensor) -> Tensor:
        return features


@contextmanager
def _cpu_draws(seed: int) -> Iterator[None]:
    """Draw by a seed on the CPU within; torch.manual_seed would seed the GPUs too, for good."""
    state = torch.get_rng_state()
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(state)


def fid(fakes: Tensor, targets: Tensor) -> float:
    """The Frechet distance of two sets of (N, 2048) features, N at least 2, as Gaussians; lower is better."""
    from torchmetrics.image.fid import FrechetInceptionDistance

    metric = FrechetInceptionDistance(feature=_Given(), sync_on_compute=False)  # the other processes have none
    metric.update(targets, real=True)
    metric.update(fakes, real=False)
    return max(0.0, float(metric.compute()))  # rounding takes that of equal sets below


def kid(fakes: Tensor, targets: Tensor) -> tuple[float, float]:
    """The kernel distance (Binkowski et al. 2018) of two sets of (N, 2048) features, N at least 2; lower is better.

    Returns mean and standard deviation over 100 draws of up to 1000 of them, the same at each call.
    """
    from torchmetrics.image.kid import KernelInceptionDistance

    with warnings.catch_warnings(), _cpu_draws(seed=0):
        warnings.simplefilter("ignore", UserWarning)  # that it keeps all features, which are here already
        size = min(KID_SUBSET_SIZE, len(fakes))
        metric = KernelInceptionDistance(_Given(), subsets=KID_SUBSETS, subset_size=size, sync_on_compute=False)
        metric.update(targets, real=True)
        metric.update(fakes, real=False)
        mean, deviation = metric.compute()
    return float(mean), float(deviation)
