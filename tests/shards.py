"""Shards for tests."""

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from PIL import Image

from tests.conftest import save_image


def png(seed: int = 0, side: int = 16) -> bytes:
    """A picture of noise, as a PNG."""
    file = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (side, side, 3), np.uint8)
    Image.fromarray(pixels).save(file, format="PNG", compress_level=1)
    return file.getvalue()


def write_tar(path: Path, members: Iterable[str | tarfile.TarInfo], mode: str = "w") -> Path:
    """Write a tar file of pictures of these names, or of members without content."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for number, member in enumerate(members):
            content = png(number) if isinstance(member, str) else b""
            info = tarfile.TarInfo(member) if isinstance(member, str) else member
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def save_folders(root: Path, *names: str, n_samples: int = 5, side: int = 16) -> Path:
    """Write pictures of noise to folders; those of labels hold ids below 5."""
    for number, folder in enumerate(names):
        for sample in range(n_samples):
            shape = (side, side) if folder.endswith(("label", "inst", "weight")) else (side, side, 3)
            pixels = np.random.default_rng([number, sample]).integers(0, 5 if len(shape) == 2 else 256, shape, np.uint8)
            save_image(root / folder / ("sub" if sample else "") / f"x.{sample:03}.png", pixels)
    return root
