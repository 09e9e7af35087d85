"""Writing the images of a new data set on all cores, with a policy for existing files."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from PIL import Image
from torch import Tensor
from tqdm import tqdm

from data.batch import DataError
from data.files.image_files import find_image_paths, write_jpeg, write_png
from data.files.pixel_rows import Bands, write_png_rows
from utils.atomic_file import replacing
from utils.machine import usable_cores
from utils.worker_threads import in_order, worker_threads

Existing = Literal["refuse", "keep", "replace"]
_SUFFIXES = (".png", ".jpg", ".tif")


def found_images(origin: Path, problems: list[str]) -> dict[str, Path]:
    """Return the images below a folder by name; problems of the folder are added to `problems`.

    Raises:
        DataError: there is none.
    """
    images = find_image_paths(origin, problems)
    if not images:
        raise DataError(*problems)
    return images


@dataclass(frozen=True)
class Conversion:
    """One image or pair to be made.

    files: one file for each (3, H, W) uint8 image, or (1, H, W) map of ids, that `make` returns. The suffix of a map of
        uint8 or uint16 is .png, that of one of int32 becomes .tif: PNG has no 32 bits.
    make: raises DataError if the images cannot be made.
    """

    name: str
    split: str
    files: tuple[Path, ...]
    make: Callable[[], Sequence[Tensor]]


def convert_all(conversions: Sequence[Conversion], existing: Existing, problems: list[str]) -> Counter[str]:
    """Make the images; return the number of pairs of each split, those kept included.

    problems: gets those of images that cannot be made.

    Raises:
        DataError: a file exists, and `existing` is refuse.
        OSError: a file cannot be written.
    """
    kept, to_do = kept_and_to_do(conversions, existing)
    return kept + convert_each(to_do, len(to_do), problems)


def kept_and_to_do(conversions: Sequence[Conversion], existing: Existing) -> tuple[Counter[str], list[Conversion]]:
    """Return the number of existing pairs of each split that are kept, and the conversions to be made.

    Raises:
        DataError: a file exists, and `existing` is refuse.
    """
    wanted = [file for conversion in conversions for file in conversion.files] if existing == "refuse" else []
    if present := [file for path in wanted for file in _present(path)]:
        n_more = f", as do {len(present) - 1} others" if len(present) > 1 else ""
        raise DataError(f"{present[0]}: already exists{n_more}; choose another folder, or --existing keep or replace")
    to_do = [c for c in conversions if existing != "keep" or not all(_present(file) for file in c.files)]
    return Counter(c.split for c in conversions) - Counter(c.split for c in to_do), to_do


def convert_each(conversions: Iterable[Conversion], total: int, problems: list[str]) -> Counter[str]:
    """Make the images of `total` conversions, which are taken when there is a free core, a few ahead of their images.

    Returns the number of pairs that were made of each split. problems: gets those of the others.
    A terminal shows a progress bar.

    Raises:
        OSError: a file cannot be written.
    """
    counts = Counter[str]()
    with worker_threads(usable_cores()) as pool:
        calls = in_order(pool, _convert, conversions, 2 * usable_cores())
        for call in tqdm(calls, total=total, unit="image", disable=None, dynamic_ncols=True):
            try:
                counts[call.result()] += 1
            except DataError as error:
                problems += error.problems
    return counts


def _convert(conversion: Conversion) -> str:
    """Make the images of a conversion and write them; return its split."""
    for file, image in zip(conversion.files, conversion.make(), strict=True):
        _write(file, image)
    return conversion.split


def _present(file: Path) -> list[Path]:
    """Return the existing files of this name in any format that is written here."""
    return [path for suffix in _SUFFIXES if (path := file.with_suffix(suffix)).exists()]


def _write(path: Path, image: Tensor) -> None:
    """Write a (C, H, W) image or map atomically, and delete the same name in another format."""
    if image.dtype == torch.int32:
        path = path.with_suffix(".tif")
    with replacing(path) as unfinished:
        if image.dtype == torch.int32:
            Image.fromarray(image[0].numpy()).save(unfinished, format="TIFF", compression="tiff_adobe_deflate")
        elif image.dtype == torch.uint16:
            write_png_rows(unfinished, Bands.of(image.numpy()))
        else:
            (write_jpeg if path.suffix == ".jpg" else write_png)(unfinished, image)
    for other in _present(path):
        if other != path:
            other.unlink()
