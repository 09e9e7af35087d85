"""Tiny runs of label maps and photographs with their programs, and programs that return one of their inputs."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

import pairgan
from configs import build
from configs.load import load_config
from inference.load import LoadedGenerator
from tests.conftest import save_image, write_tiny_config
from tests.runs import program_main, untrained_run
from tools.export.onnx import export_program

LARGE_WEIGHTS = "init.distribution=normal:0.3"  # or every translation is grey, and agreement means nothing
rng = np.random.default_rng(0)
LABELS = rng.integers(0, 12, (3, 5), dtype=np.uint8)  # so small that it is reflected repeatedly
INSTANCES = rng.integers(0, 9, LABELS.shape, dtype=np.uint16) * 1000


def trained(folder: Path, *settings: str) -> Path:
    """Write a run with initial weights, export its program into its folder, and return the folder."""
    run_folder = untrained_run(write_tiny_config(folder), LARGE_WEIGHTS, *settings)
    program_main("tools.export")(["--checkpoint", str(run_folder), "--format", "onnx"])
    return run_folder


def photo_pairs(folder: Path) -> tuple[str, ...]:
    """Write a pair of images, and return the settings for it."""
    save_image(folder / "pairs/train/1.png", rng.integers(0, 256, (32, 64, 3), dtype=np.uint8))
    return "data.layout=side_by_side", f"data.root={folder / 'pairs'}", "data.instance_edges=false"


def exported(folder: Path, *settings: str) -> tuple[LoadedGenerator, pairgan.Model]:
    """Return a generator with initial weights and its program."""
    torch.manual_seed(0)
    config = load_config(write_tiny_config(folder), settings)
    loaded = LoadedGenerator(folder / "checkpoint.pt", config, None, build.build_generator(config))
    export_program(loaded, folder / "generator.onnx", "float32")
    return loaded, pairgan.load(folder / "generator.onnx", device="cpu")


def returning(kind: str, folder: Path, types: Mapping[str, str], output: str, *settings: str) -> pairgan.Model:
    """Return a model that returns its input `kind`, which takes no time to export.

    types: Types and numbers of channels of its inputs by name, as float1 or uint8x3. output: Type of its output.
    """
    config = load_config(write_tiny_config(folder), settings)
    loaded = LoadedGenerator(folder / "checkpoint.pt", config, None, torch.nn.Identity())
    number = {"uint8": TensorProto.UINT8, "uint16": TensorProto.UINT16, "float": TensorProto.FLOAT}
    number["int32"] = TensorProto.INT32
    shapes = {name: text.split("x") for name, text in types.items()}
    inputs = [
        helper.make_tensor_value_info(name, number[dtype], ["n", int(channels), "h", "w"])
        for name, (dtype, channels) in shapes.items()
    ]
    result = helper.make_tensor_value_info("translated", number[output], ["n", int(shapes[kind][1]), "h", "w"])
    graph = helper.make_graph(
        [helper.make_node("Cast", [kind], ["translated"], to=number[output])], "program", inputs, [result]
    )
    program = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    helper.set_model_props(program, loaded.facts() | {"format_version": "3"})
    onnx.save(program, folder / "generator.onnx")
    return pairgan.load(folder / "generator.onnx", device="cpu")


def changed(exported: Path, output: Path, **facts: str | None) -> Path:
    """Write a file with other metadata, as another program does; None removes an entry."""
    model = onnx.load(exported)
    kept = {entry.key: entry.value for entry in model.metadata_props if entry.key != "sha256"} | facts
    del model.metadata_props[:]
    for key, value in kept.items():
        if value is not None:
            model.metadata_props.add(key=key, value=value)
    onnx.save(model, output)
    return output


@pytest.fixture(scope="session")
def model(of_labels: Path) -> pairgan.Model:
    return pairgan.load(of_labels / "generator.onnx", device="cpu")


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[object, str]]:
    """Runs pairgan's command line; returns the exit code and the error output. It prints nothing else."""

    def run(*arguments: str | Path) -> tuple[object, str]:
        monkeypatch.setattr(sys, "argv", ["pairgan.py", *map(str, arguments)])
        code: object = 0
        try:
            pairgan.main()
        except SystemExit as end:
            code = end.code
        printed = capsys.readouterr()
        assert printed.out == ""
        return code, printed.err

    return run
