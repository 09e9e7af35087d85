"""Read and write medical volumes: NIfTI, MetaImage, NRRD, and folders with a DICOM series.

SimpleITK reads truncated files as zeros, and a malformed header can crash it. Therefore this module reads the voxels of
files itself. SimpleITK reads DICOM, and the geometry of files from a small header that is made from checked values.
"""

import os
import struct
import sys
import threading
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from data.batch import DataError
from data.files import volume_header
from data.files.stored_image import UnfitError
from data.files.volume_header import FORMATS, META, NIFTI, Header, volume_suffix
from utils.files import replacing
from utils.text import counted, listed

VOLUME_SUFFIXES = tuple(FORMATS)
_SUFFIXES = {kind: suffix for suffix, kind in reversed(FORMATS.items())}
_stderr = threading.Lock()  # two threads must not redirect stderr at the same time


@dataclass(frozen=True)
class Geometry:
    """Place of a volume in the patient, in millimetres towards left, posterior and superior (LPS).

    size, spacing: Number and distance of the voxels along x, y and z.
    origin: Centre of the first voxel.
    direction: Rows of the 3x3 matrix whose columns are the unit vectors of x, y and z.
    """

    size: tuple[int, ...]
    spacing: tuple[float, ...]
    origin: tuple[float, ...]
    direction: tuple[float, ...]

    def difference(self, other: "Geometry") -> str | None:
        """Return a text such as "sizes 64x64x20 and 64x64x21", or None if the geometries agree."""
        limits: dict[str, Any] = {"size": 0, "spacing": 1e-3, "direction": 1e-3}
        limits["origin"] = 0.01 * np.array(self.spacing)
        for name, limit in limits.items():
            values = [getattr(each, name) for each in (self, other)]
            if (abs(np.subtract(*values)) > limit).any():
                separator = "x" if name in ("size", "spacing") else ", "
                ours, theirs = (separator.join(f"{number:.6g}" for number in each) for each in values)
                return f"{name}s {ours} and {theirs}{' mm' if name in ('spacing', 'origin') else ''}"
        return None


@dataclass(frozen=True)
class Volume:
    """A volume in LPS order.

    array: Values after the scaling of the file, (D, H, W) uint8, uint16, int16 or float32.
    geometry: Geometry of `array`.
    orientation: Directions of the stored axes x, y and z, such as "RAS".
    is_integer: Whether all values are integers.
    has_orientation: False if the file does not state where left, posterior and superior are.
    """

    array: np.ndarray
    geometry: Geometry
    orientation: str
    is_integer: bool
    has_orientation: bool


def volume_name(file_name: str) -> str:
    """Return a file name without the suffix of a volume. Names of folders such as "1.2.840" stay unchanged."""
    return file_name[: len(file_name) - len(volume_suffix(file_name))]


def is_series(folder: Path) -> bool:
    """Return whether a folder holds a DICOM file. Files in subfolders do not count."""
    return folder.is_dir() and any(True for _ in _dicom_files(folder))


def _dicom_files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.name != "DICOMDIR":  # an index of files
            with path.open("rb") as file:
                if file.read(132)[128:] == b"DICM":
                    yield path


def read_volume(path: Path) -> Volume:
    """Read a file, or a folder with a DICOM series.

    Raises:
        DataError: The volume is missing, damaged or not supported, or SimpleITK is not installed.
    """
    with _one_line(path):
        header, geometry, files = _opened(path)
        array = _voxels(header) if header else _exact(map(_plane, files), geometry.size[::-1])
        is_integer = all([_is_integer(plane, z) for z, plane in enumerate(array)])  # a list, to check all planes
        code, axes, flips, geometry = _turned(geometry)
        seen = np.ascontiguousarray(np.flip(array.transpose(axes), flips))
        return Volume(seen, geometry, code, is_integer, has_orientation=header is None or header.has_orientation)


