"""Volumes are read as stored or refused in one line, and keep their geometry when they are written."""

import gzip
import struct
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import SimpleITK as sitk  # noqa: N813
import torch
from torch import Tensor

from data.batch import DataError
from data.files.volume_file import Geometry, is_series, read_volume, volume_name, write_volume

REFERENCE = Path(__file__).parents[2] / "reference"
CASES: dict[str, Any] = torch.load(REFERENCE / "volumes_reference.pt", weights_only=True)
EXTRAS: dict[str, Any] = torch.load(REFERENCE / "volumes_extras_reference.pt", weights_only=True)


def written(folder: Path, files: Mapping[str, Tensor]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(content.numpy().tobytes())
    return folder


def image_of(array: Tensor | np.ndarray, spacing: Any, origin: Any, direction: Any) -> sitk.Image:
    image = sitk.GetImageFromArray(np.asarray(array))
    image.SetSpacing(np.asarray(spacing).tolist())
    image.SetOrigin(np.asarray(origin).tolist())
    image.SetDirection(np.asarray(direction).ravel().tolist())
    return image


def geometry_of(image: sitk.Image) -> Geometry:
    return Geometry(image.GetSize(), image.GetSpacing(), image.GetOrigin(), image.GetDirection())


def assert_close(geometry: Geometry, other: Geometry) -> None:
    assert geometry.size == other.size
    for name in ("spacing", "origin", "direction"):
        assert getattr(geometry, name) == pytest.approx(getattr(other, name), abs=1e-6)


def readable() -> list[Any]:
    cases = [
        (case["files"], case["name"], (case["array"], case["spacing"], case["origin"], case["direction"]))
        for case in CASES["files"]
    ]
    for case in EXTRAS["files"].values():
        lps = case["geometry"]
        parts = (case["voxels_zyx"], lps["spacing_xyz"], lps["origin_lps"], lps["direction_lps"])
        cases.append((case["files"], case["read"], parts))
    names = [case["name"] for case in CASES["files"]] + list(EXTRAS["files"])
    return [pytest.param(*case, id=name) for name, case in zip(names, cases, strict=True)]


@pytest.mark.parametrize(("files", "name", "stored"), readable())
def test_files_are_read_in_lps_order(
    tmp_path: Path, files: dict[str, Tensor], name: str, stored: tuple, request: pytest.FixtureRequest
) -> None:
    folder = tmp_path / name if name.startswith("series") else tmp_path
    written(folder, files)
    volume, expected = read_volume(tmp_path / name), sitk.DICOMOrient(image_of(*stored), "LPS")
    array = sitk.GetArrayFromImage(expected)
    np.testing.assert_array_equal(volume.array, array)
    is_integer = bool((array % 1 == 0).all())
    is_kept = array.dtype != np.float32 or not is_integer or name.endswith(".mha")
    assert volume.array.dtype == (array.dtype if is_kept else np.int16)  # scaled values that int16 holds
    assert (volume.is_integer, volume.has_orientation) == (is_integer, "no_form" not in request.node.callspec.id)
    assert_close(volume.geometry, geometry_of(expected))
    assert is_series(tmp_path / name) == name.startswith("series")


MESSAGES = {
    "truncated": "is damaged or incomplete. Copy it again.",
    "damaged": "is damaged or incomplete. Copy it again.",
    "empty": "is damaged or incomplete. Copy it again.",
    "text": "cannot be read as NIfTI. Save it again.",
    "huge": "states 30000x30000x30000 voxels, 54,000.0 GB, more than a quarter of this machine's ",
    "outside": "names /etc/passwd as its data, which is not a file in its folder. Copy both files.",
    "four_d": "has 4 dimensions, 4x5x6x3. Save each volume as a file of its own.",
    "two_d": "is a single slice. For pictures, set data.layout=paired_folders.",
    "not_finite": "holds NaN or infinity at voxel (1, 2, 3). Replace it with a number.",
    "sheared": "its axes are not at right angles. Resample it.",
    "series_gap": "is a DICOM series with a gap behind slice 2. Copy the missing slices.",
    "series_damaged": "1 of 5 DICOM files cannot be decoded: im1.dcm. Copy the series again.",
    "series_two": "has 2 DICOM series. Keep one of them.",
    "series_tilt": "its slices are tilted against the axis that they are stacked along. Resample it.",
    "nii_4d_of_three": "has 4 dimensions, 9x7x5x3. Save",
    "twins": "v.nii is in the same folder. Keep one of the files.",
    "nii_sheared": "its axes are not at right angles",
    "nii_claims_27e12_voxels": "states 30000x30000x30000 voxels",
    "nii_gz_truncated": "is damaged or incomplete",
    "mhd_outside_its_folder": "names ../secret.raw as its data",
    "mhd_percent": "names %s%s%n%n%n%05d.raw 1 3 1 as its data",
    "mhd_list": "names LIST 2 as its data",
    "nan": "holds NaN or infinity at voxel (",
    "colours": "holds colours or complex numbers. Save one number per voxel.",
    "two_dimensions": "is a single slice",
}
REFUSED = [pytest.param(case["files"], case["name"], id=case["name"]) for case in CASES["errors"]]
REFUSED += [pytest.param(case["files"], case["read"], id=name) for name, case in EXTRAS["refused"].items()]


@pytest.mark.parametrize(("files", "name"), REFUSED)
def test_unusable_volumes_are_refused_in_one_line(
    tmp_path: Path, files: dict[str, Tensor], name: str, request: pytest.FixtureRequest, capfd: pytest.CaptureFixture
) -> None:
    written(tmp_path / name if name.startswith("series") else tmp_path, files)
    with pytest.raises(DataError) as error:
        read_volume(tmp_path / name)
    message = MESSAGES[request.node.callspec.id.partition(".")[0]]
    assert str(error.value).startswith(f"{tmp_path / name}: {message}")
    assert "\n" not in str(error.value)
    assert capfd.readouterr() == ("", "")


def turned_cases() -> Iterator[tuple[str, tuple, tuple]]:
    names = ("spacing", "origin", "direction")
    for case in CASES["orientation"]:
        stored = (case["stored"], *(case[name] for name in names))
        yield case["code"], stored, (case["seen"], *(case[f"seen_{name}"] for name in names))
    names = ("spacing_xyz", "origin_lps", "direction_lps")
    for code, case in EXTRAS["canonical"].items():
        stored = (case["voxels_zyx"], *map(case["geometry"].get, names))
        yield code, stored, (case["canonical_zyx"], *map(case["canonical_geometry"].get, names))


@pytest.mark.parametrize(("code", "stored", "seen"), list(turned_cases()))
def test_any_orientation_is_turned_and_turned_back(tmp_path: Path, code: str, stored: tuple, seen: tuple) -> None:
    path, image = tmp_path / "v.mha", image_of(*stored)
    sitk.WriteImage(image, str(path))
    volume = read_volume(path)
    assert volume.orientation == code
    np.testing.assert_array_equal(volume.array, seen[0])
    assert_close(volume.geometry, geometry_of(image_of(*seen)))
    write_volume(tmp_path / "w.mha", volume.array + np.int16(1), path)
    copy = sitk.ReadImage(str(tmp_path / "w.mha"))
    np.testing.assert_array_equal(sitk.GetArrayFromImage(copy), stored[0] + 1)
    assert geometry_of(copy) == geometry_of(image)


SOURCES = [(case["files"], "v." + name.partition(".")[2]) for name, case in EXTRAS["round_trip"].items()]
SOURCES += [case.values[:2] for case in readable() if "series" not in str(case.id)]
DTYPES = (np.int16, np.float32, np.uint8, np.uint16)
NIFTI_GEOMETRY = ((76, "8f"), (252, "2h18f"), (123, "B"))


def nifti_geometry(path: Path) -> list[tuple]:
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    order = "<" if content[0] else ">"
    return [struct.unpack_from(order + form, content, place) for place, form in NIFTI_GEOMETRY]


@pytest.mark.parametrize(
    ("files", "name", "dtype"), [(*source, DTYPES[number % 4]) for number, source in enumerate(SOURCES)]
)
def test_a_volume_of_the_same_format_keeps_the_geometry_exactly(
    tmp_path: Path, files: dict[str, Tensor], name: str, dtype: type
) -> None:
    source = written(tmp_path, files) / name
    volume = read_volume(source)
    array: np.ndarray = (volume.array % 100).astype(dtype)
    copy = tmp_path / "out" / f"copy.{name.partition('.')[2]}"
    write_volume(copy, array, source)
    again, images = read_volume(copy), [sitk.ReadImage(str(path)) for path in (source, copy)]
    assert (again.geometry, again.orientation, again.array.dtype) == (volume.geometry, volume.orientation, dtype)
    assert geometry_of(images[1]) == geometry_of(images[0])
    for values in (again.array, sitk.GetArrayFromImage(sitk.DICOMOrient(images[1], "LPS"))):
        np.testing.assert_array_equal(values, array)
    assert [file.name for file in copy.parent.iterdir()] == [copy.name]
    if ".nii" in name:
        assert nifti_geometry(copy) == nifti_geometry(source)


@pytest.mark.parametrize("name", ["oblique.nii.gz", "packed.mha", "packed.nrrd", "series"])
@pytest.mark.parametrize("suffix", [".nii.gz", ".nii", ".mhd", ".nrrd"])
def test_a_volume_of_another_format_keeps_the_geometry(tmp_path: Path, name: str, suffix: str) -> None:
    files = next(case["files"] for case in CASES["files"] if case["name"] == name)
    written(tmp_path / name if name == "series" else tmp_path, files)
    volume, copy = read_volume(tmp_path / name), tmp_path / f"copy{suffix}"
    write_volume(copy, volume.array, tmp_path / name)
    again = read_volume(copy)
    assert_close(again.geometry, volume.geometry)
    np.testing.assert_array_equal(again.array, volume.array)
    assert (again.orientation, again.has_orientation) == (volume.orientation, True)


MHD = b"ObjectType = Image\nNDims = 3\nBinaryData = True\nDimSize = 2 2 2\nElementType = MET_UCHAR\n"
NHDR = b"NRRD0004\ntype: uchar\ndimension: 3\nsizes: 2 2 2\nencoding: raw\n"
LOCAL = b"ElementDataFile = LOCAL\n01234567"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("v.mha", MHD + LOCAL, ""),
        ("v.mha", MHD + b"Modality = MET_MOD_CT\n0008|0060 = %n%n\n" + LOCAL, ""),  # unknown keys are ignored
        ("v.nhdr", NHDR + b"spacings: 1 1 2\ncontent: %n\nkey:=value\n\n01234567", ""),
        ("v.mha", MHD + LOCAL[:-1], "is damaged or incomplete"),
        ("v.mha", MHD + b"HeaderSize = 8\n" + LOCAL, "cannot be read as MetaImage"),
        ("v.mha", MHD + b"Offset = 1 2 3 4\n" + LOCAL, "cannot be read as MetaImage"),
        ("v.mha", MHD + b"Offset = " + b"1" * 600 + b" 2 3\n" + LOCAL, "cannot be read as MetaImage"),
        ("v.mha", MHD + b"Offset = 1 2 nan\n" + LOCAL, "cannot be read as MetaImage"),
        ("v.mha", MHD + b"TransformMatrix = 1 0 0 .3 1 0 0 0 1\n" + LOCAL, "its axes are not at right angles"),
        ("v.mhd", MHD + b"ElementDataFile = link.raw", "names link.raw as its data"),
        ("v.nrrd", NHDR + b"line skip: 1\n\n01234567", "cannot be read as NRRD"),
        ("v.nrrd", NHDR + b"space: %s\n\n01234567", "cannot be read as NRRD"),
        ("v.nii", b"", "is damaged or incomplete"),
        ("v.png", b"", "cannot be read as a volume"),
        ("none.nii", b"", "No such file or directory"),
        ("", b"", "is a folder without DICOM files"),
    ],
)
def test_headers_are_checked(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "data.raw").write_bytes(bytes(8))
    (folder / "link.raw").symlink_to(tmp_path / "data.raw")
    (folder / (name or "text.txt")).write_bytes(content)
    (folder / "none.nii").unlink(missing_ok=True)
    if message:
        with pytest.raises(DataError, match=message):
            read_volume(folder / name)
    else:
        np.testing.assert_array_equal(read_volume(folder / name).array.ravel(), list(b"01234567"))


