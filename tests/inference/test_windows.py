"""A temporary file gives back the values that were written, or there is an error."""

import resource
import signal
from io import FileIO
from pathlib import Path
from typing import Any

import pytest
import torch

from inference.windows import TensorFile, Window

WHOLE = Window(0, 4, 0, 6)
PART = torch.arange(2 * 4 * 6.0).view(1, 2, 4, 6)
ROW = 6 * 2 * 4  # bytes


class Sluggish(FileIO):
    """Writes and reads up to 7 bytes a call, as the system may."""

    def write(self, data: Any) -> int:
        return super().write(data[:7])

    def readinto(self, buffer: Any) -> int:
        return super().readinto(buffer[:7])


def test_a_system_that_takes_and_gives_little_at_once_loses_nothing(tmp_path: Path) -> None:
    with TensorFile(tmp_path, width=6) as file:
        file._file.close()
        file._file = Sluggish(tmp_path / "x", "w+b")
        file.write(WHOLE, PART)
        assert torch.equal(file.read(WHOLE), PART)
        assert torch.equal(file.read(Window(1, 3, 2, 5)), PART[..., 1:3, 2:5])


def test_a_disk_that_is_full_within_the_last_row_is_an_error(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with TensorFile(tmp_path, width=6) as file:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4 * ROW - 5, hard))
        try:
            with pytest.raises(OSError, match="File too large"):
                file.write(WHOLE, PART)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, before)


def test_a_file_that_ends_early_is_an_error(tmp_path: Path) -> None:
    with TensorFile(tmp_path, width=6) as file:
        file.write(WHOLE, PART)
        file._file.truncate(4 * ROW - 5)
        assert torch.equal(file.read(Window(0, 3, 0, 6)), PART[..., :3, :])
        with pytest.raises(OSError, match="is shorter than what was written"):
            file.read(WHOLE)
