"""Weights as a .safetensors file: tensors by name and texts by key, which no reader can be made to run."""

import importlib.util
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from utils.checkpoint import CheckpointError, DamagedCheckpointError

SUFFIX = ".safetensors"


def require_safetensors() -> None:
    """Raise CheckpointError where the package is missing."""
    if importlib.util.find_spec("safetensors") is None:
        raise CheckpointError('safetensors is not installed: python -m pip install --editable ".[export]"')


def write_safetensors(path: Path, weights: Mapping[str, Tensor], facts: Mapping[str, str]) -> None:
    """Write tensors and, as the file's metadata, texts.

    Raises:
        CheckpointError: the package safetensors is missing.
        OSError: the disk is full or not writable.
    """
    require_safetensors()
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    path.touch()
    mode = path.stat().st_mode
    try:
        save_file({name: tensor.contiguous() for name, tensor in weights.items()}, path, metadata=dict(facts))
    except SafetensorError as error:  # what its writer makes of an OSError
        raise OSError(str(error)) from error
    path.chmod(mode)  # its writer leaves it to the owner alone


def read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors, on the CPU, and the texts of a file.

    Raises:
        CheckpointError: there is no such file, it is damaged, or the package safetensors is missing.
    """
    require_safetensors()
    if not path.is_file():
        raise CheckpointError(f"{path}: no such checkpoint file")
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except SafetensorError as error:
        raise DamagedCheckpointError(f"{path}: damaged or no safetensors file ({error}); export it again") from error
