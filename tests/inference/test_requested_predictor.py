"""Generators for translation: their precision, and their files while a training writes checkpoints."""

from pathlib import Path
from typing import Any

import pytest
import torch

from configs import build
from configs.load import load_config
from inference import requested_predictor
from inference.load import LoadedGenerator, load_from, load_generator
from inference.origin import origin
from inference.original_weights import SOURCE_ALONE
from inference.request import ComputeOptions, DrawingOptions, GeneratorOptions, Request
from inference.requested_predictor import (
    MIN_PIXELS_TO_COMPILE,
    build_predictor,
    describe_sizes,
    load_generator_together,
    load_requested_generator,
    unapplied_overrides,
)
from tests.runs import checkpoint, untrained_run
from utils.checkpoint import save_checkpoint
from utils.checkpoint_folder import checkpoint_path
from utils.distributed import World
from utils.files import sha256_of_file
from utils.precision import OptLevel

CPU = torch.device("cpu")


@pytest.mark.parametrize(("level", "wanted"), [("O0", "ieee"), ("O2", "tf32")])
def test_float32_is_no_tf32_at_o0(tiny_config: Path, level: OptLevel, wanted: str) -> None:
    config = load_config(tiny_config)
    loaded = LoadedGenerator(Path("x.pt"), config, 1, build.build_generator(config))
    build_predictor(loaded, CPU, ComputeOptions(opt_level=level), DrawingOptions())
    assert torch.backends.cudnn.conv.fp32_precision == wanted  # type: ignore[attr-defined]


def test_the_recorded_digest_is_that_of_the_file_that_was_read(trained_config: Path) -> None:
    options = GeneratorOptions(trained_config.parent / "runs" / "tiny")
    loaded = load_requested_generator(options, SOURCE_ALONE)
    digest = sha256_of_file(loaded.file)
    loaded.file.write_bytes(b"replaced")
    predictor = build_predictor(loaded, CPU, ComputeOptions(), DrawingOptions())
    assert origin(loaded, predictor, Request(), None, [])["checkpoint_sha256"] == digest


def test_the_average_is_read_unless_the_trained_weights_are_wanted(tiny_config: Path) -> None:
    folder = untrained_run(tiny_config, averaged=True)
    options = [GeneratorOptions(folder), GeneratorOptions(folder, weights="raw")]
    assert [load_requested_generator(each, SOURCE_ALONE).weights for each in options] == ["average", "raw"]


def test_all_processes_read_the_checkpoint_of_the_main_one(
    trained_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_folder = trained_config.parent / "runs" / "tiny"
    first, next_one = (checkpoint_path(run_folder, step) for step in (4, 5))
    options, sent = GeneratorOptions(run_folder), list[Any]()
    monkeypatch.setattr(World, "gather", lambda _world, value: [*sent, value][:1])
    sent.append(load_generator_together(options, SOURCE_ALONE, World(0, 2, CPU)).file)
    save_checkpoint(next_one, checkpoint(trained_config, 4) | {"step": 5})
    assert load_requested_generator(options, SOURCE_ALONE).file == next_one
    assert load_generator_together(options, SOURCE_ALONE, World(1, 2, CPU)).file == first


@pytest.mark.parametrize(
    ("compute", "has_noise", "lacks", "n_pixels", "expected"),
    [
        (ComputeOptions(compile="on"), False, "a compiler", 0, True),
        (ComputeOptions(), False, None, MIN_PIXELS_TO_COMPILE, True),
        (ComputeOptions(), False, None, MIN_PIXELS_TO_COMPILE - 1, False),
        (ComputeOptions(), False, "a compiler", 2**30, False),
        (ComputeOptions(), True, None, 2**30, False),
    ],
)
def test_many_images_of_one_size_are_worth_compiling(
    tiny_config: Path,
    monkeypatch: pytest.MonkeyPatch,
    compute: ComputeOptions,
    has_noise: bool,
    lacks: str | None,
    n_pixels: int,
    expected: bool,
) -> None:
    monkeypatch.setattr(requested_predictor, "what_compiling_lacks", lambda _: lacks)
    loaded = LoadedGenerator(Path("x.pt"), load_config(tiny_config), 1, torch.nn.Identity())
    request = Request(compute=compute, drawing=DrawingOptions(noise=has_noise))
    assert requested_predictor.should_compile(loaded, lambda: n_pixels, CPU, request) == expected


@pytest.mark.parametrize(
    ("step", "settings", "level", "expected"),
    [
        (1, [], None, "O2"),
        (None, [], None, "O0"),  # the originals compute in float32
        (1, [], "O1", "O1"),
        (1, ["data.layout=paired_folders", "data.root=.", "data.target_channels=2"], None, "O0"),
        (1, ["data.layout=paired_folders", "data.root=.", "data.target_range=[0,9]"], None, "O0"),
    ],
    ids=["run", "original", "chosen", "bytes", "values"],
)
def test_the_precision_is_that_of_the_images(
    tiny_config: Path, step: int | None, settings: list[str], level: OptLevel | None, expected: str
) -> None:
    config = load_config(tiny_config, settings)
    loaded = LoadedGenerator(Path("x.pt"), config, step, build.build_generator(config))
    predictor = requested_predictor.build_predictor(
        loaded, CPU, ComputeOptions(opt_level=level), DrawingOptions(seed=3, noise=True)
    )
    assert predictor.precision.opt_level == expected
    assert (predictor.seed, predictor.noise) == (3, True)
    assert predictor.conditioning is loaded.conditioning


@pytest.mark.parametrize(
    ("preprocess", "keeps_sizes", "expected"),
    [
        ("none", True, "each image's own; --size trained resizes to the nearest multiples of 4 pixels, by"),
        ("crop", False, "resized to the nearest multiples of 4 pixels, by data.preprocess=crop; --size own keeps"),
        ("scale_width", False, "resized to a width of 64, by data.preprocess=scale_width; --size own keeps"),
    ],
)
def test_sizes_are_always_described(tiny_config: Path, preprocess: str, keeps_sizes: bool, expected: str) -> None:
    sizes = ["data.load_width=64", "data.load_height=64", "data.crop_width=48", "data.crop_height=32"]
    config = load_config(tiny_config, [f"data.preprocess={preprocess}", *sizes])
    assert describe_sizes(config, keeps_sizes=keeps_sizes).startswith(expected)


def test_overrides_that_change_no_translation_are_named(trained_config: Path) -> None:
    words = ["data.target_files=float32.tif", "loss.l1=3", "data.flip=false", "data.preprocess=crop"]
    words += ["data.n_classes=0", "metrics.extra=[]"]
    checkpoint_file = trained_config.parent / "runs" / "tiny"
    request = Request(GeneratorOptions(checkpoint=checkpoint_file, overrides=words))
    _, loaded = load_from(checkpoint_file, load_generator)
    assert unapplied_overrides(loaded, request) == words[:3]
    assert unapplied_overrides(loaded, Request(request.generator, keeps_sizes=True)) == words[:4]