def test_gzip_files_may_have_several_members_and_padding(tmp_path: Path) -> None:
    path = written(tmp_path, CASES["files"][0]["files"]) / CASES["files"][0]["name"]
    content, before = gzip.decompress(path.read_bytes()), read_volume(path).array
    path.write_bytes(gzip.compress(content[:400]) + gzip.compress(content[400:]) + bytes(100))
    np.testing.assert_array_equal(read_volume(path).array, before)
    damaged = bytearray(path.read_bytes())
    damaged[-105] ^= 1  # the checksum of the second member
    path.write_bytes(damaged)
    with pytest.raises(DataError, match="is damaged or incomplete"):
        read_volume(path)


def test_a_series_may_have_other_files_but_no_file_cut_by_a_byte(tmp_path: Path, capfd: pytest.CaptureFixture) -> None:
    files = next(case["files"] for case in CASES["files"] if case["name"] == "series")
    before = read_volume(written(tmp_path / "series", files)).array
    (tmp_path / "series" / "notes.txt").write_text("text " * 100)
    (tmp_path / "series" / "DICOMDIR").write_bytes(bytes(128) + b"DICM")
    np.testing.assert_array_equal(read_volume(tmp_path / "series").array, before)
    last = tmp_path / "series" / "im4.dcm"
    last.write_bytes(last.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"1 of 5 DICOM files cannot be decoded: im4\.dcm\. Copy the series again\."):
        read_volume(tmp_path / "series")
    assert capfd.readouterr() == ("", "")


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, CASES["files"][0]["files"]) / CASES["files"][0]["name"]
    monkeypatch.setitem(sys.modules, "SimpleITK", None)
    with pytest.raises(DataError, match=r'^volumes need SimpleITK: python -m pip install --editable "\.\[volumes\]"$'):
        read_volume(path)


def test_names_lose_only_the_suffix_of_a_volume() -> None:
    names = [volume_name(name) for name in ("p.1.nii.gz", "p.NRRD", "1.2.840", "a.gz")]
    assert names == ["p.1", "p", "1.2.840", "a.gz"]


@pytest.mark.parametrize("case", CASES["agreement"], ids=lambda case: case.get("names", "agrees"))
def test_geometries_agree_within_tolerances(case: dict[str, Any]) -> None:
    sides = ({name: tuple(values) for name, values in case[side].items()} for side in ("source", "target"))
    source, target = (Geometry(**side) for side in sides)
    difference = source.difference(target)
    assert (difference is None) == case["agrees"]
    assert (difference or "").startswith(case.get("names", ""))
