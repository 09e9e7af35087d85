"""OASIS's losses: the discriminator segments real and translated images (Schönfeld et al. 2021, section 3.1)."""

import torch
from torch import Tensor

from losses.adversarial import AdversarialLoss, Logits, PenaltyInputs
from utils.device import at_least_float32


class SegmentationLoss(AdversarialLoss):
    """Cross entropy of pixel classes, for logits (N, 1 + K, H, W) of one scale.

    Logit 0 stands for translated images, logit 1 + c for class c in real images. The labels are the first K channels
    of the condition: one-hot, or fractions if label maps were downsampled to the size of the target. Pixels without a
    class add 0 to the mean. The weight of a class is inverse to its number of pixels in the batch (equation 2).
    """

    classifies_pixels = True

    def discriminator_loss(self, real: Logits, fake: Logits) -> dict[str, Tensor]:
        """Return both cross entropies, and their mean as `total`. OASIS uses the sum. With Adam, both train alike."""
        (fake_logits,) = fake.scales
        parts = {"fake": self.of_fake(fake_logits), "real": self.of_real(real)}
        return {**parts, "total": 0.5 * (parts["fake"] + parts["real"])}

    def generator_loss(self, fake: Logits, real: Logits) -> Tensor:
        """Return `of_real` for translated images, because they must look like real images of their classes."""
        return self.of_real(fake)

    def of_real(self, images: Logits) -> Tensor:
        """Return a loss that is small if the logits predict the classes of the labels."""
        (logits,) = images.scales
        labels = at_least_float32(labels_of(images.source, logits))
        weighted = labels * class_weights(labels)
        logits = at_least_float32(logits)
        distances = logits.logsumexp(dim=1, keepdim=True) - logits[:, 1:]
        return (weighted * distances).sum(dim=1).mean()

    def of_fake(self, logits: Tensor) -> Tensor:
        """Return a loss that is small if the logits call all pixels translated. All pixels have the same weight."""
        logits = at_least_float32(logits)
        return (logits.logsumexp(dim=1) - logits[:, 0]).mean()


def labels_of(source: Tensor, logits: Tensor) -> Tensor:
    """Return the first K channels of a condition, which are one-hot labels, for logits (N, 1 + K, H, W)."""
    return source[:, : logits.shape[1] - 1]


def class_weights(labels: Tensor) -> Tensor:
    """Return the weight of each class, (K, 1, 1), for one-hot labels (N, K, H, W).

    A weight is n_pixels / (n_present_classes · n_pixels_of_class) in the batch, and 0 for absent classes.
    """
    n_pixels = labels.sum(dim=(0, 2, 3))
    n_present = (n_pixels > 0).sum().clamp_min(1)
    weights = labels[:, 0].numel() / (n_present * n_pixels.clamp_min(1))
    return (weights * (n_pixels > 0))[:, None, None]


def labelmix(inputs: PenaltyInputs) -> Tensor:
    """Return LabelMix's penalty for the images and logits of a pass, 0-d (equation 4); see `labelmix_loss`."""
    (fake,), (real,) = inputs.fake_logits.scales, inputs.real_logits.scales
    mask = draw_mask(labels_of(inputs.real_logits.source, real))
    (mixed,) = inputs.discriminate_mix(mask)
    return labelmix_loss(mask, mixed=mixed, fake=fake, real=real)


def draw_mask(labels: Tensor) -> Tensor:
    """Draw LabelMix's mask for one-hot labels (N, K, H, W): (N, 1, H, W) bool, True for the real image.

    All pixels of a class in the batch share one draw, and so do all pixels without a class.
    """
    return mask_of(labels, torch.rand(labels.shape[1] + 1, device=labels.device) < 0.5)


def mask_of(labels: Tensor, draws: Tensor) -> Tensor:
    """Return the draw of each pixel's class, (N, 1, H, W) bool, for one-hot labels (N, K, H, W).

    draws: (K + 1,) bool. The last draw is for pixels without a class. OASIS's code differs: it overwrites ids with
        draws, class by class. If class 0 has draw 1, its pixels then count as class 1, and get the draw of class 1.
    """
    n_classes = labels.shape[1]
    classes = torch.where(labels.amax(dim=1, keepdim=True) > 0, labels.argmax(dim=1, keepdim=True), n_classes)
    return draws[classes]


def labelmix_loss(mask: Tensor, *, mixed: Tensor, fake: Tensor, real: Tensor) -> Tensor:
    """Return the mean squared distance between the logits of mixed images and the mixed logits, 0-d.

    mask: (N, 1, H, W) bool, True for the real image. mixed, fake, real: Logits (N, 1 + K, H, W).
    """
    expected = torch.where(mask, at_least_float32(real), at_least_float32(fake))
    return (expected - at_least_float32(mixed)).square().mean()
