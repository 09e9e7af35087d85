import errno
from pathlib import Path

import pytest

from utils.atomic_file import path_in_errors, replacing, temporary_path


def fail_to_replace(path: Path, error: OSError) -> None:
    with replacing(path) as unfinished:
        unfinished.touch()
        raise error


@pytest.mark.parametrize("names_the_temporary_file", [False, True])
def test_a_write_that_fails_names_the_file_and_leaves_it(names_the_temporary_file: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("before")
    named = [str(temporary_path(path))] if names_the_temporary_file else []
    with pytest.raises(OSError, match="No space left") as error:
        fail_to_replace(path, OSError(errno.ENOSPC, "No space left on device", *named))
    assert error.value.filename == str(path)
    assert path.read_text() == "before"
    assert not temporary_path(path).exists()


def test_an_error_that_names_another_file_keeps_its_name() -> None:
    with pytest.raises(FileNotFoundError) as error, path_in_errors(Path("a")):
        Path("/nowhere/b").read_text()
    assert error.value.filename == "/nowhere/b"
