from pathlib import Path

import numpy as np
import pytest

from data.batch import DataError
from data.files.pixels import StoredForm, read_stored
from tests.images import bands, tifffile

FORM = StoredForm(4, "data.source_channels", is_8_bit=False)


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    tifffile().imwrite(tmp_path / "good.tif", bands(0), photometric="minisblack")
    content = (tmp_path / "good.tif").read_bytes()
    damaged = {"cut": content[: len(content) // 2], "junk": b"II*\0" + b"\x01" * 50, "page": b"<html>", "empty": b""}
    for name, part in damaged.items():
        (tmp_path / f"{name}.tif").write_bytes(part)
        with pytest.raises(DataError, match=rf"{name}\.tif: (cannot be read as|is cut off)"):
            read_stored(tmp_path / f"{name}.tif", FORM)
    with pytest.raises(DataError, match=r"none\.tif: no such file"):
        read_stored(tmp_path / "none.tif", FORM)
    tifffile().imwrite(tmp_path / "stack.tif", np.zeros((2, 3, 8, 9), np.uint16), photometric="minisblack")
    with pytest.raises(DataError, match=r"stack\.tif: has the shape .*, expected one image with its channels"):
        read_stored(tmp_path / "stack.tif", FORM)
