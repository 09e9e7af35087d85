"""Settings of earlier versions: left out at their defaults; otherwise reported in checkpoints, refused elsewhere."""

import logging
from pathlib import Path

import pytest

from configs.load import config_from_dict, config_to_dict, load_config
from configs.removed_settings import REMOVED
from configs.schema import Config
from utils.errors import ConfigError


@pytest.mark.parametrize("key", REMOVED)
def test_a_checkpoint_loads_and_a_configuration_is_refused(
    key: str, tiny_config: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    section, _, name = key.partition(".")
    saved = config_to_dict(Config())
    for default in REMOVED[key].defaults:
        saved[section][name] = default
        assert config_from_dict(saved, "checkpoint.pt") == Config()
        assert load_config(tiny_config, [f"{key}={str(default).lower()}"]) == load_config(tiny_config)
    assert caplog.messages == []
    saved[section][name] = "another"
    for _ in range(2):
        assert config_from_dict(saved, f"{key}.pt") == Config()
    assert caplog.messages == [f"{key}.pt: {key} has no effect any more: {REMOVED[key].successor}"]
    with pytest.raises(ConfigError, match=rf"{key} is no setting any more: .*; delete the line"):
        load_config(tiny_config, [f"{key}=another"])
