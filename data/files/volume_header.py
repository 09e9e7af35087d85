"""Headers of volume files: NIfTI, MetaImage and NRRD. They are parsed strictly, because SimpleITK trusts them."""

import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import isfinite, prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from data.files.stored_image import UnfitError, memory_excess
from utils.text import printable


@dataclass(frozen=True)
class Format:
    """What differs between the formats. Only MetaImage and NRRD have text."""

    name: str
    suffix: str
    zlib_bits: int  # 15: zlib, 31: gzip
    separator: str = ""  # between key and value
    header: bytes = b""  # pattern
    required: frozenset[str] = frozenset()  # keys
    is_packed: dict[str, bool] = field(default_factory=dict)  # whether the voxels are compressed, for each encoding
    big_endian: str = ""
    written: str = ""  # header of a file with compressed voxels


_META_HEADER, _NRRD_HEADER = rb"(?ms).*?^ElementDataFile[^\n]*(\n|\Z)", rb"(?s)NRRD000.*?(\r?\n\r?\n|\Z)"
_META_TEXT = "ObjectType = Image\nNDims = 3\nBinaryData = True\nBinaryDataByteOrderMSB = False\nCompressedData = True\n"
_META_TEXT += "CompressedDataSize = {n_packed}\n{geometry}DimSize = {size}\nElementType = MET_{TYPE}\n"
_META_TEXT += "ElementDataFile = LOCAL\n"
_NRRD_TEXT = "NRRD0004\ntype: {type}\ndimension: 3\n{geometry}sizes: {size}\nendian: little\nencoding: gzip\n\n"
NIFTI = Format("NIfTI", ".nii", 31)
_META_ENCODINGS, _NRRD_ENCODINGS = {"true": True, "false": False}, {"gzip": True, "gz": True, "raw": False}
_META_KEYS, _NRRD_KEYS = frozenset(("ObjectType", "BinaryData", "dimension")), frozenset(("encoding", "dimension"))
META = Format("MetaImage", ".mha", 15, " = ", _META_HEADER, _META_KEYS, _META_ENCODINGS, "true", _META_TEXT)
NRRD = Format("NRRD", ".nrrd", 31, ": ", _NRRD_HEADER, _NRRD_KEYS, _NRRD_ENCODINGS, "big", _NRRD_TEXT)
FORMATS = {".nii": NIFTI, ".nii.gz": NIFTI, ".mha": META, ".mhd": META, ".nrrd": NRRD, ".nhdr": NRRD}

_NIFTI_GEOMETRY = ((76, "8f"), (123, "B"), (252, "2h18f"))  # pixdim, xyzt_units, qform and sform
_CODES = {2: "u1", 4: "i2", 8: "i4", 16: "f4", 64: "f8", 256: "i1", 512: "u2", 768: "u4", 1024: "i8", 1280: "u8"}
_TYPES = {"uchar": "u1", "short": "i2", "ushort": "u2", "float": "f4", "int": "i4", "uint": "u4", "double": "f8"}
_TYPES |= {"char": "i1", "signed char": "i1", "unsigned char": "u1", "unsigned short": "u2", "unsigned int": "u4"}
_TYPES |= {f"{kind}{8 * n}": f"{kind[0]}{n}" for kind in ("int", "uint") for n in (1, 2, 4)}
# keys with another name in NRRD
_ALIASES = {"NDims": "dimension", "DimSize": "sizes", "ElementType": "type", "CompressedData": "encoding"}
_ALIASES |= {"ElementDataFile": "data file", "datafile": "data file"}
_ALIASES |= {"ElementByteOrderMSB": "endian", "BinaryDataByteOrderMSB": "endian"}
_SUPPORTED = {"ObjectType": "image", "BinaryData": "true", "dimension": "3"}
_SUPPORTED |= {"HeaderSize": "0", "byte skip": "0", "line skip": "0"}
_GREY = {"domain", "space", "???", "none", "1"}  # kinds of axes, or the number of channels
_NUMBER = r"[-+]?(\d+(\.\d*)?|\.\d+)(e[-+]?\d+)?"
_VECTOR, _MATRIX = (rf"\(?\s*({_NUMBER}([\s,()]+|\Z)){{{n_numbers}}}" for n_numbers in (3, 9))
_GEOMETRY = {"space": "left-posterior-superior|lps|right-anterior-superior|ras|left-anterior-superior|las"}
_GEOMETRY |= dict.fromkeys(("space directions", "TransformMatrix", "Rotation", "Orientation"), _MATRIX)
_GEOMETRY |= dict.fromkeys(("space origin", "Offset", "Position", "Origin"), _VECTOR)
_GEOMETRY |= dict.fromkeys(("spacings", "ElementSpacing", "ElementSize"), _VECTOR)


@dataclass(frozen=True)
class Header:
    """Checked header of a file. The voxels are integers or floats."""

    form: Format
    size: tuple[int, ...]
    dtype: np.dtype
    geometry: bytes  # 352 bytes of NIfTI in little-endian order, or lines of text
    data: Path  # file with the voxels
    start: int  # number of bytes in front of the voxels, in this file
    skip: int  # and then in the decompressed content
    is_packed: bool
    scale: tuple[float, float]  # slope and intercept
    has_orientation: bool  # whether the file states where left, posterior and superior are


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
    """Read the header of a file. Raise UnfitError if the volume is not supported, and other errors if it is damaged."""
    form = FORMATS[suffix := volume_suffix(path.name)]
    twin = path.with_name(path.name[: -len(suffix)] + (".nii" if suffix == ".nii.gz" else ".nii.gz"))
    if form == NIFTI and twin.exists():
        raise UnfitError(f"{twin.name} is in the same folder. Keep one of the files.")
    with path.open("rb") as file:
        is_packed = form == NIFTI and file.read(2) == b"\x1f\x8b"
        file.seek(0)
        begin = next(blocks(file, is_packed), b"")
    if not begin:
        raise EOFError
    return _nifti_header(path, begin, is_packed) if form == NIFTI else _text_header(path, begin, form)


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
    if excess := memory_excess(n_bytes):
        raise UnfitError(f"states {text} voxels, {n_bytes / 1e9:,.1f} GB, {excess}. Cut it, if it is intact.")
    return tuple(size)


