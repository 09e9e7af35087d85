"""How much of a file that is mapped into this process was read."""

import re
from pathlib import Path

import pytest

_MAPS = Path("/proc/self/smaps")

lists_mapped_files = pytest.mark.skipif(not _MAPS.exists(), reason="mapped files are listed by Linux")


def mapped_bytes(path: Path) -> int | None:
    """The bytes of a mapped file that are in this process's memory; None where it is not mapped."""
    sizes = re.findall(rf"{re.escape(str(path))}\n(?:.*\n)*?Rss: +(\d+) kB", _MAPS.read_text())
    return sum(map(int, sizes)) * 1024 if sizes else None
