"""The files of requests and answers, which are read and written as by test.py."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Literal

from torch import Tensor

from configs import build
from configs.image_sides import image_sides
from configs.schema import Config
from configs.stored_images import trained_forms
from data.batch import Sample
from data.conditioning import Conditioning
from data.files.size_guard import check_size
from data.map_reader import source_kinds
from inference.image_store import image_store
from inference.padding import fitted
from inference.tiling import Window

NAME = "source"  # name of an image without one; seeds of features and noise depend on it
_SUFFIXES = {b"\x93NUMPY": ".npy", **dict.fromkeys((b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"), ".tif")}
_PNG = b"\x89PNG\r\n\x1a\n"
_QUICK = 2**16  # bytes
MEDIA_TYPES = {".png": "image/png", ".tif": "image/tiff"}


@dataclass(frozen=True)
class Upload:
    """A file of a request, as `data.store.File`."""

    name: str
    content: bytes

    @property
    def suffix(self) -> str:
        """The suffix of its format, by its first bytes."""
        return next((suffix for begin, suffix in _SUFFIXES.items() if self.content.startswith(begin)), ".png")

    @property
    def is_quick(self) -> bool:
        """Whether no content can make its decoder slow, as with a small PNG: each byte and pixel is visited once."""
        return self.content.startswith(_PNG) and len(self.content) <= _QUICK

    def open(self, mode: Literal["rb"] = "rb", /) -> BinaryIO:
        """Open it for reading."""
        return BytesIO(self.content)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class RequestFiles:
    """Reads the files of requests, and writes translations as files.

    config: Settings that samples are read with.
    folder: Folder of temporary files.
    """

    config: Config
    conditioning: Conditioning
    folder: Path

    @property
    def kinds(self) -> list[str]:
        """The files that a request has, as a form names them."""
        config, conditioning = self.config, self.conditioning
        beside = {"instances": build.reads_instances(config), "features": conditioning.features == "precomputed"}
        sources = source_kinds(len(config.data.source_folder) if config.data.is_stacked else 1)
        return [*sources, *(kind for kind, is_read in beside.items() if is_read)]

    @property
    def media_type(self) -> str:
        """The media type of translations."""
        return MEDIA_TYPES.get(image_store(self.config).suffix, "application/octet-stream")

    def read(self, files: Mapping[str, Upload], name: str) -> tuple[Sample, Window]:
        """Return the sample as the network takes it, and the window of its translation in the network's output.

        Raises:
            DataError: a file cannot be used.
            TooLargeError: an image, or what it becomes by padding, which is much more of a narrow one.
        """
        config, conditioning = self.config, self.conditioning
        makes_instances = conditioning.needs_instances and config.data.makes_instances
        reader = build.build_map_reader(config, trained_forms(config.data), needs_instances=makes_instances)
        sample, sides = reader.read(name, {kind: files[kind] for kind in self.kinds}), image_sides(config)
        padded_sides = (-(-side // sides.multiple) * sides.multiple for side in sample.source.shape[-2:])
        height, width = (max(side, sides.minimum) for side in padded_sides)
        check_size("source, padded as the generator needs it", height, width)
        is_ids = conditioning.n_classes > 0
        padded = fitted(sample, build.build_preprocessing(config), keeps_size=True, source_is_ids=is_ids)
        return padded.padded, padded.window

    def written(self, image: Tensor, source: Upload) -> bytes:
        """Return a translation as the bytes of a file.

        Raises:
            OSError: there is no space for a temporary file.
        """
        store = image_store(self.config)
        path = self.folder / f"{secrets.token_hex(8)}{store.suffix}"
        try:
            store.write(path, image, source)
            return path.read_bytes()
        finally:
            path.unlink(missing_ok=True)
