"""The playground of a network whose sources are not 8-bit RGB: it shows samples and translates them."""

from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, expect

from tests.conftest import save_image, write_tiny_config
from tests.runs import run
from tests.tools.playground.pages import opened
from tests.tools.playground.serving import ask, post, serving
from utils.errors import UserError

SIZE = (32, 40)
SETTINGS = ["data.layout=paired_folders", "data.source_folder=['{split}_rgb','{split}_depth']"]
SETTINGS += ["data.source_channels=4", "data.instance_edges=false", "train.max_steps=1"]


@pytest.fixture(scope="module")
def run_of_stack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on sources of colours and depth."""
    config, rng = write_tiny_config(tmp_path_factory.mktemp("stack")), np.random.default_rng(0)
    pairs = config.parent / "pairs"
    for split in ("train", "test"):
        for name in "ab":
            save_image(pairs / f"{split}_rgb" / f"{name}.png", rng.integers(0, 256, (*SIZE, 3), dtype=np.uint8))
            save_image(pairs / f"{split}_depth" / f"{name}.png", rng.integers(0, 9000, SIZE, dtype=np.uint16))
            save_image(pairs / f"{split}_B" / f"{name}.png", rng.integers(0, 256, (*SIZE, 3), dtype=np.uint8))
    run(config, *SETTINGS, f"data.root={pairs}")
    return config.parent / "runs" / "tiny"


def test_samples_are_translated_and_nothing_else(run_of_stack: Path) -> None:
    with serving("--checkpoint", str(run_of_stack)) as server:
        answers = []
        for index in range(2):
            status, shown, _ = ask(server, "GET", f"/samples/{index}")
            assert status == 200
            answers.append(post(server, np.frombuffer(shown, np.uint8).reshape(*SIZE, 3)))
        assert [status for status, _ in answers] == [200, 200]
        assert answers[0] != answers[1]
        status, answer = post(server, np.zeros((*SIZE, 3), np.uint8))
        assert status == 400
        assert b"choose a sample" in answer


def test_without_samples_there_is_nothing_to_show(run_of_stack: Path) -> None:
    folder = run_of_stack.parents[1] / "pairs" / "test_rgb"
    folder.rename(folder.with_name("away"))
    try:
        with (
            pytest.raises(UserError, match=r"not 8-bit RGB, of which a page shows samples, and there are none"),
            serving("--checkpoint", str(run_of_stack)),
        ):
            pass
    finally:
        folder.with_name("away").rename(folder)


@pytest.mark.browser
def test_the_page_has_samples_and_no_tools(browser: Browser, run_of_stack: Path) -> None:
    with serving("--checkpoint", str(run_of_stack)) as server, opened(browser, server.url) as page:
        assert page.pixels("result").std() > 0
        first = page.pixels("result")
        for name in ("toolbar", "palette", "open", "camera", "more", "message"):
            expect(page.page.locator(f"#{name}")).to_be_hidden()
        page.page.locator("#samples").select_option(index=2)
        page.page.wait_for_timeout(300)
        page.wait()
        assert not np.array_equal(page.pixels("result"), first)
