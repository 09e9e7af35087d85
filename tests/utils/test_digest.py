import hashlib
from pathlib import Path

from utils.digest import sha256_of_file


def test_the_digest_is_that_of_the_content(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    assert sha256_of_file(tmp_path / "file") == hashlib.sha256(b"content").hexdigest()
