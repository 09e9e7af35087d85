"""The moving average of a network's weights."""

from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


def make_average(network: nn.Module, decay: float) -> AveragedModel:
    """Return a copy of `network` that `update_parameters` pulls towards it: weights are averaged, statistics copied.

    The vectors of spectral norm are copied too; before the average is used, models.spectral_norm settles them, and
    training.average_statistics estimates the statistics of batch norm.
    Its count of updates stays on the CPU, where asking for it keeps no device waiting.
    """
    average = AveragedModel(network, multi_avg_fn=get_ema_multi_avg_fn(decay))
    average.requires_grad_(False)
    return average
