"""All problems of a data set at once, and the peculiarities that training accepts."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path

from configs import build
from configs.build import check_trained_sizes
from configs.data_facts import named_classes, storage_formats, value_ranges
from configs.schema import Config
from configs.schema.checks import MOST
from configs.schema.sides import TWO_SIDES
from configs.splits import has_split, open_split, validation_split
from configs.undecided_settings import Side, undecided_sides, with_data, with_measured_ranges
from data import LAYOUTS, data_set_folder
from data.batch import DataError, check_one_size
from data.checks.checking import Check, Checked, check_all, label_maps, palette_problems
from data.checks.observation import Observation
from data.checks.pixel_sizes import different_pixel_sizes
from data.checks.warnings import (
    absent_classes,
    different_sides,
    few_pictures,
    repeated_samples,
    shared_files,
    split_warnings,
)
from data.class_ids import GREY_LEVELS
from data.files.image_files import count_other_files, write_png
from data.held_back import shared_groups
from data.layout import Layout, PairingError, check_enough
from data.map_reader import stack_files
from data.store import Blob
from tools.check_data.recognized_layout import ANY_CLASSES
from tools.check_data.sample_sheet import training_sheet
from utils.log import logger
from utils.machine import usable_cores
from utils.text import counted

_IGNORED_IDS = (255, 65535)  # as data sets mark pixels without a class
_LISTED_RANGES = 8
_LEVELS_APART = 8  # ids of classes lie nearer to each other than grey levels do
_MUCH_OUTSIDE = 0.01  # of an image's values; percentiles leave a few outside
_SIDES: tuple[Side, Side] = ("source", "target")
_IMAGES = ("source", "source_images", "target")
_FEW = 5  # samples, whose problems are listed one by one
_Observations = dict[str, list[Observation]]
_PLACE = re.compile(r"\(row \d+, column \d+\)")


def splits_of_config(config: Config) -> dict[str, bool]:
    """Return the splits that training and testing read, each with whether its samples must have targets."""
    data = config.data
    splits = {data.test_split: False} if has_split(config, data.test_split) else {}
    if validation := validation_split(config):
        splits[validation] = True
    return {"train": True} | splits | {"train": True}


@dataclass(frozen=True)
class Found:
    """The findings in all splits that are no problem by themselves.

    class_names: of those that should occur, by id; none where their number is not known.
    label_maps: their files. ids: those that occur in them.
    observations: of samples that can be used, by split; where there are two sides, by folder, those of sources first.
    resizing: data.preprocess if it resizes images that are not 8-bit RGB; otherwise None.
    trained_sides: number of pictures of each of the two sides of the training split, by folder.
    """

    class_names: Mapping[int, str] = field(default_factory=dict)
    label_maps: list[Blob] = field(default_factory=list)
    ids: set[int] = field(default_factory=set)
    observations: tuple[_Observations, _Observations] = field(default_factory=lambda: ({}, {}))
    trained_sides: dict[str, int] = field(default_factory=dict)
    resizing: str | None = None

    def warnings(self) -> Iterator[str]:
        """Yield a line for each peculiarity that training accepts and that is a mistake more often than not."""
        of_sources, of_targets = self.observations
        splits = of_sources | of_targets
        for split, observations in splits.items():
            yield from (f"{split}: {warning}" for warning in split_warnings(observations))
        for of_side in self.observations:
            yield from different_pixel_sizes(of_side, self.resizing)
        yield from absent_classes(splits, self.class_names)
        yield from few_pictures(self.trained_sides)
        yield from different_sides({side: splits[side] for side in self.trained_sides})
        yield from repeated_samples(splits)
        yield from shared_files(splits)
        for of_side in self.observations:
            yield from shared_groups({split: [seen.name for seen in those] for split, those in of_side.items()})


def problems_of_split(config: Config, split: str, *, needs_targets: bool, found: Found) -> Iterator[str]:
    """Yield the problems of a split, as training reports them; log the number of its samples.

    found: what the split holds is added.
    """
    layout, problems, remedy = _open_split(config, split, needs_targets=needs_targets)
    yield from problems
    if remedy:
        logger.info("%s", remedy)
    if layout is None:
        return
    kinds = _SIDES if len(layout.sides) > 1 else (None,)
    for side, kind in zip(layout.sides, kinds, strict=True):
        name = _side_name(side, kind, config) if kind else split
        yield from _problems_of_side(config, side, kind, name, is_for_training=split == "train", found=found)
    if split == "train" and config.train.batch_size > 1:
        try:
            check_enough(layout, config.train.batch_size)
        except DataError as error:
            yield from error.problems


def _side_name(side: Layout, kind: Side, config: Config) -> str:
    """Return the folder of a side, below data.root if it is there. A drawn side has none, and its kind is its name."""
    if not side.folders:
        return kind
    folder, root = side.folders[0].path, data_set_folder(config.data.root).path
    return (folder.relative_to(root) if folder.is_relative_to(root) else folder).as_posix()


def _problems_of_side(
    config: Config, layout: Layout, kind: Side | None, name: str, *, is_for_training: bool, found: Found
) -> Iterator[str]:
    """Yield the problems of a split or, given its kind, of one of its sides; `name` is that for messages."""
    logger.info("%s: %s", name, counted(len(layout), "sample"))
    if others := count_other_files(layout.folders):
        logger.info("%s: left out, being of other formats: %s", name, others)
    holds_ids = not config.data.label_colors
    found.label_maps.extend(label_maps(layout) if holds_ids else ())
    if is_for_training:
        check_trained_sizes(config)
    check = Check(layout, build.build_preprocessing(config), is_for_training, value_ranges(config.data), kind)
    results = list(check_all(check, n_processes=usable_cores(), timeout_s=config.data.timeout_s))
    results.sort(key=lambda checked: checked.index)
    observations = [checked.observation for checked in results if checked.observation]
    found.observations[int(kind == "target")][name] = observations
    found.trained_sides.update({name: len(layout)} if kind and is_for_training else {})
    found.ids.update(*(checked.ids for checked in results if holds_ids))
    of_samples = {layout.names[checked.index]: checked.problems for checked in results}
    yield from without_repetition(of_samples, len(layout))
    yield from problems_of_types(layout, results)
    for line in describe_outside(layout, results, ["source"] if config.generator.output == "linear" else _IMAGES):
        logger.info("%s: %s", name, line)
    if is_for_training and config.train.batch_size > 1:
        sizes = [(layout.names[good.index], good.height, good.width) for good in results if good.height]
        try:
            check_one_size(sizes)
        except DataError as error:
            yield from error.problems


def without_repetition(problems: Mapping[str, Sequence[str]], n_samples: int) -> Iterator[str]:
    """Yield problems; one that more than half of all samples have alike, as of a wrong setting, is yielded once.

    problems: of the samples that have any, by name.
    n_samples: number of all samples.
    """
    pairs = [(name, problem) for name, of_sample in problems.items() for problem in of_sample]
    general = [_PLACE.sub("", problem.replace(f"/{name}.", "/.")) for name, problem in pairs]
    counts, listed = Counter(general), set[str]()
    for (_, problem), alike in zip(pairs, general, strict=True):
        if counts[alike] <= max(_FEW, n_samples / 2):
            yield problem
        elif alike not in listed:
            listed.add(alike)
            yield f"{problem} (in {counts[alike]} of {n_samples} samples)"


def _open_split(config: Config, split: str, *, needs_targets: bool) -> tuple[Layout | None, Sequence[str], str]:
    """Return the complete samples of a split, None where there is none, the problems of the others and a remedy."""
    needs_labels = split == "train" and config.loss.outside_mask > 0
    open_layout = partial(open_split, config, split, needs_labels=needs_labels)
    try:
        if config.data.layout in TWO_SIDES and not needs_targets:
            with suppress(PairingError):  # there is no other side
                return open_layout(needs_targets=True), (), ""
        return open_layout(needs_targets=needs_targets), (), ""
    except PairingError as error:
        return error.rest, error.problems, error.remedy
    except DataError as error:
        return None, error.problems, ""


def class_names(config: Config) -> dict[int, str]:
    """Return the names or numbers of the classes of label maps, by id; none where their number is not known.

    With loss.outside_mask, those of loss.class_weights. None for a data set with classes of its own: few drawn samples
    lack some, which is no mistake.
    """
    if LAYOUTS[config.data.layout].own_classes is not None:
        return {}
    if config.loss.outside_mask:
        return {int(number): number for number in config.loss.class_weights}
    if table := named_classes(config.data):
        return dict(enumerate(table.names))
    return {} if config.data.n_classes == ANY_CLASSES else {k: str(k) for k in range(config.data.n_classes)}


def completed(config: Config, split: str) -> Config:
    """Return the configuration with the ranges of images that are not 8-bit RGB, from the files that can be used."""
    config = with_data(config, on_bad_sample="skip")
    layout, *_ = _open_split(config, split, needs_targets=False)
    sides = undecided_sides(config.data, layout) if layout else []
    if not layout or not sides:
        return config
    try:
        config = with_measured_ranges(config, layout, sides)
    except DataError:  # reported with the other files, which any range makes readable
        ranges = {f"{side}_range": getattr(config.data, f"{side}_range") or [-MOST, MOST] for side in sides}
        return with_data(config, **ranges)
    for line in build.data_facts(config).describe_pixels():
        logger.info("%s", line)
    return config


def problems_of_types(layout: Layout, results: Sequence[Checked]) -> Iterator[str]:
    """Yield a problem for each side whose images are stored in several types."""
    for side in _IMAGES:
        types = {checked.index: checked.types[side] for checked in results if side in checked.types}
        counts = Counter(types.values()).most_common()
        if len(counts) > 1:
            rare = next(index for index, dtype in types.items() if dtype == counts[-1][0])
            stack = [] if side == "target" else stack_files(layout, rare)
            folders = [file.folder for file in stack] or [
                layout.folders[1 if side == "target" and len(layout.folders) > 1 else 0]
            ]
            yield (
                f"{', '.join(map(str, folders))}: images of several types "
                f"({', '.join(f'{number} of {dtype}' for dtype, number in counts)}), such as {layout.names[rare]}: "
                "store them alike"
            )


def describe_outside(layout: Layout, results: Sequence[Checked], sides: Sequence[str] = _IMAGES) -> Iterator[str]:
    """Yield a line for each side of which some images have many values outside the range, which is closed."""
    for side in sides:
        shares = {checked.index: checked.outside[side] for checked in results if side in checked.outside}
        far = {index: share for index, share in shares.items() if share > _MUCH_OUTSIDE}
        if far:
            worst = max(far, key=lambda index: far[index])
            what = "target" if side == "target" else "source"
            yield (
                f"{counted(len(far), what)} of {len(shares)} with values outside data.{what}_range, which are clamped; "
                f"most of {layout.names[worst]}, {far[worst]:.1%}"
            )


def describe_ids(ids: set[int], n_classes: int, ignore_id: int | None) -> str:
    """Return the ids that occur, in a line, and the settings that allow them where those given do not."""
    if all(0 <= number < n_classes or number == ignore_id for number in ids) and n_classes != ANY_CLASSES:
        ignored = "" if ignore_id is None else f" data.ignore_id={ignore_id}"
        return f"ids {_ranges(sorted(ids))}, of data.n_classes={n_classes}{ignored}"
    levels = sorted(ids)
    if len(levels) > 1 and min(b - a for a, b in pairwise(levels)) >= _LEVELS_APART:
        return f"ids {_ranges(levels)}: {GREY_LEVELS}"
    apart = (number for number in _IGNORED_IDS if number in ids and number - 1 not in ids)
    ignored_id = ignore_id if ignore_id in ids else next(apart, None)
    wanted = f"data.n_classes={max(ids - {ignored_id}, default=0) + 1}"
    return f"ids {_ranges(sorted(ids))}: {wanted}{'' if ignored_id is None else f' data.ignore_id={ignored_id}'}"


def _ranges(numbers: Sequence[int]) -> str:
    """Return ascending numbers as "0 to 33 and 255"."""
    runs = [[number for _, number in run] for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])]
    texts = [f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    if len(texts) > _LISTED_RANGES:
        texts[_LISTED_RANGES - 1 : -1] = [f"{len(texts) - _LISTED_RANGES} more ranges"]
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def write_sheet(config: Config, split: str, n_samples: int, path: Path) -> None:
    """Write samples of a training split on a sheet, and log its path."""
    layout, *_ = _open_split(config, split, needs_targets=True)
    sheet = training_sheet(config, layout, n_samples) if layout else None
    if sheet is None:
        logger.info("no sheet: %s has no sample that can be used", split)
    else:
        write_png(path, sheet)
        logger.info("sheet of samples of %s: %s", split, path)


def check(config: Config, splits: Mapping[str, bool], *, n_shown: int, sheet: Path) -> int:
    """Log what splits, given as in `splits_of_config`, have and lack; return the number of their problems.

    n_shown: of samples on a sheet, which is written to `sheet`; 0 writes none.
    """
    config = completed(config, next(iter(splits)))
    resizes = bool(storage_formats(config.data)) and config.data.preprocess != "crop"
    n_problems, found = 0, Found(class_names(config), resizing=config.data.preprocess if resizes else None)

    def problems() -> Iterator[str]:
        for split, needs_targets in splits.items():
            yield from problems_of_split(config, split, needs_targets=needs_targets, found=found)
        yield from palette_problems(found.label_maps)

    for problem in problems():
        n_problems += 1
        logger.info("%s", " ".join(problem.split()))
    if found.ids:
        logger.info("%s", describe_ids(found.ids, config.data.n_classes, config.data.ignore_id))
    warnings = list(found.warnings())
    for warning in warnings:
        logger.info("warning: %s", " ".join(warning.split()))
    if n_shown:
        write_sheet(config, "train" if "train" in splits else next(iter(splits)), n_shown, sheet)
    n_warnings = f"; {counted(len(warnings), 'warning')}" if warnings else ""
    count = counted(n_problems, "problem") if n_problems else "no problem"
    logger.info("%s in %s%s", count, ", ".join(splits), n_warnings)
    return n_problems
