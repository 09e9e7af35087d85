"""Pack a data set into tar files, and index the tar files."""

import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from data.batch import DataError
from data.folder import IMAGE_SUFFIXES, INDEX, Member, index_lines, is_hidden, is_inside, local_folder
from utils.files import replacing
from utils.log import logger
from utils.text import counted

_SUFFIXES = IMAGE_SUFFIXES | {".npy"}  # files to pack; a data set needs no others


def to_shards(origin: Path, target: Path, shard_bytes: int) -> list[str]:
    """Copy the images and arrays of a data set into tar files, and write their index. Return a line about the index.

    The files of a sample are adjacent in the tar files.

    shard_bytes: Minimum size of a tar file, except for the last tar file.

    Raises:
        DataError: There is nothing to copy, or `target` has tar files already.
    """
    if found := next(target.glob("*.tar"), None):
        raise DataError(f"{found}: already exists. Choose another folder, or delete it")
    folder = local_folder(origin)
    files = [file for file in folder.files() if file.suffix.lower() in _SUFFIXES]
    if not files:
        raise DataError(f"{origin}: holds no images. Name the folder of a data set")
    files.sort(key=lambda file: (file.name.partition("/")[2], file.name), reverse=True)
    number = 0
    while files:
        path, number = target / f"{number:06d}.tar", number + 1
        with replacing(path) as unfinished, tarfile.open(unfinished, "w", format=tarfile.PAX_FORMAT) as tar:
            while files and tar.offset < shard_bytes:
                file = files.pop()
                member = tarfile.TarInfo(file.name)
                with file.open() as opened:
                    member.size = file.size()
                    tar.addfile(member, opened)
        logger.info("%s: %s left", path, counted(len(files), "file"))
    return index_shards(target)


def index_shards(root: Path) -> list[str]:
    """Write the index of all tar files below a folder. Return a line about the index.

    Raises:
        DataError: There is no tar file, a tar file is damaged, or two packed files have the same name.
    """
    members = dict[str, Member]()
    paths = [path for path in sorted(root.rglob("*.tar")) if not is_hidden(path.relative_to(root).as_posix())]
    for path in paths:
        for member in _members(path, path.relative_to(root).as_posix()):
            if member.name in members:
                raise DataError(f"{path}: {member.name} is also in {members[member.name].tar}. Keep one of them")
            members[member.name] = member
    if not members:
        raise DataError(f"{root}: holds no tar file with images. Name the folder of such files")
    with replacing(root / INDEX) as unfinished, unfinished.open("w", encoding="utf-8") as file:
        file.writelines(index_lines(members.values()))
    return [f"{root / INDEX}: {counted(len(members), 'file')} in {counted(len(paths), 'tar file')}"]


def _members(path: Path, tar_name: str) -> Iterator[Member]:
    """Yield the images and arrays in a tar file, in order. Raise DataError if the tar file is damaged."""
    try:
        with tarfile.open(path, "r:", encoding="utf-8", errors="surrogateescape") as tar:
            for info in tar:
                name = info.name.removeprefix("./")
                if info.isdir() or PurePosixPath(name).suffix.lower() not in _SUFFIXES:
                    continue
                if not info.isreg() or info.issparse() or not is_inside(name):
                    raise DataError(f"{path}: {name} is a link, or its path leaves the folder. Pack only files")
                if is_hidden(name):
                    continue
                content = tar.extractfile(info).read()  # type: ignore[union-attr]  # a file has content
                yield Member(tar_name, name, info.offset_data, info.size, zlib.crc32(content))
            n_read = tar.offset
        with path.open("rb") as file:  # tarfile stops at damaged headers; a complete file ends with two zero blocks
            file.seek(n_read)
            end = file.read(2 * tarfile.BLOCKSIZE)
        if len(end) < tarfile.BLOCKSIZE or any(end):
            raise DataError(f"{path}: is cut or damaged at byte {n_read}. Copy it again")
    except (tarfile.TarError, ValueError, EOFError) as error:
        raise DataError(f"{path}: is compressed or damaged, or no tar file. Decompress or copy it again") from error
