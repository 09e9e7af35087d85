from pathlib import Path

import pytest
import torch

from utils.errors import ConfigError
from utils.label_colors import read_label_colors


def test_known_data_sets_have_their_classes() -> None:
    assert read_label_colors("cityscapes").names[13] == "car"
    for name, n_classes, n_ignored in (("cityscapes", 19, 10), ("cmp_facades", 12, 0)):
        known = read_label_colors(name)
        assert (known.n_classes, len(known.colors.unique(dim=0))) == (n_classes, n_classes + n_ignored)


def test_colours_are_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "colors.yaml"
    file.write_text("sky: [70, 130, 180]\nno: [0, 0, 255]\nignored: [[0, 0, 0], [1, 1, 1]]\n")
    colors = read_label_colors(str(file))
    assert colors.names == ("sky", "no")
    assert colors.colors.tolist() == [[70, 130, 180], [0, 0, 255], [0, 0, 0], [1, 1, 1]]
    picture = torch.tensor([[70, 130, 180], [0, 9, 250], [0, 0, 0], [1, 1, 1]], dtype=torch.uint8).T[..., None]
    assert colors.classes_of(picture, may_ignore=True).flatten().tolist() == [0, 1, 2, 2]
    assert set(colors.classes_of(picture, may_ignore=False).flatten().tolist()) == {0, 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "not valid YAML"),
        ("5", "holds no classes"),
        ("a: [1, 2, 3]", "has 1 classes, expected 2"),
        ("a: [1, 2, 3]\nb: [1, 2]", r"b is \[1, 2\], expected \[R, G, B\]"),
        ("a: [1, 2, 3]\nb: [1, 2, 3]", r"\[1, 2, 3\] is there twice"),
        ("!!python/object/apply:os.getcwd []", "is not supported"),
        ("a: [1, 2, 3]\nb: [3, 2, 3]\nignored: [0, 0, 0]", r"ignored is 0, expected \[R, G, B\]"),
    ],
)
def test_a_file_of_something_else_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "colors.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_label_colors(str(file))