def write_volume(path: Path, array: np.ndarray, like: Path) -> None:
    """Write a volume. Voxels are compressed, except in .nii. The complete file appears at once.

    array: Volume in LPS order, (D, H, W) uint8, uint16, int16 or float32.
    like: Stored volume with the orientation and the geometry. If it has the same format, they are kept to the last bit.

    Raises:
        DataError: `like` cannot be read.
        OSError: The file cannot be written.
    """
    kind = FORMATS[volume_suffix(path.name)]
    with _one_line(like):
        header, geometry, _ = _opened(like)
        header = header if header and header.kind == kind else _converted_header(geometry, kind)
    _, axes, flips, _ = _turned(geometry)
    stored = np.flip(array, flips).transpose(np.argsort(axes))
    assert stored.shape == geometry.size[::-1], f"{array.shape} is not the shape of {like}"
    planes = (np.ascontiguousarray(plane, array.dtype.newbyteorder("<")) for plane in stored)
    parts: Iterable[Any] = chain([volume_header.file_head(header, array.dtype)], planes) if kind == NIFTI else planes
    pack = zlib.compressobj(1, wbits=15 if kind == META else 31)  # zlib or gzip
    content = [*map(pack.compress, parts), pack.flush()] if volume_suffix(path.name) != ".nii" else map(bytes, parts)
    head = b"" if kind == NIFTI else volume_header.file_head(header, array.dtype, sum(map(len, content)))
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.writelines(chain([head], content))


@contextmanager
def _one_line(path: Path) -> Iterator[None]:
    """Turn each error into a DataError of one line. SimpleITK's messages have several lines."""
    try:
        yield
    except UnfitError as error:
        raise DataError(f"{path}: {error}") from error
    except (EOFError, zlib.error) as error:
        raise DataError(f"{path}: is damaged or incomplete. Copy it again.") from error
    except (ValueError, KeyError, OverflowError, RuntimeError, struct.error) as error:
        kind = FORMATS.get(volume_suffix(path.name), "a volume")
        raise DataError(f"{path}: cannot be read as {kind}. Save it again.") from error
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}. Check its name and permissions.") from error


def _itk() -> Any:
    try:
        import SimpleITK
    except ImportError as error:
        raise DataError('volumes need SimpleITK: python -m pip install --editable ".[volumes]"') from error
    SimpleITK.ProcessObject.GlobalWarningDisplayOff()
    return SimpleITK


@contextmanager
def _quiet() -> Iterator[None]:
    """Discard what C libraries write to stderr."""
    with _stderr:
        sys.stderr.flush()
        kept, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            os.close(null)


def _opened(path: Path) -> tuple[Header | None, Geometry, list[Path]]:
    """Return the header of a file, or the files of a series in order; and the stored geometry."""
    if path.is_dir():
        return None, *_series(path)
    header = volume_header.read_header(path)
    with TemporaryDirectory() as folder:
        copy = Path(folder, "volume" + _SUFFIXES[header.kind])
        copy.write_bytes(volume_header.file_head(header, np.dtype("<i2")))
        image = _information(copy)
    geometry = Geometry(image.GetSize(), image.GetSpacing(), image.GetOrigin(), image.GetDirection())
    volume_header.check_right_angles(np.reshape(geometry.direction, (3, 3)))
    if not np.isfinite([*geometry.spacing, *geometry.origin]).all():
        raise ValueError(geometry)
    return header, geometry, []


def _converted_header(geometry: Geometry, kind: str) -> Header:
    """Return a header of another format."""
    image = _itk().Image([2, 2, 2], _itk().sitkUInt8)
    image.SetSpacing(geometry.spacing)
    image.SetOrigin(geometry.origin)
    image.SetDirection(geometry.direction)
    with TemporaryDirectory() as folder:
        _itk().WriteImage(image, path := str(Path(folder, "volume" + _SUFFIXES[kind])))
        return replace(volume_header.read_header(Path(path)), size=geometry.size)


@_quiet()
def _information(path: Path, image_io: str = "") -> Any:
    reader = _itk().ImageFileReader()
    reader.SetFileName(str(path))
    reader.SetImageIO(image_io)
    reader.ReadImageInformation()
    return reader


@_quiet()
def _plane(path: Path) -> np.ndarray:
    """Return the values of a DICOM file, (H, W)."""
    image = _itk().ReadImage(str(path), imageIO="GDCMImageIO")
    return np.asarray(_itk().GetArrayFromImage(image)[0])


def _voxels(header: Header) -> np.ndarray:
    """Read the voxels of a file, (D, H, W) uint8, uint16, int16 or float32."""
    array, slope, intercept = np.empty(header.size[::-1], header.dtype), *header.scale
    content, place = array.reshape(-1).view(np.uint8), -header.skip
    with header.data.open("rb") as file:
        file.seek(header.start)
        for block in volume_header.blocks(file, header.is_packed):
            start, end = max(place, 0), min(place + len(block), len(content))
            if start < end:
                content[start:end] = np.frombuffer(block, np.uint8)[start - place : end - place]
            place += len(block)
    if place < len(content):
        raise EOFError
    if header.scale != (1, 0):
        return _exact((plane * np.float64(slope) + intercept for plane in array), array.shape)
    is_kept = array.dtype.str[1:] in ("u1", "u2", "i2", "f4")
    return array.astype(array.dtype.newbyteorder("="), copy=False) if is_kept else _exact(array, array.shape)


