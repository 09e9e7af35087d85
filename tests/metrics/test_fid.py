"""FID and KID against their formulas."""

import pytest
import torch

from metrics.metric import SetScore
from metrics.networks import frechet_distance, kernel_distance

N_DIMENSIONS = 128


def fid(fakes: torch.Tensor, targets: torch.Tensor) -> float:
    return frechet_distance([*fakes], [*targets]).value


def kid(fakes: torch.Tensor, targets: torch.Tensor) -> SetScore:
    return kernel_distance([*fakes], [*targets])


def features(seed: int, n: int = 12) -> torch.Tensor:
    return torch.randn(n, N_DIMENSIONS, generator=torch.Generator().manual_seed(seed))


def test_fid_of_a_shift_is_its_squared_length() -> None:
    assert fid(features(0), features(0)) == pytest.approx(0, abs=0.05)
    assert fid(features(0) + 0.5, features(0)) == pytest.approx(0.25 * N_DIMENSIONS, rel=1e-3)


def test_kid_is_the_unbiased_estimate_of_the_papers_kernel() -> None:
    def kernel(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (a @ b.T / N_DIMENSIONS + 1) ** 3

    fakes, targets = features(0) + 0.3, features(1)
    n = len(fakes)
    within = sum((kernel(x, x).sum() - kernel(x, x).trace()) / (n * (n - 1)) for x in (fakes, targets))
    expected = float(within - 2 * kernel(fakes, targets).mean())
    mean, deviation = kid(fakes, targets)
    assert mean == pytest.approx(expected, rel=1e-4)
    assert deviation == pytest.approx(0, abs=1e-4)  # each subset is the full set
