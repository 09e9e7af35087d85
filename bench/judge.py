"""A small segmentation network that judges translated images: does a photo show the classes that it was made of?

The mean intersection over union of its maps with the sources is how the field scores semantic synthesis (Wang et al.
2018, section 4.1), there with networks trained on Cityscapes.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.lr_scheduler import OneCycleLR
from torchmetrics.functional.classification import multiclass_confusion_matrix

from data.conditioning import images_to_float
from data.layout import Layout
from metrics.segmentation import label_scores
from models.segmentation_discriminator import SegmentationUnet

N_STEPS = 600
BATCH_SIZE = 8
WIDTHS = [3, 32, 32, 64, 64]


@dataclass(frozen=True)
class Judge:
    """A network that maps (N, 3, H, W) images in [-1, 1] to the logits of the classes of `names`."""

    network: nn.Module
    names: tuple[str, ...]

    @classmethod
    def train(cls, layout: Layout, names: tuple[str, ...], seed: int = 0) -> Self:
        """Return a network that is trained on the real pairs of a layout, whose images have one size."""
        pairs = [layout.read(index) for index in range(len(layout))]
        labels = torch.cat([pair.source for pair in pairs]).long()
        photos = torch.stack([pair.target for pair in pairs if pair.target is not None])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = SegmentationUnet(WIDTHS, WIDTHS[1], len(names))
            optimizer = torch.optim.Adam(network.parameters())
            schedule = OneCycleLR(optimizer, max_lr=2e-3, total_steps=N_STEPS)
            for _ in range(N_STEPS):
                chosen = torch.randint(len(pairs), (BATCH_SIZE,))
                loss = F.cross_entropy(network(images_to_float(photos[chosen])), labels[chosen])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
        return cls(network.eval(), names)

    @torch.inference_mode()
    def mean_iou(self, images: Iterable[tuple[Tensor | None, Tensor]]) -> float:
        """Return the mean IoU, 0 to 1, of (3, H, W) uint8 images with their (1, H, W) class ids."""
        matrix = torch.zeros(len(self.names), len(self.names), dtype=torch.int64)
        for image, labels in images:
            assert image is not None
            found = self.network(images_to_float(image.unsqueeze(0))).argmax(dim=1)
            matrix += multiclass_confusion_matrix(found, labels.long(), num_classes=len(self.names))
        scores = label_scores(matrix, self.names)
        assert scores is not None
        return scores.mean_iou
