"""The options of test.py are the fields of a request, and options that exclude each other are refused."""

from dataclasses import fields

import pytest

from inference.request import Request
from tests.runs import translation_script


def test_each_option_is_a_field_with_its_default() -> None:
    options = vars(translation_script().parse_arguments([]))
    assert options.keys() == {field.name for field in fields(Request)}
    assert Request(**options) == Request(input=[], overrides=[], more_checkpoints=[])


@pytest.mark.parametrize(
    ("arguments", "preprocess", "keeps_sizes"),
    [
        ([], "crop", True),
        (["--size", "own"], "scale_width", True),
        (["--size", "trained"], "crop", False),
        (["--input", "folder"], "scale_width", True),
        (["--input", "folder", "data.load_width=64"], "scale_width", False),
        (["--input", "folder", "data.ignore_id=3"], "scale_width", True),
    ],
)
def test_images_of_input_keep_their_sizes_unless_a_size_is_set(
    arguments: list[str], preprocess: str, keeps_sizes: bool
) -> None:
    request = Request(**vars(translation_script().parse_arguments(arguments)))
    assert request.with_size(preprocess).keeps_sizes == keeps_sizes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--targets x", "--instances, --targets, --mask and --feature-maps need --input"),
        ("--input x --split test", "--split and --input exclude each other"),
        ("--tile 64 --batch-size 2", "--tile takes one image at a time"),
        ("--tile 64 --noise", "--tile and --noise exclude each other"),
        ("--input a.png --device cpu runs/a/best.pt", "did you mean --checkpoint runs/a/best.pt?"),
        ("photos/a.jpg", "photos/a.jpg is no setting: did you mean --input photos/a.jpg?"),
    ],
)
def test_options_that_do_not_fit_are_refused(arguments: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        translation_script().parse_arguments(arguments.split())
    assert message in capsys.readouterr().err
