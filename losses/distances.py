"""Losses that compare translations with targets or sources, patches with patches, and styles with N(0, I)."""

import torch
import torch.nn.functional as F
from torch import Tensor

from losses.objective import LossInputs, PixelWeights
from utils.device import at_least_float32
from utils.efficientnet_lite import normalized_squares
from utils.structural_similarity import scale_terms, scale_weights

_NO_NEGATIVE = -10.0  # similarity that excludes the positive from the negatives, as in CUT


def l1(translation: LossInputs) -> Tensor:
    """Return the mean absolute difference between translations and targets, 0-d (Isola et al. 2017, Eq. 3)."""
    if translation.weights:
        difference = translation.fake.float() - translation.target.float()
        return translation.weights.of_images.mean(difference.abs())
    return F.l1_loss(translation.fake, translation.target)


def fine_chroma(translation: LossInputs) -> Tensor:
    """Return the L1 between the fine chroma of translations and targets, 0-d, in float32 or finer; 0 for one channel.

    Chroma is a pixel minus the mean of its channels. Fine chroma is chroma minus its mean over 5x5 pixels. Photographs
    contain little of it. The other losses accept detail in one colour channel, which is visible as coloured fringes.
    """
    difference = at_least_float32(translation.fake) - at_least_float32(translation.target)
    chroma = difference - difference.mean(dim=1, keepdim=True)
    fine = (chroma - F.avg_pool2d(chroma, 5, stride=1, padding=2, count_include_pad=False)).abs()
    return translation.weights.of_images.mean(fine) if translation.weights else fine.mean()


def outside_mask(translation: LossInputs) -> Tensor:
    """Return the L1 between translations and unpaired sources in the pixels that must not change, 0-d."""
    assert translation.outside is not None, "loss.outside_mask needs label maps of the sources"
    return translation.outside.mean((translation.fake - translation.source).abs())


def ms_ssim(translation: LossInputs) -> Tensor:
    """Return 1 - MS-SSIM of translations and targets, 0-d, float32.

    L1 and MS-SSIM together restore images better than one of them (Zhao et al. 2017). This loss averages the scales.
    MS-SSIM multiplies them, but a factor near 0, as in the first steps, would make the gradient unbounded.
    """
    fake, target = translation.fake, translation.target
    with torch.autocast(fake.device.type, enabled=False):
        terms, _ = scale_terms((at_least_float32(fake) + 1) / 2, (at_least_float32(target) + 1) / 2)
    weights = scale_weights(min(fake.shape[-2:]))
    weighted = [weight / sum(weights) * term for weight, term in zip(weights, terms, strict=True)]
    return 1 - torch.stack(weighted).sum().float()


def kl_divergence(translation: LossInputs) -> Tensor:
    """Return the Kullback-Leibler divergence of the styles' distributions from N(0, I), 0-d, at least float32.

    As in SPADE, the sum over samples and channels grows with the batch size (Kingma & Welling 2014, appendix B).
    """
    assert translation.style is not None
    mean, log_variance = map(at_least_float32, translation.style)
    return 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum()


def feature_matching(translation: LossInputs) -> Tensor:
    """Return the L1 between the discriminator's features of fakes and targets, 0-d, float32 under autocast.

    The sum over L layers is multiplied by 4 / L, and averaged over scales (Wang et al. 2018, Eq. 4; pix2pixHD's code).
    No gradient reaches the features of targets.
    """
    fakes, weights = translation.fake_outputs, translation.weights.of_discriminated if translation.weights else None
    terms = [
        feature_distance(fake_layer, target_layer, weights) * (4.0 / len(fake.features))
        for fake, target in zip(fakes, translation.target_outputs, strict=True)
        for fake_layer, target_layer in zip(fake.features, target.features, strict=True)
    ]
    return torch.stack(terms).sum() / len(fakes)


def patch_nce(queries: Tensor, keys: Tensor, *, n_groups: int, temperature: float = 0.07) -> Tensor:
    """Return the cross entropy of finding each query's key among the keys of its group (Park et al. 2020, equation 3).

    queries: Unit vectors of patches of translations, (R, D), at least float32.
    keys: Unit vectors of the source patches at the same places, (R, D). No gradient reaches them.
    n_groups: Number of images, or 1 to use patches of all images as negatives. The rows of a group are adjacent.
    """
    query, key = (vectors.unflatten(0, (n_groups, -1)) for vectors in (queries, keys.detach()))
    similarities = query @ key.mT  # (groups, rows, rows)
    positives = similarities.diagonal(dim1=1, dim2=2)[..., None]
    is_positive = torch.eye(query.shape[1], dtype=torch.bool, device=query.device)
    logits = torch.cat([positives, similarities.masked_fill(is_positive, _NO_NEGATIVE)], dim=2) / temperature
    return F.cross_entropy(logits.flatten(0, 1), torch.zeros(len(queries), dtype=torch.long, device=query.device))


def feature_distance(ours: Tensor, theirs: Tensor, weights: PixelWeights | None = None) -> Tensor:
    """Return the mean absolute difference of two tensors with equal shape and dtype, 0-d. `theirs` gets no gradient.

    The difference has the dtype of the features. The sum is in float32 or finer. Under autocast, F.l1_loss would spend
    most of its time on copies in float32.

    weights: Weights of the pixels of (N, C, H, W) features.
    """
    assert ours.shape == theirs.shape, (ours.shape, theirs.shape)
    difference = (ours - theirs.detach()).abs()
    if weights:
        return weights.mean(difference)
    return difference.sum(dtype=torch.promote_types(ours.dtype, torch.float32)) / ours.numel()


def normalized_distance(ours: Tensor, theirs: Tensor, weights: PixelWeights | None = None) -> Tensor:
    """Return the mean of `normalized_squares`, 0-d. `theirs` gets no gradient. weights: As in `feature_distance`."""
    squares = normalized_squares(ours, theirs.detach())
    return weights.mean(squares) if weights else squares.mean()
