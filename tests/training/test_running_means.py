import math

import torch

from training.optimizer_group import RunningMeans
from utils.distributed import World

ALONE = World(0, 1, torch.device("cpu"))


def tensors(**values: float) -> dict[str, torch.Tensor]:
    return {name: torch.tensor(value) for name, value in values.items()}


def test_means_cover_the_additions_since_the_last_flush() -> None:
    means = RunningMeans()
    means.add(tensors(a=1.0, b=2.0), "loss/")
    means.add(tensors(a=3.0, b=6.0), "loss/")
    assert means.flush(ALONE) == {"loss/a": 2.0, "loss/b": 4.0}
    means.add(tensors(a=7.0, b=8.0), "loss/")
    means.add(tensors(a=9.0), "loss/")
    assert means.flush(ALONE) == {"loss/a": 8.0, "loss/b": 8.0}


def test_means_ignore_values_that_are_not_finite() -> None:
    means = RunningMeans()
    for a, b in ((1.0, 2.0), (math.nan, 4.0), (math.inf, 6.0), (3.0, 8.0)):
        means.add(tensors(a=a, b=b), "")
    means.add(tensors(c=math.nan), "")
    found = means.flush(ALONE)
    assert math.isnan(found.pop("c"))
    assert found == {"a": 2.0, "b": 5.0}
    assert means.flush(ALONE) == {}


def test_means_continue_from_a_state() -> None:
    means, resumed = RunningMeans(), RunningMeans()
    means.add(tensors(a=1.0, b=2.0), "")
    means.add(tensors(c=5.0), "")
    resumed.load_state(means.state(), ALONE.device)
    assert means.flush(ALONE, resets=False) == means.flush(ALONE) == {"a": 1.0, "b": 2.0, "c": 5.0}
    resumed.add(tensors(a=3.0, b=4.0), "")
    assert resumed.flush(ALONE) == {"a": 2.0, "b": 3.0, "c": 5.0}
