import json
import math

import pytest

from utils.strict_json import read_json, strict_json


def test_numbers_that_are_not_finite_are_null() -> None:
    value = {"a": [1.5, math.nan, (math.inf, "NaN")], "b": {"c": -math.inf, "d": None, "e": True}, "f": 3}
    written = {"a": [1.5, None, [None, "NaN"]], "b": {"c": None, "d": None, "e": True}, "f": 3}
    assert json.loads(strict_json(value), parse_constant=pytest.fail) == written
    assert read_json(json.dumps(value)) == written  # as earlier versions wrote it
