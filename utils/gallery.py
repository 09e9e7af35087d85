"""Writes an HTML page of translated images next to their sources and targets. The page needs no server."""

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from utils.files import replacing


class Swatch(NamedTuple):
    """A class in the legend: its name, and its colour in hexadecimal digits."""

    name: str
    color: str


@dataclass(frozen=True)
class Row:
    """A sample on the page.

    images: Files of the images by type ("source", "translated", …), relative to the page's folder.
    full: File of the full-size translation, relative to the page's folder. None: the image in `images` has full size.
    metrics: Values to sort by. NaN and infinity are None.
    """

    name: str
    images: Mapping[str, str]
    full: str | None = None
    metrics: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def figures(self) -> dict[str, float]:
        """The metrics that are finite."""
        return {name: value for name, value in self.metrics.items() if value is not None and math.isfinite(value)}


def write_gallery(
    path: Path,
    rows: Sequence[Row],
    title: str,
    order: str = "name",
    command: str | None = None,
    legend: Sequence[Swatch] = (),
) -> None:
    """Write the page atomically. Browsers load its images lazily.

    order: Text that describes the order of `rows`.
    command: Command that opens the generator in the playground.
    legend: Classes of label maps.
    """
    page = _template().render(
        title=title,
        rows=rows,
        kinds=list(dict.fromkeys(kind for row in rows for kind in row.images)),
        metrics=list(dict.fromkeys(name for row in rows for name in row.metrics)),
        order=order,
        command=command,
        legend=legend,
    )
    with replacing(path) as unfinished:
        unfinished.write_text(page, encoding="utf-8")


@cache
def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_encodable,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["figures"] = lambda row, number: json.dumps({"number": number, **row.figures})
    environment.filters["link"] = lambda path: quote(os.fsencode(path))  # names can contain any bytes
    return environment.get_template("gallery.html")


def _encodable(value: object) -> object:
    """Escape surrogates in a text. Python uses surrogates for bytes in file names that are not UTF-8."""
    return value.encode("utf-8", "backslashreplace").decode() if type(value) is str else value
