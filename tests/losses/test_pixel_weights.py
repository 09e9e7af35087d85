"""Weighted distances against values computed by hand."""

import pytest
import torch
from torch import Tensor, nn

from losses.distances import feature_distance, feature_matching, fine_chroma, l1
from losses.objective import GeneratorLoss, LossInputs, LossWeights, PixelWeights
from losses.perceptual import PerceptualLoss
from models.patch_discriminator import DiscriminatorOutput


class Layers(PerceptualLoss):
    """A network of two layers: all pixels, and every second pixel."""

    distance, layer_weights = staticmethod(feature_distance), (1.0, 10.0)

    def __init__(self) -> None:
        super().__init__(nn.Sequential(nn.Identity(), nn.MaxPool2d(1, stride=2)), (0, 1), False)


def left_half(height: int = 4, width: int = 4, n: int = 1) -> Tensor:
    """Weights of 1 in the left half and 0 in the right one."""
    weights = torch.zeros(n, 1, height, width)
    weights[..., : width // 2] = 1
    return weights


def translation(fake: Tensor, target: Tensor, weights: Tensor | None) -> LossInputs:
    def discriminate(image: Tensor) -> list[DiscriminatorOutput]:
        return [DiscriminatorOutput([image, 3 * image[..., ::2, ::2]], image[:, :1])]

    return LossInputs(
        fake,
        target,
        source=target,
        discriminate_fake=lambda: discriminate(fake),
        discriminate_target=lambda: discriminate(target),
        weights=LossWeights.of(weights, lambda moved: moved.flip(-1)),
    )


def test_a_mean_is_divided_by_the_sum_of_the_weights_of_the_batch() -> None:
    values = torch.tensor([[[[1.0, 5.0]], [[3.0, 7.0]]], [[[10.0, 0.0]], [[20.0, 0.0]]]])  # (2, 2, 1, 2)
    weights = torch.tensor([[[[3.0, 1.0]]], [[[0.5, 0.0]]]])
    # means of the channels: 2, 6 and 15, 0
    assert PixelWeights(weights).mean(values).item() == pytest.approx((3 * 2 + 1 * 6 + 0.5 * 15) / 4.5)
    for scale in (1e-30, 10, 1e15):
        assert PixelWeights(scale * weights).mean(values).item() == pytest.approx((3 * 2 + 1 * 6 + 0.5 * 15) / 4.5)


def test_an_ignored_pixel_has_no_gradient() -> None:
    fake, target = torch.zeros(1, 3, 4, 4, requires_grad=True), torch.ones(1, 3, 4, 4)
    l1(translation(fake, target, left_half())).backward()
    assert fake.grad is not None
    assert fake.grad[..., 2:].abs().max() == 0
    assert torch.allclose(fake.grad[..., :2], torch.tensor(-1 / 24))  # 8 pixels of 3 channels count
    difference = torch.tensor([1.0, 3.0]).repeat_interleave(2).expand(1, 3, 4, 4)
    assert l1(translation(difference, torch.zeros_like(difference), left_half())) == 1
    assert l1(translation(difference, torch.zeros_like(difference), None)) == 2


@pytest.mark.parametrize("loss", [l1, fine_chroma, feature_matching, Layers()])
def test_losses_are_0_if_all_weights_are_0(loss: GeneratorLoss) -> None:
    fake, target = torch.zeros(3, 3, 4, 4, requires_grad=True), torch.ones(3, 3, 4, 4)
    value = loss(translation(fake, target, torch.zeros(3, 1, 4, 4)))
    value.backward()
    assert value.item() == 0
    assert fake.grad is not None
    assert fake.grad.abs().max() == 0


def test_features_are_weighted_as_the_discriminator_sees_the_images() -> None:
    fake = torch.tensor([1.0, 1.0, 2.0, 2.0]).expand(1, 3, 4, 4)
    # of_discriminated is mirrored: the right half counts. Layers are 4/2 x (2 + 3·2)
    assert feature_matching(translation(fake, torch.zeros_like(fake), left_half())).item() == pytest.approx(16)


def test_features_of_the_perceptual_loss_are_weighted_as_the_target() -> None:
    fake = torch.tensor([1.0, 1.0, 2.0, 2.0]).expand(1, 3, 4, 4)
    assert Layers()(translation(fake, torch.zeros_like(fake), left_half())) == 1 + 10  # the left half counts
    assert Layers()(translation(fake, torch.zeros_like(fake), None)) == 1.5 + 15
