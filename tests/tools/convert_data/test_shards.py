"""Tar files become shards, or an error that names the file and the remedy."""

import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import save_image
from tests.reliability.command_line import CommandLine
from tests.shards import save_folders, write_tar
from tests.tools.convert_data.conftest import Convert
from tools.check_data import __main__ as check_data

PAIR = ["a.source.png", "a.target.png"]
OTHER = ["b.source.png", "b.target.png"]


def member(name: str, kind: bytes) -> tarfile.TarInfo:
    """A link or another special member."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, "/etc/passwd"
    return info


def test_tar_files_of_others_are_indexed_and_checked(
    tmp_path: Path, convert: Convert, command_line: CommandLine
) -> None:
    write_tar(
        tmp_path / "train-000000.tar",
        ["./b/", "./b/a.source.PNG", "b/a.target.png", "b/a.json", "._a.source.png", ".x/b.source.png"],
    )
    write_tar(tmp_path / "train-000001.tar", ["é.1.target.png", "x.txt", "é.1.source.png"])
    write_tar(tmp_path / "val" / "any.tar", PAIR)
    (line,) = command_line.refusal(check_data.main, str(tmp_path))
    assert "has no shards.json: python -m tools.convert_data index-shards makes it" in line
    code, out = convert("index-shards", tmp_path)
    assert code == 0
    assert "train: 2 samples in 2 shards" in out
    assert "val: 1 sample in 1 shard" in out
    assert "train-000000.tar: left out, being no maps: 2 .png, 1 " in out
    code, out, _ = command_line.run(check_data.main, str(tmp_path))
    assert (code, out.splitlines()[-1]) == (0, "no problem in train, val; 1 warning")
    content = bytearray((tmp_path / "val" / "any.tar").read_bytes())
    content[-1] = 1
    (tmp_path / "val" / "any.tar").write_bytes(content)
    code, out, _ = command_line.run(check_data.main, str(tmp_path))
    assert code == 2
    assert f"{tmp_path}/val/any.tar: differs from what was indexed. Copy it again" in out


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:1200])


def _cut_behind_a_sample(path: Path) -> None:
    with tarfile.open(path) as tar:
        n_bytes = tar.getmembers()[2].offset
    path.write_bytes(path.read_bytes()[:n_bytes])


def _damage_a_header(path: Path) -> None:
    with tarfile.open(path) as tar:
        start = tar.getmembers()[2].offset
    content = bytearray(path.read_bytes())
    content[start] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("members", "damage", "message"),
    [
        ([*PAIR, "b.source.png"], None, "b has no target, as others have: add it, or leave b out"),
        ([*PAIR, "a.source.png"], None, "holds a.source.png twice"),
        ([*PAIR, "a.source.jpg"], None, "holds a.source.jpg twice, or in two formats"),
        ([*PAIR, "/b.source.png"], None, "/b.source.png names a file outside of the shard"),
        ([*PAIR, "x/../../b.source.png"], None, "names a file outside of the shard"),
        ([*PAIR, "C:\\b.source.png"], None, "names a file outside of the shard"),
        ([*PAIR, member("b.source.png", tarfile.SYMTYPE)], None, "b.source.png is a link or no plain file"),
        ([*PAIR, member("b.source.png", tarfile.LNKTYPE)], None, "b.source.png is a link or no plain file"),
        (["a.png", "a.txt"], None, "holds no sample, such as NAME.source.png"),
        (PAIR, _cut, "ends within a.source.png: copy it again"),
        ([*PAIR, *OTHER], _cut_behind_a_sample, "is cut or damaged at byte "),
        ([*PAIR, *OTHER], _damage_a_header, "is cut or damaged at byte "),
        (PAIR, lambda path: path.write_bytes(path.read_bytes() * 2), ", or several tar files in one: copy it again"),
        (PAIR, lambda path: path.write_bytes(b""), "is no tar file, or damaged: empty file"),
        (PAIR, lambda path: path.write_bytes(b"<html>" * 200), "is no tar file, or damaged"),
        (PAIR, lambda path: write_tar(path, PAIR, "w:gz"), "is compressed by gzip: unpack it"),
        (PAIR, lambda path: write_tar(path, PAIR, "w:xz"), "is compressed by xz: unpack it"),
        (PAIR, lambda path: path.rename(f"{path}.gz"), "expected an uncompressed tar file with a name such as"),
        (PAIR, lambda path: path.rename(path.with_name("x.tar")), "expected an uncompressed tar file with a name such"),
        (PAIR, Path.unlink, "holds no tar file, such as train-000000.tar"),
        (PAIR, lambda path: write_tar(path.with_name("train-1.tar"), PAIR), "two samples of train are called a"),
        (PAIR, lambda path: write_tar(path.with_name("train-1.tar"), ["b.source.png"]), "has other maps than train-0"),
    ],
)
def test_a_tar_file_that_is_no_shard_is_refused_in_one_line(
    tmp_path: Path,
    convert: Convert,
    members: list[str | tarfile.TarInfo],
    damage: Callable[[Path], object] | None,
    message: str,
) -> None:
    path = write_tar(tmp_path / "train-000000.tar", members)
    if damage:
        damage(path)
    line = convert.refusal("index-shards", tmp_path)
    assert message in line
    assert str(tmp_path) in line
    assert not (tmp_path / "shards.json").exists()


def test_shards_are_written_once_and_cut_by_size(tmp_path: Path, convert: Convert) -> None:
    root = save_folders(tmp_path / "pairs", "train_A", "train_B", "test_A", n_samples=6)
    code, out = convert("to-shards", root, tmp_path / "out", "--shard-mb", "0.005")
    assert code == 0
    assert "test: 6 samples in 2 shards" in out
    assert "train: 6 samples in 3 shards" in out
    assert f"{tmp_path}/out/train-000002.tar: 6 of 6 samples" in out
    first = (tmp_path / "out" / "train-000000.tar").read_bytes()
    assert "already exists" in convert.refusal("to-shards", root, tmp_path / "out")
    assert "already exists" in convert.refusal("to-shards", tmp_path / "out", tmp_path / "again")
    convert("to-shards", root, tmp_path / "other", "--shard-mb", "0.005")
    assert (tmp_path / "other" / "train-000000.tar").read_bytes() == first
    options = ("--shard-mb", "0.005", "--settings", "data.layout=unpaired_folders")
    _, out = convert("to-shards", root, tmp_path / "sides", *options)
    assert "train_A: 6 samples in 2 shards" in out
    assert "test_A: 6 samples in 2 shards" in out
    save_image(root / "train_A" / "alone.png", np.zeros((4, 4, 3), np.uint8))
    assert "alone.png: without a partner" in convert.refusal("to-shards", root, tmp_path / "third")