def _exact(planes: Iterable[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """Return planes as an array of int16, or of float32 if int16 cannot hold all values."""
    array = np.empty(shape, np.int16)
    with np.errstate(invalid="ignore", over="ignore"):
        for number, plane in enumerate(planes):
            if array.dtype == np.int16 and not np.array_equal(plane.astype(np.int16), plane):
                array = array.astype(np.float32)
            array[number] = plane
    return array


def _is_integer(plane: np.ndarray, z: int) -> bool:
    if not np.isfinite(plane).all():
        y, x = np.argwhere(~np.isfinite(plane))[0]
        raise UnfitError(f"holds NaN or infinity at voxel ({x}, {y}, {z}). Replace it with a number.")
    return bool((np.rint(plane) == plane).all())


def _series(folder: Path) -> tuple[Geometry, list[Path]]:
    """Check the files of a DICOM series. Return the geometry, and the files sorted by their position."""
    images, damaged = dict[Path, Any](), list[str]()
    for file in _dicom_files(folder):
        try:
            images[file] = _information(file, "GDCMImageIO")
        except RuntimeError:
            damaged.append(file.name)
    if damaged:
        n_files = counted(len(images) + len(damaged), "DICOM file")
        raise UnfitError(f"{len(damaged)} of {n_files} cannot be decoded: {listed(damaged)}. Copy the series again.")
    if not images:
        raise UnfitError("is a folder without DICOM files. Name a volume or a DICOM series.")
    if (n_series := len({image.GetMetaData("0020|000e") for image in images.values()})) > 1:
        raise UnfitError(f"has {n_series} DICOM series. Keep one of them.")
    grids = np.array([[*each.GetSize(), *each.GetSpacing()[:2], *each.GetDirection()] for each in images.values()])
    if abs(grids - grids[0]).max() > 1e-3 or grids[0, 2] > 1:
        raise UnfitError("has slices of several sizes or directions, or several frames in a file. Convert it to NIfTI.")
    normal = grids[0, 5:].reshape(3, 3)[:, 2]
    files = sorted(images, key=lambda file: float(np.dot(images[file].GetOrigin(), normal)))
    first = images[files[0]]
    size = volume_header.checked_size((*first.GetSize()[:2], len(files)), bytes_per_voxel=4)
    offsets = np.array([images[file].GetOrigin() for file in files]) - first.GetOrigin()
    heights = offsets @ normal
    steps = np.diff(heights)
    if (np.linalg.norm(offsets - np.outer(heights, normal), axis=1) > 1e-3 * heights).any():
        raise UnfitError("its slices are tilted against the axis that they are stacked along. Resample it.")
    is_even = (steps > 0) & (abs(steps - np.median(steps)) <= 0.01 * np.median(steps))
    if not is_even.all():
        raise UnfitError(f"is a DICOM series with a gap behind slice {is_even.argmin() + 1}. Copy the missing slices.")
    spacing = (*first.GetSpacing()[:2], float(steps.mean()))
    return Geometry(size, spacing, first.GetOrigin(), first.GetDirection()), files


def _turned(geometry: Geometry) -> tuple[str, list[int], tuple[int, ...], Geometry]:
    """Return the orientation of a stored volume, and how to turn it to LPS order.

    Returns:
        The orientation, the permutation of the axes of an array (D, H, W), the axes to flip then, and the new geometry.
    """
    code = str(_itk().DICOMOrientImageFilter.GetOrientationFromDirectionCosines(geometry.direction))
    order = [next(axis for axis in range(3) if code[axis] in letters) for letters in ("LR", "PA", "SI")]
    flipped = np.array([code[axis] in "RAI" for axis in order])
    size, spacing = np.array(geometry.size)[order], np.array(geometry.spacing)[order]
    matrix = np.reshape(geometry.direction, (3, 3))[:, order]
    origin = geometry.origin + matrix @ (flipped * spacing * (size - 1))
    direction = matrix * np.where(flipped, -1, 1) + 0.0  # no negative zeros
    seen = Geometry(*(tuple(values.ravel().tolist()) for values in (size, spacing, origin, direction)))
    return code, [2 - axis for axis in reversed(order)], tuple(2 - axis for axis in range(3) if flipped[axis]), seen
