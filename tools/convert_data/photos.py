"""Pairs made of photographs: the photograph as the target, and a source made from it."""

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, get_args

import torch
import yaml
from torch import Tensor
from torchvision.transforms.v2.functional import center_crop, rgb_to_grayscale

from data.batch import DataError
from data.files.image_files import find_image_paths, read_rgb
from data.folder import SPLITS
from data.preprocessing import resize_image
from tools.convert_data.conversion import Conversion, Existing
from tools.convert_data.edges import draw_edges
from utils.files import replacing
from utils.text import exact
from utils.yaml_file import read_yaml

Source = Literal["edges", "grey", "noisy", "reduced"]

SUFFIXES = {"png": ".png", "jpeg": ".jpg"}
SETTINGS_FILE = "from_photos.yaml"  # settings that made the pairs of a folder, for the sources of other photographs


@dataclass(frozen=True)
class PhotoPairs:
    """Settings that make a pair of a photograph.

    size: Largest length of the longer side, in pixels.
    sigma: Standard deviation of the blur before edges are detected, in pixels, or of the noise, in levels of 255.
    factor: Reduction of height and width for reduced sources. Photographs are cropped to multiples of it.
    suffix: Suffix of the files, except lines and noise, which JPEG would change.
    """

    source: Source
    size: int
    sigma: float
    factor: int
    suffix: str

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Return the settings that made the pairs of a folder.

        Raises:
            DataError: The file of settings is missing or was changed.
            ConfigError: The file is not YAML.
        """
        path, remedy = folder / SETTINGS_FILE, "Run from-photos again with the same settings and --existing keep"
        if not path.is_file():
            raise DataError(f"{path}: no such file. {remedy}")
        try:
            values: Any = read_yaml(path)
            numbers = int(values["size"]), float(values["sigma"]), int(values["factor"])
            pairs = cls(values["source"], *numbers, values["suffix"])
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{path}: expected the settings of from-photos. Delete it. {remedy}") from error
        if pairs.source not in get_args(Source) or pairs.suffix not in SUFFIXES.values() or min(numbers) <= 0:
            raise DataError(f"{path}: expected the settings of from-photos. Delete it. {remedy}")
        return pairs

    def write(self, folder: Path) -> None:
        """Write the settings to the folder of the pairs."""
        head = "# Settings of from-photos, which made these pairs; python -m tools.convert_data source reads them.\n"
        with replacing(folder / SETTINGS_FILE) as unfinished:
            unfinished.write_text(head + yaml.safe_dump(asdict(self), sort_keys=False), encoding="utf-8")

    def check_present(self, folder: Path, splits: Mapping[str, str], existing: Existing) -> None:
        """Raise DataError if a folder has a photograph in another split, or keeps pairs that other settings made.

        splits: Splits of the new pairs, by name.
        """
        present = [(split, *file) for split in SPLITS for file in find_image_paths(folder / f"{split}_B", []).items()]
        for split, name, path in present:
            if splits.get(name, split) != split:
                remedy = "use the same --val and --test as before, or another TO"
                raise DataError(f"{path}: now belongs to {splits[name]}; {remedy}")
        has_staying = any(existing != "replace" or name not in splits for _, name, _ in present)
        if has_staying and (folder / SETTINGS_FILE).is_file() and (known := PhotoPairs.read(folder).rule) != self.rule:
            raise DataError(
                f"{folder}: its pairs were made with {known}, others would be with {self.rule}: use the same settings, "
                "or another TO"
            )

    @property
    def source_suffix(self) -> str:
        """Suffix of the files of sources."""
        return ".png" if self.source in ("edges", "noisy") else self.suffix

    @property
    def rule(self) -> str:
        """The settings that the pixels of a pair depend on, as options of from-photos."""
        own = {"grey": "", "reduced": f" --factor {self.factor}"}.get(self.source, f" --sigma {exact(self.sigma)}")
        return f"--source {self.source}{own} --size {self.size}"

    def conversion(self, photo: Path, name: str, folder: Path, split: str) -> Conversion:
        """Return the conversion of a photograph to a pair below the folder of a data set."""
        source, target = folder / f"{split}_A/{name}{self.source_suffix}", folder / f"{split}_B/{name}{self.suffix}"
        return Conversion(split, (source, target), partial(self, photo))

    def __call__(self, path: Path) -> tuple[Tensor, Tensor]:
        """Return the source and the photograph, (3, H, W) uint8 each; raise DataError if it cannot be used."""
        photo = read_rgb(path)
        height, width = photo.shape[-2:]
        if self.source == "reduced" and min(height, width) < self.factor:
            raise DataError(f"{path}: is {width}x{height}, too small to be reduced by {self.factor}")
        if (longer := max(height, width)) > self.size:
            photo = resize_image(photo, max(1, height * self.size // longer), max(1, width * self.size // longer))
        if self.source == "reduced":  # rounded sides would shift the pixels of the two images against each other
            photo = center_crop(photo, [max(side // self.factor, 1) * self.factor for side in photo.shape[-2:]])
        return self._source_of(photo), photo

    def _source_of(self, photo: Tensor) -> Tensor:
        height, width = photo.shape[-2:]
        match self.source:
            case "edges":
                return draw_edges(photo, self.sigma)
            case "grey":
                return rgb_to_grayscale(photo, num_output_channels=3)
            case "noisy":
                seed = zlib.crc32(photo.numpy().tobytes())  # the same for the same photograph
                noise = torch.randn(photo.shape, generator=torch.Generator().manual_seed(seed)) * self.sigma
                return (photo + noise).round_().clamp_(0, 255).to(torch.uint8)
            case "reduced":
                return resize_image(photo, height // self.factor, width // self.factor)


def _source(pairs: PhotoPairs, photo: Path) -> tuple[Tensor]:
    return (pairs(photo)[0],)


def sources_of(photos: Sequence[Path], output: Path, problems: list[str], pairs: PhotoPairs) -> list[Conversion]:
    """Return the sources of photographs and of photographs below folders; raise DataError for unsuitable names."""
    found: dict[str, Path] = {}
    for photo in photos:
        if photo.is_dir() and output.resolve().is_relative_to(photo.resolve()):
            raise DataError(f"--output {output}: is within {photo}, and would be read too the next time")
        for name, path in (find_image_paths(photo, problems) if photo.is_dir() else {photo.stem: photo}).items():
            if name in found:
                raise DataError(f"{path} and {found[name]} have the same name: convert them one by one")
            found[name] = path
    files = {name: output / f"{name}{pairs.source_suffix}" for name in found}
    if taken := {file.resolve() for file in files.values()} & {path.resolve() for path in found.values()}:
        raise DataError(f"--output {output}: {min(taken)} is a photograph, which its source would replace")
    return [Conversion("", (files[name],), partial(_source, pairs, path)) for name, path in found.items()]


def split_of(name: str, shares: dict[str, float]) -> str:
    """Return the split that the hash of a name draws, independent of other names.

    shares: Shares of val and test, in [0, 1]. The rest is train.
    """
    position = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8]) / 2**64
    for split, share in shares.items():
        if position < share:
            return split
        position -= share
    return "train"
