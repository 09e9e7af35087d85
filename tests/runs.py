"""What tests of whole runs share."""

import time
from pathlib import Path
from typing import Any

import torch

import train
from utils.checkpoint import checkpoint_path, load_checkpoint


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, path
        time.sleep(0.001)


def run(config: Path, *arguments: str) -> None:
    train.main(["--config", str(config), *arguments])


def checkpoint(config: Path, step: int, name: str = "tiny") -> dict[str, Any]:
    return load_checkpoint(checkpoint_path(config.parent / "runs" / name, step))


def assert_equal(first: object, second: object, where: str = "state") -> None:
    """Exact equality of nested dicts, lists and tensors."""
    if isinstance(first, torch.Tensor):
        assert isinstance(second, torch.Tensor)
        assert torch.equal(first, second), where
    elif isinstance(first, dict):
        assert isinstance(second, dict)
        assert first.keys() == second.keys(), where
        for key in first:
            assert_equal(first[key], second[key], f"{where}.{key}")
    elif isinstance(first, list | tuple):
        assert isinstance(second, list | tuple)
        assert len(first) == len(second), where
        for number, (a, b) in enumerate(zip(first, second, strict=True)):
            assert_equal(a, b, f"{where}[{number}]")
    else:
        assert first == second, where


def without_config(state: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in state.items() if key != "config"}
