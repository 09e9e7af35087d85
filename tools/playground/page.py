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
WORKER = FOLDER / "onnx_worker.js"


def build_page(
    description: Description,
    engine: str,
    *,
    parts: Mapping[str, bytes | str] | None = None,
    nonce: str | None = None,
) -> str:
    """Return the page, which requests nothing but what its engine does.

    engine: one of ENGINES.
    parts: data of the engine by name: bytes, which are compressed into the page, or the name of a file beside it.
    nonce: of the server's Content-Security-Policy.
    """
    assert engine in ENGINES, engine
    apart = {WORKER.stem, *ENGINES}
    modules = {path.stem: path for path in FOLDER.glob("*.js") if path.stem not in apart}
    modules[ENGINE] = FOLDER / f"{engine}.js"
    addresses = {name: module_address(path.read_bytes()) for name, path in sorted(modules.items())}
    environment = Environment(
        loader=FileSystemLoader(FOLDER), autoescape=False, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template("index.html").render(
        model=description,
        model_json=description.to_json(),
        style=(FOLDER / "page.css").read_text(encoding="utf-8"),
        import_map=json.dumps({"imports": addresses}),
        files={name: data for name, data in (parts or {}).items() if isinstance(data, str)},
        packed={name: _packed(data) for name, data in (parts or {}).items() if isinstance(data, bytes)},
        nonce=f' nonce="{nonce}"' if nonce else "",
    )


def module_address(source: bytes) -> str:
    """Return the address of a script inside the page: browsers load no script from beside a page on a disk."""
    return f"data:text/javascript;base64,{base64.b64encode(source).decode()}"


def _packed(data: bytes) -> str:
    return base64.b64encode(gzip.compress(data, mtime=0)).decode()  # the same page from the same data
