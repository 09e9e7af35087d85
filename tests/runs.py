"""Helpers of tests of whole runs."""

import importlib.util
import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import pytest
import torch

import train
from configs import build
from configs.load import config_to_dict, load_config
from tests.conftest import write_tiny_config
from training.run import Training, build_training
from utils.checkpoint import load_checkpoint, save_checkpoint
from utils.checkpoint_folder import LoadedCheckpoint, checkpoint_path, list_checkpoints
from utils.distributed import World

SPADE = ["generator.name=spade", "generator.n_upsamplings=3", "generator.hidden_channels=8", "init.distribution=xavier"]
SPADE += ["generator.spectral_norm=true", "discriminator.spectral_norm=inner"]
OASIS = [*SPADE, "generator.n_middle_blocks=1", "generator.noise_channels=4", "discriminator.name=segmentation"]
OASIS += ["discriminator.n_downsamplings=3", "loss.gan_mode=segmentation", "loss.feature_matching=0"]
OASIS += ["loss.labelmix=10"]
STYLE = [*SPADE, "style.channels=4", "style.size=[4,4]"]
PATIENCE_S = 300  # a machine may be busy: nothing here asserts a time
NEEDS_GPU = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
ON_GPU = pytest.param("cuda", marks=NEEDS_GPU)


def wait_until(is_so: Callable[[], bool], said: Callable[[], object] = str) -> None:
    """Wait until a condition holds. said: returns what to show where it never does."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, said()
        time.sleep(0.02)


def wait_for(path: Path) -> None:
    wait_until(path.exists, lambda: path)


@cache
def translation_script() -> ModuleType:
    """test.py as a module, loaded from its file: `import test` would be Python's own package."""
    spec = importlib.util.spec_from_file_location("translate_cli", Path(__file__).parents[1] / "test.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def program_main(program: str) -> Callable[[Sequence[str]], None]:
    """`main` of `train.py`, `test.py`, or of a module that is started with -m."""
    if program == "train.py":
        return train.main
    if program == "test.py":
        return translation_script().main
    spec = importlib.util.find_spec(program)
    is_package = spec is not None and spec.submodule_search_locations is not None
    main: Callable[[Sequence[str]], None] = import_module(f"{program}.__main__" if is_package else program).main
    return main


def translate(*arguments: str) -> None:
    translation_script().main(list(arguments))


def run(config: Path, *arguments: str) -> None:
    train.main(["--config", str(config), *arguments])


def built(config: Path, *settings: str) -> Training:
    return build_training(load_config(config, settings), World(0, 1, torch.device("cpu")))


def records(config: Path, tag: str = "", name: str = "tiny") -> list[dict[str, Any]]:
    """The records of a run's metrics.jsonl that have a tag, all of them without one."""
    lines = (config.parent / "runs" / name / "metrics.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if not tag or tag in record]


def checkpoint(config: Path, step: int, name: str = "tiny") -> dict[str, Any]:
    return load_checkpoint(checkpoint_path(config.parent / "runs" / name, step))


def found(config: Path, step: int, name: str = "tiny") -> LoadedCheckpoint:
    return LoadedCheckpoint(checkpoint_path(config.parent / "runs" / name, step), checkpoint(config, step, name))


def assert_equal(first: object, second: object, where: str = "state") -> None:
    """Exact equality of nested dicts, lists and tensors."""
    if isinstance(first, torch.Tensor):
        assert isinstance(second, torch.Tensor)
        assert torch.equal(first, second), where
    elif isinstance(first, dict):
        assert isinstance(second, dict)
        assert first.keys() == second.keys(), where
        for key in first:
            assert_equal(first[key], second[key], f"{where}.{key}")
    elif isinstance(first, list | tuple):
        assert isinstance(second, list | tuple)
        assert len(first) == len(second), where
        for number, (a, b) in enumerate(zip(first, second, strict=True)):
            assert_equal(a, b, f"{where}[{number}]")
    else:
        assert first == second, where


def without_config(state: dict[str, Any]) -> dict[str, Any]:
    """A checkpoint's state without what depends on the settings of reports."""
    return {key: value for key, value in state.items() if key not in ("config", "means_of_processes")}


@cache
def uninterrupted() -> dict[str, Any]:
    """The checkpoint of step 6 of a run of `tiny_config` that was never stopped; only to be read."""
    with TemporaryDirectory() as folder:
        config = write_tiny_config(Path(folder))
        run(config, "train.max_steps=6")
        return without_config(checkpoint(config, 6))


def assert_same_state(config: Path, step: int, other: str = "whole", name: str = "tiny") -> None:
    """Check that the checkpoints of two runs hold the same, up to their configurations."""
    assert_equal(without_config(checkpoint(config, step, name)), without_config(checkpoint(config, step, other)))


def figures(config: Path, name: str = "tiny") -> list[dict[str, Any]]:
    """The records of a run's metrics.jsonl without speeds, which no two runs share."""
    speeds = {"progress/images_per_s", "progress/waiting_for_data"}
    return [{tag: record[tag] for tag in record.keys() - speeds} for record in records(config, name=name)]


def assert_resumes_exactly(config: Path, *settings: str, stop: int, end: int, before: int = 0, after: int = 0) -> None:
    """Check that a run that resumes from its checkpoint of step `stop` ends as it did without a stop, at step `end`.

    before, after: Numbers of loader processes of the two sessions. The run has no validation unless it is set.
    """
    settings = ("log.images_every_steps=1000", "log.every_steps=1", *settings, f"train.max_steps={end}")
    settings = (*settings, f"checkpoint.every_steps={stop}", "checkpoint.keep=0")
    run(config, *settings, f"data.workers={before}")
    whole, expected = checkpoint(config, end), figures(config)
    for path in list_checkpoints(config.parent / "runs" / "tiny"):
        if path.stem != f"checkpoint-{stop:08d}":
            path.unlink()
    run(config, *settings, f"data.workers={after}")
    assert_equal({**checkpoint(config, end), "config": None}, {**whole, "config": None})
    assert figures(config) == expected


def with_slow(short: Iterable[Any], long: Iterable[Any]) -> list[Any]:
    """Return cases for pytest.mark.parametrize. Only make test-all runs `long`. A tuple has several values."""
    values = (case if isinstance(case, tuple) else (case,) for case in long)
    return [*short, *(pytest.param(*each, marks=pytest.mark.slow) for each in values)]


def untrained_run(config: Path, *settings: str, averaged: bool = False) -> Path:
    """Write the checkpoint of step 1 of a run that has its initial weights; return the run's folder.

    averaged: whether it has a moving average, whose weights are larger by 1.
    """
    torch.manual_seed(0)
    resolved = load_config(config, settings)
    translators = resolved.method.translators
    generators = {name: build.build_generator(resolved, way).state_dict() for way, name in translators.items()}
    discriminators = {
        resolved.method.discriminator(way): build.build_discriminator(resolved, way).state_dict() for way in translators
    }
    averages = {
        name: {f"module.{key}": weight + 1 for key, weight in weights.items()}
        for name, weights in generators.items()
        if averaged
    }
    networks = generators | discriminators
    state = {"config": config_to_dict(resolved), "step": 1, "networks": networks, "averages": averages}
    folder = Path(resolved.run.root) / resolved.run.name
    save_checkpoint(checkpoint_path(folder, 1), state)
    return folder
