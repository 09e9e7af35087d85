"""Shards of the samples of folders, and the indices and the manifest of shards."""

import io
import re
import tarfile
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from configs.schema.sides import TWO_SIDES
from data import LAYOUTS
from data.batch import DataError
from data.folder_store import IMAGE_SUFFIXES, local_folder
from data.layout import Layout
from data.map_reader import MapReader, is_later_source
from data.paired_folders import FEATURE_FOLDER
from data.tar_store import MANIFEST, Shard, index_type, is_inside, manifest_text
from tools.check_data.recognized_layout import data_set_in
from utils.atomic_file import replacing
from utils.digest import sha256_of_file
from utils.log import logger
from utils.signatures import accepted
from utils.text import counted

_KINDS = ("source", "target", "instances", "features", "weights", "labels")  # of maps, and later sources
_MEMBER = re.compile(rf"(.+)\.({'|'.join(_KINDS)}|source_\d+)(\.[A-Za-z]+)", re.DOTALL)
_SHARD = re.compile(r"(?:([^/]+)/.*|([^/]+?)[-_.]?\d+)\.tar")  # train/NAME.tar, train-000000.tar
_END_BYTES = 2**16  # behind the last member, that are checked
_HIDDEN = re.compile(r"(?:^|/)\.[^./]")  # a file, or a folder above it
_COMPRESSED = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"\x28\xb5\x2f\xfd": "zstd"}


def to_shards(origin: Path, target: Path, shard_bytes: int, settings: Sequence[str]) -> list[str]:
    """Write the samples of a data set in folders to shards, whose files are copied; return a line for each set.

    Images of two halves become two PNGs. shard_bytes: that a tar file has at least, but for the last one of a set.
    settings: of section `data`, which name folders, as on the command line.

    Raises:
        DataError: the data set has problems, or there are shards already.
    """
    existing = [*sorted(target.glob("*.tar")), *(folder / MANIFEST for folder in (origin, target))]
    if found := next((path for path in existing if path.exists()), None):
        raise DataError(f"{found}: already exists; choose a folder without shards, or delete what is left of others")
    config, splits = data_set_in(origin, None, settings)
    data, sets = config.data, dict[str, list[Shard]]()
    open_split, reader = LAYOUTS[data.layout].open, MapReader(n_classes=data.n_classes)
    for split, needs_targets in splits.items():
        maps = {"instances": data.instance_folder, "features": FEATURE_FOLDER, "labels": "{split}_A_label"}
        facts = {f"needs_{kind}": (origin / name.replace("{split}", split)).is_dir() for kind, name in maps.items()}
        values = vars(data) | facts | {"root": local_folder(origin), "direction": "AtoB", "reader": reader}
        try:
            layout: Layout = open_split(split, **accepted(open_split, values | {"needs_targets": True}))
        except DataError:
            if needs_targets:
                raise
            layout = open_split(split, **accepted(open_split, values | {"needs_targets": False}))
        for letter, side in zip("AB", layout.sides, strict=False):
            name = f"{split}_{letter}" if data.layout in TWO_SIDES else split
            sets[name] = list(
                _write_set(target / name, side, {"source": "target"} if letter == "B" else {}, shard_bytes)
            )
    return _finished(target, sets)


def index_shards(root: Path) -> list[str]:
    """Write the index of each tar file below a folder, and the manifest; return a line for each set.

    Raises:
        DataError: a file is no shard, samples lack maps, or two have one name.
    """
    sets: dict[str, list[Shard]] = {}
    for path in sorted(root.rglob("*.tar*")):
        name = path.relative_to(root).as_posix()
        if path.suffix != ".npy" and not path.name.startswith("."):
            if not (match := _SHARD.fullmatch(name)):
                raise DataError(f"{path}: expected an uncompressed tar file with a name such as train-000000.tar")
            sets.setdefault(match[1] or match[2], []).append(_indexed(path, name))
            logger.info("%s", path)
    if not sets:
        raise DataError(f"{root}: holds no tar file, such as train-000000.tar")
    return _finished(root, sets)


def _write_set(place: Path, layout: Layout, renamed: Mapping[str, str], shard_bytes: int) -> Iterator[Shard]:
    """Write the shards of a set. place: of which each adds its number. renamed: kinds of maps that change names."""
    index = number = 0
    while index < len(layout):
        path, number = place.with_name(f"{place.name}-{number:06d}.tar"), number + 1
        with replacing(path) as unfinished, tarfile.open(unfinished, "w", format=tarfile.PAX_FORMAT) as tar:
            while index < len(layout) and tar.offset < shard_bytes:
                for kind, suffix, content in _maps(layout, index):
                    member = tarfile.TarInfo(f"{layout.names[index]}.{renamed.get(kind, kind)}{suffix}")
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))
                index += 1
        logger.info("%s: %d of %s", path, index, counted(len(layout), "sample"))
        yield _indexed(path, path.name)


def _maps(layout: Layout, index: int) -> Iterator[tuple[str, str, bytes]]:
    """Yield the kind, suffix and content of the files of a sample."""
    files = layout.provenance(index).files
    if "source" in files:
        for kind, file in files.items():
            with file.open() as opened:
                yield kind, file.suffix.lower(), opened.read()
    else:
        sample = layout.read(index)
        for kind, image in (("source", sample.source), ("target", sample.maps["target"])):
            png = io.BytesIO()
            Image.fromarray(image.permute(1, 2, 0).numpy()).save(png, format="PNG")
            yield kind, ".png", png.getvalue()


