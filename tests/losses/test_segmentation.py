"""OASIS's losses equal the recorded ones of the original, float64."""

from typing import Any

import pytest
import torch
from torch import Tensor

from losses.adversarial import Logits, mean_logits
from losses.segmentation import SegmentationLoss, draw_mask, labelmix_loss, mask_of
from models.patch_discriminator import DiscriminatorOutput
from tests.models.originals.cases import assert_close

N_CLASSES = 4


def logits_of(logits: Tensor, source: Tensor) -> Logits:
    return Logits(lambda: [DiscriminatorOutput([], logits)], source)


def one_hot(ids: Tensor, n_classes: int = N_CLASSES) -> Tensor:
    """One-hot labels (N, K, H, W) of (N, 1, H, W) ids; zeros where an id is no class."""
    return (ids == torch.arange(n_classes).view(1, -1, 1, 1)).double()


def recorded_labels(case: dict[str, Any], *, ignores_class_0: bool) -> Tensor:
    labels: Tensor = case["inputs"]["semantics"].double()
    if ignores_class_0:  # the original's class for pixels without one is none of ours
        labels[:, 0] = 0
    return labels


@pytest.mark.parametrize(("name", "ignores"), [("balanced", True), ("balanced_without_dontcare", False)])
def test_cross_entropy(reference: dict[str, Any], name: str, ignores: bool) -> None:
    case = reference["oasis_cross_entropy"]
    source = torch.cat(
        [recorded_labels(case, ignores_class_0=ignores), torch.ones(2, 1, 6, 7)], dim=1
    )  # the last channel is edges
    loss = SegmentationLoss()
    for kind in ("real", "fake"):
        logits = case["inputs"]["logits"].double().requires_grad_()
        value = loss.discriminator_loss(logits_of(logits, source), logits_of(logits, source))[kind]
        recorded = case["values"][f"{name}_{kind}"]
        assert_close(value, recorded["value"])
        value.backward()
        assert logits.grad is not None
        assert_close(logits.grad, recorded["gradient_of_logits"], 1e-10)


def test_a_batch_without_any_label_has_a_loss_of_0() -> None:
    logits = torch.randn(1, 1 + N_CLASSES, 3, 3)
    assert SegmentationLoss().of_real(logits_of(logits, torch.zeros(1, N_CLASSES, 3, 3))) == 0


def test_labelmix_loss(reference: dict[str, Any]) -> None:
    case = reference["oasis_labelmix_loss"]
    inputs = case["inputs"]
    logits = {name: inputs[f"logits_{name}"].double().requires_grad_() for name in ("mixed", "fake", "real")}
    value = labelmix_loss(inputs["mask"] > 0, **logits)
    assert_close(value, case["value"])
    value.backward()
    for name, tensor in logits.items():
        assert tensor.grad is not None
        assert_close(tensor.grad, case["gradients"][name], 1e-10)


def test_labelmix_uses_a_table_of_draws(reference: dict[str, Any]) -> None:
    """The recorded mask of the original differs: it relabels in place."""
    case = reference["oasis_labelmix"]
    inputs = case["inputs"]
    draws = torch.zeros(N_CLASSES + 1, dtype=torch.bool)
    for number, draw in inputs["draw_of_class"].items():
        draws[int(number)] = bool(draw)
    mask = mask_of(one_hot(inputs["labels"]), draws)
    assert torch.equal(mask.double(), case["mask_by_table"])
    assert not torch.equal(mask.float(), case["mask_of_original"])


def test_the_mean_logit_of_a_segmentation_is_the_log_odds_of_real() -> None:
    logits = torch.zeros(1, 1 + N_CLASSES, 2, 2)
    assert mean_logits([logits]).item() == pytest.approx(torch.tensor(float(N_CLASSES)).log().item())
    logits[:, 0] = 50
    assert mean_logits([logits]).item() < -40


def test_labelmix_draws_independently_for_each_class_of_the_batch() -> None:
    torch.manual_seed(0)
    ids = torch.arange(N_CLASSES + 1).view(1, 1, 1, -1).expand(2, 1, 3, -1)  # the last id is no class
    masks = torch.stack([draw_mask(one_hot(ids)) for _ in range(200)])
    assert torch.equal(masks, masks[:, :1, :, :1].expand_as(masks))
    shares = masks[:, 0, 0, 0].double()
    assert ((shares.mean(0) - 0.5).abs() < 0.15).all()
    assert len(shares.unique(dim=0)) > 2 * N_CLASSES
