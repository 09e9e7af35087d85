"""Label maps that are drawn in colours, as ids."""

from collections import Counter
from functools import partial
from pathlib import Path

import torch
import yaml
from torch import Tensor

from data.batch import DataError
from data.color_coded import IGNORE_ID
from data.files.image_files import find_images, read_rgb
from tools.convert_data.color_counts import ColorCounts, channels, count_all
from tools.convert_data.color_warnings import NEAR, color_warnings
from tools.convert_data.conversion import Conversion, Existing, check_absent, convert_all
from utils.atomic_file import replacing
from utils.label_colors import IGNORED, LabelColors, read_label_colors
from utils.log import logger
from utils.text import counted

_JPEG_SUFFIXES = (".jpg", ".jpeg")
_LISTED = 3


def colors_to_ids(origin: Path, target: Path, colors_file: str | None, existing: Existing) -> list[str]:
    """Write the ids of the maps below `origin` to `target`, and colours and names beside it; return the problems.

    colors_file: as `metrics.label_colors`; None: the colours are found.

    Raises:
        DataError: there is no map, its colours are not those of classes, or files exist.
        ConfigError: `colors_file` cannot be used.
    """
    problems: list[str] = []
    maps = find_images(origin, problems)
    if not maps:
        raise DataError(*problems)
    table = target.with_name(f"{target.resolve().name}.yaml")
    if table.exists() and existing == "refuse":
        raise DataError(f"{table}: already exists; choose another TO, or --existing keep or replace")
    if existing == "keep":
        colors_file = _kept_colors(target, table, colors_file)
    counts, unreadable = count_all(maps.values())
    problems += [problem for reasons in unreadable.values() for problem in reasons]
    if not counts.n_pixels:
        raise DataError(*problems)
    is_jpeg = any(path.suffix.lower() in _JPEG_SUFFIXES for path in maps.values())
    colors = _named(colors_file) if colors_file else _found(counts, origin, NEAR if is_jpeg else 0.0)
    conversions = [
        Conversion(name, "", (target / f"{name}.png",), partial(_read_as_ids, path, colors))
        for name, path in maps.items()
        if path not in unreadable
    ]
    check_absent(conversions, existing)
    _write_table(table, colors)  # before the first map: what an interruption leaves has its colours
    n_written, unusable = convert_all(conversions, existing)
    for line in _summary(counts, colors):
        logger.info("%s", line)
    for warning in color_warnings(counts, colors, is_jpeg=is_jpeg):
        logger.info("warning: %s", warning)
    logger.info(
        "%s: %s of %d classes; their colours are in %s", target, counted(n_written[""], "map"), colors.n_classes, table
    )
    ignored = f" data.ignore_id={IGNORE_ID}" if len(colors.rgb) > colors.n_classes else ""
    logger.info("to train on them: data.n_classes=%d%s; other splits: --colors %s", colors.n_classes, ignored, table)
    return problems + unusable


def _kept_colors(target: Path, table: Path, colors_file: str | None) -> str | None:
    """Return the colours whose ids the maps in `target` have: of their table; of `colors_file` where there is none."""
    if not table.exists():
        if not colors_file and next(target.rglob("*.png"), None):
            raise DataError(
                f"{target}: maps without their colour table {table}. Use --existing replace, or --colors FILE"
            )
        return colors_file
    if colors_file:
        given, kept = _named(colors_file), _named(str(table))
        if given.n_classes != kept.n_classes or not torch.equal(given.colors, kept.colors):
            raise DataError(
                f"{table}: existing maps have other colours than --colors {colors_file}: --existing replace"
            )
    return str(table)


def _named(colors_file: str) -> LabelColors:
    colors = read_label_colors(colors_file, "--colors")
    if colors.n_classes > IGNORE_ID:
        raise DataError(f"--colors {colors_file}: {colors.n_classes} classes, expected at most {IGNORE_ID}")
    return colors


def _found(counts: ColorCounts, origin: Path, distance: float) -> LabelColors:
    """Return the colours of areas, in order of their values; of colours within `distance`, the most frequent."""
    chosen: list[int] = []
    for color, _ in counts.n_pixels.most_common():
        if color in counts.in_areas and len(chosen) <= IGNORE_ID:
            others = channels(chosen).float() - channels([color]).float()
            if not chosen or float(others.norm(dim=1).min()) > distance:
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


def _summary(counts: ColorCounts, colors: LabelColors) -> list[str]:
    """Return a line for each class, and one for the pixels whose colour is not that of a class."""
    found = list(counts.n_pixels)
    classes = colors.classes_of(channels(found).T[:, None], may_ignore=True)[0].tolist()
    n_pixels, total = Counter[int](), counts.n_pixels.total()
    for color, number in zip(found, classes, strict=True):
        n_pixels[number] += counts.n_pixels[color]
    values = [list(color) for color in colors.rgb]
    rows = [(number, name, str(values[number])) for number, name in enumerate(colors.names)]
    if ignored := values[colors.n_classes :]:
        rows.append((IGNORE_ID, IGNORED, ", ".join(map(str, ignored))))
    lines = [
        f"{number:>3} {name} {listed}: {counted(n_pixels[k], 'pixel')} ({n_pixels[k] / total:.2%})"
        for k, (number, name, listed) in enumerate(rows)
    ]
    others = counts.others(colors.colors)
    if others:
        most = ", ".join(f"{channels([color])[0].tolist()} {n}" for color, n in others.most_common(_LISTED))
        pixels = f"{counted(others.total(), 'pixel')} ({others.total() / total:.2%})"
        n_others = counted(len(others), "other colour")
        lines.append(f"{pixels} of {n_others} get the id of the nearest; the most frequent: {most}")
    return lines


def _write_table(path: Path, colors: LabelColors) -> None:
    """Write names and colours, as `metrics.label_colors` takes them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    head = "# Colours of the classes, in the order of their ids. Names may be changed.\n"
    text = head + yaml.safe_dump(colors.table(), default_flow_style=None, sort_keys=False, allow_unicode=True)
    with replacing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
