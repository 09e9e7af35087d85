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
    assert found.pop("direction") is None  # no option before a method has two
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
        (["--input", "folder", "data.preprocess=none", "--size", "own"], True),
        (["--input", "folder", "data.ignore_id=3"], True),
    ],
)
def test_images_of_input_keep_their_sizes_unless_a_size_is_set(arguments: list[str], keeps_sizes: bool) -> None:
    assert Request.of(vars(translation_script().parse_arguments(arguments))).keeps_sizes == keeps_sizes
