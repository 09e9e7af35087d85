import errno
import pwd
from pathlib import Path

import pytest

from configs.load import config_from_dict, config_to_dict, load_config
from configs.splits import cache_folder
from tools.export.html import runtime_files
from utils.errors import ConfigError
from utils.files import expanded, replacing, temporary_path, unreplaced, without_dots
from utils.pretrained import PretrainedFile


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
    assert unreplaced(path, path.unlink) is None  # a deleted file is not read again


@pytest.fixture
def _without_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user of a container: no HOME, and no entry in /etc/passwd."""

    def unknown(number: int) -> None:
        raise KeyError(number)

    for name in ("HOME", "TORCH_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)


def test_a_path_below_the_home_folder_is_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert expanded("~/data", "data.root") == tmp_path / "data"
    assert expanded(tmp_path, "data.root") == tmp_path


@pytest.mark.usefixtures("_without_home")
def test_each_default_below_a_missing_home_folder_is_one_line_with_a_remedy(tiny_config: Path) -> None:
    cached = load_config(tiny_config, ["data.cache=disk"])
    weights = PretrainedFile("https://host/vgg.pth", "the weights", megabytes=1, alternative="set a=0")
    for use, setting in (
        (lambda: cache_folder(cached, Path("run")), "data.cache"),
        (lambda: weights.cached, "TORCH_HOME"),
        (lambda: runtime_files(("a.mjs",), None), "XDG_CACHE_HOME"),
        (lambda: load_config(tiny_config, ["data.root=~/data"]), "data.root"),
    ):
        with pytest.raises(ConfigError, match=rf"^{setting} is ~/\S+, and there is no such home folder; .* HOME$"):
            use()


@pytest.mark.usefixtures("_without_home")
def test_a_checkpoint_may_hold_paths_below_a_home_folder_that_is_not_here(tiny_config: Path) -> None:
    settings = config_to_dict(load_config(tiny_config))
    settings["data"]["root"] = "~/data"
    assert config_from_dict(settings, "checkpoint").data.root == "~/data"


def test_only_folders_before_dots_are_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real" / "b").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real" / "b")
    monkeypatch.chdir(tmp_path / "real" / "b")
    for written, path in (
        ("../a/x.png", "real/a/x.png"),
        ("y/../../x.png", "real/x.png"),
        ("..", "real"),
        ("x.png", "real/b/x.png"),
    ):
        assert without_dots(Path(written)) == tmp_path / path
    assert without_dots(tmp_path / "link" / ".." / "x.png") == tmp_path / "real" / "x.png"
    assert without_dots(tmp_path / "link" / "x.png") == tmp_path / "link" / "x.png"
