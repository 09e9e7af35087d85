"""Folders become tar files, and tar files of others are indexed, or an error names the file and the remedy."""

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.conftest import save_image
from tests.reliability.command_line import CommandLine
from tests.tools.convert_data.conftest import Convert
from tools.check_data import __main__ as check_data

PAIR = ["train_A/a.png", "train_B/a.png"]


def write_tar(path: Path, members: list[str | tarfile.TarInfo], mode: str = "w") -> Path:
    """Write a tar file with images of these names, or with members that have no content."""
    png = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (16, 16, 3), np.uint8)).save(png, format="PNG")
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for member in members:
            info = tarfile.TarInfo(member) if isinstance(member, str) else member
            info.size = len(png.getvalue()) if isinstance(member, str) else 0
            tar.addfile(info, io.BytesIO(png.getvalue()))
    return path


def special(name: str, kind: bytes) -> tarfile.TarInfo:
    """Return a link, or another special member."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, "/etc/passwd"
    return info


def test_tar_files_of_others_are_indexed_and_checked(
    tmp_path: Path, convert: Convert, command_line: CommandLine
) -> None:
    others: list[str | tarfile.TarInfo] = ["train_A/x.json", "train_A/._a.png", "@eaDir/train_A/x.png"]
    write_tar(
        tmp_path / "train.tar", [special("train_A", tarfile.DIRTYPE), "./train_A/é.PNG", "train_B/é.png", *others]
    )
    write_tar(tmp_path / "val" / "any.tar", ["val_A/a.png", "val_B/a.png"])
    (line,) = command_line.refusal(check_data.main, str(tmp_path))
    assert "holds tar files. To use them, run python -m tools.convert_data index-shards" in line
    code, out = convert("index-shards", tmp_path)
    assert (code, out) == (0, f"{tmp_path}/tar_index.jsonl: 4 files in 2 tar files\n")
    code, out, _ = command_line.run(check_data.main, str(tmp_path))
    assert (code, out.splitlines()[:2]) == (0, ["train: 1 sample", "val: 1 sample"])
    content = bytearray((tmp_path / "val" / "any.tar").read_bytes())
    content[600] ^= 1
    (tmp_path / "val" / "any.tar").write_bytes(content)
    code, out, _ = command_line.run(check_data.main, str(tmp_path))
    assert code == 2
    assert f"{tmp_path}/val_A/a.png: cannot be read as an image: val/any.tar differs from tar_index.jsonl" in out


def _second_header(path: Path) -> tuple[bytearray, int]:
    """Return the content of a tar file and the place of its second header."""
    with tarfile.open(path) as tar:
        return bytearray(path.read_bytes()), tar.getmembers()[1].offset


def _cut_after_the_first_file(path: Path) -> None:
    content, start = _second_header(path)
    path.write_bytes(content[:start])


def _damage_a_header(path: Path) -> None:
    content, start = _second_header(path)
    content[start] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("members", "damage", "message"),
    [
        ([*PAIR, PAIR[0]], None, "train_A/a.png is also in x.tar. Keep one of them"),
        (["/a.png"], None, "/a.png is a link, or its path leaves the folder"),
        ([special("b.png", tarfile.SYMTYPE)], None, "b.png is a link, or its path leaves the folder"),
        (PAIR, _cut_after_the_first_file, "is cut or damaged at byte"),
        (["readme.txt"], None, "holds no tar file with images"),
        (PAIR, _damage_a_header, "is cut or damaged at byte"),
        (PAIR, lambda path: write_tar(path, ["a.png"], "w:gz"), "compressed or damaged"),
    ],
)
def test_a_tar_file_that_cannot_be_indexed_is_refused_in_one_line(
    tmp_path: Path,
    convert: Convert,
    members: list[str | tarfile.TarInfo],
    damage: Callable[[Path], object] | None,
    message: str,
) -> None:
    path = write_tar(tmp_path / "x.tar", members)
    if damage:
        damage(path)
    assert message in convert.refusal("index-shards", tmp_path)
    assert not (tmp_path / "tar_index.jsonl").exists()


def test_folders_are_packed_once(tmp_path: Path, convert: Convert) -> None:
    pairs, target = tmp_path / "pairs", tmp_path / "tars"
    assert "holds no images" in convert.refusal("to-shards", tmp_path, tmp_path / ".." / "tars")
    save_image(pairs / "train" / "a.png", np.zeros((16, 32, 3), np.uint8))
    (pairs / "train" / "notes.txt").write_text("")
    code, out = convert("to-shards", pairs, target)
    assert (code, out.splitlines()[-1]) == (0, f"{target}/tar_index.jsonl: 1 file in 1 tar file")
    assert "000000.tar: already exists" in convert.refusal("to-shards", pairs, target)
    (pairs / "train" / "broken.png").symlink_to("nowhere.png")
    assert "train/broken.png" in convert.refusal("to-shards", pairs, tmp_path / "others")
