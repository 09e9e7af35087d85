"""The settings of images that are not 8-bit RGB, where the training files decide them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar

import torch

from configs import build
from configs.schema import Config, DataConfig
from configs.schema.sides import OF_MAPS, RGB_CHANNELS, fits_file
from configs.stored_images import EIGHT_BITS, stored_forms
from data.batch import DataError, LoadingError
from data.files.pixels import StoredForm, is_8_bit_rgb, read_stored
from data.files.tiff_file import TIFF_SUFFIXES
from data.layout import Layout
from data.map_reader import fitting, read_part, stack_files
from data.store import Blob, File
from data.value_range import percentile_ranges

Side = Literal["source", "target"]
T = TypeVar("T")
_SIDES: tuple[Side, ...] = ("source", "target")


def undecided_sides(data: DataConfig, layout: Layout) -> list[Side]:
    """Return the sides whose files decide settings that are null: their images are not 8-bit RGB.

    Only the header of their first files is read.
    """
    if data.layout not in OF_MAPS or not len(layout):
        return []
    undecided = {
        "source": data.source_range is None,
        "target": data.target_range is None or data.target_files is None,
    }
    forms = stored_forms(data)
    files = _files(layout, 0)
    sides: list[Side] = [side for side in files if undecided[side] and (side in forms or not is_8_bit_rgb(files[side]))]
    return ["source", *sides] if data.is_stacked and undecided["source"] else sides


def _files(layout: Layout, index: int) -> dict[Side, Blob]:
    """Return the files of images of sample `index`, without the label map and without a stack of several."""
    provenance = layout.provenance(index)
    files = dict(zip(provenance.kinds, provenance.files, strict=True))
    has_source_image = not layout.n_classes and not stack_files(layout, index)
    return {side: files[side] for side in _SIDES if side in files and (side == "target" or has_source_image)}


def with_measured_ranges(config: Config, layout: Layout, sides: Sequence[Side]) -> Config:
    """Return the configuration with the ranges of images, and with the type of the files that test.py writes.

    layout: of the training split. sides: as `undecided_sides` returns them.

    Raises:
        DataError: a file cannot be used, and bad samples are not skipped.
    """
    data = config.data
    of_stack: list[Side] = [side for side in sides if side == "source" and data.is_stacked]
    sides = [side for side in sides if side not in of_stack]
    given = {"source": data.source_range, "target": data.target_range}
    channels = {"source": data.source_channels, "target": data.target_channels}
    skips_bad = data.on_bad_sample == "skip"
    forms = [StoredForm(channels[side], f"data.{side}_channels", is_8_bit=False) for side in sides]

    def read(index: int) -> tuple[dict[Side, torch.dtype], dict[Side, Blob]]:
        files = _files(layout, index)
        return {side: read_stored(files[side], form).dtype for side, form in zip(sides, forms, strict=True)}, files

    types, files = _of_first_readable(len(layout), read, skips_bad=skips_bad) or ({}, {})
    needed = [side for side, dtype in types.items() if given[side] is None and dtype != torch.uint8]
    if needed:
        # any range makes the layout read the images as they are stored
        readable: dict[str, list[float]] = {f"{side}_range": [0.0, 1.0] for side in [*needed, *of_stack]}
        as_stored = build.build_layout(with_data(config, **readable), "train", needs_targets=True)
        given |= percentile_ranges(as_stored, needed, skips_bad=skips_bad)
    for side, dtype in types.items():
        if given[side] is None and dtype == torch.uint8 and channels[side] in RGB_CHANNELS:
            given[side] = [0.0, 255.0]
    target_files = data.target_files
    if "target" in types and target_files is None:
        target_files = _target_files(files["target"], types["target"], data.target_channels)
    config = with_data(config, source_range=given["source"], target_range=given["target"], target_files=target_files)
    return with_data(config, source_range=stacked_range(config, layout)) if of_stack else config


def stacked_range(config: Config, layout: Layout) -> list[float]:
    """Return the range of each channel of stacked images: of files of 8 bits 0 to 255, of others percentiles.

    config: which has the range of the targets. layout: of the training split.

    Raises:
        DataError: a file cannot be used, and bad samples are not skipped.
    """
    skips_bad = config.data.on_bad_sample == "skip"
    of_folders = _channels_of_folders(config, layout, skips_bad=skips_bad)
    is_8_bit = [dtype == torch.uint8 for n_channels, dtype in of_folders for _ in range(n_channels)]
    if all(is_8_bit):
        return EIGHT_BITS * len(is_8_bit)
    # any range makes the layout read the images as they are stored
    as_stored = build.build_layout(with_data(config, source_range=[0.0, 1.0]), "train", needs_targets=True)
    kind = config.data.source_images
    bounds = percentile_ranges(as_stored, [kind], skips_bad=skips_bad)[kind]
    pairs = [EIGHT_BITS if is_8 else bounds[2 * k : 2 * k + 2] for k, is_8 in enumerate(is_8_bit)]
    return [bound for pair in pairs for bound in pair]


def _channels_of_folders(config: Config, layout: Layout, *, skips_bad: bool) -> list[tuple[int, torch.dtype]]:
    """Return channels and type of the image of each folder of a stack, of the first sample that can be read."""
    form = replace(stored_forms(config.data)[config.data.source_images], is_8_bit=False)

    def read(index: int) -> list[tuple[int, torch.dtype]]:
        files = stack_files(layout, index)
        images = fitting([read_part(file, form) for file in files], files, form)
        return [(len(image), image.dtype) for image in images]

    return _of_first_readable(len(layout), read, skips_bad=skips_bad) or []


def _of_first_readable(n_samples: int, read: Callable[[int], T], *, skips_bad: bool) -> T | None:
    """Return what `read` returns for the first sample that can be used; None without samples."""
    for index in range(n_samples):
        try:
            return read(index)
        except DataError as error:
            if not skips_bad or isinstance(error, LoadingError) or index == n_samples - 1:
                raise
    return None


def with_data(config: Config, **settings: Any) -> Config:
    """Return the configuration with other settings of section `data`."""
    return replace(config, data=replace(config.data, **settings))


def _target_files(file: File, dtype: torch.dtype, n_channels: int) -> str:
    """Return `data.target_files` for targets that are as a file is."""
    kind = str(dtype).removeprefix("torch.")
    suffix = file.suffix.lower()
    if suffix in TIFF_SUFFIXES:
        return f"{kind}.tif"
    as_png = f"{kind}.png"
    is_png = suffix != ".npy" and kind in ("uint8", "uint16") and fits_file(as_png, n_channels)
    return as_png if is_png else f"{kind}.npy"
