"""Read and write medical volumes: NIfTI, MetaImage, NRRD, and folders with a DICOM series.

SimpleITK reads truncated files as zeros, and a malformed header can crash it. Therefore this module reads the voxels of
files itself. SimpleITK reads DICOM. It also reads the geometry of files, from small headers made from checked values.
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
from data.files.volume_header import FORMATS, NIFTI, Format, Header, volume_suffix
from utils.files import replacing
from utils.text import counted, listed

VOLUME_SUFFIXES = tuple(FORMATS)
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
        limits = {"size": 0, "spacing": 1e-3, "direction": 1e-3, "origin": 0.01 * np.array(self.spacing)}
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
        geometry, source = _opened(path)
        if isinstance(source, Header):
            (array, is_integer), has_orientation = _voxels(source), source.has_orientation
        else:
            planes, array = map(_dicom_plane, source), np.empty(geometry.size[::-1], np.int16)
            (array, is_integer), has_orientation = _collected(planes, array), True
        code, axes, flips, geometry = _turned(geometry)
        seen = np.ascontiguousarray(np.flip(array.transpose(axes), flips))
        return Volume(seen, geometry, code, is_integer, has_orientation)


def write_volume(path: Path, array: np.ndarray, like: Path | Geometry) -> None:
    """Write a volume. Voxels are compressed, except in .nii. The file appears only when it is complete.

    array: Volume in LPS order, (D, H, W) uint8, uint16, int16 or float32.
    like: Geometry of `array`, or a stored volume with the orientation and the geometry. If the stored volume
        has the format of `path`, orientation and geometry are kept to the last bit.

    Raises:
        DataError: `like` cannot be read, or SimpleITK is not installed.
        OSError: The file cannot be written.
    """
    form = FORMATS[suffix := volume_suffix(path.name)]
    with _one_line(path if isinstance(like, Geometry) else like):
        geometry, source = (like, None) if isinstance(like, Geometry) else _opened(like)
        header = source if isinstance(source, Header) and source.form == form else _converted_header(geometry, form)
        _, axes, flips, _ = _turned(geometry)
    stored = np.flip(array, flips).transpose(np.argsort(axes))
    assert stored.shape == geometry.size[::-1], f"{array.shape} is not the shape of {like}"
    content: Iterable[Any] = (np.ascontiguousarray(plane, array.dtype.newbyteorder("<")) for plane in stored)
    if form == NIFTI:  # the header is compressed too
        content = chain([volume_header.file_head(header, array.dtype)], content)
    if suffix != ".nii":
        pack = zlib.compressobj(1, wbits=form.zlib_bits)
        content = [*map(pack.compress, content), pack.flush()]
    if form != NIFTI:
        content = [volume_header.file_head(header, array.dtype, sum(map(len, content))), *content]
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.writelines(content)


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
        form = FORMATS.get(volume_suffix(path.name))
        raise DataError(f"{path}: cannot be read as {form.name if form else 'a volume'}. Save it again.") from error
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
    with _stderr, Path(os.devnull).open("wb") as null:
        sys.stderr.flush()
        kept = os.dup(2)
        os.dup2(null.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def _opened(path: Path) -> tuple[Geometry, Header | list[Path]]:
    """Return the stored geometry, and the header of a file or the sorted files of a series."""
    if path.is_dir():
        return _series(path)
    header = volume_header.read_header(path)
    with TemporaryDirectory() as folder:
        copy = Path(folder, "volume" + header.form.suffix)
        copy.write_bytes(volume_header.file_head(header, np.dtype("<i2")))
        image = _information(copy)
    geometry = Geometry(header.size, image.GetSpacing(), image.GetOrigin(), image.GetDirection())
    volume_header.check_right_angles(np.reshape(geometry.direction, (3, 3)))
    if not np.isfinite([*geometry.spacing, *geometry.origin]).all():
        raise ValueError(geometry)
    return geometry, header


def _converted_header(geometry: Geometry, form: Format) -> Header:
    """Return a header of another format."""
    image = _itk().Image([2, 2, 2], _itk().sitkUInt8)
    image.SetSpacing(geometry.spacing)
    image.SetOrigin(geometry.origin)
    image.SetDirection(geometry.direction)
    with TemporaryDirectory() as folder:
        _itk().WriteImage(image, path := str(Path(folder, "volume" + form.suffix)))
        return replace(volume_header.read_header(Path(path)), size=geometry.size)


@_quiet()
def _information(path: Path, image_io: str = "") -> Any:
    reader = _itk().ImageFileReader()
    reader.SetFileName(str(path))
    reader.SetImageIO(image_io)
    reader.ReadImageInformation()
    return reader


@_quiet()
def _dicom_plane(path: Path) -> np.ndarray:
    """Return the values of a DICOM file, (H, W)."""
    return np.asarray(_itk().GetArrayFromImage(_itk().ReadImage(str(path), imageIO="GDCMImageIO"))[0])


def _voxels(header: Header) -> tuple[np.ndarray, bool]:
    """Return the voxels of a file, (D, H, W) uint8, uint16, int16 or float32, and whether all are integers."""
    array, place = np.empty(header.size[::-1], header.dtype), -header.skip
    content = array.reshape(-1).view(np.uint8)
    with header.data.open("rb") as file:
        file.seek(header.start)
        for block in volume_header.blocks(file, header.is_packed):
            part = np.frombuffer(block, np.uint8)[max(-place, 0) : max(len(content) - place, 0)]
            content[max(place, 0) :][: len(part)] = part
            place += len(block)
    if place < len(content):
        raise EOFError
    if header.scale == (1, 0) and array.dtype.str[1:] in ("u1", "u2", "i2", "f4"):
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
        return _collected(array, array)
    slope, intercept = header.scale
    return _collected((plane * np.float64(slope) + intercept for plane in array), np.empty(array.shape, np.int16))


def _collected(planes: Iterable[np.ndarray], array: np.ndarray) -> tuple[np.ndarray, bool]:
    """Copy planes to an array, float32 if int16 cannot hold their values. Also return whether all are integers."""
    is_integer = True
    with np.errstate(invalid="ignore", over="ignore"):
        for z, plane in enumerate(planes):
            if array.dtype == np.int16 and not np.array_equal(plane.astype(np.int16), plane):
                array = array.astype(np.float32)
            array[z] = plane
            if not np.isfinite(array[z]).all():
                y, x = np.argwhere(~np.isfinite(array[z]))[0]
                raise UnfitError(f"holds NaN or infinity at voxel ({x}, {y}, {z}). Replace it with a number.")
            is_integer = is_integer and bool((np.rint(array[z]) == array[z]).all())
    return array, is_integer


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
    """Return a volume's orientation, the axes and flips that turn (D, H, W) to LPS order, and the turned geometry."""
    code = str(_itk().DICOMOrientImageFilter.GetOrientationFromDirectionCosines(geometry.direction))
    order = [next(axis for axis in range(3) if code[axis] in letters) for letters in ("LR", "PA", "SI")]
    flipped = np.array([code[axis] in "RAI" for axis in order])
    size, spacing = np.array(geometry.size)[order], np.array(geometry.spacing)[order]
    matrix = np.reshape(geometry.direction, (3, 3))[:, order]
    origin = geometry.origin + matrix @ (flipped * spacing * (size - 1))
    direction = matrix * np.where(flipped, -1, 1) + 0.0  # no negative zeros
    seen = Geometry(*(tuple(values.ravel().tolist()) for values in (size, spacing, origin, direction)))
    return code, [2 - axis for axis in reversed(order)], tuple(2 - axis for axis in range(3) if flipped[axis]), seen
