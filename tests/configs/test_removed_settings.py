"""Settings of earlier versions: ignored at their defaults, reported in checkpoints, refused elsewhere."""

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from configs.load import config_from_dict, config_to_dict, load_config
from configs.schema import REMOVED, REPLACED, Config, settings_by_key
from utils.errors import ConfigError

UNPAIRED = {"data.layout": "unpaired_folders", "data.root": "x"}


def with_removed(settings: dict[str, object]) -> dict[str, Any]:
    """Return the defaults as a checkpoint holds them, with settings by `section.key`."""
    saved = config_to_dict(Config())
    for key, value in settings.items():
        *sections, name = key.split(".")
        section = saved
        for part in sections:
            section = section.setdefault(part, {})
        section[name] = value
    return saved


def test_former_defaults_are_ignored(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    firsts = {former.split()[0] for former in REPLACED.values()}
    for keys in (REMOVED.keys(), firsts & REMOVED.keys()):  # all, and one of several that have a common successor
        texts = {key: REMOVED[key] for key in keys}
        saved = with_removed(
            {
                key: text if "{" in text else yaml.safe_load("null" if text == "none" else text)
                for key, text in texts.items()
            }
        )
        assert config_from_dict(saved, "checkpoint.pt") == Config()
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(saved))
        assert load_config(tmp_path / "config.yaml") == Config()
    assert caplog.messages == []


def test_other_values_are_reported_for_checkpoints_and_refused_elsewhere(
    tiny_config: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for key in ("train.async_upload", "optimizer.beta1"):
        with pytest.raises(ConfigError, match=rf"{key} is no longer a setting: .*; leave it out"):
            load_config(tiny_config, [f"{key}=another"])
    for _ in range(2):
        assert config_from_dict(with_removed({"train.async_upload": "another"}), "x.pt") == Config()
    assert caplog.messages == ["x.pt: train.async_upload is no longer a setting: CHANGELOG.md names its successor"]


@pytest.mark.parametrize(
    ("former", "expected"),
    [
        ({"style.height": 4, "style.width": 16}, {"style.size": [4, 16]}),
        ({"data.instances": "connected", "data.instance_classes": [2, 5]}, {"data.instances": ["2", "5"]}),
        (
            {"data.synthetic.train_samples": 7, "data.synthetic.val_samples": 8, "data.synthetic.test_samples": 9},
            {"data.synthetic_samples": [7, 8, 9]},
        ),
        ({"data.instances": "files", "data.instance_folder": "i/{split}"}, {"data.instances": "i/{split}"}),
        ({"data.instances": "connected", "data.instance_folder": "i"}, {"data.instances": "connected"}),
        ({"init.distribution": "xavier", "init.gain": 0.3}, {"init.distribution": "xavier:0.3"}),
        ({"init.generator": "x", "init.discriminator": None}, {"init.networks": {"generator": "x"}}),
        (
            {"generator.downsample": "antialiased", "discriminator.downsample": "antialiased"},
            {"generator.downsample": "antialiased"},
        ),
        ({"data.augment.scale": [0.5, 2]}, {"data.zoom": [0.5, 2]}),
        ({"optimizer.beta1": 0.1, "optimizer.beta2": 0.9}, {"optimizer.betas": [0.1, 0.9]}),
        ({"method.name": "cycle", "cycle.weight_a": 5.0, "cycle.weight_b": 2.0}, {"cycle.weights": [5.0, 2.0]}),
    ],
)
def test_values_of_replaced_settings_move_to_their_successors(
    former: dict[str, object], expected: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    values = settings_by_key(
        config_from_dict(UNPAIRED | former if "method.name" in former else former, "checkpoint.pt")
    )
    assert {key: values[key] for key in expected} == expected
    assert caplog.messages == []


def test_settings_of_a_checkpoint_of_1_0_0_are_read(tiny_config: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    saved = torch.load("tests/checkpoints/version_3.pt", weights_only=True)["config"]
    assert saved["log"].keys() & {"n_images", "histograms", "gradient_norms"}
    (tiny_config.parent / "config.yaml").write_text(yaml.safe_dump(saved))
    config = config_from_dict(saved, "checkpoint.pt")
    assert config == load_config(tiny_config.parent / "config.yaml")
    assert (config.generator.base_channels, config.metrics.n_samples) == (2, 4)
    assert caplog.messages == []
