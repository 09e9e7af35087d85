"""The pages of CycleGAN's two generators."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from playwright.sync_api import Browser, expect

from tests.conftest import save_image
from tests.tools.playground.pages import expected, opened, post, serving
from tests.tools.serve.services import ask

PHOTO = np.random.default_rng(0).integers(0, 256, (32, 48, 3), dtype=np.uint8)


@pytest.fixture
def cyclegan(reference: dict[str, Any], tmp_path: Path) -> Path:
    """A folder of two generators."""
    weights = reference["pix2pixhd_global_rgb"]["state_dict"]
    for letter, sign in (("A", 1), ("B", -1)):
        torch.save(
            weights | {"model.19.bias": sign * weights["model.19.bias"]}, tmp_path / f"latest_net_G_{letter}.pth"
        )
    return tmp_path


def test_each_direction_has_a_page_and_its_generator_is_loaded_for_it(
    cyclegan: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving("--checkpoint", str(cyclegan), "--direction", "BtoA") as server:
        assert "latest_net_G_A.pth" not in caplog.text
        pages = [ask(server, path) for path in ("/", "/AtoB/", "/BtoA/", "/elsewhere/", "/AtoB")]
        found = {path: post(server, PHOTO, path=path) for path in ("/", "/AtoB/", "/BtoA/")}
    assert [status for status, *_ in pages] == [302, 200, 200, 404, 404]
    assert pages[0][2]["Location"] == "/BtoA/"
    again = ("--existing", "replace")
    for direction, (_, page, _) in zip(("AtoB", "BtoA"), pages[1:3], strict=True):
        assert f'<a href="/{direction}/" aria-current="page">{direction}</a>'.encode() in page
        wanted = expected(cyclegan, PHOTO, None, "--checkpoint", str(cyclegan), "--direction", direction, *again)
        assert np.array_equal(np.frombuffer(found[f"/{direction}/"][1], np.uint8).reshape(PHOTO.shape), wanted)
    assert found["/"] == found["/BtoA/"] != found["/AtoB/"]
    with serving("--checkpoint", str(cyclegan / "latest_net_G_A.pth")) as server:
        assert ask(server, "/BtoA/")[0] == 404
        assert b"<nav" not in ask(server, "/")[1]


@pytest.mark.browser
def test_a_link_leads_to_the_other_direction_and_back_to_the_drawing(browser: Browser, cyclegan: Path) -> None:
    save_image(cyclegan / "photo.png", PHOTO)
    with serving("--checkpoint", str(cyclegan)) as server, opened(browser, server.url) as page:
        page.drop(cyclegan / "photo.png")
        page.wait_for_file()
        source, result = page.pixels("source"), page.pixels("result")
        for direction in ("BtoA", "AtoB"):
            page.page.get_by_role("link", name=direction).click()
            expect(page.page.get_by_role("link", name=direction)).to_have_attribute("aria-current", "page")
            expect(page["status"]).to_have_text("ready")
            page.wait()
            if direction == "BtoA":
                assert page.pixels("source").std() == 0
        assert np.array_equal(source, page.pixels("source"))
        assert np.array_equal(result, page.pixels("result"))
