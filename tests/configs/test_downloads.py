from pathlib import Path

import pytest

from configs.downloads import PRETRAINED, downloads, weights_setting, without_downloads
from configs.load import load_config, settings_by_key
from configs.schema import Config
from metrics import METRICS


def test_every_setting_of_a_file_of_weights_has_its_published_file() -> None:
    ending_alike = {key: value for key, value in settings_by_key(Config()).items() if key.endswith("_weights")}
    settings = {key for key, value in ending_alike.items() if value is None}  # the others are numbers
    assert set(PRETRAINED) == settings
    assert {setting for name in METRICS if (setting := weights_setting(name))} <= settings


def test_what_is_there_or_given_or_not_needed_is_not_downloaded(
    tiny_config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.hub.get_dir", lambda: str(tmp_path))
    config = load_config(tiny_config, ["loss.vgg=1", "metrics.extra=[fid,kid]", "checkpoint.best=kid"])
    missing = downloads(config)
    assert [file.setting for file in missing] == ["loss.vgg_weights", "metrics.inception_weights"]
    reduced = without_downloads(config)
    assert (reduced.loss.vgg, reduced.metrics.extra, reduced.checkpoint.best) == (0, [], "none")
    assert (reduced.loss.l1, reduced.data) == (config.loss.l1, config.data)
    for file in missing:
        file.cached.parent.mkdir(exist_ok=True)
        file.cached.touch()
    assert downloads(config) == []
    assert without_downloads(config) == config
    missing[0].cached.unlink()
    assert downloads(load_config(tiny_config, ["loss.vgg=1", "loss.vgg_weights=FILE"])) == []
    assert downloads(load_config(tiny_config, [])) == []


def test_a_run_whose_only_loss_is_vgg_is_checked_with_another(
    tiny_config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.hub.get_dir", lambda: str(tmp_path))
    alone = ["loss.vgg=1", "loss.l1=0", "loss.adversarial=0", "loss.feature_matching=0"]
    assert without_downloads(load_config(tiny_config, alone)).loss.weights["l1"] == 1
