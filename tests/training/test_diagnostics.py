"""Hints on the figures of a report, and on translations without pairs, of constructed pictures."""

import pytest
import torch
from torch import Tensor

from training.diagnostics import Diagnostics, TranslationHints


def scenes(n: int = 4, side: int = 40) -> list[Tensor]:
    coarse = torch.rand(n, 3, 5, 5, generator=torch.Generator().manual_seed(0))
    images = torch.nn.functional.interpolate(coarse, (side, side), mode="bilinear", align_corners=False)
    return list((images * 255).to(torch.uint8))


SCENES = scenes()
DARK = [image // 4 for image in SCENES]
OTHERS = [image.flip(1, 2) for image in SCENES]
FAILURES = {
    "negatives": [255 - image for image in SCENES],
    "alike": [(SCENES[0] * 0.9 + image * 0.1).to(torch.uint8) for image in SCENES],
    "equal their sources": [image.clamp(max=254) + 1 for image in SCENES],
}


def hints_after(hints: TranslationHints, translations: list[Tensor], n_validations: int) -> list[str]:
    found: list[str] = []
    for _ in range(n_validations):
        for source, fake in zip(SCENES, translations, strict=True):
            hints.add(source, fake)
        found += hints.flush()
    return found


@pytest.mark.parametrize("failure", FAILURES)
def test_hint_is_given_once_and_again_if_its_cause_returns(failure: str) -> None:
    hints, failed = TranslationHints(), FAILURES[failure]
    assert hints_after(hints, failed, 2) == []
    assert [failure in hint for hint in hints_after(hints, failed, 4)] == [True]
    assert hints_after(hints, DARK, 3) == []
    assert len(hints_after(hints, failed, 3)) == 1


@pytest.mark.parametrize("translations", [DARK, OTHERS], ids=["dark", "others"])
def test_translations_that_keep_the_variety_of_their_sources_get_no_hint(translations: list[Tensor]) -> None:
    assert hints_after(TranslationHints(), translations, 4) == []


@pytest.mark.parametrize("contrast", [0.0, 0.025], ids=["black", "grey"])
def test_translations_without_contrast_are_reported_as_alike(contrast: float) -> None:
    faint = [(image * contrast).to(torch.uint8) for image in SCENES]
    (hint,) = hints_after(TranslationHints(), faint, 3)
    assert "collapsed" in hint
    single = TranslationHints()
    for _ in range(4):
        single.add(SCENES[0], DARK[0])
        assert single.flush() == []  # one translation is not alike to others


def test_high_rate_and_diverged_loss_are_reported_once() -> None:
    diagnostics = Diagnostics("lsgan")
    assert diagnostics({"learning_rate/generator": 2e-4, "loss/G/total": 150.0}) == []
    wrong = {"learning_rate/generator": 1e3, "loss/D/total": 2.9e9}
    rate, loss = diagnostics(wrong)
    assert rate.startswith("the learning rate of the generator is 1000, ")
    assert loss.startswith("the loss of D is 2.9e+09: the training has diverged. ")
    assert diagnostics(wrong) == []
