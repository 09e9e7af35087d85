"""The undocumented classes of torchmetrics that are used; when one goes, a test here names it."""

import importlib
import io
from collections.abc import Callable

import pytest

from metrics.torchmetrics_internals import inception_network, lpips_network
from utils.errors import ConfigError


@pytest.mark.parametrize(
    ("module", "name"),
    [("torchmetrics.functional.image.lpips", "_LPIPS"), ("torchmetrics.image.fid", "NoTrainInceptionV3")],
)
def test_it_exists(module: str, name: str) -> None:
    assert hasattr(importlib.import_module(module), name), f"torchmetrics has no {module}.{name} any more"


@pytest.mark.parametrize(
    ("load", "module", "name", "metric"),
    [
        (lpips_network, "torchmetrics.functional.image.lpips", "_LPIPS", "lpips"),
        (lambda: inception_network(io.BytesIO(), 2048), "torchmetrics.image.fid", "NoTrainInceptionV3", "fid or kid"),
    ],
)
def test_without_it_the_message_names_a_version_that_has_it(
    load: Callable[[], object], module: str, name: str, metric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(f"{module}.{name}")
    with pytest.raises(ConfigError, match=rf"extra has {metric}, .*{name}.* pip install \"torchmetrics>=1.9,<2\""):
        load()


def test_alexnets_weights_have_torchvisions_names() -> None:
    _, weights = lpips_network()
    assert list(weights)[:2] == ["features.0.weight", "features.0.bias"]
    assert len(weights) == 10
