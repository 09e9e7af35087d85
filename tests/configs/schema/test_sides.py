from pathlib import Path

import pytest

from configs.load import config_from_dict, config_to_dict, config_to_yaml, load_config
from configs.schema import Config
from utils.errors import ConfigError

RECIPE = Path("configs/paired_folders_256x256.yaml")


def of_yaml(text: str, folder: Path) -> Config:
    path = folder / "x.yaml"
    path.write_text(f"data: {{layout: paired_folders, root: ROOT, source_channels: 6, source_folder: {text}}}\n")
    return load_config(path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[{split}_a,{split}_b]", ["{split}_a", "{split}_b"]),
        *(("[a]", "a"), ("a,b", "a,b"), ("2024", "2024"), ("[a, 2024]", ["a", "2024"]), ("null", None)),
    ],
)
def test_one_folder_or_several_are_read(text: str, expected: object, tmp_path: Path) -> None:
    config = load_config(RECIPE, ["data.root=ROOT", "data.source_channels=6", f"data.source_folder={text}"])
    assert config.data.source_folder == expected
    assert config.data.is_stacked == isinstance(expected, list)
    assert config_from_dict(config_to_dict(config), "again") == config
    (tmp_path / "again.yaml").write_text(config_to_yaml(config))
    assert load_config(tmp_path / "again.yaml") == config


@pytest.mark.parametrize("text", ["[]", "{a: b}", "[[a], b]", "[a, null]", "['', a]"])
def test_others_are_refused_with_an_example(text: str, tmp_path: Path) -> None:
    message = r"data\.source_folder is .*, expected a folder, or several such as \[\{split\}_rgb,\{split\}_depth\]"
    with pytest.raises(ConfigError, match=message):
        of_yaml(text, tmp_path)


def test_layouts_without_source_folders_are_not_stacked() -> None:
    assert not load_config(Path("configs/demo.yaml"), ["data.source_folder=[a,b]"]).data.is_stacked
