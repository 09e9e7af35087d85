"""apex's four opt levels train to nearly the same, and each other's checkpoints resume at any of them."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from configs.load import load_config
from tests.runs import checkpoint, found, run, translate, with_slow
from training.resume import restore
from training.setup import build_training
from utils.distributed import World

SETTINGS = ["train.max_steps=6", "amp.dtype=bfloat16", "generator.norm=batch"]


def weights(config: Path, name: str, step: int = 6) -> Tensor:
    network = checkpoint(config, step, name)["networks"]["generator"]
    return torch.cat([value.float().flatten() for key, value in network.items() if "running" not in key])


def trained(config: Path, level: str) -> Tensor:
    run(config, *SETTINGS, f"amp.opt_level={level}", f"run.name={level}")
    return weights(config, level)


def test_every_level_moves_the_weights_nearly_alike(tiny_config: Path) -> None:
    run(tiny_config, *SETTINGS, "optimizer.learning_rate=0", "amp.opt_level=O0", "run.name=start")
    start, exact = weights(tiny_config, "start"), trained(tiny_config, "O0")
    moved = (exact - start).norm()
    for level, allowed in (("O1", 0.5), ("O2", 0.5), ("O3", 0.8)):
        low = trained(tiny_config, level)
        assert 0 < (low - exact).norm() < allowed * moved, level


def test_master_weights_are_saved_in_float32_and_compute_in_the_low_precision(tiny_config: Path) -> None:
    run(tiny_config, *SETTINGS, "amp.opt_level=O2")
    saved = checkpoint(tiny_config, 6)
    weight = saved["networks"]["generator"]["head.1.weight"]
    moments = saved["optimizers"]["generator"]["moments"]["generator"]
    assert weight.dtype == moments["head.1.weight"]["exp_avg"].dtype == torch.float32
    assert not torch.equal(weight, weight.bfloat16().float())  # more than the low precision holds

    training = build_training(
        load_config(tiny_config, [*SETTINGS, "amp.opt_level=O2"]), World(0, 1, torch.device("cpu"))
    )
    restore(training, found(tiny_config, 6))
    network = training.method.networks["generator"]
    copied = network.compute_copy.get_parameter("head.1.weight")
    assert torch.equal(copied, weight.bfloat16())
    assert network.compute_copy.get_submodule("stem.2") is network.module.get_submodule("stem.2")


@pytest.mark.parametrize(("first", "then"), with_slow([("O0", "O2"), ("O2", "O1")], [("O1", "O3"), ("O3", "O0")]))
def test_a_run_resumes_at_another_level(tiny_config: Path, first: str, then: str, tmp_path: Path) -> None:
    run(tiny_config, *SETTINGS, f"amp.opt_level={first}")
    run(tiny_config, *SETTINGS, f"amp.opt_level={then}", "train.max_steps=8")
    state = checkpoint(tiny_config, 8)
    weight = state["networks"]["generator"]["head.1.weight"]
    assert weight.dtype == (torch.bfloat16 if then == "O3" else torch.float32)
    assert state["optimizers"]["generator"]["moments"]["generator"]["head.1.weight"]["step"] == 8
    translate("--checkpoint", str(tiny_config.parent / "runs" / "tiny"), "--output", str(tmp_path / "out"))


@pytest.mark.parametrize("step", ["train.retain_graph=true", "train.retain_graph=false"])
def test_an_overflow_in_float16_skips_an_update_with_master_weights_too(tiny_config: Path, step: str) -> None:
    settings = ["amp.dtype=float16", "amp.opt_level=O2", step, "train.max_steps=3", "loss.l1=1e9"]
    run(tiny_config, *settings)
    state = checkpoint(tiny_config, 3)["optimizers"]["generator"]
    assert state["skipped_steps"] == 3
    assert state["scaler"]["scale"] < 65536
