"""The weight files in a folder of an original project, such as checkpoints/label2city_512p of pix2pixHD."""

import re
from pathlib import Path

from models.originals.format import FileRole
from utils.log import logger

_LETTERS: dict[FileRole, tuple[str, ...]] = {  # in names of files; OASIS translates with EMA
    "generator": ("EMA", "G"),
    "encoder": ("E",),
    "discriminator": ("D",),
}
_NAME = re.compile(r"(?P<when>latest|best|(iter_)?(?P<number>\d+))_(net_)?(?P<letter>EMA|G|E|D)\.pth")
_OF_OASIS = "models"  # a folder within that of the run


def original_file(folder: Path, role: FileRole) -> Path | None:
    """Return the file of a network in a folder: the latest, or else the best, or else that of the highest number.

    The choice among several is reported. None where there is no such file.
    """
    found: dict[Path, tuple[bool, bool, int, int]] = {}
    letters = _LETTERS[role]
    for path in (path for place in (folder, folder / _OF_OASIS) for path in place.glob("*.pth")):
        match = _NAME.fullmatch(path.name)
        if match and match["letter"] in letters:
            when = match["when"]
            found[path] = (when == "latest", when == "best", int(match["number"] or 0), -letters.index(match["letter"]))
    if not found:
        return None
    chosen, *others = sorted(found, key=lambda path: (found[path], path), reverse=True)
    if others:
        names = ", ".join(path.name for path in others)
        logger.info("taken        %s; not %s: name a file to choose it", chosen.name, names)
    return chosen
