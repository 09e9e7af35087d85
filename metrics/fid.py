"""FID and KID: distances of two sets of images in InceptionV3's features."""

import warnings
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from metrics.metric import SetScore

KID_SUBSETS, KID_SUBSET_SIZE = 100, 1000
KID_PROTOCOL = f"polynomial kernel of degree 3, {KID_SUBSETS} subsets of up to {KID_SUBSET_SIZE} images"


class _Identity(nn.Module):
    """The network of a torchmetrics metric that gets features instead of images."""

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

    It is the mean over 100 random subsets of up to 1000 images, which are the same in each call, and their deviation.
    """
    from torchmetrics.image.kid import KernelInceptionDistance

    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)  # torch.manual_seed seeds the GPUs too
        warnings.simplefilter("ignore", UserWarning)  # it warns that it stores all features
        size, network = min(KID_SUBSET_SIZE, len(fakes), len(targets)), _Identity(len(fakes[0]))
        metric = KernelInceptionDistance(network, subsets=KID_SUBSETS, subset_size=size, sync_on_compute=False)
        metric.update(torch.stack([*targets]), real=True)
        metric.update(torch.stack([*fakes]), real=False)
        mean, deviation = metric.compute()
    return SetScore(float(mean), float(deviation))
