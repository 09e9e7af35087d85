"""pairgan.py translates with exported files as test.py does."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import pairgan
from data import LAYOUTS
from data.files.image_files import IMAGE_FORMATS
from data.folder import HIDDEN
from inference.load import load_generator
from tests.conftest import save_image, write_tiny_config
from tests.pairgan.conftest import INSTANCES, LABELS, LARGE_WEIGHTS, changed, returning, rng
from tests.runs import translate, untrained_run

PHOTOS = ("data.layout=side_by_side", "data.root=.", "data.instance_edges=false")


def pixels(image: Image.Image) -> np.ndarray:
    return np.asarray(image).astype(int)


def by_test_py(run_folder: Path, output: Path, *inputs: str | Path) -> np.ndarray:
    command = ["--checkpoint", run_folder, *inputs, "--output", output, "--opt-level", "O0"]
    translate(*map(str, command))
    (result,) = (path for path in output.glob("*.png") if path.stem != "contact_sheet")
    return pixels(Image.open(result))


def assert_alike(found: Image.Image, wanted: np.ndarray) -> None:
    assert wanted.std() > 10
    assert found.mode == "RGB"
    assert pixels(found).shape == wanted.shape
    assert abs(pixels(found) - wanted).max() <= 1


def test_a_small_label_map_is_translated_as_by_test_py(of_labels: Path, tmp_path: Path) -> None:
    save_image(tmp_path / "labels.png", LABELS)
    save_image(tmp_path / "instances" / "labels.png", INSTANCES)
    inputs = ("--input", tmp_path / "labels.png", "--instances", tmp_path / "instances")
    wanted = by_test_py(of_labels, tmp_path / "out", *inputs)
    model = pairgan.load(of_labels / "generator.onnx")
    assert (model.n_classes, model.step, model.size_multiple, model.min_size) == (12, 1, 4, 8)
    assert model.inputs == {"source": ("uint8", 1), "instances": ("int32", 1)}
    assert_alike(model(tmp_path / "labels.png", tmp_path / "instances" / "labels.png"), wanted)
    assert_alike(model(LABELS.astype(np.int64), Image.fromarray(INSTANCES)), wanted)


def test_every_photograph_is_read_as_by_test_py(of_photos: Path, tmp_path: Path) -> None:
    """They are turned by EXIF, have each mode, or have one colour, which instance norm removes."""
    folder, photo = tmp_path / "in", rng.integers(0, 256, (5, 7, 3), dtype=np.uint8).repeat(7, 0).repeat(9, 1)
    for name, size in {"plain_pixel": (1, 1), "plain_row": (1, 70), "plain_wall": (37, 50)}.items():
        save_image(folder / f"{name}.png", np.full((*size, 3), (200, 30, 90), np.uint8))
    for mode in ("L", "P", "RGBA", "1", "CMYK"):
        Image.fromarray(photo).convert(mode).save(folder / f"{mode}.{'jpg' if mode == 'CMYK' else 'png'}")
    save_image(folder / "16_bit.png", rng.integers(0, 1 << 16, (13, 21), dtype=np.uint16))
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        Image.fromarray(photo).save(folder / f"turned_{orientation}.jpg", exif=exif)
    command = ("--checkpoint", of_photos, "--input", folder, "--output", tmp_path / "out", "--opt-level", "O0")
    translate(*map(str, command))
    model = pairgan.load(of_photos / "generator.onnx")
    for file in folder.iterdir():
        wanted = pixels(Image.open(tmp_path / "out" / f"{file.stem}.png"))
        assert file.name.startswith("plain") or wanted.std() > 10
        for found in (model(file), model(Image.open(file))):
            assert (found.mode, pixels(found).shape) == ("RGB", wanted.shape)
            assert abs(pixels(found) - wanted).max() <= 1


def test_features_are_a_third_input(tmp_path: Path) -> None:
    types = {"source": "uint8x1", "instances": "int32x1", "features": "uint8x3"}
    (tmp_path / "bytes").mkdir()
    model = returning("features", tmp_path / "bytes", types, "uint8")
    features = rng.integers(0, 256, (*LABELS.shape, 3), dtype=np.uint8)
    assert np.array_equal(model(LABELS, INSTANCES, features), features)
    larger = Image.fromarray(features).resize((10, 6), Image.Resampling.NEAREST)
    assert np.array_equal(model(LABELS, INSTANCES, larger), features)
    floats = returning("features", tmp_path, types | {"features": "floatx2"}, "float")
    values = rng.random((*LABELS.shape, 2), dtype=np.float32)
    assert np.array_equal(floats(LABELS, INSTANCES, values), values.transpose(2, 0, 1))
    for wrong in (np.zeros((4, 4)), 2 * values):
        with pytest.raises(pairgan.ImageError, match=r"^features: .*, expected \(H, W, 2\) float32 in"):
            floats(LABELS, INSTANCES, wrong)


def test_an_ignored_id_is_of_no_class(of_labels: Path, tmp_path: Path) -> None:
    """The setting is only in the metadata. The program of `of_labels` has the same weights."""
    data = ("data.layout=paired_folders", "data.root=.", "data.n_classes=12", "data.ignore_id=255")
    run_folder = untrained_run(write_tiny_config(tmp_path), LARGE_WEIGHTS, *data)
    facts = load_generator(run_folder / "checkpoint-00000001.pt").facts()
    model = pairgan.load(changed(of_labels / "generator.onnx", tmp_path / "x.onnx", **facts))
    save_image(tmp_path / "1.png", np.where(LABELS == 3, 255, LABELS).astype(np.uint8))
    save_image(tmp_path / "instances" / "1.png", INSTANCES)
    inputs = ("--input", tmp_path / "1.png", "--instances", tmp_path / "instances")
    wanted = by_test_py(run_folder, tmp_path / "out", *inputs)
    assert_alike(model(tmp_path / "1.png", tmp_path / "instances" / "1.png"), wanted)
    with pytest.raises(pairgan.ImageError, match=r"holds id 254, allowed are 0 to 11 and 255\."):
        model(np.full((3, 5), 254), LABELS)


def test_a_batch_of_mixed_sizes_equals_one_by_one(model: pairgan.Model) -> None:
    sizes = [(3, 5), (9, 40), (7, 8), (40, 9), (12, 40), (1, 1)]
    maps = [rng.integers(0, 12, size, dtype=np.uint8) for size in sizes]
    one_by_one = [model(labels, labels) for labels in maps]
    for found, labels, wanted in zip(model.batch(maps, iter(maps)), maps, one_by_one, strict=True):
        assert found.size == labels.shape[::-1]
        assert abs(pixels(found) - pixels(wanted)).max() <= 1
    assert model.batch([], []) == []


@pytest.mark.parametrize(
    ("source", "instances", "problem"),
    [
        (np.full((3, 5), 12), LABELS, r"source: pixel \(row 0, column 0\) holds id 12, allowed are 0 to 11\. Change"),
        (LABELS.astype(float), LABELS, r"source: .*\(3, 5\) float64, expected \(H, W\) ids"),
        (LABELS[:0], LABELS, r"\(0, 5\)"),
        (LABELS, None, r"given: source\. .* generator\.onnx: source, instances\.$"),
        (LABELS, LABELS[:2], r"instances: is 5x2, not 5x3"),
        (Image.new("RGB", (5, 3)), LABELS, "source: holds RGB pixels, expected an id per pixel"),
        (__file__, LABELS, r"test_translation\.py: cannot be read as an image"),
        (None, LABELS, r"source: .*NoneType"),
    ],
)
def test_an_image_that_does_not_fit_is_refused_in_one_line(
    model: pairgan.Model, source: Any, instances: Any, problem: str
) -> None:
    with pytest.raises(pairgan.ImageError, match=problem) as caught:
        model(source, instances)
    assert "\n" not in str(caught.value)


def test_maps_that_hold_no_ids_are_refused(model: pairgan.Model, tmp_path: Path) -> None:
    Image.fromarray(LABELS).save(tmp_path / "labels.jpg")
    with pytest.raises(pairgan.ImageError, match=r"labels\.jpg: JPEG changes ids"):
        model(tmp_path / "labels.jpg", LABELS)
    Image.fromarray(LABELS % 4).save(tmp_path / "grey.pgm")
    (tmp_path / "grey.pgm").write_bytes((tmp_path / "grey.pgm").read_bytes().replace(b"\n255\n", b"\n100\n"))
    with pytest.raises(pairgan.ImageError, match=r"grey\.pgm: holds grey levels that Pillow rescales"):
        model(tmp_path / "grey.pgm", LABELS)


def test_an_array_of_a_photograph_has_three_channels(tmp_path: Path) -> None:
    model = returning("source", tmp_path, {"source": "uint8x3"}, "uint8", *PHOTOS)
    for array in (LABELS, np.zeros((3, 5, 4), np.uint8), np.zeros((3, 5, 3), np.uint16)):
        with pytest.raises(pairgan.ImageError, match=r"expected \(H, W, 3\) uint8"):
            model(array)
    with pytest.raises(pairgan.ImageError, match="takes lists"):
        model.batch("photo.jpg")


def test_batches_need_one_map_for_each_image(model: pairgan.Model) -> None:
    with pytest.raises(pairgan.ImageError, match=r"2 source, 1 instances\. "):
        model.batch([LABELS, LABELS], [LABELS])
    with pytest.raises(pairgan.ImageError, match=r"^source 1: pixel"):
        model.batch([LABELS, LABELS + 12], [LABELS, LABELS])


def test_a_folder_is_translated_and_a_bad_file_reported(
    of_labels: Path, tmp_path: Path, command: Callable[..., tuple[object, str]]
) -> None:
    sources, instances, results = (tmp_path / name for name in ("sources", "instances", "results"))
    for name in ("a", "below/a.b", "without", ".hidden/c"):
        save_image(sources / f"{name}.png", LABELS)
        save_image(instances / f"{name}.bmp", LABELS)
    (instances / "without.bmp").unlink()
    (sources / "damaged.jpg").write_text("no image")
    (sources / "notes.txt").write_text("no image")
    (sources / "folder.png").mkdir()
    (sources / "link.png").symlink_to("gone.png")
    save_image(results / "a.png", LABELS)  # an earlier translation

    def run(*arguments: Path) -> tuple[object, list[str]]:
        code, error = command(of_labels / "generator.onnx", *arguments)
        return code, error.splitlines()

    def options(instances: Path) -> list[Path]:
        return [Path("--instances"), instances, Path("--device"), Path("cpu")]

    code, (*errors, last) = run(sources, results, *options(instances))
    assert code == 2
    assert [line.split(": ")[:2] for line in errors] == [
        ["error", f"{sources}/{name}"] for name in ("damaged.jpg", "link.png", "without.png")
    ]
    assert last == "5 of 5"  # the numbers before it are for terminals
    assert sorted(file.relative_to(results).as_posix() for file in results.rglob("*.*")) == ["a.png", "below/a.b.png"]
    expected = pixels(pairgan.load(of_labels / "generator.onnx", "cpu")(LABELS, LABELS))
    for name in ("a", "below/a.b"):
        assert_alike(Image.open(results / f"{name}.png"), expected)
    save_image(results / "a.bmp", LABELS)
    for source, output, problem in (
        (sources, sources / "new", "is inside"),
        (sources, tmp_path, "or contains it"),
        (sources, instances, "is inside"),
        (tmp_path / "missing", results, "missing: is missing. Name another folder"),
        (results, tmp_path / "new", f"{results / 'a.bmp'} and a.png: would write the same result. Keep one of them"),
    ):
        code, (line,) = run(source, output, *options(instances))
        assert code == 2
        assert problem in line
    for arguments in ([sources / "a.png"], [sources / "a.png", tmp_path / "out.xyz"]):
        assert run(*arguments, *options(instances))[0] == 2
    wrong_kinds = "error: given: source. Give the maps of generator.onnx: source, instances."
    assert run(sources, tmp_path / "new") == (2, [wrong_kinds])
    assert not (tmp_path / "new").exists()


def test_a_model_can_be_pickled(model: pairgan.Model) -> None:
    copy = pickle.loads(pickle.dumps(model))
    assert_alike(copy(LABELS, INSTANCES), pixels(model(LABELS, INSTANCES)))


def test_the_card_is_shown_as_markdown(model: pairgan.Model) -> None:
    assert model.card["source"] == "label maps of 12 classes and instances"
    assert "# tiny\n" in str(model.card)
    assert str(pairgan.Card()) == ""  # a file of an earlier version has none


def test_constants_are_those_of_the_application() -> None:
    own = {name: layout.own_classes for name, layout in LAYOUTS.items()}
    assert {name: len(table.names) for name, table in own.items() if table} == pairgan.OWN_CLASSES
    assert {*pairgan.IMAGE_FORMATS} == {*IMAGE_FORMATS}
    assert pairgan.HIDDEN.pattern == HIDDEN.pattern
