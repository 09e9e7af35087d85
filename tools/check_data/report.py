"""Report on a data set: problems, warnings about misaligned pairs and duplicate files, and a sheet of samples."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path

import torch
from torch import Tensor

from configs import build
from configs.build import check_trained_sizes
from configs.schema import Config
from configs.splits import check_is_complete, has_split, measured_settings, open_split, validation_split
from data import LAYOUTS
from data.batch import Batch, DataError, Sample, check_one_size
from data.checks import Check, Checked, check_all, shared_files, shift_warnings
from data.files.image_files import count_other_files, write_png
from data.layout import Layout, PairingError
from data.loader import SampleKey, TrainingDataset, read_fixed
from data.map_reader import GREY_LEVELS, label_maps, palette_problems
from data.validation_split import shared_groups
from data.volume_checks import displaced_targets, middle_slices, volume_warnings
from inference.contact_sheet import contact_sheet
from tools.check_data.recognized_layout import ANY_CLASSES
from utils.errors import ConfigError
from utils.log import logger
from utils.machine import usable_cores
from utils.pictures import colorize, label_colors, picture, scaled_picture, weights_picture
from utils.text import counted, listed

_IGNORED_IDS = (255, 65535)  # usual ids of pixels without a class
_LISTED_RANGES = 8
_LEVELS_APART = 8  # ids that are at least this far apart are probably grey levels, not classes
_FEW = 5  # up to this number of samples, list the same problem for each sample
_PLACE = re.compile(r"\(row \d+, column \d+\)")
_TOO_SMALL = "too small for a crop"


@dataclass(frozen=True)
class CheckedSide:
    """The results of checking a split, or one of its two domains, sorted by sample index.

    kind: "source" or "target" for a domain of an unpaired split, otherwise an empty string.
    """

    name: str
    kind: str
    layout: Layout
    results: Sequence[Checked]

    def problems(self) -> Iterator[str]:
        """Yield the problems of samples. If most samples have a problem, or images are too small, report it once."""
        general: dict[str, list[str]] = defaultdict(list)
        for checked in self.results:
            name = self.layout.names[checked.index]
            for problem in checked.problems:
                start = max(problem.find(_TOO_SMALL), 0)  # ignore the sizes before this text
                general[_PLACE.sub("", problem[start:].replace(f"/{name}.", "/."))].append(problem)
        for text, alike in general.items():
            is_general = text.startswith(_TOO_SMALL) or len(alike) > max(_FEW, len(self.layout) / 2)
            yield from [f"{alike[0]} (in {len(alike)} of {len(self.layout)} samples)"] if is_general else alike
        types = {one.types: self.layout.names[one.index] for one in self.results if not one.problems}
        if len(types) > 1:
            found = "; ".join(f"{type_names}, such as {name}" for type_names, name in types.items())
            yield f"{self.name}: images of several types. Store all images in one type: {found}"


def splits_of_config(config: Config) -> dict[str, bool]:
    """Return the splits that training and testing read. The values say whether samples must have targets."""
    splits = {"test": False} if has_split(config, "test") else {}
    if validation := validation_split(config):
        splits[validation] = True
    return {"train": True} | splits | {"train": True}


def problems_of_split(
    config: Config, split: str, *, needs_targets: bool, checked_sides: list[CheckedSide]
) -> Iterator[str]:
    """Yield the problems of a split, as training would report them, and log its number of samples.

    checked_sides: List that receives the results.
    """
    layout, problems, remedy = _open_split(config, split, needs_targets=needs_targets)
    yield from problems
    if remedy:
        logger.info("%s", remedy)
    if layout is None:
        return
    is_for_training = split == "train"
    kinds = ("source", "target") if len(layout.sides) > 1 else ("",)
    for side, kind in zip(layout.sides, kinds, strict=True):
        checked = _check_side(config, side, kind, split, is_for_training=is_for_training)
        checked_sides.append(checked)
        yield from checked.problems()
        if is_for_training and config.train.batch_size > 1:
            sizes = [(side.names[one.index], one.height, one.width) for one in checked.results if not one.problems]
            try:
                check_one_size(sizes)
            except DataError as error:
                yield from error.problems


def _check_side(config: Config, layout: Layout, kind: str, split: str, *, is_for_training: bool) -> CheckedSide:
    """Check the samples of a split or of one of its domains, and log their number."""
    name = f"{split} {kind}s" if kind else split
    logger.info("%s: %s", name, counted(len(layout), "sample"))
    for heading, text in layout.notes:
        logger.info("%s: %s: %s", name, heading, text)
    layout = middle_slices(layout) if config.data.has_volumes else layout
    if not config.data.has_volumes and (others := count_other_files(layout.folders)):
        logger.info("%s: left out files of other formats: %s", name, others)
    if is_for_training:
        check_trained_sizes(config)
    check = Check(layout, build.build_preprocessing(config), is_for_training)
    results = check_all(check, n_processes=usable_cores(), timeout_s=config.data.timeout_s)
    return CheckedSide(name, kind, layout, sorted(results, key=lambda checked: checked.index))


def _open_split(config: Config, split: str, *, needs_targets: bool) -> tuple[Layout | None, Sequence[str], str]:
    """Return the usable samples of a split (or None), the problems of all other samples, and a remedy (or "")."""
    needs_labels = split == "train" and config.loss.outside_mask > 0
    open_layout = partial(open_split, config, split, needs_labels=needs_labels)
    try:
        if not LAYOUTS[config.data.layout].pairs and not needs_targets:
            with suppress(PairingError):  # the split has only one domain
                return open_layout(needs_targets=True), (), ""
        return open_layout(needs_targets=needs_targets), (), ""
    except PairingError as error:
        return error.rest, error.problems, error.remedy
    except DataError as error:
        return None, error.problems, ""


def describe_ids(ids: set[int], n_classes: int, ignore_id: int | None) -> str:
    """Return a line with the ids in label maps and the settings that allow these ids."""
    levels = sorted(ids)
    runs = [[number for _, number in run] for _, run in groupby(enumerate(levels), key=lambda pair: pair[1] - pair[0])]
    ranges = [f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    found = f"ids {listed(ranges, _LISTED_RANGES)}"
    if all(0 <= number < n_classes or number == ignore_id for number in ids) and n_classes != ANY_CLASSES:
        return f"{found}, of data.n_classes={n_classes}{'' if ignore_id is None else f' data.ignore_id={ignore_id}'}"
    if len(levels) > 1 and min(b - a for a, b in pairwise(levels)) >= _LEVELS_APART:
        return f"{found}: {GREY_LEVELS}"
    apart = (number for number in _IGNORED_IDS if number in ids and number - 1 not in ids)
    ignored_id = ignore_id if ignore_id in ids else next(apart, None)
    wanted = f"data.n_classes={max(ids - {ignored_id}, default=0) + 1}"
    return f"{found}: {wanted}{'' if ignored_id is None else f' data.ignore_id={ignored_id}'}"


def warnings_of(sides: Sequence[CheckedSide], shift_reach: int = 0) -> Iterator[str]:
    """Yield warnings about displaced images, about files in several splits, and about name groups in several splits."""
    for side in sides:
        measured = [(side.layout.names[one.index], one) for one in side.results if one.faint_shifts is not None]
        for what in dict.fromkeys(what for _, one in measured for what in one.faint_shifts or ()):
            shifts = {name: one.shifts[what] for name, one in measured if what in one.shifts}
            faint = {name: (one.faint_shifts or {}).get(what) for name, one in measured if what == "targets"}
            yield from (f"{side.name}: {warning}" for warning in shift_warnings(shifts, what, faint, shift_reach))
    yield from shared_files({side.name: [file for one in side.results for file in one.files] for side in sides})
    for kind in dict.fromkeys(side.kind for side in sides):
        yield from shared_groups({side.name: side.layout.names for side in sides if side.kind == kind})


def _warnings_of_volumes(config: Config, splits: Iterable[str]) -> Iterator[str]:
    """Yield the warnings about the volumes of splits."""
    opened = {split: _open_split(config, split, needs_targets=split == "train")[0] for split in splits}
    layouts = {split: layout for split, layout in opened.items() if layout}
    yield from volume_warnings(layouts, config.data.axis, config.data.source_range, config.data.target_range)
    for split, layout in layouts.items():
        yield from (f"{split}: {warning}" for warning in displaced_targets(layout))


def check(config: Config, splits: Mapping[str, bool], *, n_shown: int, sheet: Path) -> int:
    """Log the problems of splits and the warnings about them, and return the number of problems.

    splits: Splits to check, and whether their samples must have targets.
    n_shown: Number of samples on the picture `sheet`. 0: Write no picture.
    """
    first = "train" if "train" in splits else next(iter(splits))
    config = replace(config, data=replace(config.data, on_bad_sample="skip"))
    layout, *_ = _open_split(config, first, needs_targets=False)
    config, problems = _completed(config, layout) if layout else (config, [])
    for line in build.data_facts(config).describe_pixels():
        logger.info("%s", line)
    sides: list[CheckedSide] = []
    n_problems = _log(problems)
    for split, needs_targets in splits.items():
        n_problems += _log(problems_of_split(config, split, needs_targets=needs_targets, checked_sides=sides))
    if not config.data.label_colors:  # palettes do not matter if there are label colours
        n_problems += _log(palette_problems(file for side in sides for file in label_maps(side.layout)))
        if ids := {number for side in sides for one in side.results for number in one.ids}:
            logger.info("%s", describe_ids(ids, config.data.n_classes, config.data.ignore_id))
    of_images = warnings_of(sides, config.loss.shift_reach)
    warnings = _warnings_of_volumes(config, splits) if config.data.has_volumes else of_images
    n_warnings = _log(warnings, "warning: ")
    if n_shown:
        layout, *_ = _open_split(config, first, needs_targets=True)
        is_written = layout is not None and write_sheet(config, layout, n_shown, sheet)
        logger.info("%s", f"sheet of samples of {first}: {sheet}" if is_written else f"no sheet: {first} has no sample")
    count = counted(n_problems, "problem") if n_problems else "no problem"
    count_of_warnings = f"; {counted(n_warnings, 'warning')}" if n_warnings else ""
    logger.info("%s in %s%s", count, ", ".join(splits), count_of_warnings)
    return n_problems


def _completed(config: Config, layout: Layout) -> tuple[Config, Sequence[str]]:
    """Measure the settings that a split needs and `config` lacks. Return the complete settings and the problems."""
    try:
        check_is_complete(config, layout)
    except ConfigError as error:
        return replace(config, data=replace(config.data, **measured_settings(config, layout))), error.problems
    except DataError as error:  # an image has unusual channels, for example
        return config, error.problems
    return config, ()


def _log(lines: Iterable[str], prefix: str = "") -> int:
    """Log each line immediately, and return the number of lines."""
    number = 0
    for number, line in enumerate(lines, start=1):  # noqa: B007
        logger.info("%s%s", prefix, " ".join(line.split()))
    return number


def write_sheet(config: Config, layout: Layout, n_samples: int, path: Path) -> bool:
    """Write a picture of up to `n_samples` training samples. Return False if no sample can be used.

    The picture shows each usable sample without augmentation, and with its augmentation in the first epoch.
    """
    preprocessing, rows = build.build_preprocessing(config), dict[str, dict[str, Tensor]]()
    dataset = TrainingDataset(layout, preprocessing, config.run.seed)
    n_shown = min(n_samples, len(layout))
    for index in (number * len(layout) // n_shown for number in range(n_shown)):
        drawn = dataset[SampleKey(0, index)]
        if isinstance(drawn, Sample):
            with suppress(DataError):
                stored = _images(config, layout, read_fixed(layout, preprocessing, index), "")
                rows[layout.names[index]] = stored | _images(config, layout, drawn, "augmented ")
    if rows:
        write_png(path, contact_sheet(rows, len(layout)))
    return bool(rows)


def _images(config: Config, layout: Layout, sample: Sample, what: str) -> dict[str, Tensor]:
    """Return (3, H, W) uint8 pictures of a sample, by column name. Each column name begins with `what`."""
    conditioning = build.data_facts(config).conditioning
    source = conditioning.without_neighbours(sample.source)
    shown = {"source": source, "source images": sample.source_images, "target": sample.target}
    if layout.n_classes:
        is_known = layout.n_classes <= 2**16  # false for ANY_CLASSES
        colors = build.data_facts(config).class_colors if is_known else label_colors(int(sample.source.max()) + 1)
        shown["source"] = colorize(sample.source, colors)
    pictures: dict[str, Tensor] = {}
    for name, image in shown.items():
        if image is not None:
            is_rgb = image.dtype == torch.uint8 and len(image) == 3
            rgb = image if is_rgb else picture(image)
            pictures[what + name] = rgb if name == "target" else scaled_picture(rgb, config.generator.scale)
    weights = conditioning.weights(Batch.of([sample])).product
    return pictures if weights is None else pictures | {f"{what}weights": weights_picture(weights[0])}
