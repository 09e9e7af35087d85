import math

import pytest
import torch
from torch import Tensor

from losses import ADVERSARIAL_LOSSES, GENERATOR_LOSSES
from losses.adversarial import (
    LeastSquares,
    Logits,
    Outputs,
    PenaltyInputs,
    ScaleReduction,
    r1_penalty,
    wgan_gradient_penalty,
)
from losses.distances import feature_matching, ms_ssim
from losses.objective import GeneratorObjective, LossInputs
from models.patch_discriminator import DiscriminatorOutput


def match_features(fakes: Outputs, targets: Outputs) -> Tensor:
    """The feature matching loss of the discriminator's outputs, since it reads nothing else."""
    unread = torch.empty(0)
    return feature_matching(LossInputs(unread, unread, unread, lambda: fakes, lambda: targets))


def generator_objective(weights: dict[str, float]) -> GeneratorObjective:
    arguments = {"adversarial": {"adversarial_loss": LeastSquares()}}
    losses = {name: GENERATOR_LOSSES[name].make(**arguments.get(name, {})) for name in weights}
    return GeneratorObjective({name: (losses[name], weight) for name, weight in weights.items()})


def logits_of(*scales: Tensor) -> Logits:
    return Logits(lambda: [DiscriminatorOutput([], scale) for scale in scales], source=torch.empty(0))


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
    low = torch.randn(1, 1, 4, 4, dtype=torch.bfloat16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for name in SCORES:
            loss = ADVERSARIAL_LOSSES[name]()
            terms = [loss.generator_loss(logits_of(low), logits_of(low))]
            terms += loss.discriminator_loss(logits_of(low), logits_of(low)).values()
            assert {term.dtype for term in terms} == {torch.float32}
        matching = match_features([DiscriminatorOutput([low], low)], [DiscriminatorOutput([low], low)])
        assert matching.dtype == torch.float32


SCORES = {  # at logits of 0.5: the generator's loss, and the discriminator's on real and on translated images
    "lsgan": (0.25, 0.25, 0.25),
    "vanilla": (math.log1p(math.exp(-0.5)), math.log1p(math.exp(-0.5)), math.log1p(math.exp(0.5))),
    "hinge": (-0.5, 0.5, 1.5),
    "wgan": (-0.5, -0.5, 0.5),
}


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize(("over_scales", "times"), [("sum", 2), ("mean", 1)])
def test_each_adversarial_loss_has_its_known_values(name: str, over_scales: ScaleReduction, times: int) -> None:
    halves = [torch.full((2, 1, side, side), 0.5, dtype=torch.float64) for side in (4, 3)]
    logits, (generator, real, fake) = logits_of(*halves), SCORES[name]
    loss = ADVERSARIAL_LOSSES[name](over_scales=over_scales)
    assert loss.generator_loss(logits, logits).item() == pytest.approx(times * generator)
    terms = {part: term.item() for part, term in loss.discriminator_loss(logits, logits).items()}
    expected = {"fake": fake, "real": real, "total": 0.5 * (fake + real)}
    assert terms == pytest.approx({part: times * value for part, value in expected.items()})


def test_penalties_of_a_linear_discriminator_are_known() -> None:
    weight = torch.randn(1, 3, 4, 4, dtype=torch.float64, requires_grad=True)

    def judge(images: Tensor) -> list[Tensor]:
        return [(weight * images).sum(dim=(1, 2, 3))]  # its gradient is the weight everywhere

    fake, real = torch.randn(2, 5, 3, 4, 4, dtype=torch.float64)
    inputs = PenaltyInputs(real, fake, logits_of(), logits_of(), judge, judge)
    norm = weight.norm().item()
    penalty = wgan_gradient_penalty(inputs)
    assert penalty.item() == pytest.approx((norm - 1) ** 2)
    assert r1_penalty(inputs).item() == pytest.approx(0.5 * norm**2)
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
