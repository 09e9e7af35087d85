"""pairgan.py refuses files and faults in one line."""

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np
import pytest
from PIL import Image

import pairgan
from tests.conftest import save_image
from tests.pairgan.conftest import LABELS, changed


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"format": None, "format_version": None}, "has format another program, expected pairgan"),
        ({"format_version": "4"}, "has format pairgan-generator 4, expected pairgan-generator 1 to 3"),
        ({"size_multiple": "0"}, r".*size_multiple 0.*\. Export it again\."),
        ({"size_multiple": "99999999"}, r".*size_multiple 99999999.*\. Export it again\."),
        ({"min_size": "4097"}, r".*min_size 4097.*\. Export it again\."),
    ],
    ids=str,
)
def test_other_metadata_are_refused(
    of_labels: Path, tmp_path: Path, facts: dict[str, str | None], message: str
) -> None:
    with pytest.raises(pairgan.ModelError, match=rf"x\.onnx: {message}"):
        pairgan.load(changed(of_labels / "generator.onnx", tmp_path / "x.onnx", **facts))


def test_other_files_are_refused(of_labels: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.onnx"
    damaged.write_bytes((of_labels / "generator.onnx").read_bytes()[:5000])
    with pytest.raises(pairgan.ModelError, match=r"damaged\.onnx: \w+ cannot read it: .*Export it again") as error:
        pairgan.load(damaged)
    assert "\n" not in str(error.value)
    (tmp_path / "generator.safetensors").touch()
    for path in ("checkpoint.pt", tmp_path / "generator.safetensors", "missing.onnx"):
        with pytest.raises(pairgan.ModelError, match=r"is missing or not .*--format onnx"):
            pairgan.load(path)


def test_a_flipped_bit_is_noticed(of_labels: Path, tmp_path: Path) -> None:
    content = bytearray((of_labels / "generator.onnx").read_bytes())
    content[len(content) // 2] ^= 4
    (tmp_path / "x.onnx").write_bytes(content)
    with pytest.raises(pairgan.ModelError, match=r"has changed since"):
        pairgan.load(tmp_path / "x.onnx")


def test_a_file_without_digest_translates(of_labels: Path, tmp_path: Path, model: pairgan.Model) -> None:
    """Earlier versions wrote none, and other programs may remove it."""
    earlier = pairgan.load(changed(of_labels / "generator.onnx", tmp_path / "x.onnx"), device="cpu")
    assert np.array_equal(earlier(LABELS, LABELS), model(LABELS, LABELS))


@pytest.mark.parametrize("device", ["cuda", "gpu"])
def test_a_device_that_onnxruntime_cannot_use_is_named(of_labels: Path, device: str) -> None:
    with pytest.raises(pairgan.ModelError, match=rf"^device: onnxruntime cannot use '{device}'\. Choose auto or cpu"):
        pairgan.load(of_labels / "generator.onnx", device=device)


def test_a_missing_package_is_named(of_labels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(pairgan.ModelError, match=r"onnxruntime cannot read it: .*Run pip install onnxruntime\."):
        pairgan.load(of_labels / "generator.onnx")


def test_large_ids_of_instances_stay_apart(model: pairgan.Model) -> None:
    small, given = np.arange(15).reshape(3, 5) // 4, list[np.ndarray]()

    def run(maps: pairgan.Maps) -> np.ndarray:
        given.append(maps["instances"])
        return model.run(maps)

    noting = replace(model, run=run)
    for ids in (small, small * 2**32, small.astype(np.uint64) + 2**63):
        noting(LABELS, ids)
    assert np.array_equal(given[0], given[1])
    assert np.array_equal(given[0], given[2])


def test_a_fault_of_the_runtime_is_an_error_of_one_line(model: pairgan.Model) -> None:
    for error in (RuntimeError("out of memory\nstack"), MemoryError()):

        def failing(_: object, error: Exception = error) -> np.ndarray:
            raise error

        with pytest.raises(pairgan.ImageError, match=r"^8x8 pixels, batch size 1: (out of memory|MemoryError)\. Give"):
            replace(model, run=failing)(LABELS, LABELS)
    with pytest.raises(pairgan.ImageError, match=r"^a b\.png: cannot be read as an image: No such file"):
        model("a\nb.png", LABELS)
    with pytest.raises(pairgan.ModelError, match=r"^a b\.onnx: is missing"):
        pairgan.load("a\nb.onnx")


def test_the_command_line_keeps_what_exists(
    of_photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Callable[..., tuple[object, str]]
) -> None:
    photo, output = tmp_path / "photo.png", tmp_path / "out.png"
    refusal = partial(command, of_photos / "generator.onnx")
    save_image(photo, np.zeros((8, 8, 3), np.uint8))
    output.write_text("kept")

    code, line = refusal(photo, photo)
    assert (code, line) == (2, f"error: {photo}: is also an input. Choose another OUT.\n")
    assert refusal(photo, photo / "out.png")[0] == 2

    def full(_: object, file: IO[bytes], *__: object, **___: object) -> None:
        file.write(b"half")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Image.Image, "save", full)
        assert refusal(photo, output) == (2, f"error: {output}: No space left on device. Choose another OUT.\n")
        patch.setattr(Image.Image, "save", _interrupted)
        assert refusal(photo, output) == (130, "")
    assert output.read_text() == "kept"
    assert {path.name for path in tmp_path.iterdir()} == {"photo.png", "out.png"}


def _interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt
