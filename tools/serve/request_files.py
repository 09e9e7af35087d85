"""The files of requests and answers, which are read and written as test.py does."""

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

NAME = "source"  # name of an image without one; seeds of features and noise depend on it
_SUFFIXES = {b"\x93NUMPY": ".npy", **dict.fromkeys((b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"), ".tif")}
_PNG = b"\x89PNG\r\n\x1a\n"
_QUICK = 2**16  # bytes of a PNG
_UNCOMPRESSED = re.compile(rb"P5 \d+ \d+ 65535\n|P6 \d+ \d+ 255\n")  # the files that the playground's page sends
MEDIA_TYPES = {".png": "image/png", ".tif": "image/tiff"}


@dataclass(frozen=True)
class Upload:
    """A file of a request, as `data.folder.File`."""

    name: str
    content: bytes

    @property
    def suffix(self) -> str:
        """The suffix of its format, by its first bytes."""
        return next((suffix for begin, suffix in _SUFFIXES.items() if self.content.startswith(begin)), ".png")

    @property
    def is_quick(self) -> bool:
        """Whether no content can make its decoder slow: small PNG and uncompressed Netpbm files."""
        is_small_png = self.content.startswith(_PNG) and len(self.content) <= _QUICK
        return is_small_png or _UNCOMPRESSED.match(self.content) is not None

    def open(self, mode: Literal["rb"] = "rb", /) -> BinaryIO:
        """Open it for reading."""
        return BytesIO(self.content)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class RequestFiles:
    """Reads the files of requests, and writes translations as files.

    config: Settings that samples are read with.
    facts: What follows from them for the data.
    folder: Folder of temporary files.
    """

    config: Config
    facts: DataFacts
    folder: Path

    @property
    def kinds(self) -> list[str]:
        """The files that a request has, as a form names them."""
        data, facts = self.config.data, self.facts
        others = {"instances": facts.reads_instances, "features": facts.conditioning.features == "precomputed"}
        sources = source_kinds(len(data.source_folder) if data.is_stacked else 1)
        return [*sources, *(kind for kind, is_read in others.items() if is_read)]

    @property
    def media_type(self) -> str:
        """The media type of translations."""
        return MEDIA_TYPES.get(image_store(self.facts).suffix, "application/octet-stream")

    def read(self, files: Mapping[str, Upload], name: str) -> tuple[Sample, Window]:
        """Return the sample, padded for the network, and the window of its translation in the network's output.

        Raises:
            DataError: A file cannot be used.
            TooLargeError: An image is too large, or becomes too large by padding, as a narrow one does.
        """
        facts, sides = self.facts, image_sides(self.config)
        reader = facts.map_reader(facts.trained_storage, needs_instances=facts.conditioning.needs_instances)
        sample = reader.read(name, {kind: files[kind] for kind in self.kinds})
        padded_sides = (-(-side // sides.multiple) * sides.multiple for side in sample.source.shape[-2:])
        height, width = (max(side, sides.minimum) for side in padded_sides)
        check_size("source, padded as the generator needs it", height, width)
        is_ids, preprocessing = facts.n_classes > 0, build.build_preprocessing(self.config)
        padded = fitted(sample, preprocessing, keeps_size=True, source_is_ids=is_ids)
        return padded.padded, padded.window

    def write(self, image: Tensor, source: Upload) -> bytes:
        """Return a translation as the bytes of a file.

        Raises:
            OSError: There is no space for a temporary file.
        """
        store = image_store(self.facts)
        path = self.folder / f"{secrets.token_hex(8)}{store.suffix}"
        try:
            store.write(path, image, source)
            return path.read_bytes()
        finally:
            path.unlink(missing_ok=True)
