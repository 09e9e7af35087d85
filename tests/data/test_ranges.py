"""Files read by ranges of bytes: exactly those asked for, or an error that ends the run."""

from pathlib import Path

import pytest

from data.ranges import RemoteFile, StoreError


def test_a_local_file_gives_the_bytes_that_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(bytes(range(100)))
    file = RemoteFile(str(tmp_path / "a.tar"))

    assert (file.size(), file.read(10, 20), file.read_all(100)) == (100, bytes(range(10, 20)), bytes(range(100)))


def test_a_local_file_that_is_missing_short_or_too_large_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(bytes(100))
    file, missing = RemoteFile(str(tmp_path / "a.tar")), RemoteFile(str(tmp_path / "b.tar"))

    with pytest.raises(StoreError, match=r"a\.tar: has 10 of 30 bytes from 90 on\. Copy it again\."):
        file.read(90, 120)
    with pytest.raises(StoreError, match=r"a\.tar: has 100 bytes, expected at most 99\."):
        file.read_all(99)
    with pytest.raises(StoreError, match=r"b\.tar: No such file or directory\."):
        missing.read(0, 1)
    with pytest.raises(StoreError, match=r"b\.tar: No such file or directory\."):
        missing.size()
