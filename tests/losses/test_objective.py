import math
from collections.abc import Sequence
from typing import get_args

import pytest
import torch
from torch import Tensor

from losses import GENERATOR_LOSSES
from losses.adversarial import AdversarialLoss, GanMode, ScaleReduction, r1_penalty, wgan_gradient_penalty
from losses.distances import feature_matching, ms_ssim
from losses.objective import GeneratorObjective, LossInputs
from models.patch_discriminator import DiscriminatorOutput


def match_features(fakes: Sequence[DiscriminatorOutput], targets: Sequence[DiscriminatorOutput]) -> Tensor:
    """The feature matching loss of the discriminator's outputs, which alone it reads."""
    unread = torch.empty(0)
    return feature_matching(LossInputs(unread, unread, unread, lambda: fakes, lambda: targets))


def generator_objective(weights: dict[str, float]) -> GeneratorObjective:
    adversarial = GENERATOR_LOSSES["adversarial"](gan_mode="lsgan", over_scales="sum")
    losses = {name: adversarial if name == "adversarial" else GENERATOR_LOSSES[name]() for name in weights}
    return GeneratorObjective(losses, weights)


def example_translation() -> LossInputs:
    fake, target = torch.zeros(1, 3, 4, 4), torch.ones(1, 3, 4, 4)
    logits = torch.zeros(1, 1, 2, 2)
    return LossInputs(
        fake,
        target,
        source=target,
        discriminate_fake=lambda: [DiscriminatorOutput([torch.zeros(1, 2, 2, 2)], logits)],
        discriminate_target=lambda: [DiscriminatorOutput([torch.ones(1, 2, 2, 2)], logits)],
    )


def test_the_total_is_the_weighted_sum_of_the_terms() -> None:
    terms = generator_objective({"adversarial": 2.0, "feature_matching": 3.0, "l1": 5.0})(example_translation())
    assert {name: value.item() for name, value in terms.items()} == {
        "adversarial": 1.0,
        "feature_matching": 4.0,  # one layer weighs 4
        "l1": 1.0,
        "total": 2.0 + 12.0 + 5.0,
    }


def test_the_discriminator_is_asked_only_for_what_a_loss_reads() -> None:
    asked: list[str] = []

    def discriminate(name: str) -> list[DiscriminatorOutput]:
        asked.append(name)
        return [DiscriminatorOutput([torch.zeros(1, 2, 2, 2)], torch.zeros(1, 1, 2, 2))]

    for names, expected in (
        (["l1"], []),
        (["adversarial"], ["fake"]),
        (["adversarial", "feature_matching", "l1"], ["fake", "target"]),
        (["feature_matching"], ["fake", "target"]),
    ):
        asked.clear()
        image = torch.zeros(1, 3, 4, 4)
        translation = LossInputs(
            image,
            image,
            source=image,
            discriminate_fake=lambda: discriminate("fake"),
            discriminate_target=lambda: discriminate("target"),
        )
        generator_objective(dict.fromkeys(names, 1.0))(translation)
        assert asked == expected


def test_losses_are_float32_under_autocast() -> None:
    low = [torch.randn(1, 1, 4, 4, dtype=torch.bfloat16)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for mode in get_args(GanMode):
            assert AdversarialLoss(mode).generator(low).dtype == torch.float32
            assert AdversarialLoss(mode).discriminator(low, is_real=True).dtype == torch.float32
        matching = match_features([DiscriminatorOutput(low, low[0])], [DiscriminatorOutput(low, low[0])])
        assert matching.dtype == torch.float32


@pytest.mark.parametrize(
    ("mode", "generator", "real", "fake"),
    [
        # at a logit of x = 0.5: known values of each loss
        ("lsgan", 0.25, 0.25, 0.25),
        ("vanilla", math.log1p(math.exp(-0.5)), math.log1p(math.exp(-0.5)), math.log1p(math.exp(0.5))),
        ("hinge", -0.5, 0.5, 1.5),
        ("wgan", -0.5, -0.5, 0.5),
    ],
)
@pytest.mark.parametrize(("over_scales", "times"), [("sum", 2), ("mean", 1)])
def test_each_mode_has_its_known_values(
    mode: GanMode, generator: float, real: float, fake: float, over_scales: ScaleReduction, times: int
) -> None:
    loss = AdversarialLoss(mode, over_scales)
    scales = [torch.full((2, 1, 4, 4), 0.5, dtype=torch.float64), torch.full((2, 1, 3, 3), 0.5, dtype=torch.float64)]
    assert loss.generator(scales).item() == pytest.approx(times * generator)
    assert loss.discriminator(scales, is_real=True).item() == pytest.approx(times * real)
    assert loss.discriminator(scales, is_real=False).item() == pytest.approx(times * fake)


def test_penalties_of_a_linear_discriminator_are_known() -> None:
    weight = torch.randn(1, 3, 4, 4, dtype=torch.float64, requires_grad=True)

    def judge(images: Tensor) -> list[Tensor]:
        return [(weight * images).sum(dim=(1, 2, 3))]  # its gradient is the weight, wherever

    fake, real = torch.randn(2, 5, 3, 4, 4, dtype=torch.float64)
    norm = weight.norm().item()
    penalty = wgan_gradient_penalty(judge, fake, real)
    assert penalty.item() == pytest.approx((norm - 1) ** 2)
    assert r1_penalty(judge, real).item() == pytest.approx(0.5 * norm**2)
    (gradient,) = torch.autograd.grad(penalty, weight)
    torch.testing.assert_close(gradient, (2 * (norm - 1) / norm * weight).detach())


def test_ms_ssim_is_0_for_equal_images_and_its_gradient_is_bounded() -> None:
    def translation(fake: Tensor, target: Tensor) -> LossInputs:
        return LossInputs(fake, target, source=target, discriminate_fake=list, discriminate_target=list)

    image = torch.rand(2, 3, 48, 48, generator=torch.Generator().manual_seed(0)) * 2 - 1
    with torch.autocast("cpu", dtype=torch.bfloat16):
        of_equal, of_opposite, of_low = (
            ms_ssim(translation(fake, image)) for fake in (image, -image, image.to(torch.bfloat16))
        )
    assert of_equal.item() == pytest.approx(0, abs=1e-6)
    assert of_opposite.item() > 1  # the structures are opposite: a product would be 0 there, without a gradient
    assert of_low.dtype == torch.float32
    fake = (-image).requires_grad_()
    ms_ssim(translation(fake, image)).backward()
    assert fake.grad is not None
    assert 0 < fake.grad.abs().max() < 1
