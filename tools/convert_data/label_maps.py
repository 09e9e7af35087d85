"""Label maps that are drawn in colours, as ids, with warnings of doubtful colours; instance maps made of label maps."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import torch
import yaml
from torch import Tensor

from data.batch import DataError
from data.class_ids import IGNORE_ID, packed_colors
from data.files.image_files import find_image_paths, has_transparent_pixels, read_rgb
from data.map_reader import MapReader
from tools.convert_data.conversion import Conversion, Existing, convert_all, convert_each, found_images, kept_and_to_do
from utils.atomic_file import replacing
from utils.errors import ConfigError
from utils.label_colors import IGNORED, LabelColors, read_label_colors
from utils.log import logger
from utils.machine import usable_cores
from utils.paths import without_dots
from utils.text import counted, listed
from utils.worker_threads import in_order, worker_threads

_JPEG_SUFFIXES = (".jpg", ".jpeg")
_AREA_SHARE = 1e-4  # of a map's pixels: areas of a colour that make it a class; blends at borders form none
_NEAR = 40.0  # distance of two RGB colours: JPEG makes such shades of one at borders
_SHADES = 8.0  # distance of neighbours in a gradient, and of what JPEG makes of an area
_FEW_SHADES = 8  # classes
_SHARE = 1e-3  # of all pixels, of a colour that may be a class
_LARGE_SHARE = 0.1  # of all pixels, of colours that are not those of classes
_LISTED = 3
MOST_IN_16_BITS = 2**16
_MAX_ID = 2**24  # of classes; instances are numbered after them
_REMEDY = "name it with --colors FILE if it is a class"


@dataclass(frozen=True)
class ColorCounts:
    """The colours of maps, as 0xRRGGBB.

    n_pixels: by colour. in_areas: colours of areas, which are classes. transparent: files with transparent pixels.
    """

    n_pixels: Counter[int]
    in_areas: set[int]
    transparent: list[Path] = field(default_factory=list)


def colors_to_ids(origin: Path, target: Path, colors_file: str | None, existing: Existing) -> list[str]:
    """Write the ids of the maps below `origin` to `target`, and colours and names beside it; return the problems.

    colors_file: as `metrics.label_colors`; None: the colours are found.

    Raises:
        DataError: there is no map, its colours are not those of classes, or files exist.
        ConfigError: `colors_file` cannot be used.
    """
    problems: list[str] = []
    maps = found_images(origin, problems)
    named = without_dots(target) if target.name in ("", "..") else target
    table = named.with_name(f"{target.resolve().name}.yaml")
    if table.exists() and existing == "refuse":
        raise DataError(f"{table}: already exists; choose another TO, or --existing keep or replace")
    if existing == "keep":
        colors_file = _kept_colors(target, table, colors_file)
    counts, readable = _count_all(maps, problems)
    if not counts.n_pixels:
        raise DataError(*problems)
    is_jpeg = any(path.suffix.lower() in _JPEG_SUFFIXES for path in maps.values())
    colors = _named(colors_file) if colors_file else _found(counts, origin, _NEAR if is_jpeg else 0.0)
    conversions = [
        Conversion(name, "", (target / f"{name}.png",), partial(_read_as_ids, path, colors))
        for name, path in readable.items()
    ]
    kept, to_do = kept_and_to_do(conversions, existing)
    _write_table(table, colors)  # before the first map: what an interruption leaves has its colours
    n_written = kept + convert_each(to_do, len(to_do), problems)
    for line in _summary(counts, colors):
        logger.info("%s", line)
    for warning in color_warnings(counts, colors, is_jpeg=is_jpeg):
        logger.info("warning: %s", warning)
    logger.info(
        "%s: %s of %d classes; their colours are in %s", target, counted(n_written[""], "map"), colors.n_classes, table
    )
    ignored = f" data.ignore_id={IGNORE_ID}" if len(colors.rgb) > colors.n_classes else ""
    logger.info("to train on them: data.n_classes=%d%s; other splits: --colors %s", colors.n_classes, ignored, table)
    return problems


def _kept_colors(target: Path, table: Path, colors_file: str | None) -> str | None:
    """Return the colours whose ids the maps in `target` have: of their table; of `colors_file` where there is none."""
    if not table.exists():
        if not colors_file and find_image_paths(target, []):
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
    total, n_pixels, others = counts.n_pixels.total(), Counter[int](), Counter[int]()
    for color, n, row, distance in _nearest(counts, colors):
        n_pixels[min(row, colors.n_classes)] += n
        if distance > 0:
            others[color] = n
    values = [list(color) for color in colors.rgb]
    rows = [(number, name, str(values[number])) for number, name in enumerate(colors.names)]
    if ignored := values[colors.n_classes :]:
        rows.append((IGNORE_ID, IGNORED, ", ".join(map(str, ignored))))
    lines = [
        f"{number:>3} {name} {rgb}: {counted(n_pixels[k], 'pixel')} ({n_pixels[k] / total:.2%})"
        for k, (number, name, rgb) in enumerate(rows)
    ]
    if others:
        most = ", ".join(f"{[*color.to_bytes(3)]} {n}" for color, n in others.most_common(_LISTED))
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


def _count_all(maps: Mapping[str, Path], problems: list[str]) -> tuple[ColorCounts, dict[str, Path]]:
    """Return the colours of all maps, and those that can be read; `problems` gets those of the others."""
    total, readable = ColorCounts(Counter(), set()), dict[str, Path]()

    def count(path: Path) -> tuple[ColorCounts, bool]:
        return count_colors(read_rgb(path)), has_transparent_pixels(path)

    with worker_threads(usable_cores()) as pool:
        calls = in_order(pool, count, maps.values(), 2 * usable_cores())
        for (name, path), call in zip(maps.items(), calls, strict=True):
            try:
                counts, is_transparent = call.result()
            except DataError as error:
                problems += error.problems
                continue
            readable[name] = path
            total.n_pixels.update(counts.n_pixels)
            total.in_areas.update(counts.in_areas)
            total.transparent.extend([path] if is_transparent else [])
    return total, readable


def count_colors(picture: Tensor) -> ColorCounts:
    """Return the colours of a (3, H, W) uint8 picture. A colour is in an area where 3x3 pixels have it."""
    pixels = packed_colors(picture.numpy())
    is_beside, is_below = pixels[:, 1:] == pixels[:, :-1], pixels[1:] == pixels[:-1]
    row = is_beside[:, 1:] & is_beside[:, :-1]  # three equal pixels, centred
    column = (is_below[1:] & is_below[:-1])[:, 1:-1]
    centers = pixels[1:-1, 1:-1][row[2:] & row[1:-1] & row[:-2] & column]
    least = _AREA_SHARE * pixels.size
    counts, in_centers = (
        dict(zip(*(found.tolist() for found in np.unique(colors, return_counts=True)), strict=True))
        for colors in (pixels, centers)
    )
    return ColorCounts(Counter(counts), {color for color, n_pixels in in_centers.items() if n_pixels >= least})


def channels(colors: Sequence[int]) -> Tensor:
    """Return (N, 3) uint8 RGB of colours."""
    return torch.tensor([list(color.to_bytes(3)) for color in colors], dtype=torch.uint8).view(len(colors), 3)


def color_warnings(counts: ColorCounts, colors: LabelColors, *, is_jpeg: bool) -> list[str]:
    """Return a line for each way in which the nearest classes of pixels may not be those that were drawn.

    is_jpeg: whether JPEG made shades of the colours that were drawn, of which there is no warning.
    """
    total = counts.n_pixels.total()
    names = [*colors.names, *[IGNORED] * (len(colors.rgb) - colors.n_classes)]
    far, near, n_other_pixels = list[str](), list[str](), 0
    for color, n_pixels, row, distance in _nearest(counts, colors):
        if distance <= (_SHADES if is_jpeg else 0):
            continue
        n_other_pixels += n_pixels
        text = f"{[*color.to_bytes(3)]} ({n_pixels / total:.2%}) into {names[row]} {colors.colors[row].tolist()}"
        if distance > _NEAR and (n_pixels > _SHARE * total or color in counts.in_areas):
            far.append(text)
        elif color in counts.in_areas:
            near.append(text)
    lines = []
    if far:
        lines.append(f"{counted(len(far), 'colour')} far from all classes merged: {listed(far)}; {_REMEDY}")
    if near:
        lines.append(f"{counted(len(near), 'colour')} of areas merged, being near: {listed(near)}; {_REMEDY}")
    if n_other_pixels > _LARGE_SHARE * total:
        lines.append(f"{n_other_pixels / total:.0%} of the pixels have a colour that is not that of a class; {_REMEDY}")
    if counts.transparent:
        n_maps = counted(len(counts.transparent), "map")
        lines.append(
            f"{n_maps} with transparent pixels, such as {counts.transparent[0]}: they get the class of the colour that "
            f"is stored beneath, often [0, 0, 0]; {_REMEDY}"
        )
    if (n_shades := _count_shades(colors)) >= _FEW_SHADES and 2 * n_shades > colors.n_classes:
        lines.append(
            f"{n_shades} of {colors.n_classes} classes are within {_SHADES:g} of another, as the shades of a gradient "
            "are; name the classes with --colors FILE if they are fewer"
        )
    return lines


def _nearest(counts: ColorCounts, colors: LabelColors) -> list[tuple[int, int, int, float]]:
    """Return each colour of maps, the most frequent first; its pixels, row of the nearest of `colors`, and distance.

    Distances are exact, and 0 where a colour is one of `colors`.
    """
    found = counts.n_pixels.most_common()
    parts = channels([color for color, _ in found]).double().split(2**14)  # for the memory of their distances
    nearest = [torch.cdist(part, colors.colors.double()).min(dim=1) for part in parts]
    distances, rows = (torch.cat(columns).tolist() for columns in zip(*nearest, strict=True))
    return [(color, n, row, distance) for (color, n), row, distance in zip(found, rows, distances, strict=True)]


def _count_shades(colors: LabelColors) -> int:
    """Return how many classes have a colour that another one almost has."""
    table = colors.colors[: colors.n_classes].double()
    distances = torch.cdist(table, table).fill_diagonal_(torch.inf)
    return int((distances.amin(dim=1) <= _SHADES).sum())


def to_instances(
    origin: Path, target: Path, classes: Sequence[str], colors_file: str | None, existing: Existing
) -> list[str]:
    """Write the instance maps of the label maps below `origin` to `target`; return the problems.

    They are those of `data.instances=connected`, with the same names, as PNG of 16 bits, or as TIFF of 32 bits where a
    map has more instances.

    classes: those that are divided, by id or by name in the file of colours; none: all.
    colors_file: as `data.label_colors`, where label maps are drawn in colours; None: they hold ids.

    Raises:
        DataError: there is no label map, or files exist.
        ConfigError: `colors_file` cannot be used, or does not have one of the classes.
    """
    colors = read_label_colors(colors_file, "--colors") if colors_file else None
    divided = _ids_of(classes, colors)
    reader = MapReader(colors.n_classes if colors else _MAX_ID, colors=colors, divided_classes=divided)
    problems: list[str] = []
    maps = found_images(origin, problems)
    unseen, wide = set(divided), list[str]()

    def made(name: str, path: Path) -> tuple[Tensor]:
        """Return the instances of a map, (1, H, W) uint16, or int32 where there are more; update the two lists."""
        sample = reader.read(name, {"source": path})
        unseen.difference_update(sample.source.unique().tolist() if unseen else ())
        instances = sample.maps["instances"]
        if int(instances.max()) < MOST_IN_16_BITS:
            return (torch.from_numpy(instances.numpy().astype(np.uint16)),)
        wide.append(name)
        return (instances,)

    conversions = [
        Conversion(name, "", (target / f"{name}.png",), partial(made, name, path)) for name, path in maps.items()
    ]
    counts = convert_all(conversions, existing, problems)
    if unseen and existing != "keep":  # maps that are kept are not read
        unknown = ", ".join(name for name in classes if _ids_of([name], colors) & unseen)
        logger.info("warning: --classes: in no map: %s", unknown)
    if wide:
        names = listed(sorted(wide), 1)
        logger.info("%s: more than %d instances, written as 32-bit TIFF: %s", target, MOST_IN_16_BITS, names)
    logger.info("%s: %s", target, counted(counts[""], "instance map"))
    logger.info("to train with them: data.instance_edges=true; data.instances=connected makes them without files")
    return problems


def _ids_of(classes: Sequence[str], colors: LabelColors | None) -> frozenset[int]:
    """Return ids of classes that are named by id or name."""
    names = () if colors is None else colors.names
    highest = (len(names) or _MAX_ID) - 1
    for name in classes:
        if name not in names and not (name.isascii() and name.isdecimal() and int(name) <= highest):
            known = f" or names: {', '.join(names)}" if names else "; names need --colors FILE"
            raise ConfigError(f"--classes: {name!r}, expected ids from 0 to {highest}{known}")
    return frozenset(names.index(name) if name in names else int(name) for name in classes)
