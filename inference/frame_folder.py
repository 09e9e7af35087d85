"""The folder of a video's translated frames: an interrupted translation takes those that are there."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from data.batch import DataError
from data.files.image_files import read_rgb, write_png
from inference.origin_record import PLACES, read_record, write_record
from utils.atomic_file import replacing
from utils.text import counted

RECORD = "origin.json"
_FRAME = re.compile(r"\d{6,}\.png")


class FrameFolder:
    """Translated frames as PNG files, by their number in the video from 1: 000001.png. All are of one origin.

    origin: what made the frames, as JSON. replaces: whether frames of another origin, if recorded, are deleted.

    Raises:
        DataError: the folder holds frames of another origin, or of one that is not recorded, and they have to stay.
        OSError: the folder cannot be written to.
    """

    def __init__(self, folder: Path, origin: Mapping[str, Any], *, replaces: bool) -> None:
        self._folder = folder
        if folder.exists() and not folder.is_dir():
            raise DataError(f"--frames: {folder} is a file. Choose another --frames.")
        folder.mkdir(parents=True, exist_ok=True)
        record = json.loads(json.dumps({name: value for name, value in origin.items() if name not in PLACES}))
        present = [path for path in folder.iterdir() if _FRAME.fullmatch(path.name)]
        recorded = read_record(folder / RECORD) if present else record
        if recorded != record:
            if not replaces or not recorded:  # without a record they may be anything, such as photographs
                raise DataError(_refusal(folder, len(present), record, recorded))
            for path in present:
                path.unlink()
        write_record(record, folder / RECORD)

    def read(self, number: int, height: int, width: int) -> Tensor | None:
        """Return frame `number`, (3, H, W) uint8; None if it is not there, not intact or of another size."""
        path = self._path(number)
        if not path.exists():
            return None
        try:
            image = read_rgb(path)
        except DataError:
            return None
        return image if image.shape[1:] == (height, width) else None

    def write(self, number: int, image: Tensor) -> None:
        """Write frame `number`, (3, H, W) uint8, atomically."""
        with replacing(self._path(number)) as unfinished:
            write_png(unfinished, image)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:06d}.png"


def _refusal(folder: Path, n_frames: int, record: Mapping[str, Any], recorded: Mapping[str, Any] | None) -> str:
    found = recorded or {}
    names = [name for name in {**record, **found} if found and found.get(name, ...) != record.get(name, ...)]
    what = f"another origin ({', '.join(names)})" if names else "an origin that is not recorded"
    frames = counted(n_frames, "frame")
    remedy = "Choose another --frames, or --existing replace." if names else "Choose another --frames."
    return f"--frames: {folder} holds {frames} of {what}. {remedy}"
