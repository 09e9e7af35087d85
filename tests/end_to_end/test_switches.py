"""Settings that change how fast a run is, and must not change what it learns."""

import json
from pathlib import Path

import pytest
import torch

from configs import build
from configs.load import load_config
from tests.runs import SPADE, assert_equal, checkpoint, run, with_slow, without_config


def trained(config: Path, *settings: str) -> dict[str, object]:
    run(config, "run.name=run", "--resume", "never", *settings)
    return without_config(checkpoint(config, 4, "run"))


def test_the_layout_in_memory_changes_rounding_alone(tiny_config: Path) -> None:
    losses = []
    for choice in ("never", "always"):
        trained(tiny_config, f"train.channels_last={choice}", "log.every_steps=1")
        lines = (tiny_config.parent / "runs" / "run" / "metrics.jsonl").read_text().splitlines()
        losses.append([json.loads(line)["loss/G/total"] for line in lines if "loss/G/total" in line])
    assert len(losses[0]) == 4
    assert losses[0][0] == pytest.approx(losses[1][0], rel=1e-5)
    assert losses[0] == pytest.approx(losses[1], rel=0.02)  # Adam makes steps of rounding noise


@pytest.mark.parametrize(
    ("choice", "on_cpu", "on_gpu"),
    [
        ("auto", torch.contiguous_format, torch.channels_last),
        ("always", torch.channels_last, torch.channels_last),
        ("never", torch.contiguous_format, torch.contiguous_format),
    ],
)
def test_the_layout_is_chosen_by_device_unless_it_is_set(
    tiny_config: Path, choice: str, on_cpu: torch.memory_format, on_gpu: torch.memory_format
) -> None:
    config = load_config(tiny_config, [f"train.channels_last={choice}"])
    assert build.memory_format(config, torch.device("cpu")) == on_cpu
    assert build.memory_format(config, torch.device("cuda")) == on_gpu
    assert build.frozen_network_memory_format(config, torch.device("cuda")) == on_gpu


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
        [["generator.spectral_norm=true", "train.retain_graph=false"], ["amp.opt_level=O2", "amp.dtype=bfloat16"]],
        [
            ["train.accumulation_steps=2"],
            [*SPADE, "train.batch_size=2"],
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
