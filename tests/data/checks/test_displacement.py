import numpy as np
import pytest
import torch
from torch import Tensor
from torchvision.transforms.v2.functional import gaussian_blur

from data.checks import MIN_SIDE, Shift, displacement, shift_warnings
from data.facades.dataset import SyntheticFacades

FACADES = SyntheticFacades(split="train", seed=0, n_samples=4, height=160, width=168)
MARGIN = 16  # pixels


def cropped(image: Tensor, x: int = 0, y: int = 0) -> Tensor:
    """Return an image without its margins, moved by x to the right and y down."""
    height, width = image.shape[-2:]
    return image[:, MARGIN - y : height - MARGIN - y, MARGIN - x : width - MARGIN - x]


@pytest.mark.parametrize(
    ("index", "shift", "kind"),
    [(0, (0, 0), "ids"), (1, (-5, 3), "ids"), (2, (9, 12), "negative"), (0, (9, 12), "blurred")],
)
def test_the_place_of_the_target_is_found(index: int, shift: Shift, kind: str) -> None:
    sample = FACADES.read(index)
    target = cropped(sample.maps["target"], *shift)
    if kind == "ids":
        assert displacement(cropped(sample.source), target, source_is_ids=True) == shift
        return
    source = cropped(sample.maps["target"])
    source = gaussian_blur(source, [7, 7]) if kind == "blurred" else source
    found = displacement(255 - source, target, source_is_ids=False)
    assert found is not None
    assert max(abs(a - b) for a, b in zip(found, shift, strict=True)) <= (1 if kind == "blurred" else 0)


def test_images_that_cannot_be_compared_have_no_displacement() -> None:
    noise, other = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (2, 3, 128, 128), dtype=np.uint8))
    plain, small = torch.full_like(noise, 7), noise[:, : MIN_SIDE - 1]
    for source, target in ((noise, other), (plain, noise), (plain, plain), (noise, noise[:, 1:]), (small, small)):
        assert displacement(source, target, source_is_ids=False) is None


@pytest.mark.parametrize("dtype", [torch.uint16, torch.float32])
def test_other_types_and_channels_are_compared(dtype: torch.dtype) -> None:
    image = FACADES.read(1).maps["target"]
    wide = (cropped(image).float() * 200).to(dtype)
    assert displacement(wide[:1], cropped(image, 6, -4), source_is_ids=False) == (6, -4)


@pytest.mark.parametrize(
    ("shifts", "expected"),
    [
        ([], []),
        ([(0, 0), (3, -2), (1, 0), (0, 0)], []),
        ([(1, 0)] * 5, []),
        ([(0, -2)] * 5, ["targets seem to be shifted by 2 pixels up in 5 of 5 pairs"]),
        (
            [(6, -2), (0, 0)],
            ["targets seem to be shifted in 1 of 2 pairs: s0 by 6 pixels to the right and 2 pixels up"],
        ),
    ],
)
def test_a_common_or_a_large_displacement_is_a_warning(shifts: list[Shift], expected: list[str]) -> None:
    found = list(shift_warnings({f"s{number}": shift for number, shift in enumerate(shifts)}, "targets"))
    assert [line[: len(start)] for line, start in zip(found, expected, strict=True)] == expected


ASIDE: list[Shift] = [(3, 0), (-3, 1), (0, 3), (2, -3), (-1, -3), (3, 3), (-3, -3), (0, -3)]


@pytest.mark.parametrize(
    ("shifts", "reach", "expected"),
    [
        (ASIDE, 0, "targets are shifted by 3 pixels (median of 8 pairs), in different directions: align them, or "),
        ([*ASIDE, *[None] * 8], 3, "targets are shifted by 3 pixels (median of 8 pairs)"),
        ([*ASIDE, *[None] * 9], 0, ""),  # unrelated images
        (ASIDE[:7], 0, ""),
        (ASIDE, 4, ""),  # loss.shift_reach is large enough
        ([(x // 3, y // 3) for x, y in ASIDE], 0, ""),
        ([(3 * x, 3 * y) for x, y in ASIDE], 4, "targets are shifted by 9 pixels (median of 8 pairs)"),
        ([(0, 4)] * 9, 0, "targets seem to be shifted by 4 pixels down in 9 of 9 pairs"),
    ],
)
def test_different_displacements_of_most_pairs_are_a_warning(
    shifts: list[Shift | None], reach: int, expected: str
) -> None:
    faint = {f"s{number}": shift for number, shift in enumerate(shifts)}
    (found,) = [*shift_warnings({}, "targets", faint, reach)] or [""]
    assert found.startswith(expected)
    assert bool(found) == bool(expected)
    if "in another" in found:
        chosen = "align them, or set loss.shift_reach=4 if images are not resized"
        remedy = "look at them with --show 12, and align them first" if "9 pixels" in found else chosen
        assert f": {remedy} (tools.convert_data align-targets)" in found


@pytest.mark.parametrize(("what", "reach", "found"), [("targets", 0, 1), ("targets", 6, 0), ("stacked images", 6, 1)])
def test_a_single_large_displacement_is_a_warning_unless_it_is_within_reach(what: str, reach: int, found: int) -> None:
    shifts: dict[str, Shift] = {"far": (6, 0)}
    faint = {f"s{number}": (0, 0) for number in range(20)} | shifts if what == "targets" else {}
    assert len([*shift_warnings(shifts, what, faint, reach)]) == found


def test_pairs_beyond_the_reach_are_named() -> None:
    shifts: dict[str, Shift] = {f"s{number}": shift for number, shift in enumerate([*ASIDE, *ASIDE])} | {"far": (20, 0)}
    (found,) = shift_warnings(shifts, "targets", shifts, 4)
    assert found.startswith("targets seem to be shifted in 1 of 17 pairs: far by 20 pixels to the right")
