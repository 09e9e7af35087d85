"""A page that carries its generator: the playground's, with onnxruntime-web in place of a server."""

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from configs.build import image_sides
from data.batch import DataError
from inference.load import LoadedGenerator
from models.latent_inputs import latent_channels
from models.style_encoder import inference_network
from tools.export.file import Dtype, ExportError, report_file, write_program
from tools.export.web_runtime import WASM, WEBGPU, runtime_files
from tools.playground.page import Description, build_page, describe
from tools.playground.samples import Samples, open_samples
from utils.atomic_file import replacing
from utils.log import logger

MAX_BYTES_IN_PAGE = 2**26  # of weights
GENERATOR = "generator.onnx"
PAGE = "index.html"
FILE_SIDE = 4096  # pixels
PAGE_MEMORY = 2**31  # bytes; WebAssembly addresses 4 GiB, and the runtime and the weights need a part of it
LIVE_TENSORS = 4  # a runtime holds about four tensors as large as the largest activation


def export_page(
    loaded: LoadedGenerator,
    output: Path,
    dtype: Dtype,
    *,
    in_folder: bool,
    n_samples: int,
    web_runtime: Path | None,
    split: str | None = None,
) -> None:
    """Write a page on which one draws, or chooses images, and sees their translation.

    output: the page, one file that opens from a disk; or, `in_folder`, a folder of PAGE and the files that it reads,
        for a web server.
    n_samples: how many samples of `split` the page carries, at most; by default of the test split.
    web_runtime: see `runtime_files`.

    Raises:
        DataError: there is no such split, or it cannot be read.
        ExportError: the generator is too large for one file, takes instance features, or is not translated alike; or
            onnxruntime-web is not to be had.
        OSError: a file cannot be written.
    """
    _check(loaded, in_folder=in_folder)
    runtime = runtime_files(WEBGPU if in_folder else WASM, web_runtime)
    description, samples = _describe(loaded, n_samples, split)
    with tempfile.TemporaryDirectory(prefix="pairgan-") as temporary:
        file = Path(temporary) / GENERATOR
        write_program(loaded, file, dtype, as_images=True, takes_latents=True)
        files = {**runtime, GENERATOR: file.read_bytes()}
    held: Iterable[bytes | str] = files if in_folder else files.values()
    parts = {**samples, **dict(zip(("runtime", "wasm", "generator"), held, strict=True))}
    page = build_page(description, "onnx_engine", parts=parts).encode()
    if in_folder:
        for name, content in {**files, PAGE: page}.items():
            _write(output / name, content)
        logger.info("to open it   python -m http.server --bind 127.0.0.1 --directory %s", output)
    else:
        _write(output, page)


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