def check_right_angles(matrix: np.ndarray) -> None:
    """Raise UnfitError unless the columns of a (3, 3) matrix are at right angles."""
    with np.errstate(all="ignore"):
        units = matrix / np.linalg.norm(matrix, axis=0)
        is_orthogonal = (abs(units.T @ units - np.eye(3)) < 1e-3).all()  # not for NaN
    if not is_orthogonal:
        raise UnfitError("its axes are not at right angles. Resample it.")


def _dtype(name: str | None, is_big: bool) -> np.dtype:
    if name is None:
        raise UnfitError("holds colours or complex numbers. Save one number per voxel.")
    return np.dtype((">" if is_big else "<") + name)


def _nifti_header(path: Path, begin: bytes, is_packed: bool) -> Header:
    """Parse a header of NIfTI-1 (https://nifti.nimh.nih.gov/pub/dist/src/niftilib/nifti1.h)."""
    order = "<" if begin[0] else ">"
    n_bytes, n_dimensions, *sizes = struct.unpack_from(f"{order}i36x8h", begin)
    code, offset, slope, intercept, magic = struct.unpack_from(f"{order}h36x3f224x4s", begin, 70)
    if n_bytes != 348 or magic != b"n+1\0":
        raise ValueError
    dtype = _dtype(_CODES.get(code), is_big=order == ">")
    size = checked_size(sizes[:n_dimensions], dtype.itemsize)
    geometry = bytearray(struct.pack("<i340x4s4x", 348, b"n+1"))
    for place, form in _NIFTI_GEOMETRY:
        struct.pack_into(f"<{form}", geometry, place, *struct.unpack_from(f"{order}{form}", begin, place))
    codes = np.frombuffer(geometry, "<i2", 2, 252)
    if codes[1] > 0:  # SimpleITK replaces an sform with skewed axes
        check_right_angles(np.frombuffer(geometry, "<f4", 12, 280).reshape(3, 4)[:, :3])
    is_scaled = slope != 0 and isfinite(slope) and isfinite(intercept)
    scale, skip = (slope, intercept) if is_scaled else (1.0, 0.0), max(352, int(offset))
    return Header(NIFTI, size, dtype, bytes(geometry), path, 0, skip, is_packed, scale, bool(codes.any()))


def _text_header(path: Path, begin: bytes, form: Format) -> Header:
    """Parse a header of MetaImage or NRRD. Keys that matter neither for voxels nor for geometry are left out."""
    if not (found := re.match(form.header, begin)):
        raise ValueError
    lines = found[0].decode("latin-1").splitlines()
    pairs = (line.partition(form.separator.strip()) for line in lines if not line.startswith("#"))
    fields = {_ALIASES.get(name := key.strip(), name): value.strip() for key, _, value in pairs}
    words = {key: value.lower() for key, value in fields.items()}
    name = fields.get("data file", "LOCAL")
    data = path if name == "LOCAL" else path.parent / name
    folders = path.parent.resolve(), path.resolve().parent  # links may not lead outside
    if data != path and not (name == data.name and data.resolve().parent in folders and data.is_file()):
        shown = printable(name)[:99]
        raise UnfitError(f"names {shown} as its data, which is not a file in its folder. Copy both files.")
    is_grey = {*words.get("kinds", "").split(), words.get("ElementNumberOfChannels", "1")} <= _GREY
    type_name = words["type"].removeprefix("met_").removesuffix("_t")
    dtype = _dtype(_TYPES.get(type_name) if is_grey else None, words.get("endian") == form.big_endian)
    size = checked_size([int(number) for number in words["sizes"].split()], dtype.itemsize)
    is_supported = all(words.get(key, value) == value for key, value in _SUPPORTED.items())
    if not (is_supported and form.required <= words.keys()):
        raise ValueError
    geometry = ""
    for key in [key for key in _GEOMETRY if key in fields]:
        if len(fields[key]) > 500 or not re.fullmatch(_GEOMETRY[key], fields[key], re.ASCII | re.IGNORECASE):
            raise ValueError(key)
        geometry += f"{key}{form.separator}{fields[key]}\n"
    start, is_packed = found.end() if data == path else 0, form.is_packed[words.get("encoding", "false")]
    has_orientation = form == META or "space" in fields
    return Header(form, size, dtype, geometry.encode(), data, start, 0, is_packed, (1.0, 0.0), has_orientation)


def file_head(header: Header, dtype: np.dtype, n_packed: int = 0) -> bytes:
    """Return the header of a file with voxels of `dtype`. n_packed: Size of the compressed voxels, in bytes."""
    if header.form == NIFTI:
        head, code = bytearray(header.geometry), next(code for code, name in _CODES.items() if name == dtype.str[1:])
        struct.pack_into("<8h", head, 40, 3, *header.size, 1, 1, 1, 1)
        struct.pack_into("<2h", head, 70, code, 8 * dtype.itemsize)
        struct.pack_into("<3f", head, 108, 352, 1, 0)
        return bytes(head)
    word, size = next(word for word, name in _TYPES.items() if name == dtype.str[1:]), "{} {} {}".format(*header.size)
    values = {"type": word, "TYPE": word.upper(), "size": size, "geometry": header.geometry.decode()}
    return header.form.written.format(n_packed=n_packed, **values).encode()
