"""The settings of images that are not 8-bit RGB, where the training files decide them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor

from configs.data_facts import EIGHT_BITS, storage_formats
from configs.schema import Config, DataConfig
from configs.schema.sides import OF_MAPS, RGB_CHANNELS, fits_file
from configs.splits import open_split
from data.batch import DataError, LoadingError
from data.files.pixels import StoredForm, is_8_bit_rgb, read_stored
from data.files.tiff_tags import TIFF_SUFFIXES
from data.layout import Layout
from data.map_reader import fitting, read_part, stack_files
from data.store import Blob, File
from data.value_range import percentile_ranges

Side = Literal["source", "target"]


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
    known = storage_formats(data).keys() | ({"source"} if data.is_stacked else set())
    files = _files(layout, 0)
    return [side for side in files if undecided[side] and (side in known or not is_8_bit_rgb(files[side][0]))]


def _files(layout: Layout, index: int) -> dict[Side, list[Blob]]:
    """Return the files of images of sample `index`, without a label map; of a side several where they are stacked."""
    files = layout.provenance(index).files
    sources = [] if layout.n_classes or "source" not in files else [files["source"]]
    targets = [files["target"]] if "target" in files else []
    by_side: dict[Side, list[Blob]] = {"source": stack_files(layout, index) or sources, "target": targets}
    return {side: of_side for side, of_side in by_side.items() if of_side}


def with_measured_ranges(config: Config, layout: Layout, sides: Sequence[Side]) -> Config:
    """Return the configuration with the ranges of images, and with the type of the files that test.py writes.

    Channels of files of 8 bits have the range 0 to 255, others percentiles of their values.
    layout: of the training split. sides: as `undecided_sides` returns them.

    Raises:
        DataError: a file cannot be used, and bad samples are not skipped.
    """
    data = config.data
    ranges = {"source": data.source_range, "target": data.target_range}
    types, files = _first_readable(data, layout, sides)
    undecided = [side for side in sides if ranges[side] is None]
    measured = _percentiles(config, [side for side in undecided if set(types[side]) != {torch.uint8}])
    for side in undecided:
        of_stack = side == "source" and data.is_stacked
        if side in measured:
            pairs = zip(measured[side][::2], measured[side][1::2], strict=True)
            of_channels = zip(types[side], pairs, strict=True)
            ranges[side] = [
                bound for dtype, pair in of_channels for bound in (EIGHT_BITS if dtype == torch.uint8 else pair)
            ]
        elif of_stack or len(types[side]) in RGB_CHANNELS:
            ranges[side] = [*EIGHT_BITS] * (len(types[side]) if of_stack else 1)
    target_files = data.target_files
    if "target" in sides and target_files is None:
        target_files = _target_files(files["target"][0], types["target"][0], data.target_channels)
    return with_data(config, source_range=ranges["source"], target_range=ranges["target"], target_files=target_files)


def _first_readable(
    data: DataConfig, layout: Layout, sides: Sequence[Side]
) -> tuple[dict[Side, list[torch.dtype]], dict[Side, list[Blob]]]:
    """Return the type of each channel, and the files, of the first sample that can be read; raises DataError."""
    channels = {"source": data.source_channels, "target": data.target_channels}
    forms = {side: StoredForm(channels[side], f"data.{side}_channels", is_8_bit=False) for side in sides}
    for index in range(len(layout)):
        files = _files(layout, index)
        try:
            images = {side: _read(files[side], form) for side, form in forms.items()}
        except DataError as error:
            if data.on_bad_sample == "error" or isinstance(error, LoadingError) or index == len(layout) - 1:
                raise
        else:
            return {side: [image.dtype for image in images[side] for _ in image] for side in sides}, files
    raise AssertionError("sides are undecided, and there is no sample")


def _read(files: Sequence[Blob], form: StoredForm) -> Sequence[Tensor]:
    """Read the images of a side, (C, H, W) each."""
    if len(files) == 1:
        return [read_stored(files[0], form)]
    return fitting([read_part(file, form) for file in files], files, form)


def _percentiles(config: Config, sides: Sequence[Side]) -> dict[Side, list[float]]:
    """Return low and high of each channel of images of the training split."""
    if not sides:
        return {}
    # any range makes the layout read the images as they are stored
    readable = with_data(config, **{f"{side}_range": [0.0, 1.0] for side in sides})
    as_stored = open_split(readable, "train", needs_targets=True)
    kinds = {side: config.data.source_images if side == "source" else side for side in sides}
    ranges = percentile_ranges(as_stored, list(kinds.values()), skips_bad=config.data.on_bad_sample == "skip")
    return {side: ranges[kind] for side, kind in kinds.items()}


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
