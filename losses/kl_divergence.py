"""The distance of the styles' distributions from the one that prediction draws from."""

from torch import Tensor

from losses.loss_inputs import LossInputs
from utils.precision import at_least_float32


def kl_divergence(translation: LossInputs) -> Tensor:
    """Return the Kullback-Leibler divergence of the styles' distributions from N(0, I), 0-d, at least float32.

    Summed over the samples of a pass and over the channels of the style, as in SPADE, so that it grows with the batch
    (Kingma & Welling 2014, appendix B).
    """
    style = translation.style
    assert style is not None
    mean, log_variance = at_least_float32(style.mean), at_least_float32(style.log_variance)
    return 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum()
