"""A dry run: what it checks and prints."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from configs.load import load_config
from data.batch import Batch
from data.loader import read_fixed
from losses.perceptual import VGG19
from metrics.networks import INCEPTION
from tests.runs import built
from training.report import plan
from training.report.plan import (
    Layer,
    describe_time,
    downloads,
    table,
    watch_pass,
    watched_layers,
    without_downloads,
)


@pytest.mark.parametrize("settings", [[], ["train.retain_graph=false", "amp.opt_level=O2", "amp.dtype=bfloat16"]])
def test_each_layer_is_listed_once_and_memory_grows_with_the_batch(tiny_config: Path, settings: list[str]) -> None:
    training = built(tiny_config, *settings)
    samples = [read_fixed(training.splits.train, training.preprocessing, index) for index in range(2)]
    lines, memory = watch_pass(training.method, Batch.of(samples[:1]))
    assert watch_pass(training.method, Batch.of(samples))[1] == pytest.approx(2 * memory, rel=0.1)
    sums = [int(line.split()[2].replace(",", "")) for line in lines if line.startswith("in all")]
    networks = training.method.networks.values()
    assert sums == [sum(weight.numel() for weight in network.module.parameters()) for network in networks]


@pytest.mark.parametrize(
    ("settings", "loading_s", "expected"),
    [
        ([], 0.1, "about 0:05:50 (0.35 s a step)"),  # 1000 steps, loaded in the same process
        (["data.workers=2"], 0.1, "about 0:04:10 (0.25 s a step)"),  # other processes load
        (["data.workers=2"], 2.0, "about 0:16:40 (1 s a step, most of it loading)"),
        (["data.workers=2", "data.cache=memory"], 2.0, "about 0:04:10 (0.25 s a step)"),
    ],
)
def test_time_estimate_includes_slow_loading(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch, settings: list[str], loading_s: float, expected: str
) -> None:
    monkeypatch.setattr(plan, "time_steps", lambda *_: 0.25)
    training = built(tiny_config, "train.max_steps=1000", *settings)
    batch = Batch.of([read_fixed(training.splits.train, training.preprocessing, 0)])
    assert describe_time(training, batch, loading_s) == [f"time           {expected}"]
    training.loop.step = 1000
    assert describe_time(replace(training), batch, loading_s) == []


def test_the_first_call_of_a_layer_has_its_output_parameters_and_arithmetic() -> None:
    network = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1, stride=2),
        nn.InstanceNorm2d(4),
        nn.ConvTranspose2d(4, 2, 3, stride=2, padding=1, output_padding=1, bias=False),
    )
    with watched_layers(network) as layers:
        network(torch.zeros(2, 3, 8, 6))
        network(torch.zeros(1, 3, 8, 6))
    assert layers == [
        Layer("0", (2, 4, 4, 3), 3 * 4 * 9 + 4, 2 * 3 * 4 * 9 * 2 * 4 * 3),
        Layer("2", (2, 2, 8, 6), 4 * 2 * 9, 2 * 4 * 2 * 9 * 2 * 4 * 3),  # its weights meet each position of the input
    ]
    assert table("net", layers)[-1].split() == ["in", "all", "184", "0.000"]


@pytest.mark.usefixtures("hub")
def test_downloads_are_only_missing_files_that_are_needed(tiny_config: Path) -> None:
    config = load_config(tiny_config, ["loss.vgg=1", "metrics.extra=[fid,kid]", "checkpoint.best=kid"])
    missing = downloads(config)
    assert missing == [VGG19, INCEPTION]
    reduced = without_downloads(config)
    assert (reduced.loss.vgg, reduced.metrics.extra, reduced.checkpoint.best) == (0, [], "none")
    assert (reduced.loss.l1, reduced.data) == (config.loss.l1, config.data)
    for file in missing:
        file.cached.touch()
    assert downloads(config) == []
    assert without_downloads(config) == config
    VGG19.cached.unlink()
    assert downloads(load_config(tiny_config, [])) == []
