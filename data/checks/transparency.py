"""Transparency of images, which reading drops."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from data.batch import DataError, Sample
from data.files.image_files import has_transparent_pixels
from data.files.stored_images import read_pixels
from data.layout import Layout
from data.stacked_sources import stack_files
from data.store import Blob

_OPAQUE = (1, 3)  # channels of an image without transparency


def channels_of_images(sample: Sample) -> dict[str, int]:
    """Return the channels of the maps of a sample that may be images, by kind."""
    images = {"source": sample.source, "source_images": sample.source_images, "target": sample.target}
    return {kind: len(image) for kind, image in images.items() if image is not None}


def dropped_transparency(layout: Layout, index: int, n_channels: Mapping[str, int]) -> list[Blob]:
    """Return the files of images of sample `index` that have transparent pixels and are read as opaque.

    n_channels: of the sample, as `channels_of_images` returns them.
    """
    origin, stack = layout.origin(index), stack_files(layout, index)
    images = {"target"} if layout.n_classes or stack else {"source", "target"}
    read_alone = {kind for kind, number in n_channels.items() if kind in images and number in _OPAQUE}
    kinds = origin.kinds or ["source"] * len(origin.files)  # of both sides in one file
    files = [file for kind, file in zip(kinds, origin.files, strict=True) if kind in read_alone]
    return [file for file in files if _is_transparent(file)] + _dropped_in_stack(stack, n_channels)


def _dropped_in_stack(stack: Sequence[Blob], n_channels: Mapping[str, int]) -> list[Blob]:
    transparent = [file for file in stack if _is_transparent(file)]
    n_stacked = n_channels.get("source_images", n_channels["source"])
    is_dropped = bool(transparent) and sum(len(read_pixels(file, 0)) for file in stack) > n_stacked
    return transparent if is_dropped else []


def _is_transparent(file: Blob) -> bool:
    with suppress(DataError):  # no format of Pillow's, such as .npy
        return has_transparent_pixels(file)
    return False
