"""Settings of earlier versions: at a default left out; in checkpoints reported or merged, elsewhere refused."""

import logging
from pathlib import Path
from typing import Any

import pytest

from configs.load import config_differences, config_from_dict, config_to_dict, load_config
from configs.removed_settings import REMOVED
from configs.schema import Config
from utils.errors import ConfigError


def with_removed(**settings: object) -> dict[str, Any]:
    """The defaults as a checkpoint holds them, with others by `section__key`."""
    saved = config_to_dict(Config())
    for key, value in settings.items():
        section, _, name = key.partition("__")
        saved[section][name] = value
    return saved


@pytest.mark.parametrize("key", REMOVED)
def test_a_checkpoint_loads_and_a_configuration_is_refused(
    key: str, tiny_config: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    name = key.replace(".", "__")
    for default in REMOVED[key].defaults:
        assert config_from_dict(with_removed(**{name: default}), "checkpoint.pt") == Config()
        assert load_config(tiny_config, [f"{key}={str(default).lower()}"]) == load_config(tiny_config)
    assert caplog.messages == []
    with pytest.raises(ConfigError, match=rf"{key} is no setting any more: .*; leave it out"):
        load_config(tiny_config, [f"{key}=another"])
    if REMOVED[key].is_merged:
        return
    for _ in range(2):
        assert config_from_dict(with_removed(**{name: "another"}), f"{key}.pt") == Config()
    assert caplog.messages == [f"{key}.pt: {key} has no effect any more: {REMOVED[key].successor}"]


LABELS = {"data__layout": "paired_folders", "data__root": ".", "data__n_classes": 3}


@pytest.mark.parametrize(
    ("saved", "expected"),
    [
        ({"train__freeze_generator": ["stem"], "train__freeze_discriminator": ["scales.0"]},
         {"train.freeze": ["generator.stem", "discriminator.scales.0"]}),
        ({**LABELS, "data__instances": "connected", "data__instance_classes": ["1"]}, {"data.instances": ["1"]}),
        ({**LABELS, "data__instances": "connected", "data__instance_classes": []}, {"data.instances": "connected"}),
        ({"data__instance_classes": ["1"]}, {}),
        ({"data__cache": "disk", "data__cache_folder": "kept"}, {"data.cache": "kept/"}),
        ({"data__cache": "memory", "data__cache_folder": "kept"}, {"data.cache": "memory"}),
        ({"style__height": 4, "style__width": 16}, {"style.size": [4, 16]}),
        ({"log__n_images": 2, "metrics__n_samples": None}, {"metrics.n_samples": 2}),
        ({"log__n_images": 8, "metrics__n_samples": 5}, {"metrics.n_samples": 8}),
        ({"log__n_images": 4, "metrics__n_samples": 40}, {"metrics.n_samples": 40}),
        ({"discriminator__spectral_iteration": "v_first"}, {"generator.spectral_iteration": "v_first"}),
        ({"discriminator__spectral_iteration": "v_first", "generator__spectral_norm": True},
         {"generator.spectral_norm": True}),
        ({"train__freeze_generator": 5, "log__n_images": "many"}, {}),
    ],
)  # fmt: skip
def test_merged_settings_of_a_checkpoint_keep_their_effect(saved: dict[str, Any], expected: dict[str, object]) -> None:
    found = config_differences(Config(), config_from_dict(with_removed(**saved), "checkpoint.pt"))
    assert {
        key: new for key, (_, new) in found.items() if key not in ("data.layout", "data.root", "data.n_classes")
    } == (expected)


def test_the_settings_that_a_run_of_1_0_0_has_written_are_read(tiny_config: Path) -> None:
    assert load_config(tiny_config, ["metrics.n_samples=null"]).metrics.n_samples == 4


def test_an_order_that_no_setting_holds_any_more_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    norms = {"generator__spectral_norm": True, "discriminator__spectral_norm": "inner"}
    config_from_dict(with_removed(**norms, discriminator__spectral_iteration="v_first"), "checkpoint.pt")
    assert "discriminator.spectral_iteration was v_first: that of the generator, u_first, holds now" in caplog.text
