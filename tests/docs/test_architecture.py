"""docs/architecture.md names files that exist."""

import re

from tests.docs.documents import ROOT

PAGE, PICTURE = ROOT / "docs" / "architecture.md", ROOT / "docs" / "architecture.svg"
NOT_THERE = {"training/methods/contrastive.py", "models/dense_generator.py"}  # examples


def test_the_files_that_the_page_names_exist() -> None:
    named = set(
        re.findall(r"`((?:[a-z_]+/)+(?:\w+\.(?:py|pt|yaml|md))?)(?:::?\w+)?`", PAGE.read_text(encoding="utf-8"))
    )
    assert len(named) > 30
    assert not {path for path in named - NOT_THERE if not (ROOT / path).exists()}


def test_the_files_that_the_picture_names_exist() -> None:
    text = PICTURE.read_text(encoding="utf-8")
    places = set(re.findall(r">((?:[a-z_]+/)+\w+\.py)<", text))
    places |= {"".join(place) for place in re.findall(r">((?:[a-z_]+/)+)</text>\s*<text [^>]*>(\w+\.py)<", text)}
    assert len(places) > 10
    assert not {path for path in places - NOT_THERE if not (ROOT / path).exists()}
