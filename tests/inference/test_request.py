"""The options of test.py, divided by what they concern."""

from dataclasses import fields

import pytest

from inference.request import Request
from tests.runs import translation_script

NAMES = {"paths": "input", "path": "output"}  # of options whose fields have other names


def test_each_option_is_in_one_part() -> None:
    options = vars(translation_script().parse_arguments([]))
    request = Request.of(options)
    parts = (request.generator, request.input, request.drawing, request.compute, request.output)
    found = {NAMES.get(field.name, field.name): getattr(part, field.name) for part in parts for field in fields(part)}
    assert sum(len(fields(part)) for part in parts) == len(found)
    assert found == {name: value for name, value in options.items() if name != "size"}
    assert request == Request(input=request.input, generator=request.generator)  # the defaults are the options'


@pytest.mark.parametrize(
    ("arguments", "keeps_sizes"),
    [
        ([], False),
        (["--size", "own"], True),
        (["--input", "folder"], True),
        (["--input", "folder", "--size", "trained"], False),
        (["--input", "folder", "data.load_width=64"], False),
        (["--input", "folder", "data.ignore_id=3"], True),
    ],
)
def test_images_of_input_keep_their_sizes_unless_a_size_is_set(arguments: list[str], keeps_sizes: bool) -> None:
    assert Request.of(vars(translation_script().parse_arguments(arguments))).keeps_sizes == keeps_sizes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--targets", "x"], "--instances, --targets and --feature-maps need --input"),
        (["--input", "x", "--split", "test"], "--split and --input exclude each other"),
        (["--side", "A"], "--side needs --input"),
        (["--batch-size", "0"], "'0' is not a whole number above 0"),
        (["--tile", "64", "--batch-size", "2"], "--tile takes one image at a time"),
        (["--tile", "64", "--noise"], "--tile and --noise exclude each other"),
        (["--seed", "-1"], "argument --seed: '-1' is not a whole number from 0"),
        (["runs/pairs"], "runs/pairs is no setting: did you mean --checkpoint runs/pairs?"),
        (["--input", "a.png", "--device", "cpu", "runs/a/best.pt"], "did you mean --checkpoint runs/a/best.pt?"),
        (["photos/a.jpg"], "photos/a.jpg is no setting: did you mean --input photos/a.jpg?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_that_do_not_fit_are_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        translation_script().parse_arguments(arguments)
    assert message in capsys.readouterr().err


def test_images_keep_their_sizes_after_training_on_crops_unless_size_says_otherwise() -> None:
    options = vars(translation_script().parse_arguments([]))
    assert Request.of(options).of_training("crop").keeps_sizes
    assert not Request.of(options).of_training("scale_width").keeps_sizes
    assert not Request.of({**options, "size": "trained"}).of_training("crop").keeps_sizes
