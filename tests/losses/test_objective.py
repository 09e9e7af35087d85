import math
from typing import Literal

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from losses import ADVERSARIAL_LOSSES, GENERATOR_LOSSES, PENALTIES
from losses.adversarial import (
    LeastSquares,
    Logits,
    Outputs,
    Penalty,
    PenaltyInputs,
    r1_penalty,
    wgan_gradient_penalty,
)
from losses.distances import feature_distance, feature_matching, fine_chroma, ms_ssim
from losses.objective import DiscriminatorObjective, GeneratorObjective, LossInputs
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


def test_the_total_is_the_weighted_sum_and_only_needed_passes_of_the_discriminator_are_made() -> None:
    asked: list[str] = []

    def discriminate(name: str, value: float) -> list[DiscriminatorOutput]:
        asked.append(name)
        return [DiscriminatorOutput([torch.full((1, 2, 2, 2), value)], torch.zeros(1, 1, 2, 2))]

    fake, target = torch.zeros(1, 3, 4, 4), torch.ones(1, 3, 4, 4)
    for weights, total, expected in (
        ({"l1": 5.0}, 5.0, []),
        ({"adversarial": 2.0}, 2.0, ["fake"]),
        ({"adversarial": 2.0, "feature_matching": 3.0, "l1": 5.0}, 2.0 + 3.0 * 4 + 5.0, ["fake", "target"]),  # 4 / L
    ):
        asked.clear()
        inputs = LossInputs(
            fake, target, target, lambda: discriminate("fake", 0.0), lambda: discriminate("target", 1.0)
        )
        terms = generator_objective(weights)(inputs)
        assert asked == expected
        assert terms["total"].item() == total
        assert terms.keys() == {*weights, "total"}


SCORES = {  # the generator's loss at logits of 0.5, and the discriminator's for real and for translated images
    "lsgan": (0.25, 0.25, 0.25),
    "vanilla": (math.log1p(math.exp(-0.5)), math.log1p(math.exp(-0.5)), math.log1p(math.exp(0.5))),
    "hinge": (-0.5, 0.5, 1.5),
    "wgan": (-0.5, -0.5, 0.5),
}


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize(("over_scales", "times"), [("sum", 2), ("mean", 1)])
def test_each_adversarial_loss_has_its_known_values(name: str, over_scales: Literal["sum", "mean"], times: int) -> None:
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


def test_a_penalty_of_every_second_step_has_twice_the_weight_there() -> None:
    assert PENALTIES["r1"].every == 16
    counted = Penalty(lambda inputs: torch.tensor(5.0), every=2)
    objective = DiscriminatorObjective(ADVERSARIAL_LOSSES["lsgan"](), {"counted": (counted, 3.0)})
    image = torch.zeros(1, 3, 4, 4)
    inputs = PenaltyInputs(image, image, logits_of(image), logits_of(image), list, list)
    totals = []
    for step in (None, 0, 1, 2):
        objective.step = step
        terms = objective(inputs)
        assert ("counted" in terms) == (objective.due == ("counted",))
        totals.append(float(terms["total"]))
    assert [total - totals[2] for total in totals] == pytest.approx([15, 30, 0, 30])


def translation(fake: Tensor, target: Tensor) -> LossInputs:
    return LossInputs(fake, target, source=target, discriminate_fake=list, discriminate_target=list)


def test_fine_chroma_is_the_detail_that_is_not_in_all_channels() -> None:
    image = torch.rand(1, 3, 20, 20) * 2 - 1
    stripes = (-1) ** torch.arange(20) * torch.ones(1, 1, 20, 20)
    red = torch.tensor([0.3, 0.0, 0.0]).view(3, 1, 1)
    assert fine_chroma(translation(image + 0.3 * stripes, image)).item() == pytest.approx(0, abs=1e-6)
    assert fine_chroma(translation(image + red, image)).item() == pytest.approx(0, abs=1e-6)
    # chroma is (2, -1, -1) / 3 of the red stripes, and their mean over five columns is a fifth
    inner = fine_chroma(translation(red * stripes, torch.zeros(1, 3, 20, 20)))
    assert inner.item() == pytest.approx(0.3 * 4 / 9 * 0.8, rel=0.1)  # border pixels have other means


def test_ms_ssim_is_0_for_equal_images_and_its_gradient_is_bounded() -> None:
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


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_feature_distance_is_torchs_l1_loss_with_a_gradient_only_for_ours(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    ours, theirs = (torch.randn(2, 8, 33, 17).to(dtype) for _ in range(2))
    ours[0, 0] = theirs[0, 0]  # the gradient is 0 there
    ours.requires_grad_()
    theirs.requires_grad_()
    fine = torch.promote_types(dtype, torch.float32)
    expected = F.l1_loss(ours.to(fine), theirs.to(fine))
    (expected_gradient,) = torch.autograd.grad(3 * expected, ours)
    distance = feature_distance(ours, theirs)
    gradient, of_theirs = torch.autograd.grad(3 * distance, [ours, theirs], allow_unused=True)
    assert of_theirs is None
    assert distance.dtype == fine
    torch.testing.assert_close(distance, expected, rtol=1e-4 if fine != dtype else 1e-6, atol=0)
    assert gradient.dtype == dtype
    torch.testing.assert_close(gradient, expected_gradient, rtol=0 if fine != dtype else 1e-6, atol=0)
