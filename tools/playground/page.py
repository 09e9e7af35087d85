"""The page as one HTML file, and the facts of a generator that it needs: sources, classes, sizes and samples."""

import gzip
import json
from base64 import b64encode
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
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


@dataclass(frozen=True)
class PageClass:
    """A class of the palette: its id in label maps, its name and its colour in hexadecimal digits."""

    id: int
    name: str
    color: str


@dataclass(frozen=True)
class Description:
    """Facts of a generator for the page's script, as JSON.

    classes: Classes of label maps, ignored pixels last. Empty for RGB images.
    n_classes: Number of classes without ignored pixels.
    ignore_id: Id of ignored pixels in files, or None.
    needs_instances: Whether a source has instance ids.
    takes_seed: Whether a translation depends on a seed.
    width, height: Size of a new picture, in pixels. A camera's frame has their longer side.
    max_pixels: Most pixels of a picture. A larger file is reduced.
    size_multiple, min_size: Multiple and least value of the sides that the generator accepts.
    samples: Names of samples to start from.
    sample_sizes: Width and height of the samples in an exported page.
    scale: Side of a translation divided by the side of its source, rounded up.
    file_colors: Colours of label maps in files, in hexadecimal digits, each with its id. Empty if files hold ids.
    can_draw: Whether a picture is the source itself. Otherwise only samples are shown.
    card: Model card of an exported file (tools/export/card.py), empty for a checkpoint.
    direction, directions: Direction of the generator, and the directions with pages if there are several.
    styles: Names of photographs. Their styles are chosen by number instead of a seed.
    mixes_styles: Whether there are translations between two seeds or styles.
    file_side: Longest side of an opened file by default, in pixels, unless a new picture has a longer one.
    latents: Numbers of values of noise and of a style that an exported page draws by a seed.
    """

    title: str
    subtitle: str
    classes: list[PageClass]
    n_classes: int
    ignore_id: int | None
    needs_instances: bool
    takes_seed: bool
    seed: int
    width: int
    height: int
    max_pixels: int
    size_multiple: int
    min_size: int
    samples: list[str]
    sample_sizes: list[tuple[int, int]] = field(default_factory=list)
    scale: float = 1.0
    file_colors: list[tuple[str, int]] = field(default_factory=list)
    can_draw: bool = True
    card: Mapping[str, Any] = field(default_factory=dict)
    direction: str = "AtoB"
    directions: list[str] = field(default_factory=list)
    styles: list[str] = field(default_factory=list)
    mixes_styles: bool = False
    file_side: int = 0
    latents: tuple[int, int] = (0, 0)

    def to_json(self) -> str:
        """Return JSON that an element of a page may hold, with any names in it."""
        return json.dumps(asdict(self)).replace("<", "\\u003c")


def describe(samples: Samples, *, takes_seed: bool = False, seed: int = 0) -> Description:
    """Return the description of the generator of some samples.

    Raises:
        ConfigError: metrics.label_colors names another number of classes.
    """
    loaded = samples.loaded
    config, facts, conditioning = loaded.config, loaded.data_facts, loaded.conditioning
    height, width = _new_size(samples)
    sides = image_sides(config)
    file_colors = facts.file_colors.rgb if facts.file_colors else ()  # ignored pixels have the last colours
    step = "weights of an original" if loaded.step is None else f"step {loaded.step}"
    return Description(
        title=loaded.card.get("title", loaded.name),
        card=loaded.card,
        subtitle=", ".join(filter(None, [step, loaded.named_direction])),
        classes=_classes(facts, config.metrics.label_colors) if conditioning.n_classes else [],
        n_classes=conditioning.n_classes,
        ignore_id=facts.ignored_id,
        needs_instances=conditioning.needs_instances,
        takes_seed=takes_seed,
        seed=seed,
        width=width,
        height=height,
        max_pixels=MAX_PIXELS,
        size_multiple=sides.multiple,
        min_size=sides.minimum,
        samples=samples.names,
        scale=config.generator.scale,
        file_colors=[(bytes(rgb).hex(), min(k, conditioning.n_classes)) for k, rgb in enumerate(file_colors)],
        can_draw=conditioning.source_is_drawn,
        direction=loaded.direction,
    )


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


def _classes(facts: DataFacts, label_colors: str | None) -> list[PageClass]:
    """Return the classes with their names and colours, if the data set or `metrics.label_colors` has them."""
    n_classes, colors = facts.n_classes, facts.class_colors
    names = facts.classes.names if facts.classes else tuple(map(str, range(n_classes)))
    if label_colors is not None:
        known = read_label_colors(label_colors)
        if known.n_classes != n_classes:
            raise ConfigError(
                f"metrics.label_colors: {known.origin} has {known.n_classes} classes, the generator {n_classes}: "
                "name another file, or metrics.label_colors=null"
            )
        names, colors = known.names, known.colors
    named_colors = zip(names, map(bytes, colors.tolist()), strict=False)
    classes = [PageClass(number, name, color.hex()) for number, (name, color) in enumerate(named_colors)]
    ignored = facts.ignored_id
    of_ignored = [] if ignored is None else [PageClass(ignored, IGNORED, "000000")]
    return [entry for entry in classes if entry.id != ignored] + of_ignored


def build_page(
    description: Description, engine: str, *, parts: Mapping[str, bytes | str] = MappingProxyType({}), nonce: str = ""
) -> str:
    """Return the page. Only its engine makes requests.

    engine: One of ENGINES.
    parts: Data of the engine by name: bytes, which are compressed into the page, or the name of a file next to it.
    nonce: Nonce of the server's Content-Security-Policy. Without one the page has a policy of its own.
    """
    assert engine in ENGINES, engine
    modules = {path.stem: path for path in FOLDER.glob("*.js") if path.stem not in ENGINES}
    modules[ENGINE] = FOLDER / f"{engine}.js"
    # data addresses, because browsers load no scripts of other files for a page on a disk
    scripts = {name: b64encode(path.read_bytes()).decode() for name, path in sorted(modules.items())}
    addresses = {name: f"data:text/javascript;base64,{script}" for name, script in scripts.items()}
    import_map, style = json.dumps({"imports": addresses}), (FOLDER / "page.css").read_text(encoding="utf-8")
    files = {name: data for name, data in parts.items() if isinstance(data, str)}
    loader = FileSystemLoader(FOLDER)
    environment = Environment(loader=loader, autoescape=False, undefined=StrictUndefined, trim_blocks=True)
    return environment.get_template("index.html").render(
        model=description,
        model_json=description.to_json(),
        style=style,
        import_map=import_map,
        start=START,
        policy="" if nonce else _policy([import_map, START], style, "data: 'self'" if files else "data:"),
        files=files,
        packed={name: _packed(data) for name, data in parts.items() if isinstance(data, bytes)},
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


def _packed(data: bytes) -> str:
    return b64encode(gzip.compress(data, mtime=0)).decode()  # so that the same data give the same page
