import subprocess
from pathlib import Path

import pytest

from utils.versions import git_commit


def test_the_commit_of_a_clone_and_whether_files_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    clone = tmp_path / "clone"
    git = ["git", "-C", str(clone), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    clone.mkdir()
    (clone / "file").write_text("a")
    for command in (["init", "-q"], ["add", "file"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *command], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout
    assert git_commit(clone) == head[:12]
    (clone / "file").write_text("b")
    assert git_commit(clone) == f"{head[:12]}-dirty"


def test_there_is_none_without_a_clone_or_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert git_commit(tmp_path) is None
    (tmp_path / ".git").mkdir()
    assert git_commit(tmp_path) is None  # no repository
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_commit(tmp_path) is None
