"""Reading the maps of one sample, each from a file of its own."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from data.batch import DataError, LoadingError, Sample
from data.color_coded import classes_of_colors
from data.connected_parts import connected_parts
from data.files.image_files import read_ids, read_rgb
from data.files.stored_images import StoredForm, read_stored, read_weights
from data.layout import Origin
from data.stacked_sources import is_further, read_part, stacked
from data.store import Blob, File
from utils.label_colors import LabelColors
from utils.limits import TARGET_SCALES

_FEW_PIXELS = 2  # by which sizes differ where a program has rounded them
GREY_LEVELS = (
    "these look like grey levels, as of black and white masks: name them as colours in a file for data.label_colors, "
    "with lines such as background: [0, 0, 0] and object: [255, 255, 255]"
)


@dataclass(frozen=True)
class MapReader:
    """Reads samples from files by kind: "source", "target", "instances", "features", "weights", "source_2" and so on.

    Describes the maps of a data set: layouts take it, and read their files with it.

    n_classes: number of classes of the sources, which are label maps; 0 where they are RGB images.
    ignore_id: id of pixels without a class.
    forms: of the kinds that are read as they are stored; the others are read as 8-bit RGB. Images of several source
        folders have that of "source" together, those of folders behind label maps that of "source_images".
    colors: of the classes, where label maps are drawn in colours; None where they hold ids.
    divided_classes: where instances are made from label maps, the classes whose connected parts they are, as
        `connected_parts` takes them; None where instances are read, or not needed.
    target_scale: sides of a target, in those of its source.
    """

    n_classes: int = 0
    ignore_id: int | None = None
    forms: Mapping[str, StoredForm] = field(default_factory=dict)
    colors: LabelColors | None = None
    divided_classes: frozenset[int] | None = None
    target_scale: float = 1.0

    def read(self, name: str, files: Mapping[str, File]) -> Sample:
        """Read the maps of a sample at full size.

        Raises:
            DataError: lists the problems of all files.
        """
        problems, maps = list[str](), dict[str, Tensor]()
        further = [kind for kind in files if is_further(kind)]
        for kind, file in files.items():
            with _collected(problems):
                maps[kind] = self._read(kind, file, is_stacked=bool(further))
        if "source" in maps:  # features may have any size: those of 512p serve 1024p too
            checks = dict.fromkeys(("instances", *further), _size_problems) | {"target": self._target_problems}
            for kind, check in checks.items():
                if kind in maps:
                    problems += check(maps["source"], files["source"], maps[kind], files[kind])
        if "weights" in maps and "target" in maps:
            problems += _size_problems(maps["target"], files["target"], maps["weights"], files["weights"])
        if self.n_classes and "source" in maps:
            with _collected(problems):
                maps["source"] = self._classes(maps["source"], str(files["source"]))
        if further and not problems:
            with _collected(problems):
                self._stack(maps, files, further)
        if problems:
            raise DataError(*problems)
        if self.divided_classes is not None:
            maps["instances"] = connected_parts(maps["source"], self.divided_classes)
        partners = (maps.get(kind) for kind in ("instances", "target", "features", "weights", "source_images"))
        return Sample(name, maps["source"], *partners)

    def _stack(self, maps: dict[str, Tensor], files: Mapping[str, File], further: Sequence[str]) -> None:
        """Put the images of the source folders together, behind label maps as a map of their own."""
        kinds = further if self.n_classes else ["source", *further]
        of_stack = "source_images" if self.n_classes else "source"
        maps[of_stack] = stacked([maps[kind] for kind in kinds], [files[kind] for kind in kinds], self.forms[of_stack])

    def _read(self, kind: str, file: File, *, is_stacked: bool) -> Tensor:
        if is_stacked and (is_further(kind) or (kind == "source" and not self.n_classes)):
            return read_part(file, self.forms["source_images" if self.n_classes else "source"])
        if kind == "instances" or (kind == "source" and self.n_classes > 0 and not self.colors):
            return read_ids(file)
        if kind == "weights":
            return read_weights(file)
        return read_stored(file, self.forms[kind]) if kind in self.forms else read_rgb(file)

    def _target_problems(self, source: Tensor, source_file: File, target: Tensor, target_file: File) -> list[str]:
        """Return no problem where a target's sides are `target_scale` times those of its source, otherwise one."""
        of_sides = {own / side for side, own in zip(source.shape[-2:], target.shape[-2:], strict=True)}
        if of_sides == {self.target_scale}:
            return []
        suiting = of_sides.pop() if len(of_sides) == 1 else None
        other = f", or train with generator.scale={suiting:g}" if suiting in TARGET_SCALES else ""
        if self.target_scale == 1:
            return [problem + other for problem in _size_problems(source, source_file, target, target_file)]
        sizes = [f"{image.shape[-1]}x{image.shape[-2]}" for image in (source, target)]
        expected = [side * self.target_scale for side in reversed(source.shape[-2:])]
        wanted = "x".join(f"{side:g}" for side in expected)
        if any(side % 1 for side in expected):
            wanted = f"{self.target_scale:g} times that, which is no whole number,"
        remedy = f"store {'larger' if self.target_scale < 1 else 'smaller'} sources{other}"
        own_sides = reversed(target.shape[-2:])
        if all(abs(own - side) < max(1, self.target_scale) for own, side in zip(own_sides, expected, strict=True)):
            # one was reduced from the other, and the rounding of its sides has shifted its pixels against the other's
            larger, factor = (
                ("sources", 1 / self.target_scale) if self.target_scale < 1 else ("targets", self.target_scale)
            )
            remedy = f"cut {larger} to multiples of {factor:g} pixels before you reduce them"
        return [
            f"{source_file} is {sizes[0]} but its partner {target_file} is {sizes[1]}, expected {wanted} with "
            f"generator.scale={self.target_scale:g}: {remedy}"
        ]

    def origin(self, files: Mapping[str, Blob]) -> Origin:
        """Return what the content of a sample depends on."""
        rule = f"{list(files)} {self.n_classes} {self.ignore_id}"
        rule += f" {sorted(self.forms.items())}" if self.forms else ""
        rule += f" {self.colors.table()}" if self.colors else ""
        rule += "" if self.divided_classes is None else f" {sorted(self.divided_classes)}"
        return Origin(rule, list(files.values()), list(files))

    def _classes(self, stored: Tensor, name: str) -> Tensor:
        """Return the classes of a label map as it is stored; raise DataError if a pixel has none."""
        if self.colors:
            return classes_of_colors(stored, self.colors, name)
        return checked_classes(stored, name, n_classes=self.n_classes, ignore_id=self.ignore_id)


