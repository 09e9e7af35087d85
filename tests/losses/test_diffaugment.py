"""DiffAugment against the original's operations, and what holds for pairs."""

from functools import partial
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from losses.diffaugment import DiffAugment, Operation, Transform, color, cutout, translation

CASES = pytest.mark.parametrize("name", ["diffaugment_0", "diffaugment_1"])
POLICY = ("color", "translation", "cutout")


def recorded(case: dict[str, Any], policy: str) -> Transform:
    """The transform of a policy with the draws of a case, whose boxes are given by their middles."""
    draws = {name: draw.flatten() for name, draw in case["draws"].items()}
    height, width = ((side + 1) // 2 for side in case["inputs"]["image"].shape[-2:])
    rows, columns = draws["cutout_rows"] - height // 2, draws["cutout_columns"] - width // 2
    moves = {"rows": draws["translation_rows"], "columns": draws["translation_columns"]}
    operations: dict[str, Operation] = {
        "color": partial(color, **{name: draws[name] for name in ("brightness", "saturation", "contrast")}),
        "translation": partial(translation, **moves),
        "cutout": partial(cutout, rows=rows, columns=columns, height=height, width=width),
    }
    return Transform({name: operations[name] for name in policy.split(",")})


def scalar(output: Tensor) -> Tensor:
    """The scalar whose gradients are recorded."""
    probe = torch.arange(output.numel(), dtype=output.dtype).cos().view(output.shape)
    return (output * probe).sum()


def assert_same(output: Tensor, images: Tensor, expected: dict[str, Tensor]) -> None:
    torch.testing.assert_close(output, expected["output"], rtol=0, atol=1e-12)
    (gradient,) = torch.autograd.grad(scalar(output), images)
    torch.testing.assert_close(gradient, expected["input_gradient"], rtol=0, atol=1e-12)


@CASES
def test_operations_are_the_originals(reference: dict[str, Any], name: str) -> None:
    case = reference[name]
    draws = {key: draw.flatten() for key, draw in case["draws"].items()}
    _, moved, cut = recorded(case, "color,translation,cutout").operations.values()
    images = case["inputs"]["image"].double().requires_grad_()
    neutral = {name: torch.full((len(images),), 0.5) for name in ("brightness", "saturation", "contrast")}
    outputs = {name: color(images, **neutral | {name: draws[name]}) for name in neutral}
    outputs |= {"translation": moved(images), "cutout": cut(images)}
    assert outputs.keys() == case["operations"].keys()
    for operation, output in outputs.items():
        assert_same(output, images, case["operations"][operation])


@CASES
def test_a_source_is_only_moved(reference: dict[str, Any], name: str) -> None:
    case = reference[name]
    source, image = case["inputs"]["source"].double(), case["inputs"]["image"].double()
    transform, pairs = recorded(case, "color,translation,cutout"), case["pairs"]
    torch.testing.assert_close(transform.of_source(source), pairs["translated_source"], rtol=0, atol=1e-12)
    expected = pairs["color_translation_cutout_image_only"]
    torch.testing.assert_close(transform.of_image(image), expected, rtol=0, atol=1e-12)
    uncut = recorded(case, "color,translation").of_image(image)
    torch.testing.assert_close(uncut, pairs["color_translation_image"], rtol=0, atol=1e-12)


def make_images(*shape: int) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 2 - 1


@pytest.mark.parametrize(("height", "width"), [(12, 10), (13, 8), (7, 5)])
def test_draws_have_the_originals_ranges(height: int, width: int) -> None:
    torch.manual_seed(0)
    operations = DiffAugment(POLICY).draw(torch.zeros(4000, 3, height, width)).operations
    drawn = {name: cast(partial[Tensor], operation).keywords for name, operation in operations.items()}
    moved, cut = drawn["translation"], drawn["cutout"]
    for draws in drawn["color"].values():
        assert 0 <= draws.min() < 0.01
        assert 0.99 < draws.max() < 1
    for side, steps, firsts, size in (
        (height, moved["rows"], cut["rows"], cut["height"]),
        (width, moved["columns"], cut["columns"], cut["width"]),
    ):
        reach = int(side / 8 + 0.5)
        assert steps.unique().tolist() == list(range(-reach, reach + 1))
        assert size == int(side / 2 + 0.5)
        middles = range(side if size % 2 else side + 1)
        assert (firsts + size // 2).unique().tolist() == list(middles)


def test_without_operations_nothing_is_drawn_copied_or_cast() -> None:
    before = torch.get_rng_state()
    images = make_images(2, 3, 8, 8).bfloat16()
    transform = DiffAugment().draw(images)
    assert transform.of_image(images) is images
    assert transform.of_source(images) is images
    assert torch.equal(torch.get_rng_state(), before)


def test_equal_images_in_any_precision_share_a_transform() -> None:
    torch.manual_seed(0)
    low = make_images(2, 3, 32, 32).bfloat16()
    transform = DiffAugment(POLICY).draw(low)
    fake, real = transform.of_image(low), transform.of_image(low.float())
    assert fake.dtype == real.dtype == torch.float32
    assert torch.equal(fake, real)


def test_gradients_of_gradients_pass_each_operation() -> None:
    torch.manual_seed(0)
    images = make_images(2, 3, 4, 3).requires_grad_()
    transform = DiffAugment(POLICY).draw(images)
    assert torch.autograd.gradgradcheck(lambda x: transform.of_image(x) ** 3, images)
