"""A real browser."""

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.tools.playground.pages import PATIENCE_MS

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = [  # nothing but the page itself, and a camera that shows a moving picture
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
    *("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"),
]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("needs chromium")
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as programs:
        running = programs.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield running
        running.close()