RGB_IMAGES = MapReader()


def checked_classes(ids: Tensor, name: str, *, n_classes: int, ignore_id: int | None) -> Tensor:
    """Return class ids in the form of `Sample.source`, from a (1, H, W) int32 map.

    name: of the map, for messages.

    Raises:
        DataError: a pixel is neither a class nor ignored.
    """
    dtype = torch.uint8 if n_classes <= 255 else torch.int32
    lowest, highest = (int(bound) for bound in ids.aminmax())
    is_within = lowest >= 0 and highest < n_classes
    if is_within and (ignore_id is None or not lowest <= ignore_id <= highest):
        return ids.to(dtype)  # true of most maps, and cheaper than comparing pixel by pixel
    is_ignored = ids == ignore_id if ignore_id is not None else torch.zeros_like(ids, dtype=torch.bool)
    is_wrong = ((ids < 0) | (ids >= n_classes)) & ~is_ignored
    if is_wrong.any():
        _, row, column = (int(i) for i in is_wrong.nonzero()[0])
        wrong = int(ids[0, row, column])
        raise DataError(
            f"{name}: pixel (row {row}, column {column}) holds id {wrong}, allowed are 0 to {n_classes - 1}"
            f"{'' if ignore_id is None else f' and {ignore_id}'}: {_remedy(ids, wrong)}"
        )
    return ids.masked_fill(is_ignored, n_classes).to(dtype)


def _remedy(ids: Tensor, wrong: int) -> str:
    """Return what to do about an id that is no class."""
    if wrong < 0:
        return "ids are not negative; replace it in the files, by 255 for instance, and set data.ignore_id=255"
    if bool(torch.isin(ids, torch.tensor([0, 255])).all()):
        return f"{GREY_LEVELS}, or set data.ignore_id=255 if white pixels have no class"
    return f"raise data.n_classes, or set data.ignore_id={wrong} to leave such pixels out"


def _size_problems(first: Tensor, first_file: File, second: Tensor, second_file: File) -> list[str]:
    """Return no problem where two maps have the same height and width, otherwise one that names both files."""
    if first.shape[-2:] == second.shape[-2:]:
        return []
    sizes = [f"{tensor.shape[-1]}x{tensor.shape[-2]}" for tensor in (first, second)]
    differences = (abs(a - b) for a, b in zip(first.shape[-2:], second.shape[-2:], strict=True))
    remedy = (
        "crop the larger one, resizing would blur it" if max(differences) <= _FEW_PIXELS else "make them the same size"
    )
    if first.shape[-2:] == second.shape[:-3:-1] and first.shape[-1] != first.shape[-2]:
        remedy = "turn one of them; photographs are read upright, as EXIF says"
    return [f"{first_file} is {sizes[0]} but its partner {second_file} is {sizes[1]}: {remedy}"]


@contextmanager
def _collected(problems: list[str]) -> Iterator[None]:
    """Collect the problems of a file instead of raising them, so that the other files are read too."""
    try:
        yield
    except LoadingError:
        raise
    except DataError as error:
        problems += error.problems
