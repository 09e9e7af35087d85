import errno
import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from configs import build
from configs.build import image_sides
from configs.load import load_config
from inference.load import LoadedGenerator, load_generator
from tests.runs import SPADE, STYLE, assert_equal, run, translate, untrained_run, with_slow
from tools.export import __main__ as export
from tools.export import onnx, safetensors
from tools.export.example import Example, make_example
from tools.export.format import TOLERANCES, ExportError
from tools.export.onnx import export_program, open_onnx
from utils.errors import ConfigError


def untrained(config: Path, *settings: str) -> LoadedGenerator:
    """Return an untrained generator with weights so large that an error shows in 8 bits."""
    torch.manual_seed(0)
    resolved = load_config(config, ["init.distribution=normal:0.3", *settings])
    return LoadedGenerator(config.parent / "checkpoint.pt", resolved, 1, build.build_generator(resolved))


KINDS = [
    [],
    ["data.target_channels=1", "generator.upsample=bilinear"],
    ["generator.name=local", "data.synthetic_size=[32,64]"],
    ["generator.name=unet", "generator.n_downsamplings=5", "generator.norm=batch", "generator.dropout=true"],
    ["generator.upsample=residual", "generator.spectral_norm=true", "init.distribution=normal:1"],
    ["generator.downsample=antialiased", "generator.upsample=antialiased", "data.target_channels=1"],
    ["features.n_channels=2", "features.base_channels=4", "features.n_downsamplings=2"],
    ["data.layout=side_by_side", "data.root=.", "data.instance_edges=false", "data.source_channels=1"],
    [*SPADE, "generator.noise_channels=2", "init.distribution=xavier:0.3"],
    [*STYLE, "init.distribution=kaiming"],
    ["data.layout=paired_folders", "data.root=.", *SPADE, "init.distribution=kaiming", "generator.norm=batch"],
]


@pytest.mark.slow
@pytest.mark.parametrize("settings", KINDS[1:], ids=lambda value: value[0])
def test_a_program_translates_as_the_generator_in_sizes_that_it_never_saw(
    tiny_config: Path, settings: list[str]
) -> None:
    loaded, file = untrained(tiny_config, *settings), tiny_config.parent / "generator.onnx"
    export_program(loaded, file, "float32")
    assert_translates(file, loaded)


def test_a_program_of_labels_translates_as_the_generator_in_sizes_that_it_never_saw(of_labels: Path) -> None:
    assert_translates(of_labels / "generator.onnx", load_generator(of_labels / "checkpoint-00000001.pt"))


def assert_translates(file: Path, loaded: LoadedGenerator) -> None:
    """Check that a program translates as its generator in sizes that were not traced, and names no path."""
    assert_names_no_path(file.read_bytes(), loaded.file)
    multiple, translate_inputs = image_sides(loaded.config).multiple, open_onnx(file)
    for n, height, width in ((1, 2, 5), (2, 3, 2), (4, 5, 4)):
        example = make_example(loaded, n, height * multiple, width * multiple)
        assert example.expected.float().std() > 10  # or agreement would mean nothing
        found = translate_inputs(example.inputs)
        assert example.difference(found) <= 1
        assert (found != example.expected).float().mean() < 0.01  # rounding may go the other way, but seldom


def assert_names_no_path(content: bytes, config: Path) -> None:
    """Neither a folder of the settings, nor one of the program, as stack traces hold it."""
    for folder in (config.parent, Path.cwd()):
        assert str(folder).encode() not in content


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "size", "source_type"),
    [
        (["generator.name=unet", "generator.n_downsamplings=5", "data.synthetic_size=[64,32]"], (32, 32), torch.uint8),
        (["data.layout=paired_folders", "data.root=.", "data.n_classes=300"], (8, 12), torch.int32),
    ],
    ids=["smallest image of a U-Net", "more than 255 classes"],
)
def test_programs_at_their_limits(
    tiny_config: Path, settings: list[str], size: tuple[int, int], source_type: torch.dtype
) -> None:
    loaded = untrained(tiny_config, *settings)
    example = make_example(loaded, 1, *size)
    assert example.inputs["source"].dtype == source_type
    export_program(loaded, tiny_config.parent / "g.onnx", "float32")
    assert example.difference(open_onnx(tiny_config.parent / "g.onnx")(example.inputs)) <= 1


@pytest.mark.slow
def test_a_low_dtype_halves_the_weights_and_keeps_inputs_and_outputs(tiny_config: Path) -> None:
    loaded = untrained(tiny_config, "generator.base_channels=16", "init.distribution=normal:0.02")
    file = tiny_config.parent / "generator.onnx"
    export_program(loaded, file, "float16")
    n_weights = sum(weight.numel() for weight in loaded.generator.parameters())
    assert file.stat().st_size < 2 * n_weights + 250_000
    example = make_example(loaded, 1, 8, 12)
    assert 0 < example.difference(open_onnx(file)(example.inputs)) <= TOLERANCES["float16"]


