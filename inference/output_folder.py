"""The folder of the results of test.py: its name, the files in it, and what happens to those that exist."""

import errno
import os
from itertools import chain
from pathlib import Path

from data.batch import DataError
from data.layout import Layout
from inference.inputs import common_folder
from inference.load import LoadedGenerator
from inference.request import Existing, Request
from utils.text import counted

SHEET = "contact_sheet"
METRICS = "metrics.json"
GALLERY = "gallery"
INDEX = "index.html"
KINDS = ("source", "translated", "target", "difference")
SOURCES = f"{GALLERY}/{KINDS[0]}"


def default_output(loaded: LoadedGenerator, request: Request) -> Path:
    """Return results/RUN/SPLIT_stepSTEP, with the name of the input in place of the split's where there is --input."""
    name = request.split or loaded.config.data.test_split
    if request.input:
        first, *others = request.input
        is_file = first.is_file() and not others
        name = first.resolve().stem if is_file else common_folder(request.input).name or "input"
    name = name.replace("/", "_")  # a split may be a nested folder; its results are not
    return Path("results") / loaded.name / (name if loaded.step is None else f"{name}_step{loaded.step}")


def prepare_output(output: Path, layout: Layout, existing: Existing, suffix: str = ".png") -> None:
    """Create the output folder.

    suffix: of the translated images.
    existing: "replace" overwrites any file; "refuse" only results of test.py; "keep" neither these nor other images.

    Raises:
        DataError: results would overwrite inputs, each other or files that have to stay, or be outside the folder.
        OSError: the folder cannot be created, or not be written to.
    """
    written = output.resolve()
    if written.exists() and not written.is_dir():
        raise DataError(f"--output: {output} is a file. Choose another --output.")
    for folder in layout.folders:
        if folder.resolve() in (written, *written.parents):
            where = "the folder of the" if folder.resolve() == written else f"inside {folder}, which holds"
            raise DataError(f"--output: {output} is {where} inputs. Choose another --output.")
    if SHEET in layout.names:
        raise DataError(f"--input: {SHEET} is the name of the contact sheet among the results. Rename the input.")
    if inside := next((name for name in layout.names if name.split("/")[0] == GALLERY), None):
        raise DataError(f"--input: {inside}: {GALLERY} is a folder of the results. Rename the input.")
    results = _check_results(output, layout, suffix)
    for place, file in results.items():
        if not place.is_relative_to(written):
            raise DataError(f"--output: {file} is a link to {place}, outside the output folder. Remove the link.")
    if existing != "replace":
        _refuse_foreign(output, layout, suffix, keeps_images=existing == "keep")
    output.mkdir(parents=True, exist_ok=True)
    if not os.access(output, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(output))


def _check_results(output: Path, layout: Layout, suffix: str) -> dict[Path, Path]:
    """Return the files to be written, by their resolved paths; raise DataError where two of them collide."""
    pictures = (output / gallery_image(kind, name) for name in layout.names for kind in KINDS)
    files = [output / f"{name}{suffix}" for name in layout.names]
    files += [output / f"{SHEET}.png", output / METRICS, output / INDEX, *pictures]
    results = {file.resolve(): file for file in files}
    if overwritten := results.keys() & {path.resolve() for path in layout.files}:
        raise DataError(f"--output: results would overwrite the input {min(overwritten)}. Choose another --output.")
    if taken := set(files) & set(chain.from_iterable(file.parents for file in files)):
        raise DataError(f"--input: {min(taken)} would be both a result and a folder of results. Rename an input.")
    return results


def _refuse_foreign(output: Path, layout: Layout, suffix: str, *, keeps_images: bool) -> None:
    """Raise DataError if a file is in the place of a result, and test.py did not write it.

    keeps_images: whether an image in the place of a translated one is no hindrance.
    """
    names = [] if keeps_images else layout.names
    images = [f"{name}{suffix}" for name in names if is_foreign(output, name, suffix)]
    reports: list[str] = []
    if not (output / SOURCES).is_dir():
        reports = [name for name in (f"{SHEET}.png", INDEX, METRICS) if (output / name).exists()]
    if foreign := images + reports:
        files = f"{output / foreign[0]}" + (f" and {counted(len(foreign) - 1, 'other file')}" if foreign[1:] else "")
        choice = "replace" if reports else "replace or keep"  # images only can be kept
        raise DataError(
            f"--output: {files} would be overwritten, which test.py did not write. Choose another --output, or "
            f"--existing {choice}."
        )


def is_foreign(output: Path, name: str, suffix: str) -> bool:
    """Return whether a file is in the place of the translated image of a sample, and test.py did not write it.

    Beside each of its images test.py leaves the source in the gallery, which it writes first.
    """
    return (output / f"{name}{suffix}").exists() and not (output / gallery_image(KINDS[0], name)).exists()


def gallery_image(kind: str, name: str) -> str:
    """Return the path of a sample's image in the gallery, relative to the output folder."""
    return f"{GALLERY}/{kind}/{name}.png"
