"""Generators for translation: their precision, and their files while a training writes checkpoints."""

from pathlib import Path
from typing import Any

import pytest
import torch

from configs import build
from configs.load import load_config
from inference.load import LoadedGenerator
from inference.output_folder import origin
from inference.request import Request
from inference.requested_predictor import (
    build_predictor,
    load_generator_together,
    load_requested_generator,
    requested_predictor,
)
from tests.runs import checkpoint, untrained_run
from utils.checkpoint import save_checkpoint
from utils.checkpoint_folder import checkpoint_path
from utils.device import OptLevel
from utils.distributed import World
from utils.errors import ConfigError
from utils.files import sha256_of_file

CPU = torch.device("cpu")


def test_the_recorded_digest_is_that_of_the_file_that_was_read(trained_config: Path) -> None:
    loaded = load_requested_generator(Request(trained_config.parent / "runs" / "tiny"))
    digest = sha256_of_file(loaded.file)
    loaded.file.write_bytes(b"replaced")
    predictor = build_predictor(loaded, CPU, Request())
    assert origin(loaded, predictor, Request(), None, [])["checkpoint_sha256"] == digest


def test_all_processes_read_the_checkpoint_of_the_main_one(
    trained_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_folder = trained_config.parent / "runs" / "tiny"
    first, next_one = (checkpoint_path(run_folder, step) for step in (4, 5))
    request, sent = Request(run_folder), list[Any]()
    monkeypatch.setattr(World, "gather", lambda _world, value: [*sent, value][:1])
    sent.append([load_generator_together(request, World(0, 2, CPU)).file])
    save_checkpoint(next_one, checkpoint(trained_config, 4) | {"step": 5})
    assert load_requested_generator(request).file == next_one
    assert load_generator_together(request, World(1, 2, CPU)).file == first


@pytest.mark.parametrize(
    ("step", "settings", "level", "expected"),
    [
        (1, [], None, "O2"),
        (None, [], None, "O0"),  # the originals compute in float32
        (1, [], "O1", "O1"),
        (1, ["data.layout=paired_folders", "data.root=.", "data.target_range=[0,9]"], None, "O0"),
    ],
    ids=["run", "original", "chosen", "values"],
)
def test_the_precision_depends_on_the_images(
    tiny_config: Path, step: int | None, settings: list[str], level: OptLevel | None, expected: str
) -> None:
    config = load_config(tiny_config, settings)
    loaded = LoadedGenerator(Path("x.pt"), config, step, build.build_generator(config))
    predictor = build_predictor(loaded, CPU, Request(opt_level=level, seed=3, noise=True))
    assert predictor.precision.opt_level == expected
    tf32 = torch.backends.cudnn.conv.fp32_precision  # type: ignore[attr-defined]
    assert tf32 == ("ieee" if expected == "O0" else "tf32")
    assert (predictor.seed, predictor.noise) == (3, True)
    assert predictor.conditioning is loaded.conditioning


def test_features_of_targets_are_not_encoded_in_tiles(tiny_config: Path) -> None:
    folder = untrained_run(tiny_config, "features.n_channels=2", "features.base_channels=4")
    request = Request(folder, features="given", tile=16)
    loaded = load_requested_generator(request)
    with pytest.raises(ConfigError, match=r"--tile: .*--features sampled"):
        requested_predictor(loaded, request, CPU, folder, None)
