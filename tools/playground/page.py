"""Build the playground's HTML page, and read samples that a drawing can start from."""

import gzip
import json
from base64 import b64encode
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from torch import Tensor

from configs import build
from configs.build import image_sides
from configs.data_facts import DataFacts
from configs.schema.data import SIZED_BY_CROP
from configs.splits import check_has_split, open_split, translated_split
from data.batch import DataError, Sample
from data.layout import Layout
from inference.load import LoadedGenerator
from inference.reading import read_padded
from utils.errors import ConfigError
from utils.label_colors import IGNORED, read_label_colors
from utils.log import logger

MOST = 200  # maximum number of samples in the page's list
MAX_PIXELS = 2**23  # pixels of a drawing
DEFAULT_SIDE = 256  # side of a new drawing in pixels, if the settings contain no size
MOST_SIDE = 1024  # longest side of a new drawing in pixels
FOLDER = Path(__file__).parent / "page"
ENGINES = ("server_engine", "onnx_engine")
START = 'import "app";'  # script that starts the page
ENGINE = "engine"  # name of the chosen engine in the import map


@dataclass(frozen=True)
class Samples:
    """The first samples of a split, at the image size of training.

    loaded: Generator. Its settings decide how samples are read.
    layout: The split. None: there are no samples.
    """

    loaded: LoadedGenerator
    layout: Layout | None = None

    @property
    def names(self) -> list[str]:
        """The names of the samples."""
        return list(self.layout.names[:MOST]) if self.layout else []

    def read(self, index: int) -> Sample:
        """Return sample `index`.

        Raises:
            DataError: The sample does not exist, or its files cannot be read.
        """
        if self.layout is None or not 0 <= index < len(self.names):
            raise DataError(f"sample {index}: there are only {len(self.names)} samples. Choose a smaller number.")
        preprocessing = build.build_preprocessing(self.loaded.config)
        return read_padded(self.layout, preprocessing, index, keeps_size=False).sample

    def pack(self, sample: Sample) -> bytes:
        """Return a sample as bytes for page/wire.js: class ids (int32) or 8-bit RGB, then instance ids (int32), if any.

        The bytes are little-endian and row-major. Ignored pixels have the same id as in label map files.
        """
        if n_classes := self.loaded.conditioning.n_classes:
            ids, ignored = sample.source.int(), self.loaded.data_facts.ignored_id
            packed = _bytes_of(ids if ignored is None else torch.where(ids == n_classes, ignored, ids))
        else:
            packed = sample.source.permute(1, 2, 0).numpy().tobytes()
        if not self.loaded.conditioning.needs_instances:
            return packed
        return packed + _bytes_of(sample.maps["instances"])


def open_samples(loaded: LoadedGenerator, split: str | None = None) -> Samples:
    """Open the samples of a split.

    split: Name of the split. None: use the test split, or no samples if the test split cannot be read.

    Raises:
        DataError: The named split does not exist or cannot be read.
    """
    if loaded.step is None:  # a weights file of an original project
        if split is not None:
            raise DataError(f"--split {split}: the checkpoint records no data set. Remove --split.")
        return Samples(loaded)
    try:
        chosen = split or translated_split(loaded.config)
        check_has_split(loaded.config, chosen)
        layout = open_split(loaded.config, chosen, needs_targets=False)
    except DataError as error:
        if split is not None:
            raise
        logger.info("samples      none: %s", error)
        return Samples(loaded)
    logger.info("samples      split %s", chosen)
    return Samples(loaded, layout)


def _bytes_of(ids: Tensor) -> bytes:
    return ids.int().numpy().astype("<i4").tobytes()


def describe(samples: Samples, /, **others: Any) -> dict[str, Any]:
    """Return what the page's script must know about a generator, as values for JSON.

    `others` replaces some of these values. Keys that need an explanation:

    classes: Id, name and colour of each class. Ignored pixels are the last class. Empty for RGB images.
    n_classes: Number of classes without ignored pixels.
    takes_seed, seed: Whether translations depend on a seed, and the first seed.
    width, height: Size of a new drawing in pixels. Its longer side also limits the sides of camera frames.
    max_pixels: Maximum number of pixels of a drawing. The page shrinks larger files.
    samples, sample_sizes: Names of the samples. Width and height of each sample in an exported page, otherwise empty.
    file_colors: Colours in label map files, with their class ids. Empty if files hold ids.
    styles: File names of style images. If there are any, the user chooses a style instead of a seed.
    mixes_styles: Whether the page can interpolate between two seeds or styles.
    file_side: Default for the longest side of an opened file in pixels. A larger `width` or `height` replaces it.
    latents: How many noise values and style values an exported page samples from a seed.

    Raises:
        ConfigError: The file metrics.label_colors has another number of classes than the generator.
    """
    loaded = samples.loaded
    config, facts, conditioning = loaded.config, loaded.data_facts, loaded.conditioning
    height, width = _new_size(samples)
    sides = image_sides(config)
    file_colors = facts.file_colors.rgb if facts.file_colors else ()  # the last colours mean ignored pixels
    step = "original weights" if loaded.step is None else f"step {loaded.step}"
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
    """Return JSON that is safe inside an HTML script element."""
    return json.dumps(description).replace("<", "\\u003c")


def _new_size(samples: Samples) -> tuple[int, int]:
    """Return height and width of a new drawing: the size of the first sample, or else of training images."""
    with suppress(DataError):
        height, width = samples.read(0).source.shape[-2:]
        return height, width
    data = samples.loaded.config.data
    sides = (data.crop_height, data.crop_width) if data.preprocess in SIZED_BY_CROP else (DEFAULT_SIDE, DEFAULT_SIDE)
    height, width = (min(side, MOST_SIDE) for side in sides)
    return height, width


def _classes(facts: DataFacts, label_colors: str | None) -> list[dict[str, Any]]:
    """Return id, name and colour of each class. Prefer names and colours from `metrics.label_colors`."""
    n_classes, colors = facts.n_classes, facts.class_colors
    names = facts.classes.names if facts.classes else tuple(map(str, range(n_classes)))
    if label_colors is not None:
        known = read_label_colors(label_colors)
        if known.n_classes != n_classes:
            raise ConfigError(
                f"metrics.label_colors: {known.origin} has {known.n_classes} classes, the generator has {n_classes}. "
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
    """Return the page as HTML.

    description: Facts of the generator. See `describe`.
    engine: Script that translates, one of ENGINES. No other script makes requests.
    parts: Data for the engine by name. Bytes are embedded in the page. A text names a file next to the page.
    nonce: Nonce of the server's Content-Security-Policy. If empty, the page contains its own policy.
    """
    modules = {path.stem: path for path in FOLDER.glob("*.js") if path.stem not in ENGINES}
    modules[ENGINE] = FOLDER / f"{engine}.js"
    # A page that is opened from a disk cannot import script files, so embed all scripts as data URLs.
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
    """Return a Content-Security-Policy for an exported page. It allows only the page's own scripts and data.

    parts: Sources that the page can fetch data from, in the syntax of connect-src.
    """
    hashes = [b64encode(sha256(text.encode()).digest()).decode() for text in (style, *scripts)]
    of_style, *of_scripts = (f"'sha256-{text}'" for text in hashes)
    return (
        f"default-src 'none'; script-src {' '.join(of_scripts)} data: 'wasm-unsafe-eval'; style-src {of_style}; "
        "img-src data: blob:; media-src blob:; base-uri 'none'; form-action 'none'; "
        f"connect-src {parts}"
    )
