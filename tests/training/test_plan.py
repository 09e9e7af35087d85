from pathlib import Path

import pytest
import torch

from configs.load import load_config
from data.batch import Batch
from data.loader import read_fixed
from training.plan import layer_tables
from training.setup import build_training
from utils.distributed import World


@pytest.mark.parametrize("retain_graph", ["true", "false"])
def test_each_layer_is_listed_once(tiny_config: Path, retain_graph: str) -> None:
    config = load_config(tiny_config, [f"train.retain_graph={retain_graph}"])
    training = build_training(config, World(0, 1, torch.device("cpu")))
    batch = Batch.of([read_fixed(training.layout, training.preprocessing, 0)])
    lines = layer_tables(training.method, batch)
    sums = [int(line.split()[2].replace(",", "")) for line in lines if line.startswith("in all")]
    networks = training.method.networks.values()
    assert sums == [sum(weight.numel() for weight in network.module.parameters()) for network in networks]
