"""JPEG files are refused before they are decoded if they have more scans than any encoder writes."""

from io import BytesIO
from pathlib import Path

import pytest

from data.batch import DataError
from data.files.image_files import read_rgb
from data.files.stored_image import MAX_SCANS, with_few_scans
from tests.jpegs import jpeg, scans

COMMENT = b"\xff\xfe\0\x02"


@pytest.mark.parametrize("content", [jpeg(), jpeg(64, progressive=True), scans(50), b"", b"\xff\xd8", b"\xff\xd8\xff"])
def test_usual_files_pass_and_are_left_at_their_start(content: bytes) -> None:
    assert with_few_scans(BytesIO(content)).read() == content


@pytest.mark.parametrize("content", [
    scans(MAX_SCANS),
    jpeg()[:2] + COMMENT * 30_000 + scans(MAX_SCANS)[2:],
    scans(MAX_SCANS).replace(b"\xff\xda", b"\xff\xff\xff\xda"),  # fill bytes
])  # fmt: skip
def test_more_scans_or_segments_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.jpg: .*: it has more than \d+ (scans|segments)"):
        read_rgb(tmp_path / "a.jpg")
