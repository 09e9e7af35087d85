"""The pages are without serious barriers, by axe-core, in all colours and with all of their controls."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.conftest import write_tiny_config
from tests.runs import STYLE, untrained_run
from tests.tools.accessibility import barriers
from tests.tools.playground.pages import Opened, Trained, opened, page_of, serving

pytestmark = pytest.mark.browser

COLOURS: dict[str, dict[str, str]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "forced": {"forced_colors": "active"},
}


@pytest.fixture
def styled(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    run = untrained_run(write_tiny_config(tmp_path_factory.mktemp("styled")), *STYLE)
    with serving("--checkpoint", str(run)) as server, opened(browser, server.url) as page:
        yield page


def assert_no_barriers(page: Opened) -> None:
    page.page.locator("summary").first.click()
    page.click("keep")
    page.page.locator("#gallery figure").wait_for()
    for name, media in COLOURS.items():
        page.page.emulate_media(**{"color_scheme": "light", "forced_colors": "none", **media})  # type: ignore[arg-type]
        assert barriers(page.page) == [], name


def test_a_page_of_styles_has_no_serious_barrier(styled: Opened) -> None:
    styled.page.locator("#style-choices button").nth(1).click()
    styled.wait()
    assert_no_barriers(styled)


def test_pages_of_classes_and_of_images_have_no_serious_barrier(
    browser: Browser, facades: Trained, photos: Trained, engine: str
) -> None:
    for trained in (facades, photos):
        with page_of(browser, trained, engine) as page:
            assert_no_barriers(page)
