"""Read the files of requests, and write translations, with the same results as test.py."""

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Literal

from torch import Tensor

from configs import build
from configs.build import image_sides
from configs.data_facts import DataFacts
from configs.schema import Config
from data.batch import Sample
from data.files.stored_image import check_size
from data.map_reader import source_kinds
from inference.output_folder import image_store
from inference.reading import fitted
from inference.tiling import Window

NAME = "source"  # default name of an image; random features and noise depend on the name
_SUFFIXES = {b"\x93NUMPY": ".npy", **dict.fromkeys((b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"), ".tif")}
_PNG = b"\x89PNG\r\n\x1a\n"
_QUICK = 2**16  # largest PNG that is certainly fast to decode, in bytes
_VOLUME = re.compile(rb"NRRD|ObjectType|NDims|\x1f\x8b|.{128}DICM|.{344}n[+i]1\0", re.DOTALL)  # \x1f\x8b: NIfTI in gzip
_UNCOMPRESSED = re.compile(rb"P5 \d+ \d+ 65535\n|P6 \d+ \d+ 255\n")  # Netpbm files of the playground's page
MEDIA_TYPES = {".png": "image/png", ".tif": "image/tiff"}


@dataclass(frozen=True)
class Upload:
    """An uploaded file. It implements the protocol data.folder.File."""

    name: str
    content: bytes

    @property
    def suffix(self) -> str:
        """Suffix of the file format, from the first bytes."""
        return next((suffix for begin, suffix in _SUFFIXES.items() if self.content.startswith(begin)), ".png")

    @property
    def is_volume(self) -> bool:
        """Whether the content begins like a NIfTI, MetaImage, NRRD, DICOM or gzip file."""
        return _VOLUME.match(self.content) is not None

    @property
    def is_quick(self) -> bool:
        """Whether decoding is fast for any content: a small PNG or an uncompressed Netpbm file."""
        is_small_png = self.content.startswith(_PNG) and len(self.content) <= _QUICK
        return is_small_png or _UNCOMPRESSED.match(self.content) is not None

    def open(self, mode: Literal["rb"] = "rb", /) -> BinaryIO:
        """Return the content as an open file."""
        return BytesIO(self.content)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class RequestFiles:
    """A reader for the files of requests, and a writer for translations.

    config: Settings for reading samples.
    facts: Properties of the data, derived from `config`.
    folder: Folder for temporary files.
    """

    config: Config
    facts: DataFacts
    folder: Path

    @property
    def kinds(self) -> list[str]:
        """Form fields of the files that a request must contain."""
        data, facts = self.config.data, self.facts
        others = {"instances": facts.reads_instances, "features": facts.conditioning.features == "precomputed"}
        sources = source_kinds(len(data.source_folder) if data.is_stacked else 1)
        return [*sources, *(kind for kind, is_read in others.items() if is_read)]

    @property
    def media_type(self) -> str:
        """Media type of translated images."""
        return MEDIA_TYPES.get(image_store(self.facts).suffix, "application/octet-stream")

    def read(self, files: Mapping[str, Upload], name: str) -> tuple[Sample, Window]:
        """Return a padded sample, and the window that cuts its translation from the network's output.

        Raises:
            DataError: A file cannot be used.
            TooLargeError: An image is too large, before or after padding.
        """
        facts, sides = self.facts, image_sides(self.config)
        reader = facts.map_reader(facts.trained_storage, needs_instances=facts.conditioning.needs_instances)
        sample = reader.read(name, {kind: files[kind] for kind in self.kinds})
        padded_sides = (-(-side // sides.multiple) * sides.multiple for side in sample.source.shape[-2:])
        height, width = (max(side, sides.minimum) for side in padded_sides)
        check_size("source, padded for the generator", height, width)
        is_ids, preprocessing = facts.n_classes > 0, build.build_preprocessing(self.config)
        padded = fitted(sample, preprocessing, keeps_size=True, source_is_ids=is_ids)
        return padded.padded, padded.window

    def write(self, image: Tensor, source: Upload) -> bytes:
        """Return a translation as the content of an image file.

        Raises:
            OSError: A temporary file cannot be written.
        """
        store = image_store(self.facts)
        path = self.folder / f"{secrets.token_hex(8)}{store.suffix}"
        try:
            store.write(path, image, source)
            return path.read_bytes()
        finally:
            path.unlink(missing_ok=True)