def _finished(root: Path, sets: Mapping[str, Sequence[Shard]]) -> list[str]:
    """Check that the shards of each set fit together, and write the manifest; return a line for each set."""
    for name, shards in sets.items():
        tables = [np.load(root / f"{shard.name}.npy", mmap_mode="r", allow_pickle=False) for shard in shards]
        for shard, table in zip(shards, tables, strict=True):
            if (table.dtype.names or ())[1:] != (tables[0].dtype.names or ())[1:]:
                raise DataError(f"{root / shard.name}: has other maps than {shards[0].name}: make them alike")
        names, counts = np.unique(np.concatenate([table["name"] for table in tables]), return_counts=True)
        if repeated := [sample.decode(errors="replace") for sample in names[counts > 1][:1]]:
            raise DataError(f"{root}: two samples of {name} are called {repeated[0]}: keep one of them")
    with replacing(root / MANIFEST) as unfinished:
        unfinished.write_text(manifest_text(sets), "utf-8")
    n_samples = {name: sum(shard.n_samples for shard in shards) for name, shards in sets.items()}
    return [f"{name}: {counted(n_samples[name], 'sample')} in {counted(len(sets[name]), 'shard')}" for name in sets]


def _indexed(path: Path, name: str) -> Shard:
    """Write the index of a tar file beside it; return what the manifest says of it.

    Raises:
        DataError: it is no tar file, or holds what a shard may not hold.
    """
    samples, others = dict[str, dict[str, tuple[int, int, bytes]]](), Counter[str]()
    try:
        with tarfile.open(path, "r:", encoding="utf-8", errors="surrogateescape") as tar:
            for member in tar:
                place = member.name.removeprefix("./")
                match = _MEMBER.fullmatch(place)
                if match and match[3].lower() in {*IMAGE_SUFFIXES, ".npy"} and not _HIDDEN.search(place):
                    _check_member(path, member, place)
                    maps = samples.setdefault(unicodedata.normalize("NFC", match[1]), {})
                    if match[2] in maps:
                        raise DataError(f"{path}: holds {place} twice, or in two formats: keep one of them")
                    maps[match[2]] = (member.offset_data, member.size, match[3].encode())
                elif not member.isdir():
                    others[Path(place).suffix or place] += 1
            _check_end(path, tar.offset)
    except (tarfile.TarError, OSError, ValueError, EOFError) as error:
        raise DataError(f"{path}: {_reason(path, error)}") from error
    found = {kind for maps in samples.values() for kind in maps}
    kinds = [kind for kind in ("source", *sorted(filter(is_later_source, found)), *_KINDS[1:]) if kind in found]
    if not samples:
        raise DataError(f"{path}: holds no sample, such as NAME.source.png and NAME.target.png")
    for sample, maps in samples.items():
        if lacking := next((kind for kind in kinds if kind not in maps), None):
            raise DataError(f"{path}: {sample} has no {lacking}, as others have: add it, or leave {sample} out")
    if others:
        left_out = ", ".join(f"{number} {kind}" for kind, number in others.most_common(5))
        logger.info("%s: left out, being no maps: %s", path, left_out)
    names = [sample.encode("utf-8", "surrogateescape") for sample in samples]
    rows = [(name, *map(maps.get, kinds)) for name, maps in zip(names, samples.values(), strict=True)]
    with replacing(path.with_name(f"{path.name}.npy")) as unfinished, unfinished.open("wb") as file:
        np.save(file, np.array(rows, index_type(kinds, max(map(len, names)))), allow_pickle=False)
    return Shard(name, path.stat().st_size, len(samples), sha256_of_file(path))


def _check_member(path: Path, member: tarfile.TarInfo, place: str) -> None:
    """Raise DataError unless a member is a plain file within the shard."""
    if not member.isreg() or member.issparse():
        raise DataError(f"{path}: {place} is a link or no plain file: store its content")
    if not is_inside(place):
        raise DataError(f"{path}: {place} names a file outside of the shard: rename it")
    if member.offset_data + member.size > path.stat().st_size:
        raise DataError(f"{path}: ends within {place}: copy it again")


def _check_end(path: Path, n_read: int) -> None:
    """Raise DataError unless zeros follow the last member, for tarfile takes a damaged header for the end."""
    with path.open("rb") as file:
        file.seek(n_read)
        end = file.read(_END_BYTES)
    if len(end) < tarfile.BLOCKSIZE or any(end):
        raise DataError(f"{path}: is cut or damaged at byte {n_read}, or several tar files in one: copy it again")


def _reason(path: Path, error: Exception) -> str:
    """Return why a tar file cannot be read, and the remedy."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    with path.open("rb") as file:
        begin = file.read(8)
    if kind := next((kind for mark, kind in _COMPRESSED.items() if begin.startswith(mark)), None):
        return f"is compressed by {kind}: unpack it, for samples are read at their places"
    return f"is no tar file, or damaged: {' '.join(str(error).split())}: copy it again"
