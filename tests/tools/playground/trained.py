"""Tiny networks on both kinds of pages, and the pictures that test.py makes of what a page has saved."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from playwright.sync_api import Browser

from tests.conftest import save_image
from tests.runs import program_main, translate, untrained_run
from tests.tools.playground.pages import Opened, opened, read
from tests.tools.playground.serving import serving

N_CLASSES = 12  # of the synthetic facades
SIZE = 64
COLORS = np.array([[70, 130, 180], [128, 64, 128], [0, 0, 0], [9, 9, 9]], np.uint8)  # the last two are ignored
STRONG = "init.gain=0.3"  # or every translation is grey, and a stroke changes nothing


class Trained(NamedTuple):
    """A run, and its network in a page of its own."""

    run: Path
    page: Path


def exported(config: Path, *settings: str) -> Trained:
    """An untrained run, and its page with two samples."""
    run_folder, page = untrained_run(config, STRONG, *settings), config.parent / "page.html"
    options = ["--checkpoint", str(run_folder), "--format", "html", "--output", str(page), "--samples", "2"]
    program_main("tools.export")(options)
    return Trained(run_folder, page)


@contextmanager
def page_of(browser: Browser, trained: Trained, engine: str, **size: int) -> Iterator[Opened]:
    if engine == "file":
        with opened(browser, trained.page.as_uri(), **size) as page:
            yield page
        return
    command = ("--checkpoint", str(trained.run), "--opt-level", "O0")
    with serving(*command) as server, opened(browser, server.url, **size) as page:
        yield page


def translated_by_test_py(trained: Trained, source: Path, instances: Path | None, folder: Path) -> np.ndarray:
    """Return the picture that test.py makes of files that the page has saved."""
    arguments = ["--checkpoint", str(trained.run), "--input", str(source), "--side", "none", "--opt-level", "O0"]
    if instances is not None:
        (folder / "instances").mkdir()
        instances.rename(folder / "instances" / source.name)
        arguments += ["--instances", str(folder / "instances")]
    translate(*arguments, "--output", str(folder / "out"))
    return read(folder / "out" / source.name).astype(int)


def expected(folder: Path, labels: np.ndarray, instances: np.ndarray | None, *options: str) -> np.ndarray:
    """Return the picture that test.py makes of the maps as files."""
    save_image(folder / "source.png", labels.astype(np.uint16 if labels.max() > 255 else np.uint8))
    arguments = ["--input", str(folder / "source.png"), "--output", str(folder / "out"), *options]
    if instances is not None:
        save_image(folder / "instances" / "source.png", instances.astype(np.uint16))
        arguments += ["--instances", str(folder / "instances")]
    translate(*arguments)
    return read(folder / "out" / "source.png")
