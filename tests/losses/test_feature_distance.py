import pytest
import torch
import torch.nn.functional as F

from losses.distances import feature_distance


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_it_is_torchs_l1_loss_whose_gradient_reaches_ours_alone(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    ours, theirs = (torch.randn(2, 8, 33, 17).to(dtype) for _ in range(2))
    ours[0, 0] = theirs[0, 0]  # where the gradient is 0
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
