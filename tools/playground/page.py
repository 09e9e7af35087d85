"""The page as one HTML file: markup, style, scripts and what an engine brings along."""

import base64
import gzip
import json
from collections.abc import Mapping
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tools.playground.description import Description

FOLDER = Path(__file__).parent / "page"
ENGINES = ("server_engine", "onnx_engine")
ENGINE = "engine"  # the name by which the page's script imports one of them


def build_page(
    description: Description,
    engine: str,
    *,
    modules: Mapping[str, str] | None = None,
    parts: Mapping[str, bytes] | None = None,
    nonce: str | None = None,
) -> str:
    """Return the page, which requests nothing but what its engine does.

    engine: one of ENGINES.
    modules: addresses of further modules that the engine imports, by name.
    parts: data of the engine by name, which are compressed into the page.
    nonce: of the server's Content-Security-Policy.
    """
    assert engine in ENGINES, engine
    sources = {path.stem: path for path in FOLDER.glob("*.js") if path.stem not in ENGINES}
    sources[ENGINE] = FOLDER / f"{engine}.js"
    addresses = {name: module_address(path.read_bytes()) for name, path in sorted(sources.items())}
    environment = Environment(
        loader=FileSystemLoader(FOLDER), autoescape=False, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template("index.html").render(
        model=description,
        model_json=description.to_json(),
        style=(FOLDER / "page.css").read_text(encoding="utf-8"),
        import_map=json.dumps({"imports": addresses | dict(modules or {})}),
        parts={name: base64.b64encode(gzip.compress(data)).decode() for name, data in (parts or {}).items()},
        nonce=f' nonce="{nonce}"' if nonce else "",
    )


def module_address(source: bytes) -> str:
    """Return the address of a script inside the page: browsers load no script from beside a page on a disk."""
    return f"data:text/javascript;base64,{base64.b64encode(source).decode()}"
