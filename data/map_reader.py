"""Read the maps (tensors) of a sample from their files: images, classes (stored as ids or colours), instances."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from data.batch import MAPS, DataError, LoadingError, Sample
from data.files.image_files import (
    StoredForm,
    check_depth,
    read_ids,
    read_palette,
    read_part,
    read_pixels,
    read_rgb,
    read_stored,
    read_weights,
)
from data.files.stored_image import TooLargeError
from data.folder import Blob, File
from data.layout import Layout, Provenance
from utils.label_colors import LabelColors
from utils.limits import MAX_CHANNELS, TARGET_SCALES
from utils.text import counted

IGNORE_ID = 255  # id of pixels without a class in files that convert_data writes
GREY_LEVELS = (
    "these look like grey levels of black and white masks: list them as colours in a file for data.label_colors, "
    "with lines such as background: [0, 0, 0] and object: [255, 255, 255]"
)


@dataclass(frozen=True)
class MapReader:
    """A reader of samples that have a file for each map. Maps of later source folders are "source_2", "source_3", …

    n_classes: Number of classes of label maps; 0 if sources are images.
    ignore_id: Id of pixels without a class.
    forms: Expected pixels of images, by map. A map without an entry is read as 8-bit RGB. If there are several source
        folders, the entry for their concatenated images is "source" ("source_images" if the first holds label maps).
    colors: Colours of the classes, or None if label maps hold ids.
    divided_classes: Argument `divided` of `connected_parts`. None: do not compute instance maps.
    target_scale: Height of a target divided by the height of its source.
    """

    n_classes: int = 0
    ignore_id: int | None = None
    forms: Mapping[str, StoredForm] = field(default_factory=dict)
    colors: LabelColors | None = None
    divided_classes: frozenset[int] | None = None
    target_scale: float = 1.0

    def read(self, name: str, files: Mapping[str, File]) -> Sample:
        """Read the maps of a sample at full size; raise a DataError that lists the problems of all files."""
        problems, maps = list[str](), dict[str, Tensor]()
        later = [kind for kind in files if is_later_source(kind)]
        for kind, file in files.items():
            with _collected(problems):
                maps[kind] = self._read(kind, file, is_stacked=bool(later))
        # features can have any size, so they are not checked
        references = dict.fromkeys(("instances", "labels", *later, "target"), "source") | {"weights": "target"}
        for kind, reference in references.items():
            if kind in maps and reference in maps:
                scale = self.target_scale if kind == "target" else 1
                problems += _size_problem(maps[reference], files[reference], maps[kind], files[kind], scale)
        if self.n_classes and "source" in maps:
            with _collected(problems):
                maps["source"] = self._classes(maps["source"], files["source"])
        if later and not problems:
            kinds, stack = (later, "source_images") if self.n_classes else (["source", *later], "source")
            images, image_files = [maps[kind] for kind in kinds], [files[kind] for kind in kinds]
            with _collected(problems):
                maps[stack] = stacked(images, image_files, self.forms[stack])
        if problems:
            raise DataError(*problems)
        if self.divided_classes is not None:
            maps["instances"] = connected_parts(maps["source"], self.divided_classes)
        read: dict[str, Any] = {kind: maps[kind] for kind in MAPS if kind in maps}
        return Sample(name, **read)

    def _read(self, kind: str, file: File, *, is_stacked: bool) -> Tensor:
        if is_stacked and (is_later_source(kind) or (kind == "source" and not self.n_classes)):
            return read_part(file, self.forms["source_images" if self.n_classes else "source"])
        if kind in ("instances", "labels") or (kind == "source" and self.n_classes > 0 and not self.colors):
            return read_ids(file)
        if kind == "weights":
            return read_weights(file)
        return read_stored(file, self.forms[kind]) if kind in self.forms else read_rgb(file)

    def provenance(self, files: Mapping[str, Blob]) -> Provenance:
        """Return the files and settings that determine a sample."""
        rule = f"{list(files)} {self.n_classes} {self.ignore_id}"
        rule += f" {sorted(self.forms.items())}" if self.forms else ""
        rule += f" {self.colors.table()}" if self.colors else ""
        rule += "" if self.divided_classes is None else f" {sorted(self.divided_classes)}"
        return Provenance(rule, files)

    def _classes(self, stored: Tensor, file: File) -> Tensor:
        """Convert the ids or colours of a label map to classes; raise DataError if a pixel has no class."""
        if self.colors:
            return classes_of_colors(stored, self.colors, str(file))
        return checked_classes(stored, str(file), n_classes=self.n_classes, ignore_id=self.ignore_id)


RGB_IMAGES = MapReader()


def source_kinds(n_folders: int) -> list[str]:
    """Return the names of the maps in `n_folders` source folders: source, source_2 and so on."""
    return ["source", *(f"source_{number}" for number in range(2, n_folders + 1))]


def is_later_source(kind: str) -> bool:
    """Return whether a map is from the second or a later source folder."""
    return kind.removeprefix("source_").isdecimal()


def is_source(kind: str) -> bool:
    """Return whether a map is from a source folder."""
    return kind == "source" or is_later_source(kind)


def stack_files(layout: Layout, index: int) -> list[Blob]:
    """Return the files of the images that are concatenated for sample `index`; empty for a single source folder."""
    files = layout.provenance(index).files
    kinds = [kind for kind in files if is_later_source(kind) or (kind == "source" and not layout.n_classes)]
    return [files[kind] for kind in kinds] if any(map(is_later_source, kinds)) else []


def stacked(images: Sequence[Tensor], files: Sequence[File], form: StoredForm) -> Tensor:
    """Concatenate images of one size to one (C, H, W) image, in a type that holds all values exactly.

    form: Expected pixels of the result. Raise DataError if the images do not fit.
    """
    images = fitting(images, files, form)
    for number, (image, file) in enumerate(zip(images, files, strict=True)):
        check_depth(image, file, form, first_channel=sum(map(len, images[:number])))
    stack = torch.from_numpy(np.concatenate([image.numpy() for image in images]))
    return stack.float() if stack.dtype == torch.int32 else stack  # int32: a mix of uint16 and int16


def fitting(images: Sequence[Tensor], files: Sequence[File], form: StoredForm) -> Sequence[Tensor]:
    """Return the images. If they have too many channels for a stack, read them again without transparency.

    form: Expected pixels of the stack. Raise DataError if the total number of channels differs.
    """
    if sum(map(len, images)) > form.n_channels:
        opaque = [read_pixels(file, len(image) - 1) for image, file in zip(images, files, strict=True)]
        images = opaque if sum(map(len, opaque)) == form.n_channels else images
    n_channels = sum(map(len, images))
    if n_channels != form.n_channels:
        remedy = f"set {form.setting}={n_channels}, or save all files of a folder with the same number of channels"
        remedy = remedy if n_channels <= MAX_CHANNELS else f"at most {MAX_CHANNELS} are supported"
        remedy = remedy if form.highest is None else "use images like the training images"
        each = [f"{file} has {counted(len(image), 'channel')}" for image, file in zip(images, files, strict=True)]
        raise DataError(f"{', '.join(each)}: together {n_channels}, {form.setting} is {form.n_channels}: {remedy}")
    return images


def _size_problem(first: Tensor, first_file: File, second: Tensor, second_file: File, scale: float) -> list[str]:
    """Return a message in a list if the size of `second` is not `scale` times the size of `first`, otherwise []."""
    ratios = {own / side for side, own in zip(first.shape[-2:], second.shape[-2:], strict=True)}
    if ratios == {scale}:
        return []
    sizes = [f"{image.shape[-1]}x{image.shape[-2]}" for image in (first, second)]
    expected, remedy = "", "make them the same size"
    if scale != 1:
        size = "x".join(f"{side * scale:g}" for side in reversed(first.shape[-2:]))
        expected = f", expected {size} with generator.scale={scale:g}"
        remedy = f"cut the larger images to multiples of {max(scale, 1 / scale):g} pixels"
    elif first.shape[-2:] == second.shape[:-3:-1]:
        remedy = "turn one of them; photographs are read upright, as EXIF says"
    other = ratios.pop() if len(ratios) == 1 else None
    training = f", or train with generator.scale={other:g}" if other in TARGET_SCALES else ""
    return [f"{first_file} is {sizes[0]} but its partner {second_file} is {sizes[1]}{expected}: {remedy}{training}"]


@contextmanager
def _collected(problems: list[str]) -> Iterator[None]:
    """Append the problems of a DataError to a list instead of raising it, so that other files are also read."""
    try:
        yield
    except (LoadingError, TooLargeError):
        raise
    except DataError as error:
        problems += error.problems


def label_maps(layout: Layout, most: int | None = None) -> list[Blob]:
    """Return the files of at most `most` label maps, at regular intervals. Synthetic samples have no files."""
    step = -(-len(layout) // most) if most else 1
    samples = range(0, len(layout) if layout.n_classes else 0, step)
    return [file for index in samples if (file := layout.provenance(index).files.get("source"))]


def palette_problems(files: Iterable[File]) -> list[str]:
    """Return a list with a message about two files with different palettes; empty if all palettes agree.

    Only headers are read. Two palettes agree if the shorter palette is the beginning of the longer palette.
    """
    longest, longest_file = b"", None
    for file in files:
        palette = read_palette(file)
        shorter, longer = sorted((palette, longest), key=len)
        if not longer.startswith(shorter):
            return [
                f"{file} and {longest_file} have different palettes, so an id means a different class in each: "
                "python -m tools.convert_data colors-to-ids converts colours to ids; if the ids are right, save the "
                "maps without palettes, as 8-bit PNG"
            ]
        if len(palette) > len(longest):
            longest, longest_file = palette, file
    return []


def checked_classes(ids: Tensor, name: str, *, n_classes: int, ignore_id: int | None) -> Tensor:
    """Convert a (1, H, W) int32 map to class ids as in `Sample.source`; raise DataError for unknown ids.

    name: Name of the map, for messages.
    """
    dtype = torch.uint8 if n_classes <= 255 else torch.int32
    lowest, highest = (int(bound) for bound in ids.aminmax())
    is_within = lowest >= 0 and highest < n_classes
    if is_within and (ignore_id is None or not lowest <= ignore_id <= highest):
        return ids.to(dtype)
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
    if wrong < 0:
        return "ids cannot be negative; replace this id, for example by 255, and set data.ignore_id=255"
    if bool(torch.isin(ids, torch.tensor([0, 255])).all()):
        return f"{GREY_LEVELS}, or set data.ignore_id=255 if white pixels have no class"
    return f"raise data.n_classes, or set data.ignore_id={wrong} to leave such pixels out"


def classes_of_colors(picture: Tensor, colors: LabelColors, name: str) -> Tensor:
    """Convert a (3, H, W) uint8 picture to class ids as in `Sample.source`; raise DataError for unknown colours.

    name: Name of the map, for messages.
    """
    n_classes = colors.n_classes
    table = packed_colors(colors.colors.numpy().T)
    order = np.argsort(table)
    pixels = packed_colors(picture.numpy()).ravel()
    starts = np.flatnonzero(np.diff(pixels, prepend=-1))  # starts of runs of one colour; label maps have few runs
    found = pixels[starts]
    rows = order[np.searchsorted(table[order], found).clip(max=len(table) - 1)]
    lengths = np.diff(starts, append=len(pixels))
    is_wrong = table[rows] != found
    if is_wrong.any():
        row, column = divmod(int(starts[is_wrong][0]), picture.shape[2])
        share = lengths[is_wrong].sum() / len(pixels)
        remedy = (
            "Smoothed borders and JPEG cause such colours: python -m tools.convert_data colors-to-ids converts them to "
            "the nearest class; or list the colour in the file"
        )
        raise DataError(
            f"{name}: pixel (row {row}, column {column}) has the colour {picture[:, row, column].tolist()}, which is "
            f"none of data.label_colors. {share:.2%} of the pixels have such colours. {remedy}"
        )
    dtype = np.uint8 if n_classes <= 255 else np.int32
    classes = np.repeat(rows.clip(max=n_classes).astype(dtype), lengths)
    return torch.from_numpy(classes.reshape(1, *picture.shape[1:]))


def packed_colors(channels: np.ndarray) -> np.ndarray:
    """Convert (3, ...) uint8 RGB to (...) int32 0xRRGGBB."""
    red, green, blue = channels.astype(np.int32)
    return red << 16 | green << 8 | blue


def connected_parts(classes: Tensor, divided: Collection[int]) -> Tensor:
    """Compute (1, H, W) int32 instance ids from a (1, H, W) map of classes, like skimage.measure.label.

    Each connected part of a divided class is an instance. Every other class is one instance. Pixels have 4 neighbours.

    divided: Ids of the divided classes. If there are none, all classes are divided.
    """
    ids = classes[0].numpy().astype(np.int32)
    height, width = ids.shape
    is_start = np.ones((height, width), bool)  # starts of runs of one class in a row
    is_start[:, 1:] = ids[:, 1:] != ids[:, :-1]
    run_of = np.cumsum(is_start, dtype=np.int32).reshape(height, width) - 1
    class_of_run = ids[is_start]
    touches = (ids[1:] == ids[:-1]) & (is_start[1:] | is_start[:-1])  # the first pixel where two runs touch
    parts = _joined(len(class_of_run), run_of[:-1][touches], run_of[1:][touches])
    n_classes = int(class_of_run.max()) + 1
    if divided:
        is_divided = np.isin(class_of_run, list(divided))
        parts = np.where(is_divided, parts + n_classes, class_of_run)
    _, numbers = np.unique(parts, return_inverse=True)  # 0, 1, 2, … without gaps
    return torch.from_numpy(numbers.astype(np.int32)[run_of][None])


def _joined(n_nodes: int, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return, for each node, the smallest node in its connected component (Shiloach and Vishkin 1982).

    first, second: The two nodes of each edge.
    """
    root = np.arange(n_nodes, dtype=np.int32)
    while not np.array_equal(a := root[first], b := root[second]):
        np.minimum.at(root, np.maximum(a, b), np.minimum(a, b))
        root = root[root]
    return root
