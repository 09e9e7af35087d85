"""Instance maps made from label maps: the connected parts of classes."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from data.batch import DataError
from data.class_ids import classes_of_colors, connected_parts
from data.files.image_files import read_ids, read_rgb
from tools.convert_data.conversion import Conversion, Existing, convert_all, found_images
from utils.errors import ConfigError
from utils.label_colors import LabelColors, read_label_colors
from utils.log import logger
from utils.text import counted

MOST_IN_16_BITS = 2**16
_MAX_ID = 2**24  # of classes; instances are numbered after them


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
    problems: list[str] = []
    maps = found_images(origin, problems)
    unseen, wide = set(divided), list[str]()

    def made(name: str, path: Path) -> tuple[Tensor]:
        """Return the instances of a map, (1, H, W) uint16, or int32 where there are more; update the two lists."""
        classes = classes_of_colors(read_rgb(path), colors, str(path)) if colors else read_ids(path)
        lowest, highest = (int(bound) for bound in classes.aminmax())
        if lowest < 0 or highest >= _MAX_ID:
            raise DataError(f"{path}: ids from {lowest} to {highest}, expected classes from 0 to {_MAX_ID - 1}")
        unseen.difference_update(classes.unique().tolist() if unseen else ())
        instances = connected_parts(classes, divided)
        if int(instances.max()) < MOST_IN_16_BITS:
            return (torch.from_numpy(instances.numpy().astype(np.uint16)),)
        wide.append(name)
        return (instances,)

    conversions = [
        Conversion(name, "", (target / f"{name}.png",), partial(made, name, path)) for name, path in maps.items()
    ]
    counts = convert_all(conversions, existing, problems)
    if unseen and existing != "keep":  # maps that are kept are not read
        listed = ", ".join(name for name in classes if _ids_of([name], colors) & unseen)
        logger.info("warning: --classes: in no map: %s", listed)
    if wide:
        names = min(wide) + (f" and {len(wide) - 1} more" if len(wide) > 1 else "")
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
