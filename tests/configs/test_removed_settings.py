"""Settings of earlier versions: ignored at their defaults, reported in checkpoints, refused elsewhere."""

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from configs.load import config_from_dict, config_to_dict, load_config
from configs.removed_settings import REMOVED
from configs.schema import Config
from utils.errors import ConfigError


def with_removed(settings: dict[str, object]) -> dict[str, Any]:
    """Return the defaults as a checkpoint holds them, with settings by `section.key`."""
    saved = config_to_dict(Config())
    for key, value in settings.items():
        section, _, name = key.partition(".")
        saved[section][name] = value
    return saved


def test_former_defaults_are_ignored(tiny_config: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert config_from_dict(with_removed(REMOVED), "checkpoint.pt") == Config()
    (tiny_config.parent / "config.yaml").write_text(yaml.safe_dump(with_removed(REMOVED)))
    assert load_config(tiny_config.parent / "config.yaml") == Config()
    assert caplog.messages == []


@pytest.mark.parametrize("key", REMOVED)
def test_other_values_are_reported_for_checkpoints_and_refused_elsewhere(
    key: str, tiny_config: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with pytest.raises(ConfigError, match=rf"{key} is no setting any more: CHANGELOG\.md .*; leave it out"):
        load_config(tiny_config, [f"{key}=another"])
    for _ in range(2):
        assert config_from_dict(with_removed({key: "another"}), f"{key}.pt") == Config()
    reports = [f"{key}.pt: {key} is no setting any more: CHANGELOG.md names its successor"]
    is_converted = key in ("style.height", "style.width", "data.instance_classes")
    assert caplog.messages == ([] if is_converted else reports)


def test_settings_that_inputs_and_shapes_depend_on_are_converted() -> None:
    former = {"style.height": 4, "style.width": 16, "data.instances": "connected", "data.instance_classes": [2, 5]}
    config = config_from_dict(with_removed(former), "checkpoint.pt")
    assert (config.style.size, config.data.instances) == ([4, 16], ["2", "5"])


def test_settings_of_a_checkpoint_of_1_0_0_are_read(tiny_config: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    saved = torch.load("tests/checkpoints/version_3.pt", weights_only=True)["config"]
    assert saved["log"].keys() & {"n_images", "histograms", "gradient_norms"}
    (tiny_config.parent / "config.yaml").write_text(yaml.safe_dump(saved))
    config = config_from_dict(saved, "checkpoint.pt")
    assert config == load_config(tiny_config.parent / "config.yaml")
    assert (config.generator.base_channels, config.metrics.n_samples) == (2, 4)
    assert caplog.messages == []
