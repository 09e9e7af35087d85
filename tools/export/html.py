"""--format html: the playground's page with its generator, which onnxruntime-web runs instead of a server."""

import tempfile
from collections.abc import Iterable, Mapping
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
from tools.export.web_runtime import PACKAGE, WASM, WEBGPU, runtime_files
from tools.playground.page import Samples, build_page, describe, open_samples
from utils.cli import whole_number
from utils.files import replacing
from utils.log import logger

MAX_BYTES_IN_PAGE = 2**26  # limit for the weights
GENERATOR = "generator.onnx"
PAGE = "index.html"
FOLDER = "generator_page"
N_SAMPLES = 4
FILE_SIDE = 4096  # pixels
LIVE_TENSORS = 4  # a runtime holds about four tensors as large as the largest activation
PAGE_MEMORY = 2**31  # bytes; WebAssembly addresses 4 GiB, and the runtime and the weights need a part of it


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

    output: The page. With `folder`, a folder of PAGE and the files that it reads, for a web server.
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


def default_stem(loaded: LoadedGenerator, options: Mapping[str, Any]) -> str:
    """Return the name of the page, or of its folder."""
    return "_".join(filter(None, [FOLDER if options["folder"] else "generator", loaded.named_direction]))


def _check(loaded: LoadedGenerator, *, in_folder: bool) -> None:
    beyond = "takes instance features" if loaded.config.features.n_channels else loaded.data_facts.page_obstacle
    if beyond:
        raise ExportError(f"{loaded.file}: {beyond}, which a page cannot show. Use --format onnx with pairgan.py.")
    n_bytes = sum(weight.nbytes for weight in loaded.generator.state_dict().values())
    if n_bytes > MAX_BYTES_IN_PAGE and not in_folder:
        found, most = f"{n_bytes / 1e6:.0f} MB of weights", f"{MAX_BYTES_IN_PAGE / 1e6:.0f} MB"
        raise ExportError(f"{loaded.file}: {found}, a page in one file holds {most}. Add --folder.")


def _describe(loaded: LoadedGenerator, n_samples: int, split: str | None) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the description of the page, and its samples by the names of their parts."""
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
        logger.info("             %d of them are in the page; --samples 0 leaves them out", len(sizes))
    latents = latent_channels(loaded.generator)
    drawn = {"latents": latents, "takes_seed": any(latents), "mixes_styles": any(latents)}
    shown = {"samples": [*sizes], "sample_sizes": [*sizes.values()], "file_side": FILE_SIDE}
    description = describe(samples, **drawn, **shown)
    most = max(min(description["max_pixels"], _most_pixels(loaded)), description["width"] * description["height"])
    return description | {"max_pixels": most}, parts


def _most_pixels(loaded: LoadedGenerator) -> int:
    """Return how many pixels of a source fit into the memory of a page, by the generator's largest activation."""
    sizes, side = list[int](), 2 * image_sides(loaded.config).minimum
    hook = register_module_forward_hook(lambda _module, _inputs, output: sizes.append(getattr(output, "nbytes", 0)))
    with torch.inference_mode():
        inference_network(loaded.generator).eval()(torch.zeros(1, loaded.conditioning.channels, side, side))
    hook.remove()
    return PAGE_MEMORY * side**2 // (LIVE_TENSORS * max(sizes))


_FOLDER = "html: a folder of a page and its files for a web server"
_SAMPLES = f"html: samples of --split that the page carries; default: {N_SAMPLES}"
HTML = Format(
    content="a page to draw on",
    suffix=".html",
    write=export_page,
    stem=default_stem,
    packages=PACKAGES,
    options={
        **DTYPE,
        **CARD,
        **STYLE,
        "folder": {"action": "store_true", "help": f"{_FOLDER}, default {FOLDER}; for large networks"},
        "samples": {"type": whole_number(0), "default": N_SAMPLES, "metavar": "N", "help": _SAMPLES},
        "split": {"metavar": "NAME", "help": "html: split of the data set; default: the test split"},
        "web_runtime": {"type": Path, "metavar": "PATH", "help": f"html: archive or folder of {PACKAGE}"},
    },
)
