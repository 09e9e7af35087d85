"""Headers of volume files: NIfTI, MetaImage and NRRD. They are parsed strictly, because SimpleITK trusts them."""

import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite, prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from data.files.stored_image import UnfitError
from utils.machine import memory_bytes
from utils.text import printable

NIFTI, META, NRRD = "NIfTI", "MetaImage", "NRRD"
FORMATS = {".nii": NIFTI, ".nii.gz": NIFTI, ".mha": META, ".mhd": META, ".nrrd": NRRD, ".nhdr": NRRD}
_CODES = {2: "u1", 4: "i2", 8: "i4", 16: "f4", 64: "f8", 256: "i1", 512: "u2", 768: "u4", 1024: "i8", 1280: "u8"}
_WORDS = {"uchar": "u1", "short": "i2", "ushort": "u2", "float": "f4", "int": "i4", "uint": "u4", "double": "f8"}
_WORDS |= {"char": "i1", "signed char": "i1", "unsigned char": "u1", "unsigned short": "u2", "unsigned int": "u4"}
_WORDS |= {f"{kind}{8 * n}": f"{kind[0]}{n}" for kind in ("int", "uint") for n in (1, 2, 4)}
_PLACES = ((76, "8f"), (123, "B"), (252, "2h18f"))  # pixdim, xyzt_units, qform and sform of NIfTI
_NUMBERS = {"space directions": 9, "space origin": 3, "spacings": 3, "TransformMatrix": 9, "Rotation": 9, "Offset": 3}
_NUMBERS |= {"Orientation": 9, "Position": 3, "Origin": 3, "ElementSpacing": 3, "ElementSize": 3}
_SPACES = {"left-posterior-superior", "lps", "right-anterior-superior", "ras", "left-anterior-superior", "las"}
_SUPPORTED = {"ObjectType": {"image"}, "BinaryData": {"true"}, "HeaderSize": {"0"}, "CompressedData": {"true", "false"}}
_SUPPORTED |= {"space": _SPACES, "encoding": {"raw", "gzip", "gz"}, "byte skip": {"0"}, "line skip": {"0"}}
_ALIASES = {"NDims": "dimension", "DimSize": "sizes", "ElementType": "type", "ElementDataFile": "data file"}
_ALIASES |= {"datafile": "data file", "ElementByteOrderMSB": "BinaryDataByteOrderMSB"}


@dataclass(frozen=True)
class Header:
    """Checked header of a file. The voxels are integers or floats.

    geometry: Part of the header with the geometry: 352 bytes of NIfTI in little-endian order, or lines of text.
    data: File with the voxels.
    start, skip: Number of bytes in front of the voxels, in this file and then in the decompressed content.
    scale: Slope and intercept.
    has_orientation: Whether the file states where left, posterior and superior are.
    """

    kind: str
    size: tuple[int, ...]
    dtype: np.dtype
    geometry: bytes
    data: Path
    start: int
    skip: int
    is_packed: bool
    scale: tuple[float, float]
    has_orientation: bool


def volume_suffix(name: str) -> str:
    """Return the suffix of a volume in lower case, or "" for other names."""
    return next((suffix for suffix in FORMATS if name.lower().endswith(suffix)), "")


def blocks(file: BinaryIO, is_packed: bool) -> Iterator[bytes]:
    """Yield the rest of a file, decompressed. Raise zlib.error for a wrong checksum, EOFError for a missing end."""
    unpack: Any = None
    while block := file.read(2**16):
        if not is_packed:
            yield block
        while is_packed and block:
            unpack = unpack or zlib.decompressobj(47)  # zlib or gzip
            yield unpack.decompress(block)
            block, unpack = (unpack.unused_data.lstrip(b"\0"), None) if unpack.eof else (b"", unpack)
    if unpack:
        raise EOFError


