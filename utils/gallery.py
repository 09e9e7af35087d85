"""A page that shows many translated images beside their sources and targets, from the file system alone."""

import html
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from utils.atomic_file import replacing


@dataclass(frozen=True)
class Row:
    """One sample on the page.

    images: file of each picture by what it shows ("source", "translated", …), relative to the page's folder.
    full: the translated image at full size, to open; relative too. None: there is no other than the one shown.
    metrics: figures by name, to sort by.
    """

    name: str
    images: Mapping[str, str]
    full: str | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)


def write_gallery(path: Path, rows: Sequence[Row], title: str) -> None:
    """Write the page, whole or not at all: a reader of the one before is not disturbed.

    Everything is in the one file but the images, which a browser loads as they come into view.
    """
    kinds = list(dict.fromkeys(kind for row in rows for kind in row.images))
    metrics = list(dict.fromkeys(name for row in rows for name in row.metrics))
    orders = ["name", *metrics]
    page = _PAGE.format(
        title=_text(title),
        n_rows=len(rows),
        style=_STYLE,
        script=_SCRIPT,
        orders="".join(f'<option value="{_text(name)}">{_text(name)}</option>' for name in orders),
        head="".join(f"<span>{_text(kind)}</span>" for kind in kinds),
        columns=len(kinds),
        rows="\n".join(_row(row, kinds, number) for number, row in enumerate(rows)),
    )
    with replacing(path) as unfinished:
        unfinished.write_text(page, encoding="utf-8")


def _row(row: Row, kinds: Sequence[str], number: int) -> str:
    pictures = "".join(_picture(kind, row) for kind in kinds)
    figures = "".join(f"<dt>{_text(name)}</dt><dd>{value:.4g}</dd>" for name, value in row.metrics.items())
    data = _text(json.dumps({"number": number, **row.metrics}))
    full = f' <a href="{_link(row.full)}">full size</a>' if row.full else ""
    return (
        f'<article data-name="{_text(row.name)}" data-metrics="{data}">{pictures}'
        f'<div class="about"><h2>{_text(row.name)}</h2><dl>{figures}</dl>{full}</div></article>'
    )


def _picture(kind: str, row: Row) -> str:
    if kind not in row.images:
        return "<span></span>"
    link, label = _link(row.images[kind]), _text(f"{kind}: {row.name}")
    return f'<button data-kind="{_text(kind)}" title="{label}"><img loading="lazy" src="{link}" alt="{label}"></button>'


def _text(text: str) -> str:
    """`text` for between tags and in quotes; bytes of a file's name that are no text are shown as numbers."""
    return html.escape(text.encode("utf-8", "backslashreplace").decode())


def _link(path: str) -> str:
    """The address of a file; its name may hold anything."""
    return quote(os.fsencode(path))


_PAGE = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>{style}</style>
<header>
<h1>{title}</h1>
<label>sort by <select id="order">{orders}</select></label>
<label><input type="checkbox" id="descending"> largest first</label>
<label>name <input type="search" id="filter" placeholder="part of a name"></label>
<span id="count">{n_rows}</span> images
</header>
<main id="rows" style="--columns: {columns}">
<div class="head">{head}<span></span></div>
{rows}
</main>
<dialog id="viewer">
<div class="bar">
<select id="left"></select><input type="range" id="slider" min="0" max="100" value="50" step="0.1"
 aria-label="what of the left image is seen"><select id="right"></select>
<button id="previous" title="previous image">&larr;</button><button id="next" title="next image">&rarr;</button>
<button id="close" title="close">&times;</button>
</div>
<p id="caption"></p>
<div id="pair"><img id="under" alt=""><img id="over" alt=""><div id="line"></div></div>
</dialog>
<script>{script}</script>
</html>
"""

_STYLE = """
:root { color-scheme: light dark; font: 15px/1.4 system-ui, sans-serif; }
body { margin: 0 16px 32px; }
header { position: sticky; top: 0; z-index: 1; display: flex; flex-wrap: wrap; gap: 8px 20px; align-items: center;
  padding: 8px 0; background: Canvas; border-bottom: 1px solid color-mix(in srgb, CanvasText 25%, Canvas); }
h1 { font-size: 1.1rem; margin: 0 auto 0 0; }
article, .head { display: grid; grid-template-columns: repeat(var(--columns), minmax(0, 1fr)) 13rem; gap: 8px;
  padding: 8px 0; align-items: start; }
article { content-visibility: auto; contain-intrinsic-size: auto 220px;
  border-bottom: 1px solid color-mix(in srgb, CanvasText 12%, Canvas); }
