"""Settings that change how fast a run is: the same weights, or nearly those of apex's lower levels."""

import shutil
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor

from configs import build
from configs.load import load_config
from data.files.image_files import read_rgb
from inference import requested_predictor
from tests.runs import SPADE, assert_equal, built, checkpoint, found, run, translate, with_slow, without_config
from training.resume import restore
from utils.compilation import CompilerError, compiled, what_compiling_lacks
from utils.errors import UserError


def trained(config: Path, *settings: str) -> dict[str, object]:
    run(config, "run.name=run", "--resume", "never", *settings)
    return without_config(checkpoint(config, 4, "run"))


def test_the_layout_in_memory_is_chosen_by_device() -> None:
    assert build.memory_format(torch.device("cpu")) == torch.contiguous_format
    assert build.memory_format(torch.device("cuda")) == torch.channels_last


def test_a_cpu_keeps_freed_memory_and_with_checkpointing_gives_the_large_back(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed: list[dict[str, bool]] = []
    monkeypatch.setattr(build, "keep_freed_memory", lambda **how: passed.append(how))
    for choice in ("false", "true"):
        config = load_config(tiny_config, [f"train.activation_checkpointing={choice}"])
        for device in ("cpu", "cuda"):
            build.prepare_device(config, torch.device(device))
    assert passed == [{"gives_large_back": False}, {"gives_large_back": True}]


RECOMPUTED = ["train.activation_checkpointing=true", "generator.norm=batch"]


@pytest.mark.parametrize(
    "settings",
    with_slow(
        [["generator.spectral_norm=true", "train.retain_graph=false", "amp.opt_level=O2", "amp.dtype=bfloat16"]],
        [
            [*SPADE, "train.accumulation_steps=2"],
            ["features.n_channels=2", "features.n_downsamplings=2"],
            ["generator.name=unet", "generator.n_downsamplings=5", "generator.dropout=true", "train.batch_size=2"],
        ],
    ),
    ids=" ".join,
)
def test_activation_checkpointing_with_batch_norm_trains_alike(tiny_config: Path, settings: list[str]) -> None:
    """Each norm counts a pass once, though it is computed twice."""
    plain = trained(tiny_config, *settings, "generator.norm=batch")
    assert_equal(trained(tiny_config, *settings, *RECOMPUTED), plain)


SETTINGS = ["train.max_steps=4", "amp.dtype=bfloat16", "generator.norm=batch"]


def weights_of(config: Path, name: str, step: int = 4) -> Tensor:
    network = checkpoint(config, step, name)["networks"]["generator"]
    return torch.cat([value.float().flatten() for key, value in network.items() if "running" not in key])


def trained_at(config: Path, level: str) -> Tensor:
    run(config, *SETTINGS, f"amp.opt_level={level}", f"run.name={level}")
    return weights_of(config, level)


def test_every_level_moves_the_weights_nearly_alike(tiny_config: Path) -> None:
    run(tiny_config, *SETTINGS, "optimizer.learning_rate=0", "train.max_steps=1", "amp.opt_level=O0", "run.name=start")
    start, exact = weights_of(tiny_config, "start", step=1), trained_at(tiny_config, "O0")
    moved = (exact - start).norm()
    for level, allowed in (("O1", 0.5), ("O2", 0.5), ("O3", 0.8)):
        low = trained_at(tiny_config, level)
        assert 0 < (low - exact).norm() < allowed * moved, level


def test_master_weights_are_saved_in_float32_and_compute_in_the_low_precision(tiny_config: Path) -> None:
    run(tiny_config, *SETTINGS, "amp.opt_level=O2")
    saved = checkpoint(tiny_config, 4)
    weight = saved["networks"]["generator"]["head.1.weight"]
    moments = saved["optimizers"]["generator"]["moments"]["generator"]
    assert weight.dtype == moments["head.1.weight"]["exp_avg"].dtype == torch.float32
    assert not torch.equal(weight, weight.bfloat16().float())  # more than the low precision holds

    training = built(tiny_config, *SETTINGS, "amp.opt_level=O2")
    restore(training, found(tiny_config, 4))
    network = training.method.networks["generator"]
    copied = network.compute_copy.get_parameter("head.1.weight")
    assert torch.equal(copied, weight.bfloat16())
    assert network.compute_copy.get_submodule("stem.2") is network.module.get_submodule("stem.2")


@pytest.mark.parametrize(("first", "then"), with_slow([("O0", "O2")], [("O2", "O1"), ("O1", "O3"), ("O3", "O0")]))
def test_a_run_resumes_at_another_level(tiny_config: Path, first: str, then: str, tmp_path: Path) -> None:
    run(tiny_config, *SETTINGS, f"amp.opt_level={first}")
    run(tiny_config, *SETTINGS, f"amp.opt_level={then}", "train.max_steps=5")
    state = checkpoint(tiny_config, 5)
    weight = state["networks"]["generator"]["head.1.weight"]
    assert weight.dtype == (torch.bfloat16 if then == "O3" else torch.float32)
    assert state["optimizers"]["generator"]["moments"]["generator"]["head.1.weight"]["step"] == 5
    translate("--checkpoint", str(tiny_config.parent / "runs" / "tiny"), "--output", str(tmp_path / "out"))


def test_an_overflow_in_float16_skips_an_update_with_master_weights_too(tiny_config: Path) -> None:
    run(tiny_config, "amp.dtype=float16", "amp.opt_level=O2", "train.max_steps=3", "loss.l1=1e9")
    state = checkpoint(tiny_config, 3)["optimizers"]["generator"]
    assert state["skipped_steps"] == 3
    assert state["scaler"]["scale"] < 65536


CPU = torch.device("cpu")
needs_compiler = pytest.mark.skipif(what_compiling_lacks(CPU) is not None, reason=f"lacks {what_compiling_lacks(CPU)}")


@needs_compiler
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "settings",
    with_slow(
        [["train.retain_graph=false"]],
        [
            ["train.activation_checkpointing=true", "generator.spectral_norm=true"],
            ["train.activation_checkpointing=true", "generator.norm=batch"],
            SPADE,
        ],
    ),
    ids=" ".join,
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
        squares = {key: of_it["exp_avg_sq"].max() for key, of_it in eager["optimizers"][name]["moments"][name].items()}
        # SPADE has biases that a later norm takes out: their gradients are rounding alone, of which Adam makes steps
        cancelled = {key for key, square in squares.items() if square < 1e-12 * max(squares.values())}
        assert all(key.endswith("bias") for key in cancelled)
        for key in ours.keys() - cancelled:
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
