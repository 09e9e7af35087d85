"""--format html: the playground as a web page without a server. The browser runs the generator with onnxruntime-web."""

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
FILE_SIDE = 4096  # longest side of an opened file, in pixels
LIVE_TENSORS = 4  # onnxruntime holds about four tensors as large as the largest activation
PAGE_MEMORY = 2**31  # bytes for activations; the 4 GiB of WebAssembly also hold weights and code

VERSION = "1.30.0"
PACKAGE = f"onnxruntime-web@{VERSION}"
URL = f"https://cdn.jsdelivr.net/npm/{PACKAGE}/dist"
MEGABYTES = 33  # size of the downloaded files
SILENCE_S = 20.0  # timeout of a download that sends no data, in seconds

WASM = ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm")
WEBGPU = ("ort.webgpu.bundle.min.mjs", "ort-wasm-simd-threaded.asyncify.wasm")
# SHA-256 of files in the npm package. The package's hash is sha512-q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZCl…
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
    """Write a page that runs a generator.

    output: Path of the page, or of a folder if `folder` is true.
    folder: Whether to write a folder with PAGE and the files that PAGE loads, for a web server.
    samples: Maximum number of samples to include.
    split: Split that samples come from. None: the test split.
    web_runtime: See `runtime_files`.

    Raises:
        DataError: The split does not exist or cannot be read.
        ExportError: A page cannot run this generator, or onnxruntime-web is missing.
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
    obstacle = "takes instance features" if loaded.config.features.n_channels else loaded.data_facts.page_obstacle
    obstacle = "translates volumes" if loaded.config.data.has_volumes else obstacle
    if obstacle:
        raise ExportError(f"{loaded.file}: {obstacle}, which a page cannot show. Use --format onnx with pairgan.py.")
    n_bytes = sum(weight.nbytes for weight in loaded.generator.state_dict().values())
    if n_bytes > MAX_BYTES_IN_PAGE and not in_folder:
        found, most = f"{n_bytes / 1e6:.0f} MB of weights", f"{MAX_BYTES_IN_PAGE / 1e6:.0f} MB"
        raise ExportError(f"{loaded.file}: has {found}, but a single file holds at most {most}. Add --folder.")


def _describe(loaded: LoadedGenerator, n_samples: int, split: str | None) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the description of the page, and packed samples by part name, such as "sample-0"."""
    samples = open_samples(loaded, split) if n_samples else Samples(loaded)
    sizes, parts = dict[str, tuple[int, int]](), dict[str, bytes]()
    for index, name in enumerate(samples.names):
        if len(sizes) == n_samples:
            break
        try:
            sample = samples.read(index)
        except DataError as error:
            logger.warning("skipped      %s", error)
            continue
        parts[f"sample-{len(sizes)}"] = samples.pack(sample)
        sizes[name] = (sample.source.shape[-1], sample.source.shape[-2])
    if sizes:
        logger.info("             the page contains %d samples; to leave them out, use --samples 0", len(sizes))
    latents = latent_channels(loaded.generator)
    drawn = {"latents": latents, "takes_seed": any(latents), "mixes_styles": any(latents)}
    shown = {"samples": [*sizes], "sample_sizes": [*sizes.values()], "file_side": FILE_SIDE}
    description = describe(samples, **drawn, **shown)
    most = max(min(description["max_pixels"], _most_pixels(loaded)), description["width"] * description["height"])
    return description | {"max_pixels": most}, parts


def _most_pixels(loaded: LoadedGenerator) -> int:
    """Return how many source pixels fit into a page's memory, estimated from the largest activation."""
    sizes, side = list[int](), 2 * image_sides(loaded.config).minimum
    hook = register_module_forward_hook(lambda _module, _inputs, output: sizes.append(getattr(output, "nbytes", 0)))
    with torch.inference_mode():
        inference_network(loaded.generator).eval()(torch.zeros(1, loaded.conditioning.channels, side, side))
    hook.remove()
    return PAGE_MEMORY * side**2 // (LIVE_TENSORS * max(sizes))


def runtime_files(names: tuple[str, ...], given: Path | None) -> dict[str, bytes]:
    """Return the contents of files of onnxruntime-web by file name.

    given: Folder of the unpacked npm package, or its subfolder dist. None: use the cache, and download missing files.

    Raises:
        ExportError: A file is missing, is not from version VERSION, or cannot be downloaded.
    """
    if given:
        dist = next((place for place in (given / "package/dist", given / "dist") if place.is_dir()), given)
        try:
            return _checked({name: (dist / name).read_bytes() for name in names}, str(given))
        except OSError as error:
            remedy = f"Run npm pack {PACKAGE}, unpack the archive with tar -xzf, and name its folder."
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
            raise ExportError(f"{origin}: {name} is not from {PACKAGE}. Delete the file, or name another folder.")
    return contents


def _downloaded(names: tuple[str, ...]) -> dict[str, bytes]:
    """Download files from a public mirror of npm."""
    logger.info("downloading  %s (%d MB)", PACKAGE, MEGABYTES)
    try:
        return {name: urllib.request.urlopen(f"{URL}/{name}", timeout=SILENCE_S).read() for name in names}
    except (OSError, HTTPException) as error:
        remedy = f"On a machine with internet, run npm pack {PACKAGE}. Unpack it, and add --web-runtime FOLDER."
        raise ExportError(f"{PACKAGE}: cannot be downloaded ({error}). {remedy}") from error


_FOLDER = "html: write a folder for a web server instead of a single file; for large networks"
_SAMPLES = f"html: number of samples of --split to include; default: {N_SAMPLES}"
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
        "web_runtime": {"type": Path, "metavar": "PATH", "help": f"html: unpacked npm package {PACKAGE}"},
    },
)
