"""The gallery is one page, whatever the names of its files are."""

import html
import json
import math
import os
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import unquote_to_bytes, urlsplit

import numpy as np
import pytest

from tests.conftest import save_image
from utils.gallery import Row, Swatch, write_gallery

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NASTY = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a&amp;b", "50%20#1?x='y'", "ünï ☃", "a/b"]


def attributes(page: Path, name: str) -> list[str]:
    """The values of an attribute in a page, as a browser reads them."""
    return [html.unescape(value) for value in re.findall(rf'(?<=[ <]){name}="(.*?)"', page.read_text(), re.DOTALL)]


def file_of(link: str, folder: Path) -> Path:
    parts = urlsplit(link)
    assert parts.path == link  # no scheme, query or fragment
    return folder / os.fsdecode(unquote_to_bytes(parts.path))


def test_names_are_escaped_and_links_lead_to_files(tmp_path: Path) -> None:
    rows, names = [], [*NASTY, os.fsdecode(b"caf\xe9")]
    for name in names:
        images = {kind: f"gallery/{kind}/{name}.png" for kind in ("source", "translated")}
        for image in (*images.values(), f"{name}.png"):
            (tmp_path / image).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / image).touch()
        rows.append(Row(name, images, full=f"{name}.png"))
    page = tmp_path / "index.html"
    write_gallery(page, rows, "</title><script>alert(2)</script>")
    assert page.read_text().count("<script>") == 1
    assert attributes(page, "data-name") == [*NASTY, r"caf\udce9"]
    links = attributes(page, "src") + attributes(page, "href")
    assert len(links) == 3 * len(names)
    assert all(file_of(link, tmp_path).is_file() for link in links)
    assert attributes(page, "loading") == ["lazy"] * 2 * len(names)
    assert "http" not in page.read_text()  # nothing from a network
    assert not list(tmp_path.glob(".*"))


def test_rows_may_lack_images_and_figures(tmp_path: Path) -> None:
    metrics = {"L1": 0.5, "PSNR": math.nan, "SSIM": None}
    rows = [Row("a", {"source": "a.png", "target": "t.png"}, metrics=metrics), Row("b", {"source": "b.png"})]
    page = tmp_path / "web" / "index.html"
    write_gallery(page, rows, "run")
    assert attributes(page, "src") == ["a.png", "t.png", "b.png"]
    assert attributes(page, "data-metrics") == ['{"number": 0, "L1": 0.5}', '{"number": 1}']
    assert [f"{name}, lowest first" in page.read_text() for name in metrics] == [True] * 3


def test_a_legend_names_the_classes_and_is_open_if_they_are_few(tmp_path: Path) -> None:
    path, rows, swatch = tmp_path / "index.html", [Row("a", {"source": "a.png"})], Swatch(NASTY[0], "804080")
    for n_classes, tag in ((1, '<details class="legend" open>'), (41, '<details class="legend">')):
        write_gallery(path, rows, "labels", legend=[swatch] * n_classes)
        assert tag in path.read_text()
        assert '<li><i style="background: #804080"></i>&lt;script&gt;alert(1)&lt;/script&gt;</li>' in path.read_text()


CHECK = """
<script>
window.addEventListener("load", () => {
  const get = id => document.getElementById(id);
  const names = () => [...document.querySelectorAll("article:not([hidden])")].map(row => row.dataset.name);
  const change = (id, key, value) => {
    get(id)[key] = value; get(id).dispatchEvent(new Event(id === "filter" || id === "slider" ? "input" : "change"));
  };
  const found = {first: names()};
  change("order", "value", "L1"); found.rising = names();
  change("descending", "checked", true); found.falling = names();
  change("filter", "value", "<SCRIPT"); found.filtered = names(); found.count = get("count").textContent;
  change("filter", "value", "");
  document.querySelector("article button[data-kind=translated]").click();
  found.open = get("viewer").open; found.pair = [get("left").value, get("right").value];
  change("slider", "value", 25); found.clip = get("over").style.clipPath;
  get("next").click(); found.caption = get("caption").textContent;
  found.loaded = [...document.querySelectorAll("article img")].every(img => img.loading === "lazy");
  document.title = "done";
  const result = document.createElement("pre");
  result.id = "found"; result.textContent = JSON.stringify(found);
  document.body.append(result);
});
</script>
"""


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_a_browser_sorts_filters_and_compares(tmp_path: Path) -> None:
    rows = []
    for number, name in enumerate(NASTY):
        images = {kind: f"{kind}/{name}.png" for kind in ("source", "translated", "target")}
        for image in images.values():
            save_image(tmp_path / image, np.full((40, 60, 3), 40 * number, dtype=np.uint8))
        rows.append(Row(name, images, metrics={"L1": (number * 5) % 7 / 10} if number else {}))
    write_gallery(tmp_path / "index.html", rows, "gallery")
    page = (tmp_path / "index.html").read_text()
    (tmp_path / "check.html").write_text(page.replace("</html>", CHECK + "</html>"))
    assert CHROMIUM
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    command += ["--virtual-time-budget=3000", "--dump-dom", (tmp_path / "check.html").as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
    written = re.search(r'<pre id="found">(.*?)</pre>', dom)
    assert written is not None
    found = json.loads(html.unescape(written[1]))
    by_l1 = sorted(range(1, len(NASTY)), key=lambda number: (number * 5) % 7)
    assert found["first"] == NASTY
    assert found["rising"] == [NASTY[n] for n in by_l1] + NASTY[:1]  # without a figure: last
    assert found["falling"] == [NASTY[n] for n in reversed(by_l1)] + NASTY[:1]
    assert found["filtered"] == NASTY[:1]
    assert found["count"] == "1"
    assert (found["open"], found["pair"]) == (True, ["translated", "target"])
    assert found["clip"] == "inset(0px 75% 0px 0px)"
    assert found["caption"].startswith(NASTY[by_l1[-2]])
