"""Sources of several folders, whose images are stacked along their channels."""

from collections.abc import Sequence

import torch
from torch import Tensor

from data.batch import DataError
from data.files.stored_images import StoredForm, check_depth, checked_values, read_pixels
from data.layout import Layout
from data.store import Blob, File
from utils.limits import MAX_CHANNELS
from utils.text import counted

_PREFIX = "source_"
_EXACT_IN_16_BITS = ({torch.uint8, torch.uint16}, {torch.uint8, torch.int16})


def further_kinds(n_folders: int) -> list[str]:
    """Return the kinds of map in the source folders after the first: source_2, source_3 and so on."""
    return [f"{_PREFIX}{number}" for number in range(2, n_folders + 1)]


def is_further(kind: str) -> bool:
    """Return whether a kind of map is that of a source folder after the first."""
    return kind.removeprefix(_PREFIX).isdecimal()


def stack_files(layout: Layout, index: int) -> list[Blob]:
    """Return the files of the images that are stacked in sample `index`, without a label map; empty without a stack."""
    origin = layout.origin(index)
    files = dict(zip(origin.kinds, origin.files, strict=False))
    kinds = [kind for kind in files if is_further(kind) or (kind == "source" and not layout.n_classes)]
    return [files[kind] for kind in kinds] if any(map(is_further, kinds)) else []


def read_part(file: File, form: StoredForm) -> Tensor:
    """Read one of the images of a stack, (C, H, W) with the channels and the type of the file.

    form: of the stack.

    Raises:
        DataError: as `read_stored`, but for the number of channels.
    """
    return checked_values(read_pixels(file, 0), file, form)


def stacked(images: Sequence[Tensor], files: Sequence[File], form: StoredForm) -> Tensor:
    """Return images of one size as one, (C, H, W) in a type that holds the values of all exactly.

    form: of the stack.

    Raises:
        DataError: as `fitting` and `check_depth`.
    """
    images = fitting(images, files, form)
    for number, (image, file) in enumerate(zip(images, files, strict=True)):
        check_depth(image, file, form, first_channel=sum(map(len, images[:number])))
    dtype = _common_type({image.dtype for image in images})
    return torch.cat([image.to(dtype) for image in images])


def fitting(images: Sequence[Tensor], files: Sequence[File], form: StoredForm) -> Sequence[Tensor]:
    """Return images that have the channels of a stack together; transparency is dropped where they fit without it.

    form: of the stack.

    Raises:
        DataError: the images have other channels together.
    """
    if sum(map(len, images)) > form.n_channels:
        opaque = [read_pixels(file, len(image) - 1) for image, file in zip(images, files, strict=True)]
        images = opaque if sum(map(len, opaque)) == form.n_channels else images
    n_channels = sum(map(len, images))
    if n_channels != form.n_channels:
        remedy = f"set {form.setting}={n_channels}, or store the files of each folder alike"
        remedy = remedy if n_channels <= MAX_CHANNELS else f"up to {MAX_CHANNELS} are read"
        remedy = remedy if form.highest is None else "give images like those of the training"
        each = [f"{file} has {counted(len(image), 'channel')}" for image, file in zip(images, files, strict=True)]
        raise DataError(f"{', '.join(each)}: together {n_channels}, {form.setting} is {form.n_channels}: {remedy}")
    return images


def _common_type(types: set[torch.dtype]) -> torch.dtype:
    """Return the smallest type of samples that holds all values of some."""
    if len(types) == 1:
        return next(iter(types))
    return next(iter(types - {torch.uint8})) if types in _EXACT_IN_16_BITS else torch.float32
