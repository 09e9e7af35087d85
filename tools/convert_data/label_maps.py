"""Ids from label maps that are drawn in colours."""

from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import numpy as np
import torch
import yaml
from torch import Tensor

from data.batch import DataError
from data.class_ids import IGNORE_ID, packed_colors
from data.files.image_files import read_rgb
from tools.convert_data.conversion import Conversion, convert_all, found_images
from utils.files import replacing
from utils.label_colors import LabelColors, read_label_colors
from utils.log import logger
from utils.machine import usable_cores
from utils.text import counted, listed
from utils.worker_threads import in_order, worker_threads

_JPEG_SUFFIXES = (".jpg", ".jpeg")
_AREA_SHARE = 1e-4  # share of a map's pixels in areas of a class; blends at borders form no areas
_NEAR = 40.0  # distance of two RGB colours; at borders JPEG makes such shades of one colour


def colors_to_ids(origin: Path, target: Path, colors_file: str | None, *, replaces: bool) -> list[str]:
    """Write the ids of the maps below `origin` to `target`, and a table of colours and names next to it.

    Returns the problems of maps that are left out.
    colors_file: As `metrics.label_colors`. None finds the colours in the maps.

    Raises:
        DataError: There is no map, its colours are no classes, or `target` exists without `replaces`.
        ConfigError: `colors_file` cannot be used.
    """
    problems: list[str] = []
    maps = found_images(origin, problems)
    table = target.resolve().with_name(f"{target.resolve().name}.yaml")
    if not replaces and (present := next((path for path in (table, target) if path.exists()), None)):
        raise DataError(f"{present}: already exists; choose another TO, or --existing replace")
    n_pixels, in_areas = _count_all(maps, problems)
    if not n_pixels:
        raise DataError(*problems)
    is_jpeg = any(path.suffix.lower() in _JPEG_SUFFIXES for path in maps.values())
    found = [color for color, _ in n_pixels.most_common() if color in in_areas]
    if not colors_file:
        colors = _class_colors(found, origin, _NEAR if is_jpeg else 0.0)
    elif (colors := read_label_colors(colors_file, "--colors")).n_classes > IGNORE_ID:
        raise DataError(f"--colors {colors_file}: {colors.n_classes} classes, expected at most {IGNORE_ID}")
    conversions = [
        Conversion("", (target / f"{name}.png",), partial(_read_as_ids, path, colors)) for name, path in maps.items()
    ]
    table.parent.mkdir(parents=True, exist_ok=True)
    text = yaml.safe_dump(colors.table(), default_flow_style=None, sort_keys=False, allow_unicode=True)
    with replacing(table) as unfinished:  # before the first map, so that an interruption leaves its colours
        unfinished.write_text(f"# Colours of the classes, by id. Names may be changed.\n{text}", encoding="utf-8")
    counts = convert_all(conversions, "replace", problems)
    known = {int.from_bytes(bytes(color)) for color in colors.rgb}
    if others := Counter({color: n for color, n in n_pixels.items() if color not in known}):
        pixels = f"{counted(others.total(), 'pixel')} ({others.total() / n_pixels.total():.2%})"
        most = listed([f"{[*color.to_bytes(3)]} {n}" for color, n in others.most_common()])
        logger.info("%s of %s get the id of the nearest: %s", pixels, counted(len(others), "other colour"), most)
    logger.info(
        "%s: %s of %d classes; their colours are in %s", target, counted(counts[""], "map"), colors.n_classes, table
    )
    ignored = f" data.ignore_id={IGNORE_ID}" if len(colors.rgb) > colors.n_classes else ""
    logger.info("to train on them: data.n_classes=%d%s; other splits: --colors %s", colors.n_classes, ignored, table)
    return list(dict.fromkeys(problems))  # a map that cannot be read fails twice


def _class_colors(found: list[int], origin: Path, distance: float) -> LabelColors:
    """Return classes in order of their colours. Of colours within `distance`, the first one in `found` counts."""
    chosen: list[int] = []
    for color in found:
        others = channels(chosen).float() - channels([color]).float()
        if len(chosen) <= IGNORE_ID and (not chosen or float(others.norm(dim=1).min()) > distance):
            chosen.append(color)
    if not 2 <= len(chosen) <= IGNORE_ID:
        n_colors = f"more than {IGNORE_ID}" if len(chosen) > IGNORE_ID else str(len(chosen))
        raise DataError(
            f"{origin}: areas of {n_colors} colours, expected 2 to {IGNORE_ID}: name the classes' colours with "
            "--colors FILE, or train on the maps as RGB pairs with data.n_classes=0"
        )
    chosen.sort()
    names = tuple(f"class_{number}" for number in range(len(chosen)))
    return LabelColors(str(origin), names, tuple((red, green, blue) for red, green, blue in channels(chosen).tolist()))


def _read_as_ids(path: Path, colors: LabelColors) -> tuple[Tensor]:
    ids = colors.classes_of(read_rgb(path), may_ignore=True)
    return (ids.masked_fill(ids == colors.n_classes, IGNORE_ID).to(torch.uint8)[None],)


def _count_all(maps: Mapping[str, Path], problems: list[str]) -> tuple[Counter[int], set[int]]:
    """Return the results of `count_colors` for all maps that can be read, and add other problems to `problems`."""
    n_pixels, in_areas = Counter[int](), set[int]()
    with worker_threads(usable_cores()) as pool:
        for call in in_order(pool, lambda path: count_colors(read_rgb(path)), maps.values(), 2 * usable_cores()):
            try:
                counts, of_areas = call.result()
                n_pixels.update(counts)
                in_areas |= of_areas
            except DataError as error:
                problems += error.problems
    return n_pixels, in_areas


def count_colors(picture: Tensor) -> tuple[Counter[int], set[int]]:
    """Return the number of pixels by colour of a (3, H, W) uint8 picture, and the colours of areas, as 0xRRGGBB.

    An area has 3x3 pixels of one colour.
    """
    pixels = packed_colors(picture.numpy())
    is_beside, is_below = pixels[:, 1:] == pixels[:, :-1], pixels[1:] == pixels[:-1]
    row = is_beside[:, 1:] & is_beside[:, :-1]  # three equal pixels, centred
    column = (is_below[1:] & is_below[:-1])[:, 1:-1]
    centers = pixels[1:-1, 1:-1][row[2:] & row[1:-1] & row[:-2] & column]
    counts, in_centers = (
        dict(zip(*(found.tolist() for found in np.unique(colors, return_counts=True)), strict=True))
        for colors in (pixels, centers)
    )
    return Counter(counts), {color for color, number in in_centers.items() if number >= _AREA_SHARE * pixels.size}


def channels(colors: list[int]) -> Tensor:
    """Return (N, 3) uint8 RGB of colours."""
    return torch.tensor([list(color.to_bytes(3)) for color in colors], dtype=torch.uint8).view(len(colors), 3)
