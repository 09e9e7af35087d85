"""A file of an export: it comes to its name only when, read again, it translates as the generator does."""

import errno
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import torch

from configs import build
from inference.load import LoadedGenerator, load_generator
from tools.export.example import LEVELS, Example, evaluate, make_example, whole_inputs
from tools.export.network import ImageTranslation, Sides, TensorTranslation, plain_weights, without_encoder
from tools.export.program import open_onnx, open_pt2, trace, write_onnx, write_pt2
from utils.checkpoint import CheckpointError
from utils.log import logger
from utils.safetensors_file import write_safetensors

Dtype = Literal["float32", "float16", "bfloat16"]

# in levels of 255, from the generator in float32: one that is rounded the other way; what few bits cost in 30 layers
TOLERANCES: dict[Dtype, float] = {"float32": 1, "float16": 4, "bfloat16": 32}
MOST_ONNX_BYTES = 2**31  # a protocol buffer's


class ExportError(CheckpointError):
    """A generator cannot be exported so; the message tells the way out."""


def export_program(
    trained: LoadedGenerator, path: Path, kind: Literal["pt2", "onnx"], dtype: Dtype, *, as_images: bool
) -> None:
    """Write the generator, without its encoder, as a program.

    as_images: from label ids or RGB images to RGB images, in uint8; otherwise between the generator's float32 tensors.

    Raises:
        ExportError: the program translates otherwise than the generator, or is too large for its format.
        OSError: the file cannot be written.
    """
    sides = Sides(trained.config.size_multiple, trained.config.min_size)
    tensors = TensorTranslation(without_encoder(plain_copy(trained).generator), sides, getattr(torch, dtype))
    n_bytes = sum(weight.nbytes for weight in tensors.state_dict().values())
    if kind == "onnx" and n_bytes >= MOST_ONNX_BYTES:
        raise ExportError(
            f"{path}: {n_bytes:,} bytes of weights, an ONNX file holds 2 GiB; take --dtype float16 or pt2"
        )
    network = ImageTranslation(tensors, build.build_conditioning(trained.config)) if as_images else tensors
    examples = [make_example(trained, n, *size, as_images=as_images) for n, size in _check_sizes(trained)]
    write, read = (write_pt2, open_pt2) if kind == "pt2" else (write_onnx, open_onnx)

    def difference(file: Path) -> float:
        run = read(file)
        return max(example.difference(run(example.inputs)) for example in examples)

    _write_checked(
        path,
        lambda file: write(trace(network, examples[0].inputs), file, trained.facts()),
        difference,
        TOLERANCES[dtype],
    )
    _describe(examples[0], sides)


def export_weights(trained: LoadedGenerator, path: Path, dtype: Dtype) -> None:
    """Write the generator's weights, with its encoder's, and the settings as .safetensors, which load_generator reads.

    Raises:
        ExportError: read again, it translates otherwise.
        CheckpointError: the package safetensors is missing.
        OSError: the file cannot be written.
    """
    plain = plain_copy(trained)
    plain.generator.to(getattr(torch, dtype))
    n, size = _check_sizes(trained)[0]
    inputs = whole_inputs(trained, n, *size)
    example = Example({}, evaluate(trained.generator, *inputs))
    _write_checked(
        path,
        lambda file: write_safetensors(file, plain.generator.state_dict(), plain.facts()),
        lambda file: example.difference(evaluate(load_generator(file).generator, *inputs)),
        TOLERANCES[dtype],
    )


def plain_copy(trained: LoadedGenerator) -> LoadedGenerator:
    """The same generator in evaluation mode, without gradients and spectral norm, and the settings that tell so."""
    config = replace(trained.config, generator=replace(trained.config.generator, spectral_norm=False))
    generator = build.build_generator(config).eval().requires_grad_(False)
    generator.load_state_dict(plain_weights(trained.generator))
    return replace(trained, config=config, generator=generator)


def _check_sizes(trained: LoadedGenerator) -> list[tuple[int, tuple[int, int]]]:
    """Batch, height and width to compare in; small, as a CPU may only emulate float16.

    Not the smallest: there a norm at the lowest resolution divides by the spread of a few pixels, and torch itself is
    12 levels off in float16, 75 in bfloat16 (pix2pixHD's global generator, 32x48); with twice the sides 2 and 16.
    """
    short, long = 2 * trained.config.min_size, 2 * trained.config.min_size + trained.config.size_multiple
    return [(1, (short, long)), (2, (long, short))]


def _write_checked(
    path: Path, write: Callable[[Path], None], difference: Callable[[Path], float], tolerance: float
) -> None:
    """Write to a folder beside `path`, measure the difference there in levels, and rename."""
    started = time.perf_counter()
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".exporting-") as folder:
        file = Path(folder) / path.name
        try:
            write(file)
        except OSError as error:
            free = shutil.disk_usage(folder).free
            what = f"{error.strerror or error} ({free:,} bytes are free)"
            raise OSError(error.errno or errno.EIO, what, str(path)) from error
        seconds = time.perf_counter() - started
        found = difference(file)
        logger.info(f"difference   {found:.4g} of {LEVELS} levels at most, {tolerance:g} allowed")
        if not found <= tolerance:
            raise ExportError(
                f"{path}: translates {found:.4g} of {LEVELS} levels otherwise than the generator, {tolerance:g} are "
                "allowed, and was removed; try --dtype float32 or another --format"
            )
        file.replace(path)
    logger.info(f"wrote        {path}: {path.stat().st_size / 1e6:.1f} MB, in {seconds:.1f} s")


def _describe(example: Example, sides: Sides) -> None:
    """Say what the program takes."""
    for name, tensor in example.inputs.items():
        dtype = str(tensor.dtype).removeprefix("torch.")
        logger.info(f"takes        {name}: (batch, {tensor.shape[1]}, height, width) {dtype}")
    logger.info(f"             sides are multiples of {sides.multiple} pixels, from {sides.least} on")
