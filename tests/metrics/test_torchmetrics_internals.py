"""The undocumented classes of torchmetrics that are used; when one goes, a test here names it."""

import io
from collections.abc import Callable

import pytest

from metrics.torchmetrics_internals import inception_network, lpips_network
from utils.errors import ConfigError


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
