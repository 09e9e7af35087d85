import errno
from pathlib import Path

import pytest

from utils.files import replacing, temporary_path, unreplaced


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


@pytest.mark.parametrize("fails", [False, True])
def test_a_file_that_is_replaced_while_it_is_read_is_read_again(fails: bool, tmp_path: Path) -> None:
    path, seen = tmp_path / "a.txt", list[str]()
    path.write_text("0")

    def read() -> str:
        seen.append(path.read_text())
        if len(seen) < 3:
            with replacing(path) as unfinished:
                unfinished.write_text(str(len(seen)))
            if fails:
                raise ValueError("half of each")
        return seen[-1]

    assert unreplaced(path, read) == "2"
    assert seen == ["0", "1", "2"]


def test_what_was_read_before_a_file_was_deleted_is_returned(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.touch()
    assert unreplaced(path, path.unlink) is None
