"""--format html: the playground's page and its generator, which the browser runs with onnxruntime-web."""

import hashlib
import os
import tempfile
import urllib.request
from collections.abc import Iterable
from http.client import HTTPException
from pathlib import Path
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook

from configs.build import image_sides
from data.batch import DataError
from inference.load import LoadedGenerator
from models.latent_inputs import latent_channels
from models.style_encoder import inference_network
from tools.export.format import CARD, DTYPE, STYLE, Dtype, ExportError, Format, report_file
from tools.export.onnx import PACKAGES, export_program
from tools.playground.page import Samples, build_page, describe, open_samples
from utils.cli import whole_number
from utils.files import expanded, replacing
from utils.log import logger

MAX_BYTES_IN_PAGE = 2**26  # limit for the weights
GENERATOR = "generator.onnx"
PAGE = "index.html"
N_SAMPLES = 4
FILE_SIDE = 4096  # pixels
LIVE_TENSORS = 4  # a runtime holds about four tensors as large as the largest activation
PAGE_MEMORY = 2**31  # bytes; WebAssembly addresses 4 GiB, and the runtime and the weights need a part of it

VERSION = "1.30.0"
PACKAGE = f"onnxruntime-web@{VERSION}"
URL = f"https://cdn.jsdelivr.net/npm/{PACKAGE}/dist"
MEGABYTES = 33  # size of the package
SILENCE_S = 20.0  # a download without data for so long has failed

WASM = ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm")
WEBGPU = ("ort.webgpu.bundle.min.mjs", "ort-wasm-simd-threaded.asyncify.wasm")
# Files in the package with the integrity sha512-q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZCl…
SHA256 = {
    "ort.wasm.bundle.min.mjs": "11e64bd8ffe11bd1a2a2f0d6275fdfbbba7262f0b76b99b53d228a8a22ef3d90",
    "ort-wasm-simd-threaded.wasm": "3398c10d07d229bd91b364548e130e0e51a8e5704b88c7c083ebbeb78842dee2",
    "ort.webgpu.bundle.min.mjs": "0730816731ce2cdfb06f273da065d4a1c7091eb9d1756a83b2916c8a89d015e2",
    "ort-wasm-simd-threaded.asyncify.wasm": "39f9f0894d478800487ed9f7dbe92618498db320cf55c8e3d89adff8dce658da",
}


def export_page(
    loaded: LoadedGenerator,
    output: Path,
    dtype: Dtype,
    *,
    folder: bool = False,
    samples: int = N_SAMPLES,
    split: str | None = None,
    web_runtime: Path | None = None,
) -> None:
    """Write the page of a generator.

    output: File of the page. With `folder`: folder for PAGE and the files that the page reads, for a web server.
    samples: Largest number of samples of `split` that the page carries.
    split: Split of the data set. None: the test split.
    web_runtime: See `runtime_files`.

    Raises:
        DataError: There is no such split, or it cannot be read.
        ExportError: A page cannot show the generator, or onnxruntime-web cannot be found.
        OSError: A file cannot be written.
    """
    _check(loaded, in_folder=folder)
    runtime = runtime_files(WEBGPU if folder else WASM, web_runtime)
    description, images = _describe(loaded, samples, split)
    with tempfile.TemporaryDirectory(prefix="pairgan-") as temporary:
        file = Path(temporary) / GENERATOR
        export_program(loaded, file, dtype, is_for_page=True)
        files = {**runtime, GENERATOR: file.read_bytes()}
    held: Iterable[bytes | str] = files if folder else files.values()
    parts = {**images, **dict(zip(("runtime", "wasm", "generator"), held, strict=True))}
    page = build_page(description, "onnx_engine", parts=parts).encode()
    for path, content in (
        {output / name: content for name, content in {**files, PAGE: page}.items()} if folder else {output: page}
    ).items():
        with replacing(path) as unfinished:
            unfinished.write_bytes(content)
        report_file(path)
    if folder:
        logger.info("to open it   python -m http.server --bind 127.0.0.1 --directory %s", output)


def _check(loaded: LoadedGenerator, *, in_folder: bool) -> None:
    beyond = "takes instance features" if loaded.config.features.n_channels else loaded.data_facts.page_obstacle
    if beyond:
        raise ExportError(f"{loaded.file}: {beyond}, which a page cannot show. Use --format onnx with pairgan.py.")
    n_bytes = sum(weight.nbytes for weight in loaded.generator.state_dict().values())
    if n_bytes > MAX_BYTES_IN_PAGE and not in_folder:
        found, most = f"{n_bytes / 1e6:.0f} MB of weights", f"{MAX_BYTES_IN_PAGE / 1e6:.0f} MB"
        raise ExportError(f"{loaded.file}: {found}, but a page in one file holds at most {most}. Add --folder.")


