"""Settings that change the speed of a run: the weights are the same, or nearly the same at lower precision."""

import shutil
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor

from configs import build
from tests.conftest import write_tiny_config
from tests.runs import SPADE, assert_equal, built, checkpoint, found, run, with_slow, without_config
from training.resume import restore
from utils.device import what_compiling_lacks


def trained(config: Path, *settings: str) -> dict[str, object]:
    run(config, "run.name=run", "--resume", "never", *settings)
    return without_config(checkpoint(config, 4, "run"))


def test_the_layout_in_memory_is_chosen_by_device() -> None:
    assert build.memory_format(torch.device("cpu")) == torch.contiguous_format
    assert build.memory_format(torch.device("cuda")) == torch.channels_last


RECOMPUTED = ["train.activation_checkpointing=true", "generator.norm=batch"]


@pytest.mark.parametrize(
    "settings",
    with_slow(
        [["generator.spectral_norm=true", "train.retain_graph=false", "amp.opt_level=O2", "amp.dtype=bfloat16"]],
        [[*SPADE, "train.accumulation_steps=2", "features.n_channels=2", "features.n_downsamplings=2"]],
    ),
    ids=" ".join,
)
def test_activation_checkpointing_with_batch_norm_trains_alike(tiny_config: Path, settings: list[str]) -> None:
    """Each norm counts a pass once, though it is computed twice."""
    plain = trained(tiny_config, *settings, "generator.norm=batch")
    assert_equal(trained(tiny_config, *settings, *RECOMPUTED), plain)


SETTINGS = ["train.max_steps=4", "amp.dtype=bfloat16", "generator.norm=batch"]


@pytest.fixture(scope="module")
def levels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration of runs O0 to O3, named for their levels, and `start` without an update; only to be read."""
    config = write_tiny_config(tmp_path_factory.mktemp("levels"))
    run(config, *SETTINGS, "optimizer.learning_rate=0", "train.max_steps=1", "amp.opt_level=O0", "run.name=start")
    for level in ("O0", "O1", "O2", "O3"):
        run(config, *SETTINGS, f"amp.opt_level={level}", f"run.name={level}")
    return config


def weights_of(config: Path, name: str, step: int = 4) -> Tensor:
    network = checkpoint(config, step, name)["networks"]["generator"]
    return torch.cat([value.float().flatten() for key, value in network.items() if "running" not in key])


def test_every_level_moves_the_weights_nearly_alike(levels: Path) -> None:
    start, exact = weights_of(levels, "start", step=1), weights_of(levels, "O0")
    moved = (exact - start).norm()
    for level, allowed in (("O1", 0.5), ("O2", 0.5), ("O3", 0.8)):
        assert 0 < (weights_of(levels, level) - exact).norm() < allowed * moved, level


def test_master_weights_are_saved_in_float32_and_compute_in_the_low_precision(levels: Path) -> None:
    saved = checkpoint(levels, 4, "O2")
    weight = saved["networks"]["generator"]["head.1.weight"]
    moments = saved["optimizers"]["generator"]["moments"]["generator"]
    assert weight.dtype == moments["head.1.weight"]["exp_avg"].dtype == torch.float32
    assert not torch.equal(weight, weight.bfloat16().float())  # more than the low precision holds

    training = built(levels, *SETTINGS, "amp.opt_level=O2")
    restore(training, found(levels, 4, "O2"))
    network = training.method.networks["generator"]
    copied = network.compute_copy.get_parameter("head.1.weight")
    assert torch.equal(copied, weight.bfloat16())
    assert network.compute_copy.get_submodule("stem.2") is network.module.get_submodule("stem.2")


@pytest.mark.parametrize(("first", "then"), [("O0", "O3"), ("O3", "O2")])
def test_a_run_resumes_at_another_level(levels: Path, tiny_config: Path, first: str, then: str) -> None:
    shutil.copytree(levels.parent / "runs" / first, tiny_config.parent / "runs" / "tiny")
    run(tiny_config, *SETTINGS, f"amp.opt_level={then}", "train.max_steps=5")
    state = checkpoint(tiny_config, 5)
    weight = state["networks"]["generator"]["head.1.weight"]
    assert weight.dtype == (torch.bfloat16 if then == "O3" else torch.float32)
    assert state["optimizers"]["generator"]["moments"]["generator"]["head.1.weight"]["step"] == 5


CPU = torch.device("cpu")
needs_compiler = pytest.mark.skipif(what_compiling_lacks(CPU) is not None, reason=f"lacks {what_compiling_lacks(CPU)}")


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize(
    "settings",
    [
        ["train.retain_graph=false"],
        ["train.activation_checkpointing=true", "generator.norm=batch", "generator.spectral_norm=true"],
    ],
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
    eager, other = (checkpoint(tiny_config, 2, name)["networks"] for name in ("eager", "compiled"))
    for name, ours in eager.items():
        assert ours.keys() == other[name].keys()  # no trace of the compiler in a checkpoint
        for key in ours:
            # Adam's first steps are the signs of the gradients: tiny ones can differ
            assert (ours[key] - other[name][key]).float().abs().mean() < 2e-5, key