@pytest.mark.slow
def test_a_generator_that_overflows_in_float16_is_refused(tiny_config: Path) -> None:
    unet = ["generator.name=unet", "generator.n_downsamplings=5", "generator.norm=batch", "generator.base_channels=16"]
    with pytest.raises(ExportError, match=r"try --dtype float32"):
        export_program(untrained(tiny_config, *unet), tiny_config.parent / "g.onnx", "float16")


@pytest.mark.parametrize("kind", with_slow(["safetensors"], ["onnx"]))
def test_what_translates_otherwise_is_removed(tiny_config: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run_folder, module = untrained_run(tiny_config), {"onnx": onnx, "safetensors": safetensors}[kind]
    plain = module.plain_copy

    def damaged(loaded: LoadedGenerator) -> LoadedGenerator:
        copy = plain(loaded)
        next(copy.generator.parameters()).mul_(-1)
        return copy

    monkeypatch.setattr(module, "plain_copy", damaged)
    output = tiny_config.parent / "exports" / f"generator.{kind}"
    with pytest.raises(ExportError, match=r"differs from the generator by .* 1 allowed, and was removed"):
        export.main(["--checkpoint", str(run_folder), "--format", kind, "--output", str(output)])
    assert list((tiny_config.parent / "exports").iterdir()) == []


@pytest.mark.parametrize("kind", with_slow(["safetensors"], ["onnx"]))
def test_a_full_disk_is_reported_and_leaves_nothing(
    tiny_config: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(onnx, "write_onnx", fail)
    monkeypatch.setattr(safetensors, "write_safetensors", fail)
    run_folder, output = untrained_run(tiny_config), tiny_config.parent / "exports" / f"generator.{kind}"
    with pytest.raises(OSError, match=r"No space left on device \([\d,]+ bytes are free\)") as raised:
        export.main(["--checkpoint", str(run_folder), "--format", kind, "--output", str(output)])
    assert raised.value.filename == str(output)
    assert list(output.parent.iterdir()) == []


def test_the_raw_weights_are_exported_on_request(tiny_config: Path) -> None:
    folder = untrained_run(tiny_config, averaged=True)
    file = folder / "generator.safetensors"
    export.main(["--checkpoint", str(folder), "--format", "safetensors", "--weights", "raw"])
    expected = load_generator(folder / "checkpoint-00000001.pt", raw_weights=True).generator
    assert_equal(load_generator(file).generator.state_dict(), expected.state_dict())
    (folder / "plain").touch()
    assert file.stat().st_mode == (folder / "plain").stat().st_mode


def test_not_a_number_is_no_agreement() -> None:
    example = Example({}, torch.zeros(1, 3, 4, 4))
    assert example.difference(torch.full((1, 3, 4, 4), float("nan"))) == float("inf")
    assert example.difference(torch.zeros(1, 3, 4, 2)) == float("inf")
    assert example.difference(torch.full((1, 3, 4, 4), -2 / 255)) == pytest.approx(1)


@pytest.mark.parametrize(
    ("kind", "packages"), [("onnx", "onnx, onnxscript, onnxruntime are"), ("safetensors", "safetensors is")]
)
def test_a_missing_package_is_named_with_the_extra(kind: str, packages: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        ConfigError, match=rf'^{packages} not installed: python -m pip install --editable ".\[export\]"'
    ):
        export.main(["--format", kind])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--format", "safetensors", "--style", "a.png"], "--style goes with --format onnx, html, not"),
        (["--format", "original", "--dtype", "float16"], "--dtype goes with --format onnx, html, safe"),
        (["--format", "onnx", "--output", "a.pt2"], "--output a.pt2: expected a name that ends in .onnx"),
        (["--format", "html", "--samples", "-1"], "argument --samples: '-1' is not a whole number from 0"),
        (["--format", "original", "--license", "mit"], "--license goes with --format onnx, html, safetensors"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        export.main(arguments)
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_safetensors_file_translates_as_its_run(tiny_config: Path) -> None:
    run(tiny_config, "generator.spectral_norm=true", "train.ema_decay=0.5")
    folder = tiny_config.parent / "runs" / "tiny"
    export.main(["--checkpoint", str(folder), "--format", "safetensors"])
    assert_names_no_path((folder / "generator.safetensors").read_bytes(), tiny_config)
    elsewhere = (folder / "generator.safetensors").rename(tiny_config.parent / "other.safetensors")
    outputs = [tiny_config.parent / name for name in ("of_run", "of_file")]
    for checkpoint, output in zip((folder, elsewhere), outputs, strict=True):
        translate("--checkpoint", str(checkpoint), "--output", str(output), "--opt-level", "O0")
    names = sorted(path.name for path in outputs[0].glob("*.png"))
    assert len(names) >= 3
    for name in names:
        first, second = (np.asarray(Image.open(output / name)).astype(int) for output in outputs)
        assert np.abs(first - second).max() <= 1  # the singular value divides before, not within, the convolution
    loaded = load_generator(elsewhere)
    assert (loaded.name, loaded.step) == ("tiny", 4)
    assert not loaded.config.generator.spectral_norm