def _describe(loaded: LoadedGenerator, n_samples: int, split: str | None) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the description of the page, and its packed samples by part name, such as "sample-0"."""
    samples = open_samples(loaded, split) if n_samples else Samples(loaded)
    sizes, parts = dict[str, tuple[int, int]](), dict[str, bytes]()
    for index, name in enumerate(samples.names):
        if len(sizes) == n_samples:
            break
        try:
            sample = samples.read(index)
        except DataError as error:
            logger.warning("left out     %s", error)
            continue
        parts[f"sample-{len(sizes)}"] = samples.pack(sample)
        sizes[name] = (sample.source.shape[-1], sample.source.shape[-2])
    if sizes:
        logger.info("             samples in the page: %d; --samples 0 leaves them out", len(sizes))
    latents = latent_channels(loaded.generator)
    drawn = {"latents": latents, "takes_seed": any(latents), "mixes_styles": any(latents)}
    shown = {"samples": [*sizes], "sample_sizes": [*sizes.values()], "file_side": FILE_SIDE}
    description = describe(samples, **drawn, **shown)
    most = max(min(description["max_pixels"], _most_pixels(loaded)), description["width"] * description["height"])
    return description | {"max_pixels": most}, parts


def _most_pixels(loaded: LoadedGenerator) -> int:
    """Return how many source pixels fit into the memory of a page, estimated from the largest activation."""
    sizes, side = list[int](), 2 * image_sides(loaded.config).minimum
    hook = register_module_forward_hook(lambda _module, _inputs, output: sizes.append(getattr(output, "nbytes", 0)))
    with torch.inference_mode():
        inference_network(loaded.generator).eval()(torch.zeros(1, loaded.conditioning.channels, side, side))
    hook.remove()
    return PAGE_MEMORY * side**2 // (LIVE_TENSORS * max(sizes))


def runtime_files(names: tuple[str, ...], given: Path | None) -> dict[str, bytes]:
    """Return the content of files of the package by name.

    given: The unpacked package, or its folder dist. None: download missing files to the cache.

    Raises:
        ExportError: A file is missing, does not belong to version VERSION, or cannot be downloaded.
    """
    if given:
        dist = next((place for place in (given / "package/dist", given / "dist") if place.is_dir()), given)
        try:
            return _checked({name: (dist / name).read_bytes() for name in names}, str(given))
        except OSError as error:
            remedy = f"Name the folder that npm pack {PACKAGE} and tar -xzf make."
            raise ExportError(f"--web-runtime {given}: {error.strerror}: {error.filename}. {remedy}") from error
    cache = expanded(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "XDG_CACHE_HOME") / "pairgan" / PACKAGE
    if not all((cache / name).is_file() for name in names):
        for name, content in _checked(_downloaded(names), "the download").items():
            with replacing(cache / name) as unfinished:
                unfinished.write_bytes(content)
    return _checked({name: (cache / name).read_bytes() for name in names}, str(cache))


def _checked(contents: dict[str, bytes], origin: str) -> dict[str, bytes]:
    for name, content in contents.items():
        if hashlib.sha256(content).hexdigest() != SHA256[name]:
            raise ExportError(f"{origin}: its {name} does not belong to {PACKAGE}. Delete it, or name another.")
    return contents


def _downloaded(names: tuple[str, ...]) -> dict[str, bytes]:
    """Return files from a public mirror of npm's packages."""
    logger.info("downloading  %s (%d MB)", PACKAGE, MEGABYTES)
    try:
        return {name: urllib.request.urlopen(f"{URL}/{name}", timeout=SILENCE_S).read() for name in names}
    except (OSError, HTTPException) as error:
        remedy = f"Run npm pack {PACKAGE} where that is possible, and name its unpacked folder with --web-runtime."
        raise ExportError(f"{PACKAGE}: cannot be downloaded ({error}). {remedy}") from error


_FOLDER = "html: write a folder for a web server instead of one file, for large networks"
_SAMPLES = f"html: samples of --split that the page carries; default: {N_SAMPLES}"
HTML = Format(
    content="a page to draw on",
    suffix=".html",
    write=export_page,
    packages=PACKAGES,
    options={
        **DTYPE,
        **CARD,
        **STYLE,
        "folder": {"action": "store_true", "help": _FOLDER},
        "samples": {"type": whole_number(0), "default": N_SAMPLES, "metavar": "N", "help": _SAMPLES},
        "split": {"metavar": "NAME", "help": "html: split of the data set; default: the test split"},
        "web_runtime": {"type": Path, "metavar": "PATH", "help": f"html: unpacked folder of {PACKAGE}"},
    },
)
