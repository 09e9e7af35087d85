"""The facts that the page gets: names and colours of classes, sizes, and text that cannot leave its element."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from configs import build
from configs.load import config_from_dict
from inference.load import LoadedGenerator
from tests.tools.playground.test_page import description
from tools.playground.page import Description, describe
from tools.playground.samples import no_samples
from utils.errors import ConfigError


def described(values: dict[str, object], *overrides: str) -> Description:
    config = config_from_dict(values, "test", overrides)
    loaded = LoadedGenerator(Path("run/x.pt"), config, 7, build.build_generator(config))
    return describe(loaded, no_samples(loaded))


def labels(n_classes: int, **others: object) -> dict[str, object]:
    small = {"base_channels": 4, "n_downsamplings": 2, "n_blocks": 1}
    data = {"layout": "paired_folders", "root": ".", "n_classes": n_classes, "preprocess": "none", **others}
    return {"data": data, "generator": small}


def test_classes_of_known_data_sets_have_names() -> None:
    found = described(labels(35))
    assert (found.classes[7].name, found.classes[7].color) == ("road", "804080")
    assert len(found.classes) == 35


def test_other_classes_have_numbers() -> None:
    assert [kind.name for kind in described(labels(3)).classes] == ["0", "1", "2"]


def test_a_file_of_colours_names_the_classes(tmp_path: Path) -> None:
    (tmp_path / "colors.yaml").write_text("grass: [0, 128, 0]\nsea: [0, 0, 200]\nignored: [[0, 0, 0]]\n")
    setting = f"metrics.label_colors={tmp_path / 'colors.yaml'}"
    found = described(labels(2), setting)
    assert [(kind.name, kind.color) for kind in found.classes] == [("grass", "008000"), ("sea", "0000c8")]
    with pytest.raises(ConfigError, match="has 2 classes, the generator 3"):
        described(labels(3), setting)


def test_colours_of_the_label_maps_name_the_classes() -> None:
    table = {"grass": [0, 128, 0], "sea": [0, 0, 200], "ignored": [[0, 0, 0]]}
    found = described(labels(0, label_colors=table))
    assert [(kind.id, kind.name) for kind in found.classes] == [(0, "grass"), (1, "sea"), (2, "ignored")]
    assert (found.n_classes, found.ignore_id, found.classes[0].color) == (2, 2, "008000")
    assert found.file_colors == [("008000", 0), ("0000c8", 1), ("000000", 2)]
    assert described(labels(2)).file_colors == []


@pytest.mark.parametrize(("ignore_id", "ids"), [(255, [0, 1, 2, 255]), (1, [0, 2, 1])])
def test_ignored_pixels_are_the_last_entry(ignore_id: int, ids: list[int]) -> None:
    classes = described(labels(3, ignore_id=ignore_id)).classes
    assert [kind.id for kind in classes] == ids
    assert classes[-1].name == "ignored"


@pytest.mark.parametrize(
    ("values", "size"),
    [
        ({"preprocess": "resize_and_crop", "crop_height": 128, "crop_width": 192}, (128, 192)),
        ({"preprocess": "scale_width", "load_width": 512}, (256, 512)),
        ({"preprocess": "none"}, (256, 256)),
        ({"preprocess": "scale_width", "load_width": 4096}, (1024, 1024)),
    ],
)
def test_a_new_picture_has_the_size_of_the_training(values: dict[str, object], size: tuple[int, int]) -> None:
    found = described(labels(3, **values))
    assert (found.height, found.width, found.longest_side) == (*size, max(size))


def test_names_cannot_end_their_element() -> None:
    text = replace(description(), title="</script><script>alert(1)</script>").to_json()
    assert "<" not in text
    assert json.loads(text)["title"] == "</script><script>alert(1)</script>"
