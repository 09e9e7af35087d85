"""The page is one file: its scripts import each other by names that are all in it."""

import json
import re
from base64 import b64decode

import pytest

from tools.playground.page import FOLDER, WORKER, Description, PageClass, build_page


def description() -> Description:
    return Description(
        title="a & b <i>",
        subtitle="step 1",
        classes=[PageClass(0, "sky", "87cefa")],
        n_classes=1,
        ignore_id=None,
        needs_instances=False,
        takes_seed=False,
        seed=0,
        width=64,
        height=64,
        longest_side=64,
        max_pixels=4096,
        size_multiple=4,
        min_size=8,
        samples=[],
    )


@pytest.mark.parametrize("engine", ["server_engine", "onnx_engine"])
def test_every_import_is_in_the_page(engine: str) -> None:
    page = build_page(description(), engine)
    match = re.search(r'<script type="importmap">(.*?)</script>', page)
    assert match is not None
    addresses = json.loads(match[1])["imports"]
    sources = {name: b64decode(address.partition(",")[2]).decode() for name, address in addresses.items()}
    imported = {name for source in sources.values() for name in re.findall(r'^import .* from "(\w+)";', source, re.M)}
    assert imported | {"app"} == sources.keys()
    assert WORKER.stem not in sources
    assert "a &amp; b &lt;i&gt;</title>" in page


def test_every_element_that_a_script_names_exists() -> None:
    markup = (FOLDER / "index.html").read_text()
    ids = set(re.findall(r'\bid="([\w-]+)"', markup))
    named = set()
    for path in FOLDER.glob("*.js"):
        named |= set(re.findall(r'(?:get|getElementById)\("([\w-]+)"\)', path.read_text()))
    assert named <= ids
    styled = set(re.findall(r"#([a-z][\w-]+)(?=[ ,.:{\[])", (FOLDER / "page.css").read_text()))
    assert styled - {"c33"} <= ids


def test_lines_of_the_page_end_at_120_columns() -> None:
    lines = [(path.name, line) for path in FOLDER.iterdir() for line in path.read_text().splitlines()]
    assert [line for line in lines if len(line[1]) > 120] == []
