"""Weights that others have published: from a local file, or from torch's cache, downloaded where missing."""

import hashlib
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from http.client import HTTPException
from pathlib import Path

import torch
from torch import Tensor

from utils.errors import UserError

SILENCE_S = 10.0  # after which a download has failed


class WeightsError(UserError):
    """Published weights cannot be had; the message says where they were sought and what to do."""


@dataclass(frozen=True)
class Weights:
    """Tensors by name, and the file they were read from. way_out: what to do where they are not those expected."""

    path: Path
    tensors: Mapping[str, Tensor]
    way_out: str

    def require(self, shapes: Mapping[str, torch.Size]) -> None:
        """Raise WeightsError unless there is a tensor of each name and shape."""
        for key, shape in shapes.items():
            found = self.tensors.get(key)
            if not isinstance(found, Tensor) or found.shape != shape or found.layout != torch.strided:
                raise WeightsError(f"{self.path}: holds no {key} of shape {list(shape)}; {self.way_out}")
            if not found.is_floating_point() or found.is_meta or not found.isfinite().all():
                raise WeightsError(f"{self.path}: its {key} is damaged, not of finite numbers; {self.way_out}")

    @cached_property
    def sha256(self) -> str:
        """The file's digest, in hexadecimal digits."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class PretrainedFile:
    """A published file of weights, and how it is spoken of.

    url: its last part is the file's name, which ends in the first digits of its SHA-256.
    what: the weights, and what needs them: "loss.vgg needs VGG19's weights".
    megabytes: of the download.
    setting: the one that names a local file in its place.
    without: how to do without them.
    """

    url: str
    what: str
    megabytes: int
    setting: str
    without: str

    @property
    def name(self) -> str:
        """The file's name."""
        return Path(self.url).name

    def load(self, path: Path | None) -> Weights:
        """Read a local file, or where `path` is None the one in torch's cache, which is downloaded where missing.

        Raises:
            WeightsError: the file cannot be read, or the download fails.
        """
        if path is not None:
            return _read(path, f"expected {self.name} in {self.setting}")
        cached = Path(torch.hub.get_dir()) / "checkpoints" / self.name
        if not cached.is_file():
            try:
                _download(self.url, cached)
            except (OSError, RuntimeError, HTTPException) as error:
                raise WeightsError(
                    f"{self.what}, {self.name} ({self.megabytes} MB), which are not in {cached.parent} and could not "
                    f"be downloaded from {self.url} ({error}): fetch that file elsewhere and put it there, or set "
                    f"{self.setting}=FILE, or do without by {self.without}"
                ) from error
        return _read(cached, f"delete it, and it will be downloaded again from {self.url}")


def _download(url: str, path: Path) -> None:
    """Fetch a file whose name ends in its digest; a server that falls silent is an error, not a wait without end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(SILENCE_S)  # torch.hub takes none
    try:
        torch.hub.download_url_to_file(url, str(path), hash_prefix=path.stem.rsplit("-", 1)[1])
    finally:
        socket.setdefaulttimeout(before)


def _read(path: Path, way_out: str) -> Weights:
    if not path.is_file():
        raise WeightsError(f"{path}: no such file; {way_out}")
    try:
        tensors = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever a damaged file leads the unpickler to
        raise WeightsError(f"{path}: cannot be read as weights; {way_out}") from error
    return Weights(path, tensors if isinstance(tensors, dict) else {}, way_out)
