"""The count of a step's work: against hand-made figures, and the table in the documentation."""

import pytest
import torch
from torch import nn

from bench.count import PAGE, RECIPES, Call, _Watch, flop_of, least_seconds, recipe, row


def test_a_convolution_counts_both_of_its_gradients() -> None:
    layer = nn.Conv2d(8, 16, 3, padding=1, bias=False, device="meta")
    images = torch.empty(2, 8, 10, 12, device="meta", requires_grad=True)
    with _Watch({"Conv2d": "generator"}) as watch:
        layer(images).sum().backward()
    assert flop_of(watch.calls, "generator") == flop_of(watch.calls) == 3 * 2 * (2 * 16 * 10 * 12) * (8 * 3 * 3)
    forward = images.numel() + layer.weight.numel() + 2 * 16 * 10 * 12
    assert watch.calls[0] == ("generator", "convolution", 2 * (2 * 16 * 10 * 12) * (8 * 3 * 3), 2 * forward)


def test_optimizers_read_and_write_in_float32() -> None:
    weight = nn.Parameter(torch.zeros(100))
    adam = torch.optim.Adam([weight], fused=True)
    weight.grad = torch.zeros(100)
    adam.step()
    with _Watch({}) as watch:
        adam.step()
    (n_bytes,) = (call.n_bytes for call in watch.calls if call.operator == "_fused_adam_")
    assert 7 * 400 <= n_bytes <= 8 * 400 + 16  # weights, two moments and the gradient are read, and written in place


def test_the_limit_is_the_slower_of_arithmetic_and_memory() -> None:
    calls = [Call("generator", "convolution", 790 * 10**9, 48), Call("others", "add", 0, 48 * 10**8)]
    seconds = least_seconds(calls, "NVIDIA H200")
    assert seconds is not None
    assert abs(seconds - 2e-3) < 1e-9
    assert least_seconds(calls, "another GPU") is None


@pytest.mark.parametrize("name", ["demo", "own_pairs_small"])
def test_the_table_of_the_page_is_up_to_date(name: str) -> None:
    cells = [str(cell) for cell in row(name, recipe(RECIPES / f"{name}.yaml")).values()]
    assert f"| {' | '.join(cells)} |" in PAGE.read_text(encoding="utf-8")
