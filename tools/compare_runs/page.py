"""The page of a comparison: one file with its curves and pictures, which can be sent."""

import base64
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from tools.compare_runs.recorded_runs import REAL, RecordedRun, Row
from utils.atomic_file import replacing
from utils.gallery import page_template

MAX_SIDE = 512  # pixels of a picture
MAX_BYTES = 2**17  # of a file whose pixels are kept as they are
MAX_POINTS = 400  # of a curve


def write_page(path: Path, runs: Sequence[RecordedRun], tables: Mapping[str, Sequence[Row]], problem: str) -> None:
    """Write the page atomically. tables: by their titles. problem: why the runs cannot be compared, or empty."""
    tags = dict.fromkeys(tag for run in runs for tag in run.curves)
    page = page_template(Path(__file__).with_suffix(".html")).render(
        runs=runs,
        problem=problem,
        tables=tables,
        charts={tag: [thinned(run.curves.get(tag, [])) for run in runs] for tag in tags},
        samples=samples(runs),
    )
    with replacing(path) as unfinished:
        unfinished.write_text(page, encoding="utf-8")


def thinned(points: Sequence[Any]) -> list[Any]:
    """Return at most MAX_POINTS of some points at even distances, and the last."""
    return [*points[: -1 : -(-len(points) // MAX_POINTS) or 1], *points[-1:]]


def samples(runs: Sequence[RecordedRun]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return each sample of the latest validations: its name, and captions with pictures, the real ones first."""
    found = []
    for key in dict.fromkeys(key for run in runs for key in run.samples):
        having = [(run, run.samples[key]) for run in runs if key in run.samples]
        first, row = having[0]
        files = [(kind, first, row["images"][kind]) for kind in REAL if kind in row["images"]]
        files += [(f"{run.name}, step {row['step']}", run, row["images"]["translated"]) for run, row in having]
        found.append((key[0], [(caption, embedded(run.picture(file))) for caption, run, file in files]))
    return found


def embedded(content: bytes) -> str:
    """Return a PNG as the address of an <img>, a large one smaller; empty where it cannot be read."""
    with suppress(OSError, SyntaxError, ValueError), Image.open(BytesIO(content), formats=["PNG"]) as image:
        image.thumbnail((MAX_SIDE, MAX_SIDE), Image.Resampling.LANCZOS)
        image.save(smaller := BytesIO(), "WEBP", lossless=len(content) <= MAX_BYTES, quality=90)
        return f"data:image/webp;base64,{base64.b64encode(smaller.getvalue()).decode()}"
    return ""
