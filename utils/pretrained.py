"""Pretrained weights, which are downloaded to torch's cache if they are missing."""

import importlib.util
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

import torch
from torch import Tensor

from utils.errors import ConfigError, UserError
from utils.files import expanded, sha256_of_file
from utils.torch_private import is_system_error

SILENCE_S = 10.0  # a download fails after this time without data


class WeightsError(UserError):
    """Pretrained weights are not available."""


@dataclass(frozen=True)
class Weights:
    """Tensors by name, their file, and a remedy for error messages."""

    path: Path
    tensors: Mapping[str, Tensor]
    remedy: str

    def require(self, shapes: Mapping[str, torch.Size]) -> None:
        """Raise WeightsError unless each name has a tensor of the given shape with finite floating-point numbers."""
        for key, shape in shapes.items():
            found = self.tensors.get(key)
            if not isinstance(found, Tensor) or found.shape != shape or found.layout != torch.strided:
                raise WeightsError(f"{self.path}: holds no {key} of shape {list(shape)}; {self.remedy}")
            if not found.is_floating_point() or found.is_meta or not found.isfinite().all():
                raise WeightsError(f"{self.path}: {key} contains values that are not finite numbers; {self.remedy}")

    @property
    def facts(self) -> dict[str, str]:
        """The name and the SHA-256 of the file, for metrics.json."""
        return {"weights": self.path.name, "weights_sha256": sha256_of_file(self.path)}


@dataclass(frozen=True)
class PretrainedFile:
    """A file of pretrained weights on the web, and texts for messages.

    url: Address. The file name ends with the first digits of the file's SHA-256.
    what: Text that names a setting and the weights that it needs, such as "loss.perceptual needs VGG19's weights".
    alternative: Text that names changes of settings that make the file unnecessary.
    package: Requirement for pip: the package that contains the network, such as "torch-fidelity>=0.4".
    """

    url: str
    what: str
    megabytes: int
    alternative: str
    package: str = "torch"

    @property
    def name(self) -> str:
        """The file's name."""
        return Path(self.url).name

    @property
    def cached(self) -> Path:
        """The path of the file in torch's cache. The file may be missing."""
        return expanded(torch.hub.get_dir(), "TORCH_HOME") / "checkpoints" / self.name

    @property
    def announcement(self) -> str:
        """A line for a dry run, which does not download the file."""
        missing = f"{self.what} ({self.megabytes} MB), which are not in {self.cached.parent}"
        return f"{missing}. The run downloads them. This check does not use them."

    def require_package(self) -> None:
        """Raise ConfigError if the package is not installed."""
        name = self.package.partition(">=")[0]
        if importlib.util.find_spec(name.replace("-", "_")) is None:
            remedy = f'Run pip install "{self.package}", or {self.alternative}.'
            raise ConfigError(f"{self.what}, and the package {name}, which is not installed. {remedy}")

    def load(self) -> Weights:
        """Read the file in torch's cache, and first download it if necessary. Raise WeightsError if this fails."""
        cached, remedy = self.cached, f"delete it, and it will be downloaded again from {self.url}"
        if not cached.is_file():
            try:
                download(self.url, cached)
            except (OSError, RuntimeError, HTTPException) as error:
                raise WeightsError(
                    f"{self.what}. {cached.name} ({self.megabytes} MB) is not in {cached.parent}, and could not be "
                    f"downloaded from {self.url} ({error}). Copy it to this folder, set the environment variable "
                    f"TORCH_HOME to the folder of another cache, or {self.alternative}."
                ) from error
        try:
            tensors = torch.load(cached, map_location="cpu", weights_only=True)
        except Exception as error:  # a damaged file can make the unpickler raise anything
            problem = "now; try again" if is_system_error(error) else f"as weights; {remedy}"
            raise WeightsError(f"{cached}: cannot be read {problem}") from error
        return Weights(cached, tensors if isinstance(tensors, dict) else {}, remedy)


def download(url: str, path: Path) -> None:
    """Download a file to `path`. The file name must end with digits of the file's SHA-256.

    Raises:
        OSError, HTTPException: The server refuses the request, or sends nothing for SILENCE_S seconds.
        RuntimeError: The file has another SHA-256.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(SILENCE_S)  # torch.hub has no argument for a timeout
    try:
        torch.hub.download_url_to_file(url, str(path), hash_prefix=path.stem.rsplit("-", 1)[1])
    finally:
        socket.setdefaulttimeout(before)
