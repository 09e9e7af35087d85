"""SHA-256 of files."""

import hashlib
from pathlib import Path


def sha256_of_file(path: Path) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
