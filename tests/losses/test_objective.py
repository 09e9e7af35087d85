from typing import Any

import pytest
import torch
from torch import Tensor, nn

from losses.adversarial import lsgan
from losses.feature_matching import feature_matching
from losses.objective import GeneratorObjective, Translation, discriminator_terms
from losses.perceptual import PerceptualLoss


def features(case: list[list[Tensor]]) -> list[list[Tensor]]:
    return [scale[:-1] for scale in case]


def logits(case: list[list[Tensor]]) -> list[Tensor]:
    return [scale[-1] for scale in case]


def test_terms_equal_the_originals(reference: dict[str, Any]) -> None:
    case = reference["pix2pixhd_losses"]
    fake, real = case["fake"], case["real"]
    assert lsgan(logits(fake), is_real=True).item() == pytest.approx(case["lsgan_fake_as_real"].item(), rel=1e-12)
    assert lsgan(logits(fake), is_real=False).item() == pytest.approx(case["lsgan_fake_as_fake"].item(), rel=1e-12)
    assert lsgan(logits(real), is_real=True).item() == pytest.approx(case["lsgan_real_as_real"].item(), rel=1e-12)
    matching = 10 * feature_matching(features(fake), features(real))
    assert matching.item() == pytest.approx(case["feature_matching_times_10"].item(), rel=1e-12)
    total = discriminator_terms(logits(fake), logits(real))["total"]
    assert total.item() == pytest.approx(case["loss_d"].item(), rel=1e-12)


def test_equal_features_match() -> None:
    case = [[torch.randn(2, 3, 4, 4)]]
    assert feature_matching(case, case) == 0


def test_no_gradient_reaches_the_real_features() -> None:
    fake, real = torch.randn(1, 2, 3, 3, requires_grad=True), torch.randn(1, 2, 3, 3, requires_grad=True)
    feature_matching([[fake]], [[real]]).backward()
    assert fake.grad is not None
    assert real.grad is None


def example_translation() -> Translation:
    fake, target = torch.zeros(1, 3, 4, 4), torch.ones(1, 3, 4, 4)
    return Translation(fake, target, [torch.zeros(1, 1, 2, 2)], [[torch.zeros(1, 2, 2, 2)]], [[torch.ones(1, 2, 2, 2)]])


def test_the_total_is_the_weighted_sum_of_the_terms() -> None:
    terms = GeneratorObjective({"adversarial": 2.0, "feature_matching": 3.0, "l1": 5.0}, None)(example_translation())
    assert {name: value.item() for name, value in terms.items()} == {
        "adversarial": 1.0,
        "feature_matching": 4.0,  # one layer weighs 4
        "l1": 1.0,
        "total": 2.0 + 12.0 + 5.0,
    }


def test_a_weight_of_zero_computes_nothing() -> None:
    class Untouchable(nn.Module):
        def forward(self, x: Tensor) -> list[Tensor]:
            raise AssertionError("a term of weight 0 was computed")

    untouchable = PerceptualLoss(Untouchable(), layer_weights=(1.0,))
    objective = GeneratorObjective({"adversarial": 0.0, "feature_matching": 0.0, "l1": 1.0, "vgg": 0.0}, untouchable)
    assert set(objective(example_translation())) == {"l1", "total"}


def test_losses_are_float32_under_autocast() -> None:
    low = [torch.randn(1, 1, 4, 4, dtype=torch.bfloat16)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert lsgan(low, is_real=True).dtype == torch.float32
        assert feature_matching([low], [low]).dtype == torch.float32
