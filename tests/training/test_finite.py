import math

import pytest
import torch

from tests.models.test_instance_norm import ON_GPU
from training.finite import all_finite


@pytest.mark.parametrize("device", ["cpu", ON_GPU])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_the_largest_numbers_are_finite_and_one_nan_is_found(device: str, dtype: torch.dtype) -> None:
    largest = torch.finfo(dtype).max
    for value in (largest, -largest, math.nan, math.inf, -math.inf):
        for place in (0, 70_000, 99_999):
            tensors = [torch.full((size,), largest, dtype=dtype, device=device) for size in (3, 100_000, 1)]
            tensors[1][place] = value
            assert bool(all_finite(tensors)) is math.isfinite(value), (value, place)
