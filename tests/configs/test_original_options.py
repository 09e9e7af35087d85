"""Options of the originals: each is known, and stands for a setting of the schema or an option of test.py."""

import re
from pathlib import Path

from configs.load import settings_by_key
from configs.original_options import OF_TRAINING, OF_TRANSLATION, PAGE
from configs.schema import Config
from tests.docs.test_references import PIX2PIX, PIX2PIXHD, UNPAIRED


def test_every_option_of_the_originals_is_known() -> None:
    named = {*PIX2PIXHD.split(), *PIX2PIX.split(), *UNPAIRED.split()}
    assert not named - OF_TRAINING.keys()
    assert not named - OF_TRANSLATION.keys()


def test_the_settings_are_those_that_the_page_names() -> None:
    pages = [(Path(__file__).parents[2] / page).read_text(encoding="utf-8") for page in PAGE.split(" or ")]
    page = "\n".join(pages)
    named = {option: re.findall(r"[a-z]+\.[a-z0-9_]+(?==)", meaning) for option, meaning in OF_TRAINING.items()}
    assert {key for keys in named.values() for key in keys} <= settings_by_key(Config()).keys()
    for option, keys in named.items():
        if rows := [line for line in page.splitlines() if re.search(rf"^\|[^|]*--{option}\b", line)]:
            assert not keys or any(keys[0] in row for row in rows), option


def test_every_option_of_the_originals_has_a_remedy() -> None:
    assert all(OF_TRAINING.values())
    assert all(OF_TRANSLATION.values())
