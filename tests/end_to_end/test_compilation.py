"""Compiled networks compute what they compute otherwise; these tests need a C++ compiler."""

import shutil
from functools import partial
from pathlib import Path

import pytest
import torch

from data.files.image_files import read_rgb
from inference import requested_predictor
from tests.runs import SPADE, checkpoint, run, translate, with_slow
from utils.compilation import CompilerError, compiled, what_compiling_lacks
from utils.errors import UserError

CPU = torch.device("cpu")
needs_compiler = pytest.mark.skipif(what_compiling_lacks(CPU) is not None, reason=f"lacks {what_compiling_lacks(CPU)}")


@needs_compiler
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "settings",
    with_slow(
        [["train.activation_checkpointing=true", "generator.spectral_norm=true"]],
        [
            [],
            ["train.retain_graph=false"],
            ["train.activation_checkpointing=true"],
            ["train.activation_checkpointing=true", "generator.norm=batch"],
            SPADE,
        ],
    ),
    ids=lambda settings: " ".join(settings) or "default",
)
@pytest.mark.filterwarnings("ignore:The .grad attribute")  # torch asks for it between graphs, and hides the warning
def test_a_compiled_generator_is_trained_to_the_same_weights(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch, settings: list[str], backend: str
) -> None:
    """aot_eager traces forward and backward passes as inductor does, and writes no C++."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
    run(tiny_config, "run.name=eager", "train.max_steps=2", *settings)
    run(tiny_config, "run.name=compiled", "train.max_steps=2", "train.compile=true", *settings)
    eager, other = (checkpoint(tiny_config, 2, name) for name in ("eager", "compiled"))
    for name in ("generator", "discriminator"):
        ours, theirs = eager["networks"][name], other["networks"][name]
        assert ours.keys() == theirs.keys()  # no trace of the compiler in a checkpoint
        for key in ours:
            # Adam's first steps are the signs of the gradients: tiny ones can differ
            assert (ours[key] - theirs[key]).float().abs().mean() < 2e-5, key


@needs_compiler
@pytest.mark.slow
def test_a_compiled_generator_translates_to_the_same_images(trained_config: Path, tmp_path: Path) -> None:
    for way in ("on", "off"):
        arguments = ["--checkpoint", str(trained_config.parent / "runs" / "tiny"), "--output", str(tmp_path / way)]
        translate(*arguments, "--compile", way, "--opt-level", "O0")
    for path in sorted((tmp_path / "off").glob("facade_*.png")):
        difference = read_rgb(path).int() - read_rgb(tmp_path / "on" / path.name).int()
        assert difference.abs().max() <= 1, path


def test_compiling_is_chosen_for_many_pixels_alone(
    tiny_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    def remember(network: torch.nn.Module, *_: object, **__: object) -> torch.nn.Module:
        asked.append(True)
        return network

    monkeypatch.setattr(requested_predictor, "compiled", remember)
    monkeypatch.setattr(requested_predictor, "what_compiling_lacks", lambda _: None)
    arguments = ["--checkpoint", str(tiny_run), "--output", str(tmp_path / "out")]
    translate(*arguments)
    assert not asked
    monkeypatch.setattr(requested_predictor, "MIN_PIXELS_TO_COMPILE", 3 * 32 * 32)
    translate(*arguments)
    assert asked


def test_without_a_compiler_a_user_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(CompilerError, match=r"needs a C\+\+ compiler .* install it"):
        compiled(torch.nn.Conv2d(1, 1, 1), CPU)
    assert issubclass(CompilerError, UserError)
