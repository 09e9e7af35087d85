"""A network whose translations are larger than their sources, on the page of both engines."""

from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser

from tests.conftest import save_image, write_tiny_config
from tests.tools.playground.pages import read
from tests.tools.playground.trained import Trained, exported, page_of, translated_by_test_py

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module", params=[4, 0.5])
def scaled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Trained, float]:
    scale = float(request.param)
    config = write_tiny_config(tmp_path_factory.mktemp("scaled"))
    rng = np.random.default_rng(0)
    for split in ("train", "test"):
        for side, times in (("A", 1), ("B", scale)):
            pixels = rng.integers(0, 256, (round(24 * times), round(40 * times), 3), dtype=np.uint8)
            save_image(config.parent / "pairs" / f"{split}_{side}" / "1.png", pixels)
    data = ("data.layout=paired_folders", f"data.root={config.parent / 'pairs'}", "data.instance_edges=false")
    return exported(config, *data, f"generator.scale={scale}"), scale


def test_the_result_has_the_size_of_the_target(
    browser: Browser, scaled: tuple[Trained, float], engine: str, tmp_path: Path
) -> None:
    trained, scale = scaled
    with page_of(browser, trained, engine) as page:
        source, result, over = (page.pixels(name) for name in ("source", "result", "over"))
        (saved,) = page.download("save", tmp_path)
        (picture,) = page.download("download", tmp_path)
    assert source.shape == (24, 40, 3)
    assert result.shape == over.shape == (round(24 * scale), round(40 * scale), 3)
    if scale > 1:
        assert np.array_equal(over, source.repeat(round(scale), 0).repeat(round(scale), 1))
    assert np.array_equal(read(picture), result)
    expected = translated_by_test_py(trained, saved, None, tmp_path)
    assert expected.std() > 10
    assert abs(result.astype(int) - expected).max() <= 1
