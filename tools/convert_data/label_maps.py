"""Convert label maps that are drawn in colours to class ids."""

import math
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import torch
import yaml
from torch import Tensor

from data.batch import DataError
from data.files.image_files import read_rgb
from data.map_reader import IGNORE_ID, packed_colors
from tools.convert_data.conversion import Conversion, convert_all, found_images
from utils.files import replacing
from utils.label_colors import LabelColors, read_label_colors
from utils.machine import usable_cores
from utils.text import counted
from utils.worker_threads import in_order, worker_threads

_JPEG_SUFFIXES = (".jpg", ".jpeg")
_AREA_SHARE = 1e-4  # a class colour fills at least this number of areas per pixel of the map
_NEAR = 40.0  # RGB distance; closer colours in JPEG files are one class


def colors_to_ids(
    origin: Path, target: Path, colors_file: str | None, *, replaces: bool, problems: list[str]
) -> list[str]:
    """Convert the maps below `origin` to ids in `target`, and write a table of colours and names to `target`.yaml.

    Return lines about the result. Append the problems of omitted maps to `problems`.
    colors_file: File or name as in metrics.label_colors. None: Find the colours in the maps.

    Raises:
        DataError: There is no map, the colours cannot be classes, or `target` exists and must not be replaced.
        ConfigError: `colors_file` cannot be used.
    """
    maps = found_images(origin, problems)
    table = target.resolve().with_name(f"{target.resolve().name}.yaml")
    if not replaces and (present := next((path for path in (table, target) if path.exists()), None)):
        raise DataError(f"{present}: already exists; choose another TO, or --existing replace")
    colors = read_label_colors(colors_file, "--colors") if colors_file else _found_colors(maps, origin)
    if colors.n_classes > IGNORE_ID:
        raise DataError(f"--colors {colors_file}: {colors.n_classes} classes, expected at most {IGNORE_ID}")
    conversions = [
        Conversion("", (target / f"{name}.png",), partial(_read_as_ids, path, colors)) for name, path in maps.items()
    ]
    table.parent.mkdir(parents=True, exist_ok=True)
    text = yaml.safe_dump(colors.table(), default_flow_style=None, sort_keys=False, allow_unicode=True)
    with replacing(table) as unfinished:  # write the table first, so that interrupted conversions have a table
        unfinished.write_text(f"# Colours of the classes, by id. You can change the names.\n{text}", encoding="utf-8")
    n_maps = convert_all(conversions, "replace", problems)[""]
    if not n_maps:
        return []
    ignored = f" data.ignore_id={IGNORE_ID}" if len(colors.rgb) > colors.n_classes else ""
    return [
        f"{target}: {counted(n_maps, 'map')} of {colors.n_classes} classes; their colours are in {table}",
        f"to train: data.n_classes={colors.n_classes}{ignored}. To convert other splits: --colors {table}",
    ]


def _read_as_ids(path: Path, colors: LabelColors) -> tuple[Tensor]:
    ids = colors.classes_of(read_rgb(path), may_ignore=True)
    return (ids.masked_fill(ids == colors.n_classes, IGNORE_ID).to(torch.uint8)[None],)


def _found_colors(maps: Mapping[str, Path], origin: Path) -> LabelColors:
    """Find the colours that fill areas in maps. Return these colours as classes, sorted by colour value.

    JPEG changes colours slightly. Of similar colours in JPEG files, only the most frequent becomes a class.
    """
    n_pixels = Counter[int]()
    with worker_threads(usable_cores()) as pool:
        for call in in_order(pool, lambda path: area_colors(read_rgb(path)), maps.values(), 2 * usable_cores()):
            with suppress(DataError):  # the conversion will report the error
                n_pixels.update(call.result())
    is_jpeg = any(path.suffix.lower() in _JPEG_SUFFIXES for path in maps.values())
    chosen: list[list[int]] = []
    for color, _ in n_pixels.most_common():
        rgb = [*color.to_bytes(3)]
        if len(chosen) <= IGNORE_ID and all(math.dist(rgb, other) > (_NEAR if is_jpeg else 0) for other in chosen):
            chosen.append(rgb)
    if not 2 <= len(chosen) <= IGNORE_ID:
        n_colors = f"more than {IGNORE_ID}" if len(chosen) > IGNORE_ID else str(len(chosen))
        raise DataError(
            f"{origin}: {n_colors} colours fill areas, expected 2 to {IGNORE_ID}. Name the colours of the classes with "
            "--colors FILE, or train on the maps as RGB images with data.n_classes=0"
        )
    names = tuple(f"class_{number}" for number in range(len(chosen)))
    return LabelColors(str(origin), names, tuple((red, green, blue) for red, green, blue in sorted(chosen)))


def area_colors(picture: Tensor) -> Counter[int]:
    """Return the colours (0xRRGGBB) that fill areas of a (3, H, W) uint8 picture, with the number of areas of each.

    An area consists of 3x3 pixels with the same colour. Colours that fill few areas are omitted.
    """
    pixels = packed_colors(picture.numpy())
    is_beside, is_below = pixels[:, 1:] == pixels[:, :-1], pixels[1:] == pixels[:-1]
    row = is_beside[:, 1:] & is_beside[:, :-1]  # equal to both neighbours in the row
    column = (is_below[1:] & is_below[:-1])[:, 1:-1]
    centers = pixels[1:-1, 1:-1][row[2:] & row[1:-1] & row[:-2] & column]
    numbers = zip(*(found.tolist() for found in np.unique(centers, return_counts=True)), strict=True)
    return Counter({color: number for color, number in numbers if number >= _AREA_SHARE * pixels.size})
