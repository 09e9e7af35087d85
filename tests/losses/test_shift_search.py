"""The shift search equals the recorded cases; a plain search; targets without content and translations with NaN."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from configs.build import check_trained_sizes
from configs.load import load_config
from losses.distances import feature_distance
from losses.objective import PixelWeights
from losses.shift_search import ShiftSearch
from utils.errors import ConfigError

CASES = torch.load(Path(__file__).parents[1] / "reference" / "misaligned.pt", weights_only=True)
SEARCHES = [
    (name, key)
    for name in ("shift_search", "shift_search_weighted", "shift_search_ties")
    for key in CASES[name]["by_patch_reach_and_penalty"]
]


def plainly_matched(fake: Tensor, target: Tensor, reach: int, patch: int, penalty: float) -> Tensor:
    """The matched target, computed patch by patch and shift by shift."""
    offsets = range(-reach, reach + 1)
    shifts = sorted([(x, y) for x in offsets for y in offsets], key=lambda of: (of[0] ** 2 + of[1] ** 2, of[1], of[0]))
    height, width = target.shape[-2:]
    matched = torch.empty_like(target)
    for n in range(len(target)):
        for top in range(0, height, patch):
            for left in range(0, width, patch):
                place = n, slice(None), slice(top, top + patch), slice(left, left + patch)
                least = torch.inf
                for x, y in shifts:
                    rows = (torch.arange(height) + y).clamp(0, height - 1)
                    columns = (torch.arange(width) + x).clamp(0, width - 1)
                    part = target[:, :, rows][..., columns][place]
                    cost = float((fake[place] - part).abs().mean()) * (1 + penalty * (x * x + y * y) ** 0.5)
                    if cost < least:
                        least, matched[place] = cost, part
    return matched


def inputs_of(case: dict[str, Any]) -> tuple[Tensor, Tensor]:
    return case["inputs"]["fake"].double().requires_grad_(), case["inputs"]["target"].double()


@pytest.mark.parametrize(("name", "key"), SEARCHES)
def test_recorded_searches(name: str, key: str) -> None:
    (fake, target), expected = inputs_of(CASES[name]), CASES[name]["by_patch_reach_and_penalty"][key]
    patch, reach, penalty = key.split("/")
    search = ShiftSearch(int(reach), int(patch) or 1000, float(penalty))  # patch 0: the whole image
    weights = CASES[name]["inputs"].get("weights")
    match = search(fake, target, None if weights is None else weights.double())
    assert torch.equal(match.shifts, expected["shifts"])
    difference = (fake - match.target).abs()
    loss = difference.mean()
    if match.weights is not None:
        assert torch.equal(match.weights, expected["weights"].double())
        loss = PixelWeights(match.weights).mean(difference)
    loss.backward()
    torch.testing.assert_close(loss, expected["loss"], rtol=0, atol=1e-12)
    torch.testing.assert_close(fake.grad, expected["gradient"], rtol=0, atol=1e-14)


def test_recorded_losses_on_the_matched_target() -> None:
    case = CASES["matched_losses"]
    fake, target = inputs_of(case)
    match = ShiftSearch(case["reach"], case["patch"], case["penalty"])(fake, target)
    assert torch.equal(match.shifts, case["shifts"])
    assert torch.equal(match.target, case["matched"].double())

    def features(images: Tensor) -> Tensor:
        kernel = case["inputs"]["kernel"].double()
        return F.leaky_relu(F.conv2d(images, kernel, stride=2, padding=1), 0.2)

    losses = {
        "l1": (fake - match.target).abs().mean(),
        "feature_distance": feature_distance(features(fake), features(match.target)),
        "feature_distance_to_given_target": feature_distance(features(fake), features(target)),
    }
    for name, loss in losses.items():
        torch.testing.assert_close(loss, case[name], rtol=0, atol=1e-12)
    (12 * losses["l1"] + 10 * losses["feature_distance"]).backward()
    torch.testing.assert_close(fake.grad, case["gradient"], rtol=0, atol=1e-14)
    assert {name: mean.item() for name, mean in match.means.items()} == pytest.approx(
        {name: value.item() for name, value in case["log"].items()}
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_low_precision_translation_is_searched_in_float32(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    fake, target = torch.rand(2, 2, 3, 21, 26, generator=generator)
    target[..., 8:16] = 0.5  # a flat area
    with torch.autocast("cpu", torch.bfloat16):
        match = ShiftSearch(2, 8, 0.05)(fake.to(dtype), target)
    assert torch.equal(match.target, plainly_matched(fake.to(dtype).float(), target, 2, 8, 0.05))


def test_the_penalty_falls_to_0_in_place() -> None:
    target = torch.rand(1, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    search, fake = ShiftSearch(1, 16, 1e6), target.roll(1, 3)
    kept = search._penalty
    assert search(fake, target).means["distance"] == 0
    search.follow_schedule(0.25)
    assert kept == 0.5e6
    search.follow_schedule(0.9)
    assert kept == 0
    assert search(fake, target).means["shift_x"] == -1


def test_a_patch_that_cannot_be_compared_stays_in_place() -> None:
    target = torch.rand(1, 3, 24, 24, generator=torch.Generator().manual_seed(0))
    fake, weights = target.roll(1, 3), torch.ones(1, 1, 24, 24)
    fake[..., :8, :8] = torch.nan
    weights[..., 14:, 14:] = 0
    shifts = ShiftSearch(1, 8, 0)(fake, target, weights).shifts[0, 0]
    assert shifts[0, 0] == 0  # NaN
    assert shifts[2, 2] == 0  # nothing counts
    assert shifts[1, 1] == -1


@pytest.mark.parametrize(
    ("recipe", "settings", "message"),
    [
        ("demo", ["loss.shift_reach=17"], r"loss\.shift_reach is 17, expected a number from 0 to 16"),
        ("demo", ["loss.shift_reach=9"], r"loss\.shift_patch is 16, expected at least 18"),
        (
            "oasis_cityscapes",
            ["loss.shift_reach=1"],
            r"loss\.shift_reach is 1, expected 0 with discriminator\.name=seg",
        ),
        (
            "misaligned_pairs",
            ["data.crop_width=24"],
            r"data\.crop_width is 24, expected at least 32 with loss\.shift_re",
        ),
    ],
)
def test_settings_without_sense_are_refused(recipe: str, settings: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_trained_sizes(load_config(Path(f"configs/{recipe}.yaml"), ["data.root=.", *settings]))
