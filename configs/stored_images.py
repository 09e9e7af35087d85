"""Images that are not 8-bit RGB, as the settings describe them."""

from collections.abc import Mapping
from dataclasses import replace

import torch

from configs.schema import DataConfig
from configs.schema.sides import RGB_CHANNELS
from data.files.pixels import StoredForm
from data.value_range import ValueRange
from utils.text import counted, exact

EIGHT_BITS = [0.0, 255.0]
_SHOWN_RANGES = 4


def value_ranges(data: DataConfig) -> dict[str, ValueRange]:
    """Return the ranges of values that settings give to targets and to images of sources, by kind of map."""
    of_source = None if data.has_labels and not data.is_stacked else data.source_range
    bounds = {data.source_images: of_source, "target": data.target_range}
    return {side: ValueRange.of(of_side) for side, of_side in bounds.items() if of_side is not None}


def stored_forms(data: DataConfig) -> dict[str, StoredForm]:
    """Return the forms of the images that are not read as 8-bit RGB: they have a range, other channels or a stack."""
    sides = {"target": (data.target_channels, data.target_range)}
    if not data.has_labels or data.is_stacked:
        sides = {"source": (data.source_channels, data.source_range)} | sides
    return {
        data.source_images if side == "source" else side: StoredForm(
            n_channels, f"data.{side}_channels", is_8_bit=bounds is None
        )
        for side, (n_channels, bounds) in sides.items()
        if bounds is not None or n_channels not in RGB_CHANNELS or (side == "source" and data.is_stacked)
    }


def trained_forms(data: DataConfig) -> dict[str, StoredForm]:
    """Return the forms of images that a trained network gets from elsewhere, as those of `stored_forms`."""
    forms = {}
    for side, form in stored_forms(data).items():
        bounds = (data.target_range if side == "target" else data.source_range) or EIGHT_BITS
        highest = tuple(bounds[1::2])
        forms[side] = replace(form, highest=highest * form.n_channels if len(highest) == 1 else highest)
    return forms


def allowing_missing(forms: Mapping[str, StoredForm]) -> dict[str, StoredForm]:
    """Return forms that also read sources with pixels without data."""
    return {kind: replace(form, allows_missing=kind != "target") for kind, form in forms.items()}


def applies_target_files(data: DataConfig) -> bool:
    """Return whether test.py can write `data.target_files`: translations into 8-bit RGB hold no other type."""
    return data.target_files is not None and ("target" in stored_forms(data) or data.target_files.startswith("uint8."))


def target_dtype(data: DataConfig) -> torch.dtype:
    """Return the type of the values of translated images."""
    dtype = getattr(torch, (data.target_files or "uint8.png").partition(".")[0])
    assert isinstance(dtype, torch.dtype)
    return dtype


def describe_pixels(data: DataConfig) -> list[str]:
    """Return lines on the images that are not 8-bit RGB: their channels, and the values that networks see."""
    lines = []
    for side, form in stored_forms(data).items():
        bounds = (data.target_range if side == "target" else data.source_range) or EIGHT_BITS
        pairs = list(zip(bounds[::2], bounds[1::2], strict=True))
        shown = [f"{exact(low)} to {exact(high)}" for low, high in pairs[:_SHOWN_RANGES]]
        shown += ["…"] if len(pairs) > _SHOWN_RANGES else []
        files = f", written as {data.target_files}" if side == "target" and data.target_files else ""
        stack = data.source_folder[int(data.has_labels) :] if data.is_stacked and side != "target" else []
        folders = f" of {', '.join(stack)}" if stack else ""
        name = "source images" if side == "source_images" else f"{side}s"
        lines.append(f"{name:<15}{counted(form.n_channels, 'channel')}{folders}, values {', '.join(shown)}{files}")
    return lines
