"""pairgan.py refuses files and faults in one line, and runs no code of a file."""

import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from PIL import Image

import pairgan
from tests.conftest import save_image
from tests.pairgan.exported import LABELS, SUFFIXES
from tests.runs import program_main


def test_files_of_other_programs_are_refused(of_labels: Path, tmp_path: Path) -> None:
    foreign = onnx.load(of_labels / "generator.onnx")
    del foreign.metadata_props[:]
    onnx.save(foreign, tmp_path / "foreign.onnx")

    class Add(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    torch.export.save(torch.export.export(Add(), (torch.ones(1),)), tmp_path / "foreign.pt2")
    for suffix in SUFFIXES:
        with pytest.raises(pairgan.ModelError, match=rf"foreign\.{suffix}: is of another program, expected pairgan"):
            pairgan.load(tmp_path / f"foreign.{suffix}")
        damaged = tmp_path / f"damaged.{suffix}"
        damaged.write_bytes((of_labels / f"generator.{suffix}").read_bytes()[:5000])
        with pytest.raises(
            pairgan.ModelError, match=rf"damaged\.{suffix}: \w+ cannot read it: .*Export it again"
        ) as error:
            pairgan.load(damaged)
        assert "\n" not in str(error.value)
    with pytest.raises(pairgan.ModelError, match=r"checkpoint\.pt: no such \.onnx or \.pt2 file"):
        pairgan.load("checkpoint.pt")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_with_the_conditioning_outside_is_refused(of_labels: Path, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"generator.{suffix}"
    options = ["--format", suffix, "--conditioning", "outside", "--output", str(file)]
    program_main("tools.export")(["--checkpoint", str(of_labels), *options])
    with pytest.raises(pairgan.ModelError, match="was exported with --conditioning outside"):
        pairgan.load(file)


@pytest.mark.parametrize(
    ("record", "old", "new"),
    [
        ("archive/data/weights/model_weights_config.json", b'"use_pickle": false', b'"use_pickle": true'),
        ("archive/data/constants/opaque_obj_0", b"", b"pickled"),
        ("archive/data/aotinductor/model/library.so", b"", b"code"),
        ("version", b"", b"8.1"),
    ],
)
def test_a_file_that_may_hold_code_is_refused(
    of_labels: Path, tmp_path: Path, record: str, old: bytes, new: bytes
) -> None:
    with zipfile.ZipFile(of_labels / "generator.pt2") as read, zipfile.ZipFile(tmp_path / "x.pt2", "w") as written:
        for name in dict.fromkeys((*read.namelist(), record)):
            content = read.read(name) if name in read.namelist() else b""
            written.writestr(name, content.replace(old, new) if name == record else content)
    with pytest.raises(pairgan.ModelError, match=rf"x\.pt2: {record} may hold code"):
        pairgan.load(tmp_path / "x.pt2")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_missing_gpu_is_named(of_labels: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    monkeypatch.setattr("torch.zeros", _no_gpu)
    with pytest.raises(pairgan.ModelError, match=r"^device: \w+ cannot use a GPU.*[Cc]hoose cpu"):
        pairgan.load(of_labels / f"generator.{suffix}", device="cuda")
    with pytest.raises(pairgan.ModelError, match=r"^device: 'tpu' is unknown"):
        pairgan.load(of_labels / f"generator.{suffix}", device="tpu")  # type: ignore[arg-type]


def test_a_gpu_that_does_not_work_is_left_out(of_labels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.zeros", _no_gpu)
    with pytest.warns(UserWarning, match="torch cannot use the GPU: no kernel; using the CPU"):
        assert pairgan.load(of_labels / "generator.pt2").device == "cpu"


def _no_gpu(*_: object, **__: object) -> None:
    raise RuntimeError("no kernel\nand more")


@pytest.mark.parametrize(("suffix", "package"), [("onnx", "onnxruntime"), ("pt2", "torch")])
def test_a_missing_package_is_named(
    of_labels: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(pairgan.ModelError, match=rf"{package} is missing.*Run pip install {package}\."):
        pairgan.load(of_labels / f"generator.{suffix}")


CODE = "__import__('os').mkdir('CODE_RAN')"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("\"Symbol('s", f"\"{CODE} or Symbol('s"),
        ("\"L['source'].size()[2] >= 8\"", f'"{CODE} is None"'),
        ("torch.ops.aten.tanh.default", "torch.load"),
        ("torch.ops.aten.tanh.default", "_operator.attrgetter"),
        ("torch.ops.aten.tanh.default", "torch.ops.aten.from_file.default"),
        ('"name": "source"', f'"name": "source={CODE}"'),
        ('[\\\\\\"source\\\\\\"', '[{\\\\\\"__enum__\\\\\\": true, \\\\\\"fqn\\\\\\": \\\\\\"this:x\\\\\\"}'),
    ],
)
def test_a_program_that_torch_would_evaluate_is_refused(
    of_photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with zipfile.ZipFile(of_photos / "generator.pt2") as read, zipfile.ZipFile("x.pt2", "w") as written:
        for name in read.namelist():
            content = read.read(name)
            if name == "archive/models/model.json":
                assert old in content.decode()
                content = content.decode().replace(old, new, 1).encode()
            written.writestr(name, content)
    with pytest.raises(pairgan.ModelError, match=r"x\.pt2: archive/models/model\.json may hold code"):
        pairgan.load("x.pt2")
    assert not Path("CODE_RAN").exists()


def test_large_ids_of_instances_stay_apart(model: pairgan.Model) -> None:
    small, given = np.arange(15).reshape(3, 5) // 4, list[np.ndarray]()

    def run(maps: pairgan.Maps) -> np.ndarray:
        given.append(maps["instances"])
        return model._run(maps)

    noting = replace(model, _run=run)
    for ids in (small, small * 2**32, small.astype(np.uint64) + 2**63):
        noting(LABELS, ids)
    assert np.array_equal(given[0], given[1])
    assert np.array_equal(given[0], given[2])


def test_metadata_without_sense_is_refused(of_labels: Path, tmp_path: Path) -> None:
    for name, value in (("size_multiple", "0"), ("min_size", "-8")):
        changed = onnx.load(of_labels / "generator.onnx")
        next(entry for entry in changed.metadata_props if entry.key == name).value = value
        onnx.save(changed, tmp_path / "x.onnx")
        with pytest.raises(pairgan.ModelError, match=rf"x\.onnx: .*{name} {value}.*, expected 1 or more\."):
            pairgan.load(tmp_path / "x.onnx")


def test_a_fault_of_the_runtime_is_an_error_of_one_line(model: pairgan.Model) -> None:
    for error in (RuntimeError("out of memory\nstack"), MemoryError()):

        def failing(_: object, error: Exception = error) -> np.ndarray:
            raise error

        with pytest.raises(pairgan.ImageError, match=r"^1 of 8x8: (out of memory|MemoryError)\. Give smaller images"):
            replace(model, _run=failing)(LABELS, LABELS)
    with pytest.raises(pairgan.ImageError, match=r"^a b\.png: cannot be read as an image: No such file"):
        model("a\nb.png", LABELS)
    with pytest.raises(pairgan.ModelError, match=r"^a b\.onnx: no such"):
        pairgan.load("a\nb.onnx")


def test_the_command_line_keeps_what_exists(
    of_photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    photo, output = tmp_path / "photo.png", tmp_path / "out.png"
    save_image(photo, np.zeros((8, 8, 3), np.uint8))
    output.write_text("kept")

    def refusal(*arguments: str | Path) -> tuple[int | str | None, str]:
        monkeypatch.setattr(sys, "argv", ["pairgan.py", str(of_photos / "generator.onnx"), *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            pairgan.main()
        return end.value.code, capsys.readouterr().err

    code, line = refusal(photo, photo)
    assert (code, line) == (2, f"error: {photo}: is also read. Choose another OUT.\n")
    assert refusal(photo, photo / "out.png")[0] == 2

    def full(_: object, file: Path, *__: object, **___: object) -> None:
        file.write_text("half")
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
