"""Convert data sets between layouts, and make pairs of photographs.

python -m tools.convert_data to-folders FROM TO         pix2pix's pictures of two halves -> TO/train_A, TO/train_B, …
python -m tools.convert_data to-side-by-side FROM TO    and back
python -m tools.convert_data from-photos FROM TO        photographs -> edges, grey or low resolution, and photographs
"""

import argparse
import hashlib
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from torchvision.transforms.v2 import InterpolationMode
from torchvision.transforms.v2 import functional as F

from data.batch import DataError
from data.image_files import IMAGE_SUFFIXES, JPEG_QUALITY, find_images, read_rgb, write_jpeg, write_png
from data.layout import Layout, PairingError
from data.paired_folders import PairedFolders
from data.side_by_side import SideBySide
from tools.edges import draw_edges
from utils.atomic_file import replacing
from utils.cli import ArgumentParser, run_entry_point
from utils.cores import usable_cores
from utils.log import log_to_console, logger

SPLITS = ("train", "val", "test")
_WRITERS = {".png": write_png, ".jpg": write_jpeg}
_TOLD_EVERY = 1000  # pictures

Existing = Literal["error", "keep", "replace"]
Source = Literal["edges", "grey", "low_resolution"]


@dataclass(frozen=True)
class Conversion:
    """One picture or pair to be made.

    files: where it goes, one file for each image that `make` returns: (3, H, W) uint8, or DataError.
    """

    name: str
    split: str
    files: tuple[Path, ...]
    make: Callable[[], Sequence[Tensor]]


@dataclass(frozen=True)
class PhotoPairs:
    """How a photograph becomes a pair.

    size: most pixels of its longer side.
    sigma: edges: of the Gaussian before them, in pixels.
    factor: low_resolution: how many pixels of the photograph one stands for, in each direction.
    """

    source: Source
    size: int
    sigma: float
    factor: int

    def __call__(self, path: Path) -> tuple[Tensor, Tensor]:
        """Source and photograph, (3, H, W) uint8 each; DataError where the file cannot be used."""
        photo = read_rgb(path)
        height, width = photo.shape[-2:]
        if (longer := max(height, width)) > self.size:
            photo = _resized(photo, max(1, height * self.size // longer), max(1, width * self.size // longer))
        return self._source_of(photo), photo

    def _source_of(self, photo: Tensor) -> Tensor:
        height, width = photo.shape[-2:]
        match self.source:
            case "edges":
                return draw_edges(photo, self.sigma)
            case "grey":
                return F.rgb_to_grayscale(photo, num_output_channels=3)
            case "low_resolution":
                small = _resized(photo, max(1, height // self.factor), max(1, width // self.factor))
                return _resized(small, height, width)


def to_folders(origin: Path, target: Path, suffix: str, problems: list[str]) -> list[Conversion]:
    """The halves of the pictures in each folder of `origin`; `problems` gets what stands against the data set."""
    folders = [folder for folder in _folders_in(origin) if any(_has_image_suffix(path) for path in folder.rglob("*"))]
    if not folders:
        raise DataError(f"{origin}: expected a folder of pictures for each split, such as {origin / 'train'}")
    conversions = []
    for folder in folders:
        layout = _whole(partial(SideBySide, folder=folder, a_to_b=True), problems)
        for index, name in enumerate(layout.names):
            files = tuple(target / f"{folder.name}_{side}" / f"{name}{suffix}" for side in "AB")
            conversions.append(Conversion(name, folder.name, files, partial(_read_pair, layout, index)))
    return conversions


def to_side_by_side(origin: Path, target: Path, suffix: str, problems: list[str]) -> list[Conversion]:
    """The pairs of each SPLIT_A and SPLIT_B of `origin`, joined; `problems` gets what stands against the data set."""
    splits = [folder.name.removesuffix("_A") for folder in _folders_in(origin) if folder.name.endswith("_A")]
    if not splits:
        raise DataError(f"{origin}: expected folders such as {origin / 'train_A'} and {origin / 'train_B'}")
    conversions = []
    for split in splits:
        a, b = origin / f"{split}_A", origin / f"{split}_B"
        pairs = partial(PairedFolders, source_folder=a, target_folder=b, instance_folder=None, n_classes=0)
        layout = _whole(partial(pairs, ignore_id=None), problems)
        for index, name in enumerate(layout.names):
            file = target / split / f"{name}{suffix}"
            conversions.append(Conversion(name, split, (file,), partial(_read_joined, layout, index)))
    return conversions


def from_photos(
    origin: Path,
    target: Path,
    suffix: str,
    problems: list[str],
    *,
    pairs: PhotoPairs,
    shares: dict[str, float],
) -> list[Conversion]:
    """A pair of each photograph below `origin`, in the split that its name is drawn into.

    Raises:
        DataError: there is none, or one is in another split of `target` already.
    """
    photos = find_images(origin, problems)
    if not photos:
        raise DataError(*problems)
    left_out = Counter(path.suffix.lower() or path.name for path in origin.rglob("*") if _is_left_out(path))
    if left_out:
        logger.info("no pictures that are read: %s", ", ".join(f"{n} {kind}" for kind, n in sorted(left_out.items())))
    conversions = []
    present = {split: find_images(target / f"{split}_B", []) for split in SPLITS}
    for name, path in photos.items():
        split = split_of(name, shares)
        if others := [other for other in SPLITS if other != split and name in present[other]]:
            raise DataError(
                f"{present[others[0]][name]}: would be in {split} now: give --val and --test as before, or another TO"
            )
        # lines stay sharp in a PNG, and take little room there
        a = target / f"{split}_A" / f"{name}{'.png' if pairs.source == 'edges' else suffix}"
        b = target / f"{split}_B" / f"{name}{suffix}"
        conversions.append(Conversion(name, split, (a, b), partial(pairs, path)))
    return conversions


def split_of(name: str, shares: dict[str, float]) -> str:
    """The split that a name is drawn into by its hash: it stays there, whatever else is added.

    shares: of val and test, in [0, 1]; train has the rest.
    """
    position = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) / 2**64
    for split, share in shares.items():
        if position < share:
            return split
        position -= share
    return "train"


def convert_all(conversions: Sequence[Conversion], existing: Existing) -> tuple[Counter[str], list[str]]:
    """Make the pictures, on all cores; how many pairs of each split there are then, and what stands against others.

    Raises:
        DataError: a file is there already, and `existing` is error.
        OSError: a file cannot be written.
    """
    present = [file for conversion in conversions for wanted in conversion.files for file in _present(wanted)]
    if present and existing == "error":
        n_more = f", and so are {len(present) - 1} others" if len(present) > 1 else ""
        raise DataError(f"{present[0]}: is there already{n_more}; choose another TO, or --existing keep or replace")
    kept = [c for c in conversions if existing == "keep" and all(_present(file) for file in c.files)]
    kept_files = {conversion.files for conversion in kept}
    to_do = [conversion for conversion in conversions if conversion.files not in kept_files]
    counts, problems = Counter(conversion.split for conversion in kept), list[str]()
    for done, (conversion, reasons) in enumerate(_converted(to_do), start=1):
        counts.update([] if reasons else [conversion.split])
        problems += reasons
        if done % _TOLD_EVERY == 0:
            logger.info("%d of %d", done, len(to_do))
    return counts, problems


def _converted(conversions: Sequence[Conversion]) -> Iterator[tuple[Conversion, tuple[str, ...]]]:
    """Each conversion once it is made, with what stands against it. Pillow and torch let threads work side by side."""
    n_torch_threads = torch.get_num_threads()
    torch.set_num_threads(1)  # in each thread; there are as many as cores
    executor = ThreadPoolExecutor(usable_cores())
    try:
        futures = {executor.submit(_convert, conversion): conversion for conversion in conversions}
        for future in as_completed(futures):
            yield futures.pop(future), future.result()
    finally:
        executor.shutdown(cancel_futures=True)
        torch.set_num_threads(n_torch_threads)


def _convert(conversion: Conversion) -> tuple[str, ...]:
    try:
        images = conversion.make()
    except DataError as error:
        return error.problems
    for file, image in zip(conversion.files, images, strict=True):
        _write(file, image)
    return ()


def _present(file: Path) -> list[Path]:
    """What is there under the name of a file, in any format that is written here."""
    alike = [file.with_name(file.name.removesuffix(file.suffix) + suffix) for suffix in _WRITERS]
    return [path for path in alike if path.exists()]


def _write(path: Path, image: Tensor) -> None:
    """Write a (3, H, W) uint8 RGB image, whole or not at all, in place of what has its name."""
    with replacing(path) as unfinished:
        _WRITERS[path.suffix](unfinished, image)
    for other in _present(path):
        if other != path:
            other.unlink()


def _read_pair(layout: Layout, index: int) -> tuple[Tensor, Tensor]:
    sample = layout.read(index)
    assert sample.target is not None
    return sample.source, sample.target


def _read_joined(layout: Layout, index: int) -> tuple[Tensor]:
    return (torch.cat(_read_pair(layout, index), dim=-1),)


def _whole(build: Callable[[], Layout], problems: list[str]) -> Layout:
    """The layout of the samples that are whole; `problems` gets the others."""
    try:
        return build()
    except PairingError as error:
        problems += error.problems
        if error.rest is None:
            raise
        return error.rest


def _resized(image: Tensor, height: int, width: int) -> Tensor:
    return F.resize(image, [height, width], interpolation=InterpolationMode.BICUBIC, antialias=True)


def _folders_in(origin: Path) -> list[Path]:
    if not origin.is_dir():
        raise DataError(f"{origin}: no such folder")
    return [path for path in sorted(origin.iterdir()) if path.is_dir() and not path.name.startswith(".")]


def _has_image_suffix(path: Path) -> bool:
    return path.suffix.lower() in IMAGE_SUFFIXES


def _is_left_out(path: Path) -> bool:
    return path.is_file() and not path.name.startswith(".") and not _has_image_suffix(path)


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = ArgumentParser(description="Convert data sets between layouts, and make pairs of photographs.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    helps = {
        "to-folders": "pix2pix's pictures, A in the left half and B in the right, to SPLIT_A and SPLIT_B",
        "to-side-by-side": "SPLIT_A and SPLIT_B to pictures of two halves",
        "from-photos": "photographs to pairs: what is drawn from each in SPLIT_A, the photograph in SPLIT_B",
    }
    by_name = {name: commands.add_parser(name, help=text, description=text) for name, text in helps.items()}
    for name, command in by_name.items():
        command.add_argument("origin", type=_folder, metavar="FROM", help="folder to read, with what lies below it")
        command.add_argument("target", type=_folder, metavar="TO", help="folder to write to; not within FROM")
        format_help = f"jpeg: quality {JPEG_QUALITY}, colours at full resolution; default: %(default)s"
        default = "jpeg" if name == "from-photos" else "png"
        command.add_argument("--format", choices=("png", "jpeg"), default=default, help=format_help)
        existing_help = "files that are there already; default: error, before anything is written"
        command.add_argument("--existing", choices=("error", "keep", "replace"), default="error", help=existing_help)
    _add_photo_arguments(by_name["from-photos"].add_argument)
    arguments = parser.parse_args(argv)
    if arguments.command == "from-photos" and arguments.val + arguments.test >= 1:
        parser.error(f"--val {arguments.val} and --test {arguments.test} leave nothing to train on")
    return arguments


def _folder(text: str) -> Path:
    if not text:  # as of a shell's variable that is not set; Path takes it for the present folder
        raise argparse.ArgumentTypeError("empty, expected a folder")
    return Path(text)


def _add_photo_arguments(add: Callable[..., argparse.Action]) -> None:
    sources = ("edges", "grey", "low_resolution")
    add("--source", choices=sources, default="edges", help="what to translate from; default: edges")
    size_help = "larger photographs are made smaller: most pixels of the longer side; default: 1024"
    add("--size", type=_number(int, 1, 100_000), default=1024, metavar="N", help=size_help)
    sigma_help = "edges: pixels of blur before them; more leaves fewer lines; default: 1.2"
    add("--sigma", type=_number(float, 0.3, 100), default=1.2, metavar="S", help=sigma_help)
    add("--factor", type=_number(int, 2, 1000), default=4, metavar="N", help="low_resolution: by how much; default: 4")
    for split in ("val", "test"):
        help_text = f"share of {split}, drawn by the names, so that it stays when others are added; default: 0.1"
        add(f"--{split}", type=_number(float, 0, 1), default=0.1, metavar="SHARE", help=help_text)


def _number(kind: type[int] | type[float], least: float, most: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = kind(least - 1)
        if not least <= value <= most:
            what = "a whole number" if kind is int else "a number"
            raise argparse.ArgumentTypeError(f"{text!r} is not {what} from {least:g} to {most:g}")
        return value

    return parse


def plan(arguments: argparse.Namespace, target: Path, problems: list[str]) -> list[Conversion]:
    """What the command line asks for; `problems` gets what stands against the data set."""
    origin = arguments.origin.expanduser()
    suffix = {"png": ".png", "jpeg": ".jpg"}[arguments.format]
    if target.resolve().is_relative_to(origin.resolve()):
        raise DataError(f"{target}: lies within {origin}, and would be read too the next time; choose another TO")
    match arguments.command:
        case "to-folders":
            return to_folders(origin, target, suffix, problems)
        case "to-side-by-side":
            return to_side_by_side(origin, target, suffix, problems)
        case _:
            pairs = PhotoPairs(arguments.source, arguments.size, arguments.sigma, arguments.factor)
            shares = {"val": arguments.val, "test": arguments.test}
            return from_photos(origin, target, suffix, problems, pairs=pairs, shares=shares)


def training_command(arguments: argparse.Namespace, target: Path) -> str:
    """How to train on the result."""
    recipe = "side_by_side_256x256" if arguments.command == "to-side-by-side" else "paired_folders_256x256"
    is_grey = arguments.command == "from-photos" and arguments.source == "grey"
    settings = [f"data.root={target}", f"run.name={target.resolve().name}"] + ["data.source_channels=1"] * is_grey
    return shlex.join(["python", "train.py", "--config", f"configs/{recipe}.yaml", *settings])


def main(argv: Sequence[str]) -> None:
    """Parse the command line and do what it says; exits with code 1 where pictures could not be used."""
    arguments = parse_arguments(argv)
    log_to_console(is_main=True)
    target = arguments.target.expanduser()
    problems: list[str] = []
    conversions = plan(arguments, target, problems)
    counts, unusable = convert_all(conversions, arguments.existing)
    problems += unusable
    for problem in problems:
        logger.info("left out: %s", " ".join(problem.split()))
    splits = dict.fromkeys((*SPLITS, *counts) if arguments.command == "from-photos" else sorted(counts))
    logger.info("%s: %s", target, ", ".join(f"{counts[split]} pairs in {split}" for split in splits) or "no pair")
    if counts["train"]:
        logger.info("to train on them: %s", training_command(arguments, target))
    if problems:
        raise SystemExit(1)


if __name__ == "__main__":
    sys.exit(run_entry_point(main))
