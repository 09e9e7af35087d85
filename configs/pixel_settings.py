"""The settings of images that are not 8-bit RGB, where the training files decide them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch

from configs import build
from configs.pixels import stored_forms
from configs.schema import Config, DataConfig
from configs.schema.pixels import RGB_CHANNELS, fits_file
from data.batch import DataError, LoadingError
from data.layout import Layout
from data.stored_images import StoredForm, is_8_bit_rgb, read_stored
from data.tiff_file import TIFF_SUFFIXES
from data.value_range import percentile_ranges

Side = Literal["source", "target"]


def undecided_sides(data: DataConfig, layout: Layout) -> list[Side]:
    """Return the sides whose files decide settings that are null: their images are not 8-bit RGB.

    Only the header of their first files is read.
    """
    if data.layout != "paired_folders" or not len(layout):
        return []
    undecided = {
        "source": data.source_range is None,
        "target": data.target_range is None or data.target_files is None,
    }
    forms = stored_forms(data)
    files = _files(layout, 0)
    return [side for side in files if undecided[side] and (side in forms or not is_8_bit_rgb(files[side]))]


def _files(layout: Layout, index: int) -> dict[Side, Path]:
    """Return the files of images of sample `index`, without the label map."""
    files: dict[Side, Path] = dict(zip(("source", "target"), layout.origin(index).files, strict=False))
    return {side: path for side, path in files.items() if side == "target" or not layout.n_classes}


def with_pixel_settings(config: Config, layout: Layout, sides: Sequence[Side]) -> Config:
    """Return the configuration with the ranges of images, and with the type of the files that test.py writes.

    layout: of the training split. sides: as `undecided_sides` returns them.

    Raises:
        DataError: a file cannot be used, and bad samples are not skipped.
    """
    data = config.data
    given = {"source": data.source_range, "target": data.target_range}
    channels = {"source": data.source_channels, "target": data.target_channels}
    skips_bad = data.on_bad_sample == "skip"
    forms = [StoredForm(channels[side], f"data.{side}_channels", is_8_bit=False) for side in sides]
    types, files = _first_types(layout, dict(zip(sides, forms, strict=True)), skips_bad=skips_bad)
    needed = [side for side, dtype in types.items() if given[side] is None and dtype != torch.uint8]
    if needed:
        # any range makes the layout read the images as they are stored
        readable: dict[str, list[float]] = {f"{side}_range": [0.0, 1.0] for side in needed}
        as_stored = build.build_layout(with_data(config, **readable), "train", needs_targets=True)
        given |= percentile_ranges(as_stored, needed, skips_bad=skips_bad)
    for side, dtype in types.items():
        if given[side] is None and dtype == torch.uint8 and channels[side] in RGB_CHANNELS:
            given[side] = [0.0, 255.0]
    target_files = data.target_files
    if "target" in types and target_files is None:
        target_files = _target_files(files["target"], types["target"], data.target_channels)
    return with_data(config, source_range=given["source"], target_range=given["target"], target_files=target_files)


def with_data(config: Config, **settings: Any) -> Config:
    """Return the configuration with other settings of section `data`."""
    return replace(config, data=replace(config.data, **settings))


def _first_types(
    layout: Layout, forms: Mapping[Side, StoredForm], *, skips_bad: bool
) -> tuple[dict[Side, torch.dtype], dict[Side, Path]]:
    """Return the types of the images of the first sample that can be read, and their files."""
    for index in range(len(layout)):
        files = _files(layout, index)
        try:
            return {side: read_stored(files[side], form).dtype for side, form in forms.items()}, files
        except DataError as error:
            if not skips_bad or isinstance(error, LoadingError) or index == len(layout) - 1:
                raise
    return {}, {}


def _target_files(path: Path, dtype: torch.dtype, n_channels: int) -> str:
    """Return `data.target_files` for targets that are as a file is."""
    kind = str(dtype).removeprefix("torch.")
    suffix = path.suffix.lower()
    if suffix in TIFF_SUFFIXES:
        return f"{kind}.tif"
    as_png = f"{kind}.png"
    is_png = suffix != ".npy" and kind in ("uint8", "uint16") and fits_file(as_png, n_channels)
    return as_png if is_png else f"{kind}.npy"
