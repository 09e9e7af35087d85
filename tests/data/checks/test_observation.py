from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data.checks.observation import Observation, absent_classes, repeated_samples, shared_files, split_warnings
from data.files.image_files import read_bits
from data.folder_store import LocalFile
from data.store import Blob


def pairs(n: int, **one: object) -> list[Observation]:
    """Return observations of good samples, of which `one` is that of the first."""
    good = [
        Observation(f"s{number}", bits={"source": 8, "target": 8}, n_channels={"source": 3, "target": 3}, shift=(0, 0))
        for number in range(n)
    ]
    return [Observation(**vars(good[0]) | one), *good[1:]] if one else good


def test_good_samples_have_no_warning() -> None:
    assert list(split_warnings(pairs(5))) == []
    assert list(split_warnings([])) == []


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        ({"bits": {"source": 16, "target": 8}}, "sources have 8 bits, those of 1 of 5 samples 16: s0"),
        ({"constant": {"target": (1, 2, 3)}}, "targets of 1 of 5 samples are of one colour: s0"),
        ({"is_ignored": True}, "1 of 5 samples have weights of 0 everywhere, which ignores them: s0"),
        ({"equals_source": True}, "1 of 5 samples have a target that equals its source: s0; check that the folders"),
        (
            {"shift": (6, -2)},
            "targets seem to be shifted in 1 of 5 pairs: s0 by 6 pixels to the right and 2 pixels up",
        ),
    ],
)
def test_one_sample_is_named(one: dict[str, object], expected: str) -> None:
    (warning,) = split_warnings(pairs(5, **one))
    assert warning.startswith(expected)


@pytest.mark.parametrize("one", [{"constant": {"target": (2,)}}, {"shift": (3, -2)}, {"shift": None}])
def test_what_a_good_sample_may_have_is_no_warning(one: dict[str, object]) -> None:
    assert list(split_warnings(pairs(5, constant={"source": (), "target": ()}))) == []
    good = [Observation(**vars(seen) | {"constant": {"target": ()}}) for seen in pairs(5)]
    assert list(split_warnings([Observation(**vars(good[0]) | one), *good[1:]])) == []


def test_what_all_samples_have_is_one_warning() -> None:
    def changed(**what: object) -> list[str]:
        return list(split_warnings([Observation(**vars(seen) | what) for seen in pairs(5)]))

    assert changed(bits={"source": 16, "target": 8}) == [
        "sources have 16 bits, targets 8; check that neither is a preview"
    ]
    assert changed(constant={"source": (3,)}) == [
        "channel 3 of sources is constant in every sample: it holds nothing to learn from"
    ]
    (warning,) = changed(shift=(0, -2))
    assert warning.startswith("targets seem to be shifted by 2 pixels up in 5 of 5 pairs")
    assert changed(shift=(1, 0)) == []


def test_many_are_listed_in_short() -> None:
    (warning,) = split_warnings([Observation(f"s{number}", equals_source=True) for number in range(9)])
    assert warning.startswith("9 of 9 samples have a target that equals its source: s0, s1, s2 and 6 more; ")


def test_files_of_equal_bytes_in_two_splits(tmp_path: Path) -> None:
    contents = {"a": b"one", "b": b"two", "c": b"one", "d": b"longer", "e": b"two", "f": b"six"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)

    def holding(*names: str) -> list[Observation]:
        return [Observation(name, files={"source": LocalFile.of(tmp_path / name)}) for name in names]

    splits = {"train": holding("a", "b"), "val": holding("d", "f"), "test": holding("c", "e")}
    (warning,) = shared_files(splits)
    assert warning.startswith(f"train and test share 2 files, as {tmp_path / 'a'} and {tmp_path / 'c'}: of samples")
    assert list(shared_files({"train": holding("a", "c")})) == []  # within a split
    assert list(shared_files({"train": holding("a", "d"), "val": holding("f")})) == []


