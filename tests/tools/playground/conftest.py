"""A real browser, and networks for the pages that it shows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.conftest import save_image, write_tiny_config
from tests.runs import untrained_run
from tests.tools.playground.pages import COLORS, PATIENCE_MS, SIZE, STRONG, Opened, Trained, exported, opened, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = [  # nothing but the page itself, and a camera that shows a moving picture
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
    *("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"),
]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import tests in a browser that are deselected: their library takes a second."""
    return (
        True
        if collection_path.name.startswith("test_browser") and config.option.markexpr.endswith("not browser")
        else None
    )


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("needs chromium")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as programs:
        running = programs.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield running
        running.close()


@pytest.fixture(scope="session")
def facades(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Label maps with instances -> photographs."""
    config = write_tiny_config(tmp_path_factory.mktemp("facades"))
    size = (f"data.synthetic_size=[{SIZE},{SIZE}]",)
    return exported(config, *size)


@pytest.fixture(scope="session")
def facades_url(facades: Trained) -> Iterator[str]:
    """The address of a server of `facades`, for tests that do not change it."""
    with serving("--checkpoint", str(facades.run), "--opt-level", "O0") as server:
        yield server.url


@pytest.fixture
def blank(browser: Browser, facades_url: str) -> Iterator[Opened]:
    """The page of `facades` by the server, with an empty picture."""
    with opened(browser, facades_url) as page:
        page.click("clear")
        page.wait()
        yield page


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """RGB images -> RGB images."""
    config = write_tiny_config(tmp_path_factory.mktemp("photos"))
    pixels = np.random.default_rng(0).integers(0, 256, (40, 96, 3), dtype=np.uint8)
    for split in ("train", "test"):
        save_image(config.parent / "pairs" / split / "1.png", pixels)
    data = ("data.layout=side_by_side", f"data.root={config.parent / 'pairs'}", "data.instance_edges=false")
    return exported(config, *data)


@pytest.fixture(params=["server", "file"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def colored(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Label maps in the colours of COLORS -> photographs."""
    config = write_tiny_config(tmp_path_factory.mktemp("colored"))
    rng = np.random.default_rng(0)
    pixels = COLORS[rng.integers(0, len(COLORS), (8, 10))].repeat(4, 0).repeat(4, 1)
    for split in ("train", "test"):
        for folder in ("label", "img"):
            save_image(config.parent / "pairs" / f"{split}_{folder}" / "1.png", pixels)
    table = "{sky: [70, 130, 180], road: [128, 64, 128], ignored: [[0, 0, 0], [9, 9, 9]]}"
    data = ["data.layout=paired_folders", f"data.root={config.parent / 'pairs'}", "data.instance_edges=false"]
    return Trained(untrained_run(config, STRONG, *data, f"data.label_colors={table}"), Path())