def read_header(path: Path) -> Header:
    """Read the header of a file.

    Raises:
        UnfitError: The volume is not supported.
        EOFError, zlib.error: The file is damaged.
        KeyError, OverflowError, ValueError, struct.error: The file has another format.
    """
    kind = FORMATS[suffix := volume_suffix(path.name)]
    twin = path.with_name(path.name[: -len(suffix)] + (".nii" if suffix == ".nii.gz" else ".nii.gz"))
    if kind == NIFTI and twin.exists():
        raise UnfitError(f"{twin.name} is in the same folder. Keep one of the files.")
    with path.open("rb") as file:
        is_packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        begin = next(blocks(file, is_packed), b"")
    if not begin:
        raise EOFError
    return _nifti_header(path, begin, is_packed) if kind == NIFTI else _text_header(path, begin, kind)


def checked_size(size: Sequence[int], bytes_per_voxel: int) -> tuple[int, ...]:
    """Return a size without further dimensions of 1 voxel. Raise UnfitError unless it is a volume that can be read."""
    while len(size) > 3 and size[-1] == 1:
        size = size[:-1]
    text, n_bytes = "x".join(map(str, size)), prod(size) * bytes_per_voxel
    if min(size) < 1:
        raise ValueError(text)
    if len(size) > 3:
        raise UnfitError(f"has {len(size)} dimensions, {text}. Save each volume as a file of its own.")
    if len(size) < 3 or min(size) == 1:
        raise UnfitError("is a single slice. For pictures, set data.layout=paired_folders.")
    if n_bytes > memory_bytes() // 4:
        limit = f"a quarter of this machine's {memory_bytes() / 1e9:.3g} GB"
        raise UnfitError(f"states {text} voxels, {n_bytes / 1e9:,.1f} GB, more than {limit}. Cut it, if it is intact.")
    return tuple(size)


def check_right_angles(matrix: np.ndarray) -> None:
    """Raise UnfitError unless the columns of a (3, 3) matrix are at right angles."""
    with np.errstate(all="ignore"):
        units = matrix / np.linalg.norm(matrix, axis=0)
        is_orthogonal = (abs(units.T @ units - np.eye(3)) < 1e-3).all()  # not for NaN
    if not is_orthogonal:
        raise UnfitError("its axes are not at right angles. Resample it.")


def _dtype(name: str | None, order: str) -> np.dtype:
    if name is None:
        raise UnfitError("holds colours or complex numbers. Save one number per voxel.")
    return np.dtype(order + name)


def _nifti_header(path: Path, begin: bytes, is_packed: bool) -> Header:
    """Parse a header of NIfTI-1 (https://nifti.nimh.nih.gov/pub/dist/src/niftilib/nifti1.h)."""
    order = next((order for order in "<>" if begin.startswith(struct.pack(f"{order}i", 348))), None)
    if order is None or begin[344:348] != b"n+1\0":
        raise ValueError
    n_dimensions, *sizes = struct.unpack_from(f"{order}8h", begin, 40)
    code, offset, slope, intercept = struct.unpack_from(f"{order}h36x3f", begin, 70)
    dtype = _dtype(_CODES.get(code), order)
    geometry = bytearray(struct.pack("<i340x4s4x", 348, b"n+1"))
    for place, form in _PLACES:
        struct.pack_into(f"<{form}", geometry, place, *struct.unpack_from(f"{order}{form}", begin, place))
    size = checked_size(sizes[:n_dimensions], dtype.itemsize)
    forms = np.frombuffer(geometry, "<i2", 2, 252)
    if forms[1] > 0:  # SimpleITK replaces an sform with skewed axes
        check_right_angles(np.frombuffer(geometry, "<f4", 12, 280).reshape(3, 4)[:, :3])
    is_scaled = slope != 0 and isfinite(slope) and isfinite(intercept)
    scale, skip = (slope, intercept) if is_scaled else (1.0, 0.0), max(352, int(offset))
    return Header(NIFTI, size, dtype, bytes(geometry), path, 0, skip, is_packed, scale, bool(forms.any()))