article[hidden] { display: none; }
.head { font-weight: 600; padding-bottom: 0; }
article button { all: unset; cursor: zoom-in; min-height: 48px; }
article button:focus-visible { outline: 2px solid Highlight; }
article img { display: block; width: 100%; height: auto; background: color-mix(in srgb, CanvasText 8%, Canvas); }
h2 { font-size: 1rem; margin: 0; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: auto 1fr; gap: 0 12px; margin: 4px 0; font-variant-numeric: tabular-nums; }
dd { margin: 0; }
dialog { width: min(96vw, 1600px); max-height: 96vh; padding: 12px; border: 0; border-radius: 6px; }
dialog::backdrop { background: rgb(0 0 0 / 70%); }
.bar { display: flex; gap: 8px; align-items: center; }
.bar input { flex: 1; }
#caption { margin: 8px 0; overflow-wrap: anywhere; }
#pair { position: relative; cursor: ew-resize; touch-action: none; user-select: none; margin: auto;
  width: fit-content; }
#pair img { display: block; width: min(92vw, 1560px, 80vh * var(--ratio, 1)); height: auto; }
#pair #over { position: absolute; inset: 0; height: 100%; }
#line { position: absolute; top: 0; bottom: 0; width: 2px; background: white; box-shadow: 0 0 3px black; }
"""

_SCRIPT = """
"use strict";
const get = id => document.getElementById(id);
const rows = [...document.querySelectorAll("article")];
const metrics = new Map(rows.map(row => [row, JSON.parse(row.dataset.metrics)]));
let shown = rows, at = null;

function arrange() {
  const order = get("order").value, sign = get("descending").checked ? -1 : 1;
  const value = row => order === "name" ? metrics.get(row).number : metrics.get(row)[order];
  const wanted = get("filter").value.toLowerCase();
  // rows without the figure come last, whichever way
  rows.sort((a, b) => (value(a) === undefined) - (value(b) === undefined) || sign * (value(a) - value(b)) || 0);
  for (const row of rows) row.hidden = !row.dataset.name.toLowerCase().includes(wanted);
  shown = rows.filter(row => !row.hidden);
  get("rows").append(...rows);
  get("count").textContent = shown.length;
}

function source(row, kind) {
  const button = [...row.querySelectorAll("button")].find(button => button.dataset.kind === kind);
  return button ? button.firstChild.src : "";
}

function slide(percent) {
  get("slider").value = percent;
  get("over").style.clipPath = `inset(0 ${100 - percent}% 0 0)`;
  get("line").style.left = `calc(${percent}% - 1px)`;
}

get("under").addEventListener("load", () => {  // the stage is as wide as the picture, so that the slider is, too
  get("pair").style.setProperty("--ratio", get("under").naturalWidth / get("under").naturalHeight);
});

function draw() {
  get("over").src = source(at, get("left").value);
  get("under").src = source(at, get("right").value);
  const figures = Object.entries(metrics.get(at)).filter(([name]) => name !== "number");
  const texts = figures.map(([name, x]) => `${name} ${x.toPrecision(4)}`);
  get("caption").textContent = [at.dataset.name, ...texts].join("   ");
}

function open(row, kind) {
  at = row;
  const kinds = [...row.querySelectorAll("button")].map(button => button.dataset.kind);
  const other = kind === "translated" ? (kinds.includes("target") ? "target" : kinds[0]) : kind;
  for (const [id, chosen] of [["left", "translated"], ["right", other]]) {
    get(id).replaceChildren(...kinds.map(kind => new Option(kind, kind, false, kind === chosen)));
  }
  draw();
  slide(50);
  get("viewer").showModal();
}

function move(by) {
  const next = shown[shown.indexOf(at) + by];
  if (next) { at = next; draw(); }
}

get("rows").addEventListener("click", event => {
  const button = event.target.closest("article button");
  if (button) open(button.parentElement, button.dataset.kind);
});
for (const id of ["order", "descending"]) get(id).addEventListener("change", arrange);
get("filter").addEventListener("input", arrange);
for (const id of ["left", "right"]) get(id).addEventListener("change", draw);
get("slider").addEventListener("input", event => slide(event.target.value));
get("close").addEventListener("click", () => get("viewer").close());
get("previous").addEventListener("click", () => move(-1));
get("next").addEventListener("click", () => move(1));
get("viewer").addEventListener("keydown", event => {
  if (event.target !== get("slider") && ["ArrowLeft", "ArrowRight"].includes(event.key)) {
    move(event.key === "ArrowLeft" ? -1 : 1);
  }
});
function drag(event) {
  if (event.buttons & 1 || event.type === "pointerdown") {
    const box = get("pair").getBoundingClientRect();
    slide(Math.max(0, Math.min(100, (event.clientX - box.left) / box.width * 100)));
  }
}
for (const type of ["pointerdown", "pointermove"]) get("pair").addEventListener(type, drag);
"""
