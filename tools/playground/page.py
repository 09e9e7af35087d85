"""The page as one HTML file, and the facts of a generator that it needs: sources, classes, sizes and samples."""

import gzip
import json
from base64 import b64encode
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from configs.build import image_sides
from configs.data_facts import DataFacts
from data.batch import DataError
from tools.playground.samples import MAX_PIXELS, Samples
from utils.errors import ConfigError
from utils.label_colors import IGNORED, read_label_colors

DEFAULT_SIDE = 256  # pixels, if the settings name no size
SIDES = (64, 1024)  # least and greatest side of a new picture
FOLDER = Path(__file__).parent / "page"
ENGINES = ("server_engine", "onnx_engine")
START = 'import "app";'  # the script of the page
ENGINE = "engine"  # name of the chosen engine in the imports of the page


def describe(samples: Samples, /, **others: Any) -> dict[str, Any]:
    """Return the facts of a generator for the page's script, as values for JSON.

    The keys, which `others` may replace:

    classes: Id in files, name and colour (hexadecimal digits) of each class, ignored pixels last. Empty for RGB images.
    n_classes: Number of classes without ignored pixels.
    ignore_id: Id of ignored pixels in files, or None.
    needs_instances: Whether a source has instance ids.
    takes_seed, seed: Whether a translation depends on a seed, and the first one.
    width, height: Size of a new picture, in pixels. A camera's frame has their longer side.
    max_pixels: Most pixels of a picture. A larger file is reduced.
    size_multiple, min_size: Multiple and least value of the sides that the generator accepts.
    samples: Names of samples to start from.
    sample_sizes: Width and height of the samples in an exported page.
    scale: Side of a translation divided by the side of its source, rounded up.
    file_colors: Colours of label maps in files, in hexadecimal digits, each with its id. Empty if files hold ids.
    card: Model card of an exported file (tools/export/card.py), empty for a checkpoint.
    styles: Names of photographs. Their styles are chosen by number instead of a seed.
    mixes_styles: Whether there are translations between two seeds or styles.
    file_side: Longest side of an opened file by default, in pixels, unless a new picture has a longer one.
    latents: Numbers of values of noise and of a style that an exported page draws with a seed.

    Raises:
        ConfigError: metrics.label_colors names another number of classes.
    """
    loaded = samples.loaded
    config, facts, conditioning = loaded.config, loaded.data_facts, loaded.conditioning
    height, width = _new_size(samples)
    sides = image_sides(config)
    file_colors = facts.file_colors.rgb if facts.file_colors else ()  # ignored pixels have the last colours
    step = "weights of an original" if loaded.step is None else f"step {loaded.step}"
    return {
        "title": loaded.card.get("title", loaded.name),
        "card": loaded.card,
        "subtitle": ", ".join(filter(None, [step, loaded.named_direction])),
        "classes": _classes(facts, config.metrics.label_colors) if conditioning.n_classes else [],
        "n_classes": conditioning.n_classes,
        "ignore_id": facts.ignored_id,
        "needs_instances": conditioning.needs_instances,
        "takes_seed": False,
        "seed": 0,
        "width": width,
        "height": height,
        "max_pixels": MAX_PIXELS,
        "size_multiple": sides.multiple,
        "min_size": sides.minimum,
        "samples": samples.names,
        "sample_sizes": [],
        "scale": config.generator.scale,
        "file_colors": [(bytes(rgb).hex(), min(k, conditioning.n_classes)) for k, rgb in enumerate(file_colors)],
        "styles": [],
        "mixes_styles": False,
        "file_side": 0,
        "latents": (0, 0),
        **others,
    }


def to_json(description: Mapping[str, Any]) -> str:
    """Return JSON that an element of a page may hold, with any names in it."""
    return json.dumps(description).replace("<", "\\u003c")


