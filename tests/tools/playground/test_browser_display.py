"""The page on screens of all sizes, with forced colours, and in a browser that cannot compute."""

from io import BytesIO

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Locator, expect

from tests.tools.playground.pages import Opened
from tests.tools.playground.serving import serving
from tests.tools.playground.trained import SIZE, Trained, page_of

pytestmark = pytest.mark.browser


def test_one_can_draw_by_touch_on_a_small_screen(browser: Browser, facades: Trained) -> None:
    with serving("--checkpoint", str(facades.run)) as server:
        context = browser.new_context(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
        page = context.new_page()
        page.goto(server.url)
        expect(page.locator("#status")).to_have_text("ready")
        assert page.evaluate_handle("document.documentElement.scrollWidth").json_value() == 360
        one = Opened(page)
        before = one.pixels("source")
        page.get_by_text("door", exact=True).tap()
        page.locator("#source").tap(position={"x": 40, "y": 60})
        one.wait()
        assert (one.pixels("source") != before).any()
        context.close()


def test_both_pictures_are_in_sight_and_forced_colours_show_what_is_chosen(browser: Browser, facades: Trained) -> None:
    with page_of(browser, facades, "server") as page:
        for width, height in ((360, 640), (640, 360), (1024, 768), (1920, 1080), (3840, 2160)):
            page.page.set_viewport_size({"width": width, "height": height})
            for canvas in ("#source", "#result"):
                box = page.page.locator(canvas).bounding_box()
                assert box is not None
                assert min(box["x"], box["y"]) >= 0
                assert box["x"] + box["width"] <= width
                assert box["y"] + box["height"] <= height
                assert min(box["width"], box["height"]) > 0.35 * min(width, height)
        page.page.emulate_media(forced_colors="active")
        for name in ("tool", "value"):
            chosen, other = (screenshot(page.page.locator(f"label:has([name={name}])").nth(at)) for at in range(2))
            assert np.abs(np.median(chosen, (0, 1)) - np.median(other, (0, 1))).max() > 50
        for at, color in enumerate(((135, 206, 250), (200, 85, 60))):  # of sky and wall
            swatch = screenshot(page.page.locator(".swatch").nth(at))
            assert (np.median(swatch, (0, 1)) == color).all()


def screenshot(element: Locator) -> np.ndarray:
    return np.asarray(Image.open(BytesIO(element.screenshot())).convert("RGB")).astype(int)


def test_a_browser_without_simd_shows_samples(browser: Browser, facades: Trained) -> None:
    context = browser.new_context()
    context.add_init_script("WebAssembly.validate = () => false")
    page = context.new_page()
    page.goto(facades.page.as_uri())
    expect(page.locator("#status")).to_have_text("no translations")
    one = Opened(page)
    assert "This browser has no WebAssembly SIMD, which the network needs" in one.message()
    first = one.pixels("source")
    assert first.shape == (SIZE, SIZE, 3)
    page.locator("#samples").select_option(index=2)
    page.wait_for_function("() => document.getElementById('samples').value === '1'")
    one.page.wait_for_timeout(100)
    assert (one.pixels("source") != first).any()
    context.close()