def _text_header(path: Path, begin: bytes, kind: str) -> Header:
    """Parse a header of MetaImage or NRRD. Keys that matter neither for voxels nor for geometry are left out."""
    separator, end = ("=", rb"(?m)^ElementDataFile.*(\n|\Z)") if kind == META else (":", rb"\r?\n\r?\n|\Z")
    if not (found := re.search(end, begin)) or (kind == NRRD and not begin.startswith(b"NRRD000")):
        raise ValueError
    lines = begin[: found.end()].decode("latin-1").splitlines()
    pairs = (line.partition(separator) for line in lines if not line.startswith("#"))
    fields = {_ALIASES.get(name := key.strip(), name): value.strip() for key, _, value in pairs}
    words = {key: value.lower() for key, value in fields.items()}
    data = _data_file(path, fields.get("data file", "LOCAL"))
    kinds = f"{words.get('kinds', '')} {words.get('ElementNumberOfChannels', '')}".split()
    type_name = _WORDS.get(words["type"].removeprefix("met_").removesuffix("_t"))
    is_big = words.get("BinaryDataByteOrderMSB") == "true" or words.get("endian") == "big"
    dtype = _dtype(type_name if {*kinds} <= {"domain", "space", "???", "none", "1"} else None, ">" if is_big else "<")
    size = checked_size([int(number) for number in words["sizes"].split()], dtype.itemsize)
    required = {"ObjectType", "BinaryData"} if kind == META else {"encoding"}
    is_supported = all(words[key] in values for key, values in _SUPPORTED.items() if key in words)
    if not (required <= words.keys() and is_supported and words["dimension"] == "3"):
        raise ValueError
    is_packed = words.get("CompressedData") == "true" or words.get("encoding") in ("gzip", "gz")
    start = found.end() if data == path else 0
    scale, has_orientation = (1.0, 0.0), kind == META or "space" in fields
    geometry = _geometry_lines(fields, " = " if kind == META else ": ")
    return Header(kind, size, dtype, geometry, data, start, 0, is_packed, scale, has_orientation)


def _data_file(path: Path, name: str) -> Path:
    """Return the file with the voxels: `path` for LOCAL, otherwise a file in its folder. Links may not lead outside."""
    data = path.parent / name
    is_inside = name == data.name and data.resolve().parent in (path.parent.resolve(), path.resolve().parent)
    if name != "LOCAL" and not (is_inside and data.is_file()):
        shown = printable(name)[:99]
        raise UnfitError(f"names {shown} as its data, which is not a file in its folder. Copy both files.")
    return path if name == "LOCAL" else data


def _geometry_lines(fields: dict[str, str], separator: str) -> bytes:
    """Return the lines with the geometry, after a check that their values are numbers."""
    lines = [f"space: {fields['space']}\n"] if "space" in fields else []
    for key in [key for key in _NUMBERS if key in fields]:
        numbers = [float(number) for number in re.split(r"[\s,()]+", fields[key]) if number]
        if len(numbers) != _NUMBERS[key] or not re.fullmatch(r"(?a)[-+.\deE,()\s]{1,500}", fields[key]):
            raise ValueError
        lines.append(f"{key}{separator}{fields[key]}\n")
    return "".join(lines).encode()


def file_head(header: Header, dtype: np.dtype, n_packed: int = 0) -> bytes:
    """Return the header of a file with voxels of `dtype`. n_packed: Size of the compressed voxels, in bytes."""
    text, size, type_name = header.geometry, " ".join(map(str, header.size)), dtype.str[1:]
    if header.kind == NIFTI:
        head, code = bytearray(header.geometry), next(code for code, name in _CODES.items() if name == type_name)
        struct.pack_into("<8h", head, 40, 3, *header.size, 1, 1, 1, 1)
        struct.pack_into("<2h", head, 70, code, 8 * dtype.itemsize)
        struct.pack_into("<3f", head, 108, 352, 1, 0)
        return bytes(head)
    word = next(word for word, name in _WORDS.items() if name == type_name)
    if header.kind == NRRD:
        start, end = f"NRRD0004\ntype: {word}\ndimension: 3\n", f"sizes: {size}\nendian: little\nencoding: gzip\n\n"
    else:
        start = "ObjectType = Image\nNDims = 3\nBinaryData = True\nBinaryDataByteOrderMSB = False\n"
        start += f"CompressedData = True\nCompressedDataSize = {n_packed}\n"
        end = f"DimSize = {size}\nElementType = MET_{word.upper()}\nElementDataFile = LOCAL\n"
    return start.encode() + text + end.encode()
