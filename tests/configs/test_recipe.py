from pathlib import Path

import pytest

import train
from configs.load import FOLDER, base_line, config_to_yaml, find_recipe, load_config, read_recipe
from configs.schema import config_differences
from tests.reliability.command_line import CommandLine
from utils.errors import ConfigError


@pytest.mark.parametrize("name", ["configs/demo.yaml", "demo.yaml", "demo"])
def test_a_recipe_is_found_from_any_folder(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_recipe(Path(name)) == FOLDER / "demo.yaml"
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).touch()
    assert find_recipe(Path(name)) == Path(name)


def test_a_checkpoint_or_a_run_in_the_place_of_a_file_is_named_with_its_own_option(tmp_path: Path) -> None:
    (tmp_path / "a.pt").write_bytes(b"PK")
    with pytest.raises(
        ConfigError, match=r"a\.pt: is a checkpoint, not a YAML file. Use --config FILE --resume .*a\.pt"
    ):
        load_config(tmp_path / "a.pt")
    (tmp_path / "config.yaml").touch()
    with pytest.raises(ConfigError, match=r"--config .*config\.yaml --resume .*a\.pt$"):
        load_config(tmp_path / "a.pt")
    with pytest.raises(ConfigError, match=r"is the folder of a run\. Use --config .*config\.yaml$"):
        load_config(tmp_path)


def test_settings_of_a_file_replace_those_of_its_base(tmp_path: Path) -> None:
    (tmp_path / "low.yaml").write_text("run: {seed: 1, name: low}\nloss: {l1: 5}\ntrain.epochs: 3")
    (tmp_path / "high.yaml").write_text("base: low.yaml\nrun: {name: high}\ntrain: {epochs: 4}")
    config = load_config(tmp_path / "high.yaml", ["loss.l1=7"])
    assert (config.run.seed, config.run.name, config.loss.l1, config.train.epochs) == (1, "high", 7, 4)


def test_a_base_may_be_a_recipe_of_the_program(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("base: demo.yaml\nrun: {name: mine}")
    changed = config_differences(load_config(FOLDER / "demo.yaml"), load_config(tmp_path / "mine.yaml"))
    assert changed == {"run.name": ("demo", "mine")}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("base: second.yaml", r".*second\.yaml: cannot be a base, because it has a base\. Use demo\.yaml as base"),
        ("base: nowhere.yaml", r".*nowhere\.yaml: no such configuration file"),
        ("base: [a]", r"c\.yaml: base is \['a'\], expected the name of a YAML file"),
        ("base: wrong.yaml", r"wrong\.yaml: unknown key run\.nmae"),
    ],
)
def test_a_base_that_cannot_be_used_is_refused_in_one_line(text: str, problem: str, tmp_path: Path) -> None:
    for name, content in {"c": text, "second": "base: demo.yaml", "wrong": "run: {nmae: x}", "empty": "#"}.items():
        (tmp_path / f"{name}.yaml").write_text(content)
    with pytest.raises(ConfigError, match=problem) as error:
        load_config(tmp_path / "c.yaml")
    assert "\n" not in str(error.value)


def test_print_config_names_the_base_and_prints_what_is_in_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.yaml").write_text("base: demo.yaml\nrun: {name: mine}")
    _, out, _ = CommandLine(monkeypatch, capsys).run(
        train.main, "--config", str(tmp_path / "mine.yaml"), "--print-config"
    )
    assert out == f"# base: {FOLDER / 'demo.yaml'}\n" + config_to_yaml(load_config(tmp_path / "mine.yaml"))
    assert base_line(read_recipe(FOLDER / "demo.yaml")) == ""
