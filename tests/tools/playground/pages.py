"""The page in a real browser: what a user does on it, and what it shows."""

from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Browser, Download, Locator, Page, expect

PATIENCE_MS = 120_000  # a machine may be busy


@dataclass(frozen=True)
class Opened:
    """A page in the browser whose first translation is shown."""

    page: Page

    @property
    def source(self) -> Locator:
        return self.page.locator("#source")

    def wait(self) -> None:
        """Wait until the newest drawing is translated, and its canvas painted, which waits for a frame."""
        status = self.page.locator("#status")
        expect(status).to_have_text("ready")
        status.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        expect(status).to_have_text("ready")

    def pixels(self, canvas: str) -> np.ndarray:
        """Return the (H, W, 3) levels of a canvas, by its id."""
        address = self.page.locator(f"#{canvas}").evaluate("canvas => canvas.toDataURL('image/png')")
        return np.array(Image.open(BytesIO(b64decode(address.partition(",")[2]))).convert("RGB"))

    def choose(self, name: str) -> None:
        """Choose a tool, or an entry of the palette, by its text."""
        self.page.get_by_text(name, exact=True).first.click()

    def drag(self, *points: tuple[float, float]) -> None:
        """Press the mouse at the first of some points, in pixels of the picture, and release it at the last."""
        box, size = self.source.bounding_box(), self.pixels("source").shape
        assert box is not None
        mouse = self.page.mouse
        for number, (x, y) in enumerate(points):
            mouse.move(box["x"] + (x + 0.5) * box["width"] / size[1], box["y"] + (y + 0.5) * box["height"] / size[0])
            if number == 0:
                mouse.down()
        mouse.up()
        self.wait()

    def download(self, button: str, folder: Path) -> list[Path]:
        """Return the files that a button downloads."""
        downloads: list[Download] = []

        def collect(download: Download) -> None:
            downloads.append(download)

        self.page.on("download", collect)
        self.page.locator(f"#{button}").click()
        self.page.wait_for_timeout(500)
        self.page.remove_listener("download", collect)
        files = [folder / download.suggested_filename for download in downloads]
        for file, download in zip(files, downloads, strict=True):
            download.save_as(file)
        return files

    def drop(self, file: Path) -> None:
        """Drop a file on the page."""
        self.page.locator("html").evaluate(
            """(target, {name, bytes}) => {
                const transfer = new DataTransfer();
                transfer.items.add(new File([new Uint8Array(bytes)], name));
                target.dispatchEvent(new DragEvent("drop", {dataTransfer: transfer, bubbles: true, cancelable: true}));
            }""",
            {"name": file.name, "bytes": list(file.read_bytes())},
        )

    def message(self) -> str:
        """Return the message of the page, once there is one."""
        expect(self.page.locator("#message")).to_be_visible()
        return self.page.locator("#message span").inner_text()


FIRST_SAMPLE_IS_READ = """() => {
    const samples = document.getElementById("samples");
    return samples.options.length < 2 || samples.value !== "" || !document.getElementById("message").hidden;
}"""  # a blank picture is shown until then


@contextmanager
def opened(browser: Browser, url: str, *, width: int = 1280, height: int = 900) -> Iterator[Opened]:
    """Open a page; at the end it must have raised no error, and requested nothing from elsewhere."""
    context = browser.new_context(viewport={"width": width, "height": height})
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


def read(path: Path) -> np.ndarray:
    """Return the levels of an image file, or the ids of a map."""
    return np.asarray(Image.open(path))
