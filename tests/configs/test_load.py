from pathlib import Path
from typing import Any

import pytest
import yaml

from configs.build import data_facts
from configs.load import config_from_dict, config_to_dict, config_to_yaml, load_config
from configs.rules import unused_settings
from configs.schema import Config, config_differences, settings_by_key
from utils.errors import ConfigError

CONFIG_FILES = sorted(Path("configs").glob("*.yaml"))
PAIRS = "data: {layout: paired_folders, root: x, instance_edges: false}"
HALVES = "data: {layout: side_by_side, root: x, instance_edges: false}"
COLORS = "data.label_colors={sky: [1, 1, 1], road: [2, 2, 2], car: [3, 3, 3]}"
DRAWN = "data: {layout: paired_folders, root: x, label_colors: {sky: [1, 1, 1], road: [2, 2, 2], car: [3, 3, 3]}}"
TWO_FOLDERS = ["data.source_folder=[{split}_rgb,{split}_depth]", "data.source_channels=4"]


def load(tmp_path: Path, text: str, *overrides: str) -> Config:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    return load_config(path, overrides)


@pytest.mark.parametrize("path", CONFIG_FILES, ids=lambda path: path.stem)
def test_every_shipped_configuration_loads(path: Path) -> None:
    assert load_config(path, ["data.root=/data"]).run.name == path.stem


def test_overrides_win_over_the_file_and_the_last_one_over_the_others(tmp_path: Path) -> None:
    text = "{run: {seed: 1}, optimizer: {learning_rate: 2e-4}}"
    config = load(tmp_path, text, "run.seed=2", "run.seed=3", "loss.l1=1e-3")
    assert (config.run.seed, config.optimizer.learning_rate, config.loss.l1) == (3, 2e-4, 1e-3)


def test_the_former_name_of_a_loss_is_read_everywhere(tmp_path: Path) -> None:
    assert load(tmp_path, "loss: {vgg: 3}").loss.perceptual == 3
    assert config_from_dict({}, "", ["loss.vgg=3"]).loss.perceptual == 3
    of_lite = {"loss": {"perceptual": 20, "perceptual_network": "efficientnet_lite0"}}
    assert config_from_dict(of_lite, "", ["loss.vgg=3"]).loss.perceptual_network == "vgg19"
    assert config_from_dict({"loss": {"vgg": 3.0}}, "a checkpoint").loss.perceptual == 3
    with pytest.raises(ConfigError, match=r"loss\.perceptual is many, expected a number"):
        load(tmp_path, "loss: {vgg: many}")


