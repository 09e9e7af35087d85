"""On the device: uint8 maps -> what the networks see, and back. Nothing else converts ranges."""

import torch
from torch import Tensor


def images_to_float(images: Tensor) -> Tensor:
    """(N, 3, H, W) uint8 -> float32 in [-1, 1]."""
    return images.float().div_(127.5).sub_(1.0)


def images_to_uint8(images: Tensor) -> Tensor:
    """(..., H, W) floats in [-1, 1] -> uint8, rounded to the nearest level."""
    return images.float().add(1.0).mul_(127.5).round_().clamp_(0, 255).to(torch.uint8)


def one_hot(labels: Tensor, n_classes: int) -> Tensor:
    """(N, 1, H, W) class ids -> (N, K, H, W) float32 in {0, 1}; an ignored pixel is 0 in every channel."""
    classes = torch.arange(n_classes, device=labels.device, dtype=labels.dtype).view(1, -1, 1, 1)
    return (labels == classes).float()


def instance_edges(instances: Tensor) -> Tensor:
    """(N, 1, H, W) ids -> (N, 1, H, W) float32: 1 where one of the 4 neighbours has another id (pix2pixHD)."""
    edges = torch.zeros_like(instances, dtype=torch.bool)
    differs_across = instances[..., :, 1:] != instances[..., :, :-1]
    differs_down = instances[..., 1:, :] != instances[..., :-1, :]
    edges[..., :, 1:] |= differs_across
    edges[..., :, :-1] |= differs_across
    edges[..., 1:, :] |= differs_down
    edges[..., :-1, :] |= differs_down
    return edges.float()


def source_channels(n_classes: int, has_instance_edges: bool) -> int:
    """Number of channels of `condition`'s result."""
    return (n_classes or 3) + int(has_instance_edges)


def condition(source: Tensor, instances: Tensor | None, n_classes: int) -> Tensor:
    """What the networks are conditioned on, (N, C, H, W) float32.

    The order of pix2pixHD: one-hot labels (or the RGB image in [-1, 1] where n_classes is 0), then the instance
    edges where instances are given.
    """
    channels = one_hot(source, n_classes) if n_classes else images_to_float(source)
    return channels if instances is None else torch.cat([channels, instance_edges(instances)], dim=1)
