from pathlib import Path

import pytest

from configs.downloads import downloads, without_downloads
from configs.load import load_config
from losses.perceptual import VGG19
from metrics.fid import INCEPTION


@pytest.mark.usefixtures("hub")
def test_what_is_there_or_not_needed_is_not_downloaded(tiny_config: Path) -> None:
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


@pytest.mark.usefixtures("hub")
def test_a_run_whose_only_loss_is_vgg_is_checked_with_another(tiny_config: Path) -> None:
    alone = ["loss.vgg=1", "loss.l1=0", "loss.adversarial=0", "loss.feature_matching=0"]
    assert without_downloads(load_config(tiny_config, alone)).loss.weights["l1"] == 1
