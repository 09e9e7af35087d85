"""Exported programs and weights, and the model card in them."""

import errno
import importlib.util
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from configs import build
from configs.build import image_sides
from configs.load import load_config
from inference.load import LoadedGenerator, load_generator
from tests.runs import SPADE, STYLE, assert_equal, program_main, translate, untrained_run
from tools.export import __main__ as export
from tools.export import safetensors
from tools.export.card import model_card
from tools.export.example import Example, make_example
from tools.export.format import TOLERANCES, ExportError
from tools.export.onnx import export_program, open_onnx
from utils.errors import ConfigError
from utils.safetensors_file import read_safetensors


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
    ["data.layout=paired_folders", "data.root=.", "data.n_classes=300"],
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
def test_a_program_translates_the_smallest_image_of_a_unet(tiny_config: Path) -> None:
    unet = ["generator.name=unet", "generator.n_downsamplings=5", "data.synthetic_size=[64,32]"]
    loaded = untrained(tiny_config, *unet)
    example = make_example(loaded, 1, 32, 32)
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


def test_what_translates_otherwise_is_removed(tiny_config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_folder, plain = untrained_run(tiny_config), safetensors.plain_copy

    def damaged(loaded: LoadedGenerator) -> LoadedGenerator:
        copy = plain(loaded)
        next(copy.generator.parameters()).mul_(-1)
        return copy

    monkeypatch.setattr(safetensors, "plain_copy", damaged)
    output = tiny_config.parent / "exports" / "generator.safetensors"
    with pytest.raises(ExportError, match=r"differs from the generator by .* \(1 allowed\)"):
        export.main(["--checkpoint", str(run_folder), "--format", "safetensors", "--output", str(output)])
    assert list(output.parent.iterdir()) == []


def test_a_full_disk_is_reported_and_leaves_nothing(tiny_config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(safetensors, "write_safetensors", fail)
    run_folder, output = untrained_run(tiny_config), tiny_config.parent / "exports" / "generator.safetensors"
    with pytest.raises(OSError, match=r"No space left on device \([\d,]+ bytes are free\)") as raised:
        export.main(["--checkpoint", str(run_folder), "--format", "safetensors", "--output", str(output)])
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


def test_a_missing_package_is_named_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    message = r'^not installed: onnx, onnxscript, onnxruntime\. Run python -m pip install --editable ".\[export\]"'
    with pytest.raises(ConfigError, match=message):
        export.main(["--format", "onnx"])


def test_options_that_do_not_go_together_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in (
        (["--format", "safetensors", "--style", "a.png"], "--style needs --format onnx, html, not"),
        (["--format", "onnx", "--output", "a.pt2"], "--output a.pt2: the name must end in .onnx"),
    ):
        with pytest.raises(SystemExit, match="2"):
            export.main(arguments)
        assert message in capsys.readouterr().err


def test_a_safetensors_file_holds_average_weights_without_spectral_norm(tiny_config: Path) -> None:
    """The export itself compares the translations."""
    folder = untrained_run(tiny_config, "generator.spectral_norm=true", "train.ema_decay=0.5", averaged=True)
    export.main(["--checkpoint", str(folder), "--format", "safetensors"])
    assert_names_no_path((folder / "generator.safetensors").read_bytes(), tiny_config)
    elsewhere = (folder / "generator.safetensors").rename(tiny_config.parent / "other.safetensors")
    loaded = load_generator(elsewhere)
    assert (loaded.name, loaded.step) == ("tiny", 1)
    assert not loaded.config.generator.spectral_norm
    translate("--checkpoint", str(elsewhere), "--output", str(tiny_config.parent / "out"))
    assert len([*(tiny_config.parent / "out").glob("*.png")]) >= 3


TEXTS = {"title": "House  fronts", "description": "Label maps\nto fronts", "license": "mit | cc-by-4.0"}
OPTIONS = [word for name, text in TEXTS.items() for word in (f"--{name}", text)]


def card_of(checkpoint: Path, output: Path, *options: str) -> dict[str, Any]:
    """Return the card of a run's file of weights."""
    program = ["--checkpoint", str(checkpoint), "--format", "safetensors", "--output", str(output)]
    program_main("tools.export")([*program, *options])
    card: dict[str, Any] = json.loads(read_safetensors(output)[1]["card"])
    return card


def test_a_card_tells_what_was_trained_on_what_and_how_far_it_came(tiny_run: Path, tmp_path: Path) -> None:
    output = tmp_path / "a.safetensors"
    card = card_of(tiny_run, output, *OPTIONS)
    rows = map(json.loads, (tiny_run / "metrics.jsonl").read_text().splitlines())
    (measured,) = (row for row in rows if "split" in row)
    assert {name: card[name] for name in TEXTS} == {name: " ".join(text.split()) for name, text in TEXTS.items()}
    assert (card["source"], card["target"]) == ("label maps of 12 classes and instances", "RGB images")
    assert card["data"] == {"name": "synthetic_facades", "samples": 5}
    assert card["training"] == {"method": "paired", "step": 4, "weights": "raw"}
    assert (card["metrics"]["split"], card["metrics"]["step"]) == ("val", 4)
    assert card["metrics"]["l1"] == pytest.approx(measured["validation/l1"], rel=1e-3)
    assert f"torch {torch.__version__}" in card["versions"]
    assert str(tmp_path.parent) not in json.dumps(card)
    again = tmp_path / "b.safetensors"
    card_of(tiny_run, again, *OPTIONS)
    assert output.read_bytes() == again.read_bytes()
    of_export = card_of(output, tmp_path / "c.safetensors", "--title", "Other", "--dtype", "float16")
    changed = {"title": "Other", "network": card["network"].replace("float32", "float16")}
    assert of_export == card | changed | {"markdown": of_export["markdown"]}
    head, _, text = of_export["markdown"].removeprefix("---\n").partition("---\n")
    assert head == 'license: "mit | cc-by-4.0"\npipeline_tag: "image-to-image"\nlibrary_name: "pairgan"\n'
    assert text.startswith("# Other\n\nLabel maps to fronts\n\n| | |\n|---|---|\n| license | mit \\| cc-by-4.0 |\n")
    assert "| training | method paired, step 4, weights raw |\n" in text


def test_figures_are_those_of_the_exported_weights(tiny_run: Path, tmp_path: Path) -> None:
    run_folder = shutil.copytree(tiny_run, tmp_path / "run")
    earlier, later = ({"step": step, "split": "val", "validation/l1": step / 10} for step in (3, 5))
    (run_folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in (earlier, {"step": 4}, later)))
    loaded = load_generator(run_folder / "checkpoint-00000004.pt")
    assert model_card(loaded, "float32", {})["metrics"] == {"split": "val", "step": 3, "l1": 0.3}
    averaged = replace(loaded, config=replace(loaded.config, train=replace(loaded.config.train, ema_decay=0.9)))
    assert "metrics" not in model_card(averaged, "float32", {})  # they were measured on the average
    assert "metrics" in model_card(replace(averaged, weights="average"), "float32", {})


def test_a_data_set_has_the_name_of_its_folder(tiny_config: Path) -> None:
    config = load_config(tiny_config, [])
    config = replace(config, data=replace(config.data, root=r"D:\data\facades"))
    loaded = LoadedGenerator(tiny_config, config, 1, torch.nn.Identity())
    assert model_card(loaded, "float32", {})["data"]["name"] == "facades"


def test_weights_alone_have_a_card_without_training(tiny_config: Path) -> None:
    run_folder = untrained_run(tiny_config)
    (original,) = (load_generator(file) for file in run_folder.glob("*.pt"))
    card = model_card(replace(original, step=None), "float32", {})  # only weights, like a file of an original
    assert card.keys().isdisjoint({"data", "training", "metrics"})
