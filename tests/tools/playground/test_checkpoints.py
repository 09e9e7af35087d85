"""The playground takes every checkpoint that test.py takes, and translates as that does."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.runs import untrained_run
from tests.tools.playground.serving import post, serving
from tests.tools.playground.trained import expected
from tools import cluster_features
from utils.errors import ConfigError

SIZE = (37, 51)
FEATURES = ["features.n_channels=3", "features.n_downsamplings=2", "features.base_channels=2"]


def maps(n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.integers(0, n_classes, SIZE, dtype=np.int32), rng.integers(0, 9, SIZE, dtype=np.int32) * 1000


def picture(answer: tuple[int, bytes]) -> np.ndarray:
    status, body = answer
    assert status == 200, body
    return np.frombuffer(body, np.uint8).reshape(*SIZE, 3)


@pytest.mark.parametrize("tile", [(), ("--tile", "32")], ids=["at once", "tiles"])
def test_features_are_drawn_from_clusters_by_the_seed(tiny_config: Path, tile: tuple[str, ...]) -> None:
    run_folder = untrained_run(tiny_config, *FEATURES, "init.gain=0.3")
    message = r"Create clusters to draw them from with python -m tools.cluster_features"
    with pytest.raises(ConfigError, match=message), serving("--checkpoint", str(run_folder)):
        pass
    cluster_features.main(["--checkpoint", str(run_folder), "--clusters", "3"])
    labels, instances = maps(12)
    command = ("--checkpoint", str(run_folder), "--opt-level", "O0", *tile)
    with serving(*command) as server:
        drawn, other = (picture(post(server, labels, instances, seed=seed)) for seed in (5, 6))
    assert (drawn != other).any()
    found = expected(tiny_config.parent, labels, instances, *command, "--seed", "5")
    assert np.array_equal(drawn, found)


@pytest.mark.parametrize(("n_classes", "ignore_id"), [(5, 255), (300, 999)])
def test_ignored_pixels_and_many_classes(
    tiny_config: Path, label_data_set: Path, n_classes: int, ignore_id: int
) -> None:
    data = ["data.layout=paired_folders", f"data.root={label_data_set}", f"data.n_classes={n_classes}"]
    run_folder = untrained_run(tiny_config, *data, f"data.ignore_id={ignore_id}", "init.gain=0.3")
    command = ("--checkpoint", str(run_folder), "--opt-level", "O0")
    labels, instances = maps(n_classes)
    labels[3:9, 4:20] = ignore_id
    with serving(*command) as server:
        drawn = picture(post(server, labels, instances))
        status, answer = post(server, np.full_like(labels, n_classes), instances)
    assert np.array_equal(drawn, expected(tiny_config.parent, labels, instances, *command))
    assert status == 400
    assert f"holds id {n_classes}, allowed are 0 to {n_classes - 1} and {ignore_id}".encode() in answer


@pytest.mark.parametrize(("name", "n_classes"), [("pix2pixhd_global_rgb", 0), ("pix2pixhd_global_label_edge", 5)])
def test_weights_of_the_originals(reference: dict[str, Any], tmp_path: Path, name: str, n_classes: int) -> None:
    torch.save(reference[name]["state_dict"], tmp_path / "latest_net_G.pth")
    command = ("--checkpoint", str(tmp_path / "latest_net_G.pth"))
    if n_classes:
        labels, instances = maps(n_classes)
        with serving(*command, "--instance-edges") as server:
            drawn = picture(post(server, labels, instances))
        assert np.array_equal(drawn, expected(tmp_path, labels, instances, *command))
        return
    photo = np.random.default_rng(0).integers(0, 256, (*SIZE, 3), dtype=np.uint8)
    with serving(*command) as server:
        drawn = picture(post(server, photo))
    assert np.array_equal(drawn, expected(tmp_path, photo, None, *command))
