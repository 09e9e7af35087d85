"""--format html: the playground's page with its generator, which onnxruntime-web runs instead of a server."""

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from configs.build import image_sides
from data.batch import DataError
from inference.load import LoadedGenerator
from models.latent_inputs import latent_channels
from models.style_encoder import inference_network
from tools.export.format import CARD, DTYPE, STYLE, Dtype, ExportError, Format, report_file
from tools.export.onnx import PACKAGES, write_program
from tools.export.web_runtime import PACKAGE, WASM, WEBGPU, runtime_files
from tools.playground.page import Description, build_page, describe
from tools.playground.samples import Samples, open_samples
from utils.cli import whole_number
from utils.files import replacing
from utils.log import logger

MAX_BYTES_IN_PAGE = 2**26  # limit for the weights
GENERATOR = "generator.onnx"
PAGE = "index.html"
FOLDER = "generator_page"
N_SAMPLES = 4
FILE_SIDE = 4096  # pixels
PAGE_MEMORY = 2**31  # bytes; WebAssembly addresses 4 GiB, and the runtime and the weights need a part of it
LIVE_TENSORS = 4  # a runtime holds about four tensors as large as the largest activation


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
    """Write a page to draw on, or to choose images, that shows the translation.

    output: The page, one file that opens from a disk. With `folder`, a folder of PAGE and the files that it reads, for
        a web server.
    samples: Largest number of samples of `split` that the page carries. split: None for the test split.
    web_runtime: See `runtime_files`.

    Raises:
        DataError: There is no such split, or it cannot be read.
        ExportError: The generator is too large for one file, takes instance features, or its program translates
            differently; or onnxruntime-web cannot be found.
        OSError: A file cannot be written.
    """
    _check(loaded, in_folder=folder)
    runtime = runtime_files(WEBGPU if folder else WASM, web_runtime)
    description, images = _describe(loaded, samples, split)
    with tempfile.TemporaryDirectory(prefix="pairgan-") as temporary:
        file = Path(temporary) / GENERATOR
        write_program(loaded, file, dtype, as_images=True, takes_latents=True)
        files = {**runtime, GENERATOR: file.read_bytes()}
    held: Iterable[bytes | str] = files if folder else files.values()
    parts = {**images, **dict(zip(("runtime", "wasm", "generator"), held, strict=True))}
    page = build_page(description, "onnx_engine", parts=parts).encode()
    if folder:
        for name, content in {**files, PAGE: page}.items():
            _write(output / name, content)
        logger.info("to open it   python -m http.server --bind 127.0.0.1 --directory %s", output)
    else:
        _write(output, page)


def default_stem(loaded: LoadedGenerator, options: Mapping[str, Any]) -> str:
    """Return the name of the page, or of its folder."""
    return "_".join(filter(None, [FOLDER if options["folder"] else "generator", loaded.named_direction]))


def _check(loaded: LoadedGenerator, *, in_folder: bool) -> None:
    if loaded.config.features.n_channels:
        raise ExportError(
            f"{loaded.file}: takes instance features, which a page cannot draw. Use python -m tools.playground."
        )
    if beyond := loaded.data_facts.page_obstacle:
        raise ExportError(
            f"{loaded.file}: {beyond}, which a page cannot show. Use --format onnx, which pairgan.py runs."
        )
    n_bytes = sum(weight.nbytes for weight in loaded.generator.state_dict().values())
    if n_bytes > MAX_BYTES_IN_PAGE and not in_folder:
        raise ExportError(
            f"{loaded.file}: {n_bytes / 1e6:.0f} MB of weights, a page in one file holds "
            f"{MAX_BYTES_IN_PAGE / 1e6:.0f} MB. Add --folder."
        )


def _describe(loaded: LoadedGenerator, n_samples: int, split: str | None) -> tuple[Description, Mapping[str, bytes]]:
    """Return the description of the page, and its samples by the names of their parts."""
    samples = open_samples(loaded, split) if n_samples else Samples(loaded)
    names, sizes = list[str](), list[tuple[int, int]]()
    parts: dict[str, bytes] = {}
    for index, name in enumerate(samples.names):
        if len(names) == n_samples:
            break
        try:
            sample = samples.read(index)
        except DataError as error:
            logger.warning("left out     %s", error)
            continue
        parts[f"sample-{len(names)}"] = samples.pack(sample)
        names.append(name)
        sizes.append((sample.source.shape[-1], sample.source.shape[-2]))
    if names:
        logger.info("             %d of them are in the page; --samples 0 leaves them out", len(names))
    latents = latent_channels(loaded.generator)
    described = replace(describe(samples, takes_seed=any(latents)), latents=latents, mixes_styles=any(latents))
    most = max(min(described.max_pixels, _most_pixels(loaded)), described.width * described.height)
    return replace(described, samples=names, sample_sizes=sizes, max_pixels=most, file_side=FILE_SIDE), parts


def _most_pixels(loaded: LoadedGenerator) -> int:
    """Return how many pixels of a source fit into the memory of a page, by the largest activation of the generator."""
    largest, side = 0, 2 * image_sides(loaded.config).minimum
    network = inference_network(loaded.generator).eval()

    def observe(_module: nn.Module, _inputs: object, output: object) -> None:
        nonlocal largest
        if isinstance(output, Tensor):
            largest = max(largest, output.nbytes)

    hooks = [module.register_forward_hook(observe) for module in network.modules()]
    with torch.inference_mode():
        network(torch.zeros(1, loaded.conditioning.channels, side, side))
    for hook in hooks:
        hook.remove()
    return PAGE_MEMORY * side**2 // (LIVE_TENSORS * largest)


def _write(path: Path, content: bytes) -> None:
    with replacing(path) as unfinished:
        unfinished.write_bytes(content)
    report_file(path)


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
        "folder": {
            "action": "store_true",
            "help": f"html: a folder of a page and its files for a web server, default {FOLDER}; for large networks",
        },
        "samples": {
            "type": whole_number(0),
            "default": N_SAMPLES,
            "metavar": "N",
            "help": f"html: samples of --split that the page carries; default: {N_SAMPLES}",
        },
        "split": {"metavar": "NAME", "help": "html: split of the data set; default: the test split"},
        "web_runtime": {
            "type": Path,
            "metavar": "PATH",
            "help": f"html: archive or folder of {PACKAGE}; default: download it",
        },
    },
)
