"""Instance norm with the right gradient in every memory layout."""

import torch.nn.functional as F
from torch import Tensor, nn


class InstanceNorm(nn.InstanceNorm2d):
    """nn.InstanceNorm2d without parameters and running statistics, which trains on one image in the image's layout.

    torch's own is batch norm of a view (1, N C, H, W) of a contiguous copy. On a CPU the gradient of a single image is
    wrong, without a message, where the one that comes in is channels-last (torch 2.15). Batch norm of the image itself
    gives the same values, and copies nothing.
    """

    def __init__(self, channels: int) -> None:
        super().__init__(channels)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each channel of each image of x, (N, C, H, W); H W is at least 2."""
        if not self.training or x.shape[2:].numel() == 1:
            return super().forward(x)  # exporters know it; and it refuses a single pixel
        if x.shape[0] > 1:
            return F.instance_norm(x.flatten(2), eps=self.eps).view(x.shape)
        if x.device.type == "cpu":
            return _of_plain_strides(F.batch_norm(_of_plain_strides(x), None, None, training=True, eps=self.eps))
        return F.batch_norm(x, None, None, training=True, eps=self.eps)


def _of_plain_strides(image: Tensor) -> Tensor:
    """Return a view of (1, C, H, W), in either direction, whose first stride is that of a new channels-last tensor.

    By another one, which unsqueeze gives, torch's batch norm on a CPU takes channels-last for contiguous (torch 2.15).
    """
    return image.permute(0, 2, 3, 1).squeeze(0).unsqueeze(0).permute(0, 3, 1, 2)
