"""The model card of exported files. tests/pairgan prints it, test_html.py has it in a page."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from configs.load import load_config
from inference.load import LoadedGenerator, load_generator
from tests.runs import program_main, untrained_run
from tools.export.card import model_card
from utils.safetensors_file import read_safetensors

TEXTS = {"title": "House  fronts", "description": "Label maps\nto fronts", "license": "mit | cc-by-4.0"}
OPTIONS = [word for name, text in TEXTS.items() for word in (f"--{name}", text)]


def export(checkpoint: Path, output: Path, *options: str) -> dict[str, Any]:
    """Return the card of a run's file of weights."""
    program = ["--checkpoint", str(checkpoint), "--format", "safetensors", "--output", str(output)]
    program_main("tools.export")([*program, *options])
    card: dict[str, Any] = json.loads(read_safetensors(output)[1]["card"])
    return card


def test_a_card_tells_what_was_trained_on_what_and_how_far_it_came(tiny_run: Path, tmp_path: Path) -> None:
    output = tmp_path / "a.safetensors"
    card = export(tiny_run, output, *OPTIONS)
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
    export(tiny_run, again, *OPTIONS)
    assert output.read_bytes() == again.read_bytes()
    of_export = export(output, tmp_path / "c.safetensors", "--title", "Other", "--dtype", "float16")
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


@pytest.mark.parametrize(
    ("root", "name"),
    [
        (r"D:\data\facades", "facades"),
        ("", "synthetic_facades"),
    ],
)
def test_a_data_set_has_the_name_of_its_folder(tiny_config: Path, root: str, name: str) -> None:
    config = load_config(tiny_config, [])
    config = replace(config, data=replace(config.data, root=root))
    loaded = LoadedGenerator(tiny_config, config, 1, torch.nn.Identity())
    assert model_card(loaded, "float32", {})["data"]["name"] == name


def test_weights_alone_have_a_card_without_training(tiny_config: Path) -> None:
    run_folder = untrained_run(tiny_config)
    (original,) = (load_generator(file) for file in run_folder.glob("*.pt"))
    card = model_card(replace(original, step=None), "float32", {})  # only weights, like a file of an original
    assert card.keys().isdisjoint({"data", "training", "metrics"})
