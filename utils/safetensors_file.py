"""Reads and writes .safetensors files: tensors and texts by name. Reading runs no code from the file."""

import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from utils.checkpoint import CheckpointError, DamagedCheckpointError

SUFFIX = ".safetensors"


def require_safetensors() -> None:
    """Raise CheckpointError if the package safetensors is not installed."""
    if importlib.util.find_spec("safetensors") is None:
        raise CheckpointError('safetensors is not installed. Run python -m pip install --editable ".[export]"')


def write_safetensors(path: Path, weights: Mapping[str, Tensor], facts: Mapping[str, str]) -> None:
    """Write tensors, and texts as metadata. Files with the same content have the same bytes.

    Raises:
        CheckpointError: The package safetensors is not installed.
        OSError: The disk is full or not writable.
    """
    require_safetensors()
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    path.touch()
    mode = path.stat().st_mode
    try:
        save_file({name: tensor.contiguous() for name, tensor in weights.items()}, path, metadata=dict(facts))
    except SafetensorError as error:  # the writer's error for a full disk
        raise OSError(str(error)) from error
    path.chmod(mode)  # save_file lets only the owner read the file
    with path.open("r+b") as file:  # save_file writes the names in random order: sort them in the header
        n_bytes = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(n_bytes))
        text = json.dumps(header, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        file.seek(8)
        file.write(text.ljust(n_bytes))


def read_safetensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors of a file, on the CPU, and its texts. Raise CheckpointError if the file cannot be read."""
    require_safetensors()
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except SafetensorError as error:
        raise DamagedCheckpointError(f"{path}: damaged or not a safetensors file ({error}); export it again") from error
