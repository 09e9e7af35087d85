"""Write the images of a new data set in parallel, with a policy for existing files."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from torch import Tensor
from tqdm import tqdm

from data.batch import DataError
from data.files.image_files import find_image_paths, write_jpeg, write_png
from utils.files import replacing
from utils.machine import usable_cores
from utils.worker_threads import in_order, worker_threads

Existing = Literal["refuse", "keep", "replace"]
_SUFFIXES = (".png", ".jpg")


def found_images(origin: Path, problems: list[str]) -> dict[str, Path]:
    """Return the images below a folder by name. Append problems to `problems`. Raise DataError if there is no image."""
    images = find_image_paths(origin, problems)
    if not images:
        raise DataError(*problems)
    return images


@dataclass(frozen=True)
class Conversion:
    """One image or pair to write.

    files: Paths to write to, one for each image.
    make: Returns the images, (3, H, W) or (1, H, W) uint8 each. Raises DataError if they cannot be made.
    """

    split: str
    files: tuple[Path, ...]
    make: Callable[[], Sequence[Tensor]]


def convert_all(conversions: Sequence[Conversion], existing: Existing, problems: list[str]) -> Counter[str]:
    """Write the images, with a progress bar. Return the number of new and existing pairs, by split.

    problems: List that receives the problems of images.

    Raises:
        DataError: A file exists, and `existing` is "refuse".
        OSError: A file cannot be written.
    """
    present = [file for one in conversions for path in one.files for file in _present(path)]
    if present and existing == "refuse":
        n_more = f", as do {len(present) - 1} others" if len(present) > 1 else ""
        raise DataError(f"{present[0]}: already exists{n_more}; choose another folder, or --existing keep or replace")
    to_do = [c for c in conversions if existing != "keep" or not all(_present(file) for file in c.files)]
    counts = Counter(c.split for c in conversions) - Counter(c.split for c in to_do)
    with worker_threads(usable_cores()) as pool:
        calls = in_order(pool, _convert, to_do, 2 * usable_cores())
        for call in tqdm(calls, total=len(to_do), unit="image", disable=None, dynamic_ncols=True):
            try:
                counts[call.result()] += 1
            except DataError as error:
                problems += error.problems
    return counts


def _convert(conversion: Conversion) -> str:
    """Write the images of a conversion, delete images of the same name in another format, and return the split."""
    for path, image in zip(conversion.files, conversion.make(), strict=True):
        with replacing(path) as unfinished:
            (write_jpeg if path.suffix == ".jpg" else write_png)(unfinished, image)
        for other in _present(path):
            if other != path:
                other.unlink()
    return conversion.split


def _present(file: Path) -> list[Path]:
    """Return the existing files with the name of `file`, in all formats that this tool writes."""
    return [path for suffix in _SUFFIXES if (path := file.with_suffix(suffix)).exists()]
