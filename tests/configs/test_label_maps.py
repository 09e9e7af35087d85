import re
from pathlib import Path

import pytest

from configs.build import data_facts
from configs.load import config_from_dict, config_to_dict, load_config
from configs.rules import unused_settings
from utils.errors import ConfigError

LABELS = ["data.layout=paired_folders", "data.root=x", "data.n_classes=3", "data.instance_edges=false"]
COLORS = ["data.layout=paired_folders", "data.root=x", "data.label_colors={sky: [0, 0, 0], car: [9, 9, 9]}"]
COLORS += ["data.instance_edges=false"]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ([*LABELS, "loss.class_weights={0: 0, 2: 2.5}"], {0: 0, 2: 2.5}),
        ([*LABELS, "loss.class_weights=[1, 0.5, 0]"], {1: 0.5, 2: 0}),
        ([*LABELS, "loss.class_weights={ignored: 0}"], {3: 0}),
        ([*COLORS, "loss.class_weights={car: 4, 0: 0}"], {1: 4, 0: 0}),
        (["loss.class_weights={door: 3}"], {4: 3}),
    ],
)
def test_weights_are_given_by_name_id_or_list(
    tiny_config: Path, settings: list[str], expected: dict[int, float]
) -> None:
    config = load_config(tiny_config, settings)
    assert data_facts(config).conditioning.class_weights == expected
    assert config_from_dict(config_to_dict(config), "checkpoint") == config


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            [*COLORS, "loss.class_weights={cat: 1}"],
            "loss.class_weights is ['cat'], expected ids from 0 to 1, names such as sky, car, or ignored",
        ),
        ([*COLORS, "loss.class_weights={car: 1, 1: 2}"], "loss.class_weights is 1, expected each class only once"),
        ([*LABELS, "loss.class_weights=[0, 0, 0]"], "expected a class with a weight above 0"),
        ([*LABELS, "loss.class_weights={0: -1}"], "loss.class_weights is {'0': -1.0}, expected weights of at least 0"),
        ([*LABELS, "loss.class_weights={0: .nan}"], "loss.class_weights: 0 has .nan, expected a number"),
        ([*LABELS, "loss.class_weights=4"], "loss.class_weights is 4, expected weights of classes such as"),
        (
            ["data.layout=side_by_side", "data.root=x", "data.instance_edges=false", "loss.class_weights={0: 2}"],
            "expected {}, because sources are not label maps",
        ),
    ],
)
def test_wrong_weights_are_named(tiny_config: Path, settings: list[str], expected: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(expected)):
        data_facts(load_config(tiny_config, settings))


@pytest.mark.parametrize("maps", [LABELS, COLORS])
def test_channels_and_range_of_images_are_not_those_of_label_maps(tiny_config: Path, maps: list[str]) -> None:
    config = load_config(tiny_config, [*maps, "data.source_channels=4", "data.source_range=[0,9]"])
    assert {"data.source_channels=4", "data.source_range=[0.0, 9.0]"} <= {*unused_settings(config)}
    facts = data_facts(config)
    assert (facts.storage, facts.ranges) == ({}, {})
