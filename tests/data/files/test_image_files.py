from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from data.batch import DataError
from data.files.image_files import (
    count_other_files,
    find_image_paths,
    find_images,
    read_ids,
    read_rgb,
    read_size,
    write_png,
)
from data.store import Blob
from tests.conftest import save_image


@pytest.mark.parametrize(
    ("dtype", "ids"), [(np.uint8, [0, 7, 255]), (np.uint16, [0, 26001, 65535]), (np.int32, [0, 26001, 70000])]
)
def test_ids_are_read_as_stored(tmp_path: Path, dtype: type, ids: list[int]) -> None:
    path = tmp_path / ("ids.tif" if dtype is np.int32 else "ids.png")
    save_image(path, np.array([ids], dtype=dtype))
    assert read_ids(path).tolist() == [[ids]]
    assert read_ids(path).dtype == torch.int32


def test_palette_ids_are_the_indices_not_the_colours(tmp_path: Path) -> None:
    image = Image.fromarray(np.array([[7, 0, 3]], dtype=np.uint8), mode=None).convert("P")
    image.putdata([7, 0, 3])
    image.putpalette([value for i in range(256) for value in (255 - i, i // 2, 90)])
    image.save(tmp_path / "palette.png")
    assert read_ids(tmp_path / "palette.png").tolist() == [[[7, 0, 3]]]


def test_rgb_is_read_from_grey_palette_and_16_bit(tmp_path: Path) -> None:
    save_image(tmp_path / "grey.png", np.array([[10, 200]], dtype=np.uint8))
    save_image(tmp_path / "deep.png", np.array([[10 * 256, 200 * 256 + 255]], dtype=np.uint16))
    for name in ("grey.png", "deep.png"):
        assert read_rgb(tmp_path / name).tolist() == [[[10, 200]]] * 3


def test_png_round_trip(tmp_path: Path) -> None:
    image = torch.randint(0, 256, (3, 5, 7), dtype=torch.uint8)
    write_png(tmp_path / "folder" / "image.png", image)
    assert torch.equal(read_rgb(tmp_path / "folder" / "image.png"), image)


def test_exif_orientation_is_applied(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # rotated by 90 degrees
    Image.fromarray(np.zeros((4, 8, 3), dtype=np.uint8)).save(tmp_path / "turned.jpg", exif=exif)
    assert read_rgb(tmp_path / "turned.jpg").shape == (3, 8, 4)


@pytest.mark.parametrize("content", [b"", b"not an image", b"\x89PNG\r\n\x1a\n damaged"])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.png").write_bytes(content)
    with pytest.raises(DataError, match=r"bad\.png: cannot be read as an image"):
        read_rgb(tmp_path / "bad.png")


def test_a_truncated_file_is_named(tmp_path: Path) -> None:
    save_image(tmp_path / "cut.png", np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8))
    whole = (tmp_path / "cut.png").read_bytes()
    (tmp_path / "cut.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"cut\.png: cannot be read"):
        read_rgb(tmp_path / "cut.png")


def test_colour_or_jpeg_is_no_id_map(tmp_path: Path) -> None:
    save_image(tmp_path / "colour.png", np.zeros((2, 2, 3), dtype=np.uint8))
    save_image(tmp_path / "grey.jpg", np.zeros((2, 2), dtype=np.uint8))
    with pytest.raises(DataError, match=r"colour\.png: holds RGB pixels, expected one integer id per pixel"):
        read_ids(tmp_path / "colour.png")
    with pytest.raises(DataError, match=r"grey\.jpg: JPEG changes ids"):
        read_ids(tmp_path / "grey.jpg")


def found(folder: Path) -> dict[str, Blob]:
    problems: list[str] = []
    images = find_images(folder, problems)
    assert not problems
    return images


def test_images_are_found_in_sub_folders_but_not_hidden_ones(tmp_path: Path) -> None:
    pixels = np.zeros((2, 2), dtype=np.uint8)
    for name in ("a.png", "city/b.JPG", ".hidden.png", ".cache/c.png"):
        save_image(tmp_path / name, pixels)
    (tmp_path / "notes.txt").touch()
    assert sorted(found(tmp_path)) == ["a", "city/b"]


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    for name in ("a.png", "a.jpg"):
        save_image(tmp_path / name, np.zeros((2, 2), dtype=np.uint8))
    problems: list[str] = []
    assert find_image_paths(tmp_path, problems) == {"a": tmp_path / "a.jpg"}
    assert problems == [f"{tmp_path / 'a.png'} and a.jpg have the same name: keep one of them"]


def test_a_missing_folder_is_reported_with_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "train_label").mkdir()
    problems: list[str] = []
    assert find_images(tmp_path / "train_labels", problems) == {}
    assert problems == [f"{tmp_path / 'train_labels'}: no such folder; folders beside it: train_label"]


def test_for_a_folder_of_photographs_the_tool_that_makes_pairs_is_named(tmp_path: Path) -> None:
    (tmp_path / "holiday.JPG").touch()
    problems: list[str] = []
    assert find_images(tmp_path / "train_A", problems) == {}
    remedy = "python -m tools.convert_data from-photos makes pairs of photographs"
    assert problems == [f"{tmp_path / 'train_A'}: no such folder; folders beside it: none; {remedy}"]


@pytest.mark.parametrize(("orientation", "size"), [(1, (2, 3)), (3, (2, 3)), (6, (3, 2))])
def test_a_size_is_that_of_the_upright_image(tmp_path: Path, orientation: int, size: tuple[int, int]) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(np.zeros((2, 3, 3), np.uint8)).save(tmp_path / "x.jpg", exif=exif)
    assert read_size(tmp_path / "x.jpg") == size == tuple(read_rgb(tmp_path / "x.jpg").shape[1:])
    with pytest.raises(DataError, match="no such file"):
        read_size(tmp_path / "y.jpg")


def test_files_of_other_formats_are_counted(tmp_path: Path) -> None:
    for name in ("a.gif", "deep/b.GIF", "notes.txt", "LICENSE", ".hidden", "c.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert count_other_files([tmp_path]) == "2 .gif, 1 .txt, 1 LICENSE"
    for number in range(9):
        (tmp_path / f"x.{number}").touch()
    assert count_other_files([tmp_path]).endswith(" and 7 other kinds")
    assert count_other_files([tmp_path / "nowhere"]) == ""


def test_a_file_in_the_place_of_a_folder_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "train_A").touch()
    problems: list[str] = []
    assert find_images(tmp_path / "train_A", problems) == {}
    assert problems == [f"{tmp_path / 'train_A'}: is a file, expected a folder; folders beside it: none"]
