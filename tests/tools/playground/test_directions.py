"""The pages of CycleGAN's two generators."""

from pathlib import Path

import numpy as np
import pytest

from tests.tools.playground.pages import expected, post, serving
from tests.tools.serve.services import ask

PHOTO = np.random.default_rng(0).integers(0, 256, (32, 48, 3), dtype=np.uint8)


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
