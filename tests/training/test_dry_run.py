from dataclasses import replace
from pathlib import Path

import pytest

from data.batch import Batch
from data.loader import read_fixed
from tests.runs import built
from training import dry_run
from training.dry_run import activation_bytes, describe_time, duration, layer_tables


@pytest.mark.parametrize("retain_graph", ["true", "false"])
def test_each_layer_is_listed_once(tiny_config: Path, retain_graph: str) -> None:
    training = built(tiny_config, f"train.retain_graph={retain_graph}")
    batch = Batch.of([read_fixed(training.layout, training.preprocessing, 0)])
    lines = layer_tables(training.method, batch)
    sums = [int(line.split()[2].replace(",", "")) for line in lines if line.startswith("in all")]
    networks = training.method.networks.values()
    assert sums == [sum(weight.numel() for weight in network.module.parameters()) for network in networks]


def test_what_is_kept_for_the_backward_passes_grows_with_the_batch(tiny_config: Path) -> None:
    training = built(tiny_config)
    samples = [read_fixed(training.layout, training.preprocessing, index) for index in range(2)]
    one, two = (activation_bytes(training.method, Batch.of(samples[:n])) for n in (1, 2))
    assert two == pytest.approx(2 * one, rel=0.1)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "1 s"),
        (45, "45 s"),
        (59.9, "1 min"),
        (720, "12 min"),
        (7800, "2 h 10 min"),
        (3599, "1 h 0 min"),
        (3 * 86400 + 4 * 3600, "3 days 4 h"),
    ],
)
def test_a_duration_has_its_two_largest_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("settings", "loading_s", "expected"),
    [
        ([], 0.1, "about 6 min (0.35 s a step)"),  # 1000 steps, loaded in the same process
        (["data.workers=2"], 0.1, "about 4 min (0.25 s a step)"),  # beside it
        (["data.workers=2"], 2.0, "about 17 min (1 s a step, most of it loading)"),
        (["data.workers=2", "data.cache=memory"], 2.0, "about 4 min (0.25 s a step)"),
    ],
)
def test_loading_counts_where_it_takes_longer(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch, settings: list[str], loading_s: float, expected: str
) -> None:
    monkeypatch.setattr(dry_run, "time_steps", lambda *_: 0.25)
    training = built(tiny_config, "train.max_steps=1000", *settings)
    batch = Batch.of([read_fixed(training.layout, training.preprocessing, 0)])
    assert describe_time(training, batch, loading_s) == [f"time           {expected}"]
    training.run_state.loop.step = 1000
    assert describe_time(replace(training), batch, loading_s) == []