@pytest.mark.parametrize(
    ("text", "overrides", "message"),
    [
        ("run: {seed: -1}", [], r"run\.seed is -1, expected 0 to 4294967295"),
        ("run: {name: a/b}", [], r"run\.name is a/b, expected a name that can be a folder"),
        ("{}", ["augmentation.policy=[color,color]"], r"a list of some of color, translation, cutout, each once"),
        ("loss: {adversarial: 0, feature_matching: 0, perceptual: 0}", [], r"at least one loss weight above 0"),
        ("train: {freeze_global_epochs: 3}", [], r"train\.freeze_global_epochs is 3, expected 0 with"),
        ("train: {freeze: [stem]}", [], r"train\.freeze is .*, expected a list of parts of networks"),
        ("data: {target_channels: 2}", [], r"data\.target_channels is 2, expected 1 or 3"),
        ("{amp: {opt_level: O2}, loss: {r1: 1}}", [], r"amp\.opt_level is O2, expected O0 or O1 with loss\.r1"),
        (
            "data: {zoom: [1.2, 0.8]}",
            [],
            r"data\.zoom is .*, expected \[lowest,highest\] from 0\.5 to 2, or \[\] for none",
        ),
        ("data: {cache: dsk}", [], r"data\.cache is dsk, expected none, memory, disk or a folder such as"),
        ("generator: {name: spade, n_upsamplings: 8}", [], r"n_upsamplings is 8, expected a number from 2 to 7"),
        ("data: {workers: many}", [], r"data\.workers is many, expected a number of at least 0, or auto"),
        (
            "{generator: {name: spade}, style: {channels: 4}, features: {n_channels: 3}}",
            [],
            r"style\.channels is 4, expected 0 with features\.n_channels",
        ),
        ("style: {size: [0, 8]}", [], r"style\.size is \[0, 8\], expected \[height,width\], each from 1 to 1024"),
        ("features: {n_channels: 2, origin: precomputed}", [], r"features\.n_channels is 2, expected 3"),
        (
            "{data: {layout: paired_folders, root: x}, features: {n_channels: 3, regions: labels}}",
            [],
            r"features\.regions is labels, expected instances if data\.n_classes is 0",
        ),
        (
            "data: {preprocess: resize_and_crop, crop_width: 2048}",
            [],
            r"crop_width is 2048, expected no more than data\.load_width 1024",
        ),
        ("generator: {scale: 3}", [], r"generator\.scale is 3\.0, expected one of 0\.25, 0\.5, 1, 2, 4"),
        (
            PAIRS,
            ["generator.scale=0.25", "generator.n_downsamplings=1"],
            r"n_downsamplings is 1, expected at least 2 with",
        ),
        (HALVES, ["generator.scale=2"], r"scale is 2\.0, expected 1 with data\.layout=side_by_side"),
        (DRAWN, ["data.n_classes=4"], r"data\.n_classes is 4, expected 0 or 3, the number of classes of data"),
        (DRAWN, ["data.label_colors=nowhere.yaml"], r"data\.label_colors: no such file: nowhere\.yaml; expected city"),
        (HALVES, [COLORS], r"data\.label_colors is .*side_by_side"),
        (DRAWN, ["data.direction=BtoA"], r"data\.direction is BtoA, expected AtoB if data\.n_classes or data"),
        (PAIRS, ["data.instances=connected"], r"data\.instances is connected, expected a folder, because"),
        (PAIRS, ["data.source_folder=[a,a]", "data.source_channels=2"], r"\[a,a\], expected each folder once"),
        (PAIRS, ["data.source_folder=[a,b,c]", "data.source_channels=2"], r"channels is 2, expected at least 3: "),
        (PAIRS, [*TWO_FOLDERS, "data.direction=BtoA"], r"direction is BtoA, expected AtoB with several folders"),
    ],
)
def test_a_mistake_is_named_with_key_value_and_expectation(
    tmp_path: Path, text: str, overrides: list[str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        load(tmp_path, text, *overrides)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["no", "1e3", "007", "1_000", "x #y", "[1", "a{b}"])
def test_text_on_the_command_line_is_taken_as_typed(tmp_path: Path, name: str) -> None:
    assert load(tmp_path, "{}", f"run.name={name}").run.name == name


@pytest.mark.parametrize("name", ["no", "1e3", "007", "1_000", "2024-01-31", "12"])
def test_text_in_a_file_needs_no_quotes(tmp_path: Path, name: str) -> None:
    assert load(tmp_path, f"run: {{name: {name}}}").run.name == name
    config = load(tmp_path, "{}", f"run.name={name}")
    assert load(tmp_path, config_to_yaml(config)) == config


def test_null_unsets_a_text_and_an_empty_section_changes_nothing(tmp_path: Path) -> None:
    assert load(tmp_path, "init: {generator: x}", "init.generator=null").init.networks == {}
    assert load(tmp_path, "run:\nloss:\n") == load(tmp_path, "{}") == Config()


def test_only_changed_settings_without_effect_are_listed(tmp_path: Path) -> None:
    assert unused_settings(Config()) == []
    cycle = "method: {name: cycle}\ndata: {layout: unpaired_folders, root: x}\nloss: {feature_matching: 0}"
    assert unused_settings(load(tmp_path, cycle)) == ["loss.perceptual=10.0"]
    config = load(tmp_path, "data: {crop_width: 256}\nloss: {perceptual: 0}")
    assert unused_settings(config) == ["data.crop_width=256"]


def test_a_configuration_survives_a_dict_and_yaml(tmp_path: Path) -> None:
    config = load(tmp_path, "train: {max_steps: 7}\ndata: {ignore_id: 255, n_classes: 4}")
    assert config_from_dict(config_to_dict(config), "checkpoint") == config
    assert load(tmp_path, config_to_yaml(config)) == config


def test_every_float_survives_yaml_and_the_plan(tmp_path: Path) -> None:
    bounds = [1737406.25, 1737413.25]
    text = f"data: {{layout: paired_folders, root: x, source_range: {bounds}}}\noptimizer: {{learning_rate: {1 / 3e6}}}"
    config = load(tmp_path, text)
    assert (config.data.source_range, config.optimizer.learning_rate) == (bounds, 1 / 3e6)
    assert load(tmp_path, config_to_yaml(config)) == config
    assert "values 1737406.25 to 1737413.25" in data_facts(config).describe_pixels()[0]


def test_the_reference_file_holds_the_defaults() -> None:
    reference = load_config(Path("configs/reference.yaml"))
    assert config_differences(Config(), reference) == {"run.name": ("unnamed", "reference")}


@pytest.mark.parametrize("values", [[1], "text", None, {"train": 5}])
def test_settings_of_a_damaged_checkpoint_are_refused(values: Any) -> None:
    with pytest.raises(ConfigError, match=r"checkpoint\.pt: "):
        config_from_dict(values, "checkpoint.pt")


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("discriminator.spectral_norm", "true", "all"),
        ("discriminator.spectral_norm", "no", "none"),
        ("generator.skips", "yes", "half"),
        ("generator.skips", "false", "none"),
    ],
)
def test_a_setting_that_was_a_truth_value_takes_one(tmp_path: Path, key: str, value: str, expected: str) -> None:
    configs = config_from_dict({key: yaml.safe_load(value)}, "checkpoint"), load(tmp_path, f"{key}: {value}")
    assert {settings_by_key(config)[key] for config in configs} == {expected}
