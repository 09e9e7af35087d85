"""Metrics after the best small shift of an image, for targets that are not quite aligned with their sources."""

import torch
from torch import Tensor

from metrics.image_metrics import MAX_PSNR, extended
from utils.structural_similarity import WINDOW, structural_similarity


def figures_after_shift(fake: Tensor, target: Tensor, reach: int) -> dict[str, float]:
    """Return metrics by name for a translated image and its target, after the shift with the least L1 distance.

    shift_x, shift_y: Position in the translated image minus position in the target, in pixels, at most `reach`. Of
        equally good shifts, the shortest is chosen.
    l1_shifted, psnr_shifted, ssim_shifted: Metrics over the target without a border of `reach` pixels.

    fake, target: (C, H, W) floats in [0, 1], same dtype. reach: Largest shift in pixels (less in small images).
    """
    height, width = target.shape[1:]
    reach = min(reach, (min(height, width) - 1) // 2)
    inner_height, inner_width = height - 2 * reach, width - 2 * reach
    inside = target[:, reach : height - reach, reach : width - reach]

    def moved(x: int, y: int) -> Tensor:
        return fake[:, reach + y : reach + y + inner_height, reach + x : reach + x + inner_width]

    offsets = range(-reach, reach + 1)
    shifts = sorted(((x, y) for y in offsets for x in offsets), key=lambda of: (of[0] ** 2 + of[1] ** 2, of[1], of[0]))
    costs = torch.stack([(moved(*shift) - inside).abs_().mean() for shift in shifts]).tolist()  # waits once for a GPU
    best = min(range(len(shifts)), key=costs.__getitem__)
    shifted = moved(*shifts[best])
    similarity, _ = structural_similarity(*(extended(image[None], WINDOW) for image in (shifted, inside)))
    psnr = -10 * (shifted - inside).square().mean().log10()
    return {
        "l1_shifted": costs[best],
        "psnr_shifted": min(psnr.item(), MAX_PSNR),
        "ssim_shifted": similarity.mean().item(),
        "shift_x": float(shifts[best][0]),
        "shift_y": float(shifts[best][1]),
    }
