"""The page is one file, whose scripts import each other by names that are all in it, and the facts that it gets."""

import json
import re
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from configs import build
from configs.load import config_from_dict
from inference.load import LoadedGenerator
from tools.playground.page import FOLDER, Samples, build_page, describe, to_json
from utils.errors import ConfigError


@pytest.mark.parametrize("engine", ["server_engine", "onnx_engine"])
def test_every_import_is_in_the_page(engine: str) -> None:
    page = build_page(described(labels(1)) | {"title": "a & b <i>"}, engine)
    match = re.search(r'<script type="importmap">(.*?)</script>', page)
    assert match is not None
    addresses = json.loads(match[1])["imports"]
    sources = {name: b64decode(address.partition(",")[2]).decode() for name, address in addresses.items()}
    names = r'^import .* from "(\w+)";|import\.meta\.resolve\("(\w+)"\)'
    imported = {name for source in sources.values() for found in re.findall(names, source, re.M) for name in found}
    of_others = {"onnx_worker", "latents"} if engine == "server_engine" else {"source_files"}
    assert imported - {""} | {"app"} == sources.keys() - of_others
    assert "a &amp; b &lt;i&gt;</title>" in page


def test_every_element_that_a_script_names_exists() -> None:
    markup = build_page(described(labels(1)) | {"card": {"description": "of all"}}, "server_engine")
    ids = set(re.findall(r'\bid="([\w-]+)"', markup))
    named = set()
    for path in FOLDER.glob("*.js"):
        named |= set(re.findall(r'(?:get|getElementById)\("([\w-]+)"\)', path.read_text()))
    assert named <= ids
    styled = set(re.findall(r"#([a-z][\w-]+)(?=[ ,.:{\[])", (FOLDER / "page.css").read_text()))
    assert styled - {"c33"} <= ids


def described(values: dict[str, object], *overrides: str) -> dict[str, Any]:
    config = config_from_dict(values, "test", overrides)
    loaded = LoadedGenerator(Path("run/x.pt"), config, 7, build.build_generator(config))
    return describe(Samples(loaded))


def labels(n_classes: int, **others: object) -> dict[str, object]:
    small = {"base_channels": 4, "n_downsamplings": 2, "n_blocks": 1}
    data = {"layout": "paired_folders", "root": ".", "n_classes": n_classes, "preprocess": "none", **others}
    return {"data": data, "generator": small}


def test_classes_of_known_data_sets_have_names_and_others_numbers() -> None:
    found = described(labels(35))
    assert (found["classes"][7]["name"], found["classes"][7]["color"]) == ("road", "804080")
    assert len(found["classes"]) == 35
    assert [kind["name"] for kind in described(labels(3))["classes"]] == ["0", "1", "2"]


def test_a_file_of_colours_names_the_classes(tmp_path: Path) -> None:
    (tmp_path / "colors.yaml").write_text("grass: [0, 128, 0]\nsea: [0, 0, 200]\nignored: [[0, 0, 0]]\n")
    setting = f"metrics.label_colors={tmp_path / 'colors.yaml'}"
    found = described(labels(2), setting)
    assert [(kind["name"], kind["color"]) for kind in found["classes"]] == [("grass", "008000"), ("sea", "0000c8")]
    with pytest.raises(ConfigError, match="has 2 classes, the generator has 3"):
        described(labels(3), setting)


def test_colours_of_the_label_maps_name_the_classes() -> None:
    table = {"grass": [0, 128, 0], "sea": [0, 0, 200], "ignored": [[0, 0, 0]]}
    found = described(labels(0, label_colors=table))
    assert [(kind["id"], kind["name"]) for kind in found["classes"]] == [(0, "grass"), (1, "sea"), (2, "ignored")]
    assert (found["n_classes"], found["ignore_id"], found["classes"][0]["color"]) == (2, 2, "008000")
    assert found["file_colors"] == [("008000", 0), ("0000c8", 1), ("000000", 2)]
    assert described(labels(2))["file_colors"] == []


def test_ignored_pixels_are_the_last_entry() -> None:
    classes = described(labels(3, ignore_id=1))["classes"]
    assert [(kind["id"], kind["name"]) for kind in classes] == [(0, "0"), (2, "2"), (1, "ignored")]


def test_a_new_picture_has_the_size_of_the_training() -> None:
    cropped = described(labels(3, preprocess="resize_and_crop", crop_height=128, crop_width=192))
    sizes = [(found["height"], found["width"]) for found in (cropped, described(labels(3)))]
    assert sizes == [(128, 192), (256, 256)]


def test_names_cannot_end_their_element() -> None:
    text = to_json(described(labels(3)) | {"title": "</script><script>alert(1)</script>"})
    assert "<" not in text
    assert json.loads(text)["title"] == "</script><script>alert(1)</script>"