def _new_size(samples: Samples) -> tuple[int, int]:
    """Return height and width of the first sample, or the size of training images as far as settings name it."""
    with suppress(DataError):
        height, width = samples.read(0).source.shape[-2:]
        return height, width
    data = samples.loaded.config.data
    height, width = data.crop_height, data.crop_width
    if data.preprocess == "scale_width":
        height, width = data.load_width // 2, data.load_width
    elif data.preprocess == "none":
        height, width = DEFAULT_SIDE, DEFAULT_SIDE
    least, greatest = SIDES
    return min(max(height, least), greatest), min(max(width, least), greatest)


def _classes(facts: DataFacts, label_colors: str | None) -> list[dict[str, Any]]:
    """Return the classes with their names and colours, if the data set or `metrics.label_colors` has them."""
    n_classes, colors = facts.n_classes, facts.class_colors
    names = facts.classes.names if facts.classes else tuple(map(str, range(n_classes)))
    if label_colors is not None:
        known = read_label_colors(label_colors)
        if known.n_classes != n_classes:
            raise ConfigError(
                f"metrics.label_colors: {known.origin} has {known.n_classes} classes, the generator {n_classes}. "
                "Name another file, or set metrics.label_colors=null."
            )
        names, colors = known.names, known.colors
    named_colors = zip(names, map(bytes, colors.tolist()), strict=False)
    classes = {number: (name, color.hex()) for number, (name, color) in enumerate(named_colors)}
    if (ignored := facts.ignored_id) is not None:
        classes.pop(ignored, None)
        classes[ignored] = (IGNORED, "000000")
    return [{"id": number, "name": name, "color": color} for number, (name, color) in classes.items()]


def build_page(
    description: Mapping[str, Any],
    engine: str,
    *,
    parts: Mapping[str, bytes | str] = MappingProxyType({}),
    nonce: str = "",
) -> str:
    """Return the page. Only its engine makes requests.

    engine: One of ENGINES.
    parts: Data of the engine by name: bytes, which are compressed into the page, or the name of a file next to it.
    nonce: Nonce of the server's Content-Security-Policy. Without one the page has a policy of its own.
    """
    modules = {path.stem: path for path in FOLDER.glob("*.js") if path.stem not in ENGINES}
    modules[ENGINE] = FOLDER / f"{engine}.js"
    # data addresses, because browsers load no scripts of other files for a page on a disk
    scripts = {name: b64encode(path.read_bytes()).decode() for name, path in sorted(modules.items())}
    addresses = {name: f"data:text/javascript;base64,{script}" for name, script in scripts.items()}
    import_map, style = json.dumps({"imports": addresses}), (FOLDER / "page.css").read_text(encoding="utf-8")
    files = {name: data for name, data in parts.items() if isinstance(data, str)}
    packed = {name: gzip.compress(data, mtime=0) for name, data in parts.items() if isinstance(data, bytes)}
    loader = FileSystemLoader(FOLDER)
    environment = Environment(loader=loader, autoescape=False, undefined=StrictUndefined, trim_blocks=True)
    return environment.get_template("index.html").render(
        model=description,
        model_json=to_json(description),
        style=style,
        import_map=import_map,
        start=START,
        policy="" if nonce else _policy([import_map, START], style, "data: 'self'" if files else "data:"),
        files=files,
        packed={name: b64encode(data).decode() for name, data in packed.items()},
        nonce=f' nonce="{nonce}"' if nonce else "",
    )


def _policy(scripts: Iterable[str], style: str, parts: str) -> str:
    """Return the Content-Security-Policy of a page without a server. It runs only its own scripts, and sends nothing.

    parts: Sources of the parts of the page.
    """
    hashes = [b64encode(sha256(text.encode()).digest()).decode() for text in (style, *scripts)]
    of_style, *of_scripts = (f"'sha256-{text}'" for text in hashes)
    return (
        f"default-src 'none'; script-src {' '.join(of_scripts)} data: 'wasm-unsafe-eval'; style-src {of_style}; "
        "img-src data: blob:; media-src blob:; base-uri 'none'; form-action 'none'; "
        f"connect-src {parts}"
    )
