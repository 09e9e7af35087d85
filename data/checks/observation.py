"""Peculiarities of samples that training accepts, such as a displacement of the two images of a pair.

data/checks/warnings.py names those that are mostly mistakes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from data.batch import Sample
from data.files.image_files import has_transparent_pixels, read_bits
from data.files.pixels import count_channels
from data.files.tiff_tags import PixelSize, file_tags
from data.layout import Layout
from data.map_reader import is_later_source, stack_files
from data.no_data import no_data
from data.store import Blob

MEASURED_SHIFTS = 32  # samples of a split, spread over it
_OPAQUE = (1, 3)  # channels of an image without transparency


@dataclass(frozen=True)
class Observation:
    """A sample's peculiarities, by kind: "source", "source_images", "target", or "pair" for a file of two.

    files: of images that are not of one colour, and of label maps with more than one id; none of weights.
    bits: of the channels of image files.
    constant: the channels, counted from 1, that have one value in all pixels.
    n_channels: of the images.
    no_data: the value that stands for no data in images, and how many pixels have it.
    pixel_sizes: Sizes of pixels that TIFF files name.
    classes: of a label map, also beside a source, those that occur; K for ignored pixels.
    sizes: heights and widths of the images.
    equals_source: whether the target is its source.
    shift: pixels that the target lies to the right of and below its source; None where that is not measured or unclear.
    is_ignored: whether the weights of all pixels are 0.
    stack_shift: likewise of the last image of a stack and the first map.
    transparent: files with transparent pixels that are read as opaque.
    is_grey: whether all channels of a source in RGB are the same.
    side: which of two sides it is of, "source" or "target"; None of a pair.
    """

    name: str
    files: Mapping[str, Blob] = field(default_factory=dict)
    bits: Mapping[str, int] = field(default_factory=dict)
    constant: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    n_channels: Mapping[str, int] = field(default_factory=dict)
    no_data: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    pixel_sizes: Mapping[str, PixelSize] = field(default_factory=dict)
    classes: frozenset[int] = frozenset()
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    equals_source: bool = False
    shift: tuple[int, int] | None = None
    is_ignored: bool = False
    stack_shift: tuple[int, int] | None = None
    transparent: Sequence[Blob] = ()
    is_grey: bool = False
    side: Literal["source", "target"] | None = None

    def of_side(self, side: Literal["source", "target"] | None) -> Self:
        """Return the observation of a sample, which has a source alone, as that of one of two sides."""
        if side != "target":
            return replace(self, side=side)
        of_source = {name: values.values() for name, values in vars(self).items() if isinstance(values, dict)}
        of_target: Any = {name: dict(zip(["target"], values, strict=False)) for name, values in of_source.items()}
        return replace(self, side=side, **of_target)


def observe(layout: Layout, index: int, sample: Sample) -> Observation:
    """Return the peculiarities of sample `index`, which has been read."""
    is_ids, target = layout.n_classes > 0, sample.target
    label_map = sample.source if is_ids else sample.labels
    maps = _images_of(sample)
    constant = {kind: _constant_channels(image) for kind, image in maps.items()}
    is_plain = {kind: len(constant[kind]) == len(image) for kind, image in maps.items()}
    is_plain["weights"] = is_plain["labels"] = True  # one mask often serves all splits
    images = {kind: image for kind, image in maps.items() if kind != "source" or not is_ids}
    files = layout.provenance(index).files
    is_stacked = any(map(is_later_source, files))
    of_images = {*images, "pair", *filter(is_later_source, files)}
    image = sample.source_images if is_ids else sample.source
    shift = stack_shift = None
    if index % -(-len(layout) // MEASURED_SHIFTS) == 0:
        if target is not None:
            compared = sample.source
            if is_stacked and not is_ids:  # with one standard deviation, so that no channel outweighs the others
                compared = compared.float() / compared.float().std(dim=(1, 2), keepdim=True).clamp_min(1e-6)
            shift = displacement(compared, target, source_is_ids=is_ids)
        if is_stacked:
            last = sample.source if sample.source_images is None else sample.source_images
            stack_shift = displacement(sample.source[:1], last[-1:], source_is_ids=is_ids)
    return Observation(
        name=layout.names[index],
        files={kind: file for kind, file in files.items() if not is_plain.get(kind, all(is_plain.values()))},
        bits={kind: bits for kind, file in files.items() if kind in of_images and (bits := read_bits(file))},
        constant={kind: constant[kind] for kind in images},
        n_channels={kind: len(image) for kind, image in images.items()},
        no_data={kind: found for kind, image in images.items() if (found := no_data(image, files.get(kind)))},
        pixel_sizes={kind: size for kind in images if (size := _pixel_size(files.get(kind)))},
        classes=frozenset() if label_map is None else values_of(label_map),
        sizes={kind: (image.shape[1], image.shape[2]) for kind, image in images.items()},
        equals_source=target is not None and image is not None and _is_part(target, image),
        shift=shift,
        stack_shift=stack_shift,
        is_ignored=sample.weights is not None and not bool(sample.weights.any()),
        transparent=dropped_transparency(layout, index, channels_of_images(sample)),
        is_grey=not is_ids and len(sample.source) == 3 and bool((sample.source == sample.source[:1]).all()),
    )


def _images_of(sample: Sample) -> dict[str, Tensor]:
    """Return the maps of a sample that may be images, by kind."""
    maps = sample.maps
    return {kind: maps[kind] for kind in ("source", "source_images", "target") if kind in maps}


def values_of(ids: Tensor) -> frozenset[int]:
    """Return the values that occur in a map of ids."""
    return frozenset(np.unique(ids.numpy()).tolist())


def _pixel_size(file: Blob | None) -> PixelSize | None:
    """Return the size of a pixel that a TIFF names, or None."""
    return file_tags(file).pixel_size


def channels_of_images(sample: Sample) -> dict[str, int]:
    """Return the channels of the maps of a sample that may be images, by kind."""
    return {kind: len(image) for kind, image in _images_of(sample).items()}


def dropped_transparency(layout: Layout, index: int, n_channels: Mapping[str, int]) -> list[Blob]:
    """Return the files of images of sample `index` that have transparent pixels and are read as opaque.

    n_channels: of the sample, as `channels_of_images` returns them.
    """
    stack = stack_files(layout, index)
    images = {"target"} if layout.n_classes or stack else {"source", "target"}
    read_alone = {"pair", *(kind for kind, number in n_channels.items() if kind in images and number in _OPAQUE)}
    files = [file for kind, file in layout.provenance(index).files.items() if kind in read_alone]
    in_stack = list(filter(has_transparent_pixels, stack))
    n_stacked = n_channels.get("source_images", n_channels["source"])
    is_dropped = bool(in_stack) and sum(map(count_channels, stack)) > n_stacked
    return [*filter(has_transparent_pixels, files), *(in_stack if is_dropped else ())]


def _is_part(target: Tensor, source: Tensor) -> bool:
    """Return whether a target is a source image, or channels of it that follow each other."""
    ours, theirs = source.numpy(), target.numpy()
    places = range(len(ours) - len(theirs) + 1)
    return any(np.array_equal(ours[place : place + len(theirs)], theirs) for place in places)


def _constant_channels(image: Tensor) -> tuple[int, ...]:
    pixels = image.numpy().reshape(len(image), -1)
    is_constant = pixels.min(axis=1) == pixels.max(axis=1)
    return tuple(channel for channel, constant in enumerate(is_constant, 1) if constant)


MIN_SIDE = 48  # pixels; smaller images have too few contours
_MAX_SIDE = 512  # pixels of the middle that is compared
_MAX_SHARE = 1 / 8  # of a side: farther displacements are not looked for
_CLEAR_PEAK = 12.0  # height of a peak above the mean, in standard deviations
_BEYOND_REST = 1.5  # times that a peak is higher than that of no displacement


def displacement(source: Tensor, target: Tensor, *, source_is_ids: bool) -> tuple[int, int] | None:
    """Return how many pixels a target lies to the right of and below its source; None where that is not clear.

    The middles of both are compared, by phase correlation (Kuglin and Hines 1975) of their contours, since a label map
    and a photo share nothing else. Displacements of up to an eighth of a side are found; that of drawn lines to within
    3 pixels. scikit-image's phase_cross_correlation would name one for unrelated images too, without a measure of it.

    source: (C, H, W) image, or (1, H, W) ids. target: (C, H, W) image. The larger one is reduced to the other's sides,
        whose pixels are counted; None where the sides have another ratio.
    """
    sides = min(tuple(source.shape[-2:]), tuple(target.shape[-2:]))
    if source.shape[-2] * target.shape[-1] != source.shape[-1] * target.shape[-2]:
        return None
    source, target = _reduced(source, sides, source_is_ids), _reduced(target, sides)
    height, width = (min(side, _MAX_SIDE) for side in sides)
    if min(height, width) < MIN_SIDE:
        return None
    window = torch.hann_window(height)[:, None] * torch.hann_window(width)
    contours = [_contours(_middle(source, height, width), source_is_ids), _contours(_middle(target, height, width))]
    of_source, of_target = (torch.fft.rfft2(window * (strength - strength.mean())) for strength in contours)
    cross = of_source.conj() * of_target
    correlation = torch.fft.irfft2(cross / cross.abs().sqrt().clamp_min(1e-12), s=(height, width))
    score = (correlation - correlation.mean()) / correlation.std().clamp_min(1e-12)
    far_y, far_x = int(height * _MAX_SHARE), int(width * _MAX_SHARE)
    near = score.roll((far_y, far_x), (0, 1))[: 2 * far_y + 1, : 2 * far_x + 1]
    peak, place = near.flatten().max(0)
    if peak < _CLEAR_PEAK:
        return None
    if peak < _BEYOND_REST * near[far_y - 1 : far_y + 2, far_x - 1 : far_x + 2].max():
        return 0, 0
    y, x = divmod(int(place), 2 * far_x + 1)
    return x - far_x, y - far_y


def _reduced(image: Tensor, sides: tuple[int, ...], is_ids: bool = False) -> Tensor:
    """Return an image at other sides: the means of its pixels, or ids of the nearest."""
    if image.shape[-2:] == sides:
        return image
    return F.interpolate(image[None].float(), sides, mode="nearest-exact" if is_ids else "area")[0]


def _middle(image: Tensor, height: int, width: int) -> Tensor:
    top, left = (image.shape[-2] - height) // 2, (image.shape[-1] - width) // 2
    return image[:, top : top + height, left : left + width]


def _contours(image: Tensor, is_ids: bool = False) -> Tensor:
    """Return (H, W) float32: the strength of contours."""
    grey = image.float() if is_ids else image.float().mean(0, keepdim=True)
    down, across = (F.pad(grey.diff(dim=d), pad)[0] for d, pad in ((1, (0, 0, 0, 1)), (2, (0, 1))))
    if is_ids:
        return ((down != 0) | (across != 0)).float()
    return torch.hypot(down, across).sqrt()
