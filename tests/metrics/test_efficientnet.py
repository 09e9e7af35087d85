"""The perceptual distance, FID and KID with the weights of EfficientNet-Lite2."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from metrics.evaluator import Evaluator

ROOT = Path(__file__).parents[2]
CPU = torch.device("cpu")
FIGURES = ("perceptual_distance", "fid", "kid")
Change = Callable[[Tensor], Tensor]


def pictures() -> list[Tensor]:
    sheet = torch.from_numpy(np.array(Image.open(ROOT / "docs" / "demo.jpg").convert("RGB"))).permute(2, 0, 1)
    return [sheet[:, 96 * y : 96 * y + 96, 96 * x : 96 * x + 96] for y, x in ((0, 0), (0, 2), (1, 1))]


def blur(side: int) -> Change:
    return lambda image: F.avg_pool2d(image.float(), side, 1, side // 2).to(torch.uint8)


def noise(deviation: float) -> Change:
    def change(image: Tensor) -> Tensor:
        drawn = torch.randn(image.shape, generator=torch.Generator().manual_seed(0))
        return (image + deviation * drawn).clamp(0, 255).to(torch.uint8)

    return change


def test_more_blur_and_more_noise_are_worse_and_nothing_is_0() -> None:
    evaluator = Evaluator.load(FIGURES, None, CPU, features="efficientnet_lite2")

    def figures(change: Change) -> list[float]:
        summary = evaluator.summarize([evaluator.measure(change(image), image) for image in pictures()])
        return [summary.figures[name] for name in FIGURES]

    same = figures(lambda image: image)
    assert same[0] == 0
    assert abs(same[1]) < 1e-2
    assert same[2] <= 1e-6  # the estimate has no bias, so it is below 0 for equal sets
    for changes in ((blur(3), blur(7)), (noise(10), noise(40))):
        little, much = map(figures, changes)
        assert all(a < b < c for a, b, c in zip(same, little, much, strict=True)), (same, little, much)


def test_the_record_names_the_network() -> None:
    evaluator = Evaluator.load(FIGURES, None, CPU, features="efficientnet_lite2")
    protocol = evaluator.protocol
    assert protocol["efficientnet_lite2"]["network"] == "EfficientNet-Lite2, 1280 features"
    assert protocol["perceptual_distance"]["weights"] == "efficientnet-lite2-9656183e.pth"
    assert protocol["efficientnet_lite2"] in evaluator.basis("kid")
