"""Tiny networks on both kinds of pages, the actions of a user, and the results of test.py for the same files."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import pytest
from PIL import Image

from tests.conftest import save_image
from tests.runs import program_main, translate, untrained_run
from tests.tools.serve import services
from tools.export.format import ExportError
from tools.export.html import WASM, runtime_files
from tools.playground.__main__ import parse_arguments
from tools.playground.server import Playground
from tools.serve import app
from tools.serve.web import WebServer

if TYPE_CHECKING:  # functions import the library, which takes a second, because tests without a browser are next to it
    from playwright.sync_api import Browser, Download, FloatRect, Locator, Page, ViewportSize

N_CLASSES = 12  # classes of the synthetic facades
SIZE = 64
COLORS = np.array([[70, 130, 180], [128, 64, 128], [0, 0, 0], [9, 9, 9]], np.uint8)  # the last two are ignored
STRONG = "init.distribution=normal:0.3"  # or every translation is grey, and a stroke changes nothing
PATIENCE_MS = 120_000  # a machine may be busy


@dataclass(frozen=True)
class Opened:
    """A page in the browser whose first translation is shown."""

    page: Page

    def __getitem__(self, name: str) -> Locator:
        return self.page.locator(f"#{name}")

    def click(self, *names: str) -> None:
        for name in names:
            self[name].click()

    def wait(self) -> None:
        """Wait until the newest drawing is translated, and its canvas painted, which waits for a frame."""
        from playwright.sync_api import expect

        status = self["status"]
        expect(status).to_have_text("ready")
        status.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        expect(status).to_have_text("ready")

    def wait_for_file(self, width: int | None = None) -> None:
        """Wait until the picture of a chosen file or sample is translated. width: Its width, if it changes."""
        if width is None:
            self.page.wait_for_timeout(300)
        else:
            from playwright.sync_api import expect

            expect(self["source"]).to_have_attribute("width", str(width))
        self.wait()

    def open(self, file: Path, width: int | None = None) -> np.ndarray:
        self.drop(file)
        self.wait_for_file(width)
        return self.pixels("result")

    def pixels(self, canvas: str) -> np.ndarray:
        """Return the (H, W, 3) levels of a canvas, by its id."""
        address = self[canvas].evaluate("canvas => canvas.toDataURL('image/png')")
        return np.array(Image.open(BytesIO(b64decode(address.partition(",")[2]))).convert("RGB"))

    def box(self, name: str) -> FloatRect:
        """Return where the element of an id is on the screen, with what is out of sight."""
        box = self[name].bounding_box()
        assert box is not None
        return box

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Return where the middle of a pixel of the picture is on the screen."""
        left, top, width, height = self["source"].evaluate(
            """canvas => {
                const {x, y, width, height} = canvas.getBoundingClientRect();
                return [x, y, width / canvas.width, height / canvas.height];
            }"""
        )
        return left + (x + 0.5) * width, top + (y + 0.5) * height

    def choose(self, name: str) -> None:
        self.page.get_by_text(name, exact=True).first.click()

    def drag(self, *points: tuple[float, float], button: Literal["left", "right"] = "left") -> None:
        """Press the mouse at the first of some points, in pixels of the picture, and release it at the last."""
        mouse = self.page.mouse
        for number, point in enumerate(points):
            mouse.move(*self.place(*point))
            if number == 0:
                mouse.down(button=button)
        mouse.up(button=button)
        self.wait()

    def download(self, button: str, folder: Path, n_files: int = 1) -> list[Path]:
        downloads: list[Download] = []

        def collect(download: Download) -> None:
            downloads.append(download)

        self.page.on("download", collect)
        self.click(button)
        while len(downloads) < n_files:
            self.page.wait_for_timeout(20)
        self.page.remove_listener("download", collect)
        files = [folder / download.suggested_filename for download in downloads]
        for file, download in zip(files, downloads, strict=True):
            download.save_as(file)
        return files

    def saved(self, folder: Path) -> tuple[np.ndarray, np.ndarray]:
        labels, instances = self.download("save", folder, 2)
        return read(labels), read(instances)

    def keys(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def clear(self) -> None:
        """Show an empty picture whole."""
        self.click("clear")
        if self["fit"].is_enabled():
            self.click("fit")
        self.wait()

    def more(self) -> None:
        self.page.locator("summary").first.click()

    def assert_says(self, text: str) -> None:
        """Wait until the message of the page contains a text."""
        from playwright.sync_api import expect

        expect(self.page.locator("#message span")).to_contain_text(text)

    def assert_no_barriers(self) -> None:
        """Look for serious barriers by axe-core, in all colours."""
        from axe_playwright_python.sync_playwright import Axe

        for scheme, forced in (("light", "none"), ("dark", "none"), ("light", "active")):
            self.page.emulate_media(color_scheme=scheme, forced_colors=forced)  # type: ignore[arg-type]
            found = Axe().run(self.page, options={"resultTypes": ["violations"]}).response["violations"]
            serious = [each for each in found if each["impact"] in ("serious", "critical")]
            assert serious == [], (scheme, forced)
        self.page.emulate_media(color_scheme="light", forced_colors="none")

    def choose_sample(self, index: int) -> None:
        self["samples"].select_option(index=index)
        self.wait_for_file()

    def drop(self, file: Path) -> None:
        self.page.locator("html").evaluate(
            """(target, {name, bytes}) => {
                const transfer = new DataTransfer();
                transfer.items.add(new File([new Uint8Array(bytes)], name));
                target.dispatchEvent(new DragEvent("drop", {dataTransfer: transfer, bubbles: true, cancelable: true}));
            }""",
            {"name": file.name, "bytes": list(file.read_bytes())},
        )


FIRST_SAMPLE_IS_READ = """() => {
    const samples = document.getElementById("samples");
    return samples.options.length < 2 || samples.value !== "" || !document.getElementById("message").hidden;
}"""  # a blank picture is shown until then


@contextmanager
def opened(browser: Browser, url: str, *, is_phone: bool = False) -> Iterator[Opened]:
    """Open a page; at the end it must have raised no error, and requested nothing from elsewhere."""
    from playwright.sync_api import expect

    size: ViewportSize = {"width": 360, "height": 740} if is_phone else {"width": 1280, "height": 900}
    context = browser.new_context(viewport=size, has_touch=is_phone, is_mobile=is_phone)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    errors: list[str] = []
    requests: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(url)
    expect(page.locator("#status")).to_have_text("ready")
    page.wait_for_function(FIRST_SAMPLE_IS_READ)
    one = Opened(page)
    one.wait()
    yield one
    context.close()
    origin = "file://" if url.startswith("file:") else url
    assert errors == []
    assert [request for request in requests if not request.startswith((origin, "data:", "blob:"))] == []


def read(path: Path | BytesIO) -> np.ndarray:
    """Return the levels of an image file, or the ids of a map."""
    return np.asarray(Image.open(path))


def serving(*arguments: str) -> AbstractContextManager[WebServer]:
    """The server at a port that is free."""
    return services.running(app.serving(Playground, parse_arguments([*arguments, "--no-browser"]), None))


def post(server: WebServer, *maps: np.ndarray, seed: int = 0, path: str = "/", then: str = "") -> tuple[int, bytes]:
    """Send a drawing as the page does: a source, and its instances. Return the pixels of the answer, or its text."""
    files = dict(zip(("source", "instances"), map(netpbm, maps), strict=False))
    address = f"{path}translate?picture=1&seed={seed}{then}"
    form = services.form(**files).replace(b"photo.x", b"source.pnm")
    status, body, headers = services.ask(server, address, form, services.FORM)
    return status, read(BytesIO(body)).tobytes() if headers["Content-Type"] == "image/bmp" else body


def netpbm(image: np.ndarray) -> bytes:
    """Return an RGB image, or a map of ids, as an uncompressed file."""
    kind, values = (b"P6", image) if image.ndim == 3 else (b"P5", image.astype(">u2"))
    return b"%s %d %d %d\n" % (kind, image.shape[1], image.shape[0], np.iinfo(values.dtype).max) + values.tobytes()


class Trained(NamedTuple):
    """A run, and its network in a page of its own."""

    run: Path
    page: Path


def exported(config: Path, *settings: str) -> Trained:
    """An untrained run, and its page with two samples. Skips the test where the page's runtime cannot be downloaded."""
    try:
        runtime_files(WASM, None)
    except ExportError as error:
        if "cannot be downloaded" in str(error):
            pytest.skip(str(error))
        raise
    run_folder, page = untrained_run(config, STRONG, *settings), config.parent / "page.html"
    options = ["--checkpoint", str(run_folder), "--format", "html", "--output", str(page), "--samples", "2"]
    program_main("tools.export")(options)
    return Trained(run_folder, page)


@contextmanager
def page_of(browser: Browser, trained: Trained, engine: str) -> Iterator[Opened]:
    if engine == "file":
        with opened(browser, trained.page.as_uri()) as page:
            yield page
        return
    command = ("--checkpoint", str(trained.run), "--opt-level", "O0")
    with serving(*command) as server, opened(browser, server.url) as page:
        yield page


def assert_as_test_py(
    found: np.ndarray, trained: Trained, source: np.ndarray, instances: np.ndarray | None, folder: Path
) -> None:
    """Check that a translation equals the result of test.py for maps that the page has saved."""
    wanted = expected(folder, source, instances, "--checkpoint", str(trained.run), "--opt-level", "O0").astype(int)
    assert wanted.std() > 1
    assert abs(found.astype(int) - wanted).max() <= 1


def expected(folder: Path, source: np.ndarray, instances: np.ndarray | None, *options: str) -> np.ndarray:
    """Return the result of test.py for the maps as files."""
    save_image(folder / "source.png", source.astype(np.uint16 if source.max() > 255 else np.uint8))
    arguments = ["--input", str(folder / "source.png"), "--output", str(folder / "out"), *options]
    if instances is not None:
        save_image(folder / "instances" / "source.png", instances.astype(np.uint16))
        arguments += ["--instances", str(folder / "instances")]
    translate(*arguments)
    return read(folder / "out" / "source.png")