def test_samples_that_are_copies_of_others(tmp_path: Path) -> None:
    begin = bytes(100_000)  # files of one size that differ at their ends alone are no copies
    for name, content in {"a": b"1", "b": b"2", "a_copy": b"1", "a_again": b"1", "half": b"1"}.items():
        (tmp_path / f"{name}_source").write_bytes(begin + content)
        (tmp_path / f"{name}_target").write_bytes(begin + content * (2 if name == "half" else 1))

    def of(name: str) -> Blob:
        return LocalFile.of(tmp_path / name)

    names = ["a", "b", "a_copy", "a_again", "half"]
    kinds = ("source", "target")
    pairs = [
        Observation(name, files={kind: LocalFile.of(tmp_path / f"{name}_{kind}") for kind in kinds}) for name in names
    ]
    (warning,) = repeated_samples({"train": pairs, "val": pairs[:2]})
    assert warning == "train: 2 of 5 samples are copies of others: a_copy of a, a_again of a"
    alone = Observation("x", files={"source": of("a_source")})
    assert list(repeated_samples({"train": [alone] * 2})) == []


WRITERS: dict[str, tuple[Callable[[Path], object], int | None]] = {
    "grey.png": (lambda path: Image.new("L", (4, 4)).save(path), 8),
    "black_and_white.png": (lambda path: Image.new("1", (4, 4)).save(path), 8),
    "rgb.jpg": (lambda path: Image.new("RGB", (4, 4)).save(path), 8),
    "rgb.bmp": (lambda path: Image.new("RGB", (672, 4)).save(path), 8),  # a line has 2016 bytes
    "palette.png": (lambda path: Image.new("P", (4, 4)).save(path), 8),
    "grey_16.png": (lambda path: Image.fromarray(np.zeros((4, 4), np.uint16)).save(path), 16),
    "grey_16.tif": (lambda path: Image.fromarray(np.zeros((4, 4), np.uint16)).save(path), 16),
    "rgb_16.ppm": (lambda path: path.write_bytes(b"P6 1 1 65535 " + bytes(6)), 16),
    "rgb_8.ppm": (lambda path: path.write_bytes(b"P6 1 1 255 " + bytes(3)), 8),
    "float.tif": (lambda path: Image.fromarray(np.zeros((4, 4), np.float32)).save(path), 32),
    "empty.png": (lambda path: path.touch(), None),
    "missing.png": (lambda path: None, None),
}


@pytest.mark.parametrize("name", WRITERS)
def test_bits_of_a_file(tmp_path: Path, name: str) -> None:
    write, bits = WRITERS[name]
    write(tmp_path / name)
    assert read_bits(tmp_path / name) == bits


def test_classes_that_are_not_trained_on_are_named() -> None:
    train = [Observation("a", classes=frozenset({0, 3})), Observation("b", classes=frozenset({3, 4}))]  # 4: ignored
    val = [Observation("c", classes=frozenset({1}))]
    names = ["sky", "road", "car", "tree"]
    assert list(absent_classes({"val": val, "train": train}, names)) == [
        "train: 2 of 4 classes never occur: road, car; nothing is learned of them"
    ]
    assert list(absent_classes({"val": val}, names)) == [
        "val: 3 of 4 classes never occur: sky, car, tree; nothing is learned of them"
    ]
    assert list(absent_classes({"train": train}, ["sky"])) == []
    assert list(absent_classes({"train": train}, [])) == []
    assert list(absent_classes({"train": pairs(2)}, names)) == []  # sources are images
    (warning,) = absent_classes({"train": train}, [str(k) for k in range(20)])
    assert "17 of 20 classes never occur: 1, 2, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14 and 5 more" in warning


def test_values_of_no_data_are_counted_by_value() -> None:
    seen = pairs(4)
    found: list[dict[str, tuple[float, int]]] = [{"target": (-9999.0, 10)}, {"target": (-9999.0, 30)}, {}, {}]
    observations = [
        Observation(**vars(one) | {"no_data": values, "n_pixels": {"target": 100}})
        for one, values in zip(seen, found, strict=True)
    ]
    assert list(split_warnings(observations)) == [
        "targets of 2 of 4 samples hold -9999 in 20.0% of their pixels, which seems to stand for no data: s0, s1; "
        "replace it, or set data.target_range=[LOW,HIGH] without it, or give such pixels a weight of 0 "
        "(data.weight_folder)"
    ]
