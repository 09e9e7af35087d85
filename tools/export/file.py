"""An exported file, which gets its name only after it was read back and translates random inputs as the generator."""

import errno
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from configs import build
from configs.build import image_sides
from data.batch import Batch
from data.conditioning import Conditioning, images_to_float
from data.value_range import ValueRange
from inference.load import LoadedGenerator, load_generator
from inference.original_weights import encoder_file
from models.generator import EncodedGenerator
from models.latent_inputs import copy_chosen_style, given_latents, latent_channels, takes_style
from tools.export.program import ImageProgram, TensorProgram, open_onnx, trace, write_onnx
from training.methods.paired import translate
from utils.checkpoint import CheckpointError
from utils.log import logger
from utils.safetensors_file import write_safetensors

Dtype = Literal["float32", "float16", "bfloat16"]

LEVELS = 255
N_INSTANCES = 50
# levels of 255 between the file and the generator in float32: one for rounding, more for the few bits of 30 layers
TOLERANCES: dict[Dtype, float] = {"float32": 1, "float16": 4, "bfloat16": 32}
MAX_ONNX_BYTES = 2**31  # of a protocol buffer
VALUES_VERSION = "3"  # of programs whose images are not 8-bit RGB; readers of versions 1 and 2 would refuse or cut them


class ExportError(CheckpointError):
    """A generator cannot be exported in the chosen format, or its page; the message names the remedy."""


@dataclass(frozen=True)
class Example:
    """Inputs by their names in the exported file, and the generator's output in float32 arithmetic.

    Images as files hold them, or tensors in [-1, 1].
    level: 1/255 of the output's range, for each channel (C, 1, 1) or for all; of whole numbers at least 1.
    """

    inputs: dict[str, Tensor]
    expected: Tensor
    level: Tensor | float = 2 / LEVELS

    def difference(self, found: Tensor) -> float:
        """Return the greatest difference from the expected output, in levels of 255; infinite if it is undefined."""
        if found.shape != self.expected.shape or found.dtype != self.expected.dtype:
            return float("inf")
        difference = (found.double() - self.expected.double()).abs() / self.level
        return difference.max().nan_to_num(float("inf")).item()


def random_batch(conditioning: Conditioning, n: int, height: int, width: int) -> Batch:
    """Return n samples with every possible input of a generator, determined by the arguments."""
    rng = torch.Generator().manual_seed(n * height * width)

    def draw(n_channels: int, end: int, dtype: torch.dtype) -> Tensor:
        return torch.randint(end, (n, n_channels, height, width), generator=rng).to(dtype)

    def draw_image(n_channels: int, values: ValueRange | None) -> Tensor:
        levels = draw(3 if n_channels == 1 and values is None else n_channels, 256, torch.uint8)
        return levels if values is None else values.from_float(images_to_float(levels), torch.float32)

    n_classes, target = conditioning.n_classes, (conditioning.target_channels, conditioning.target_range)
    labels = draw(1, n_classes, torch.uint8 if n_classes <= LEVELS else torch.int32) if n_classes else None
    source = draw_image(conditioning.source_channels, conditioning.source_range) if labels is None else labels
    beside_labels = conditioning.source_image_channels
    return Batch(
        names=tuple(map(str, range(n))),
        source=source,
        instances=draw(1, N_INSTANCES, torch.int32) // 2,
        target=draw_image(*target),
        features=draw(3, 256, torch.uint8),
        source_images=draw_image(beside_labels, conditioning.source_range) if beside_labels else None,
    )


def evaluate(generator: nn.Module, *inputs: Tensor) -> Tensor:
    """Return the generator's output in evaluation mode, which stays on."""
    with torch.inference_mode():
        return translate(generator.eval(), inputs)[0]


def make_example(
    loaded: LoadedGenerator, n: int, height: int, width: int, *, as_images: bool, takes_latents: bool = False
) -> Example:
    """Return an example of images (`as_images`), or of the tensors that the generator takes and returns.

    takes_latents: whether noise and a style are inputs too, where the generator has any; only beside images.
    """
    conditioning = loaded.conditioning
    batch = random_batch(conditioning, n, height, width)
    condition, features = conditioning(batch), batch.features
    if conditioning.features == "encoded":
        n_features = loaded.config.features.n_channels
        rng = torch.Generator().manual_seed(n_features)
        features = torch.rand((n, n_features, height, width), generator=rng) * 2 - 1
        tensor = torch.cat([condition, features], dim=1)
    else:
        (tensor,) = conditioning.generator_inputs(batch, condition)
    n_latents = sum(latent_channels(loaded.generator)) if takes_latents else 0
    latents = torch.randn((n, n_latents), generator=torch.Generator().manual_seed(n)) if n_latents else None
    with given_latents(loaded.generator, latents):
        translated = evaluate(without_encoder(loaded.generator), tensor)
    if not as_images:
        return Example({"source": tensor}, translated)
    inputs = {
        "source": batch.source,
        "instances": batch.instances if conditioning.takes_edges_of_instances else None,
        "features": None if conditioning.features == "none" else features,
        "source_images": batch.source_images,
        "latents": latents,
    }
    given = {name: tensor for name, tensor in inputs.items() if tensor is not None}
    expected = conditioning.pixels(translated, loaded.data_facts.target_dtype)
    return Example(given, expected, _level(conditioning.target_range, expected.dtype))


def _level(values: ValueRange | None, dtype: torch.dtype) -> Tensor | float:
    if values is None:
        return 1.0
    level = (torch.tensor(values.high) - torch.tensor(values.low)).view(-1, 1, 1) / LEVELS
    return level if dtype.is_floating_point else level.clamp_min(1)


def export_program(loaded: LoadedGenerator, path: Path, dtype: Dtype, *, as_images: bool) -> None:
    """Write the generator as `write_program` does, and report the file and its inputs; raises as that."""
    example = write_program(loaded, path, dtype, as_images=as_images)
    report_file(path)
    for name, tensor in example.inputs.items():
        dtype_name = str(tensor.dtype).removeprefix("torch.")
        logger.info(f"input        {name}: (batch, {tensor.shape[1]}, height, width) {dtype_name}")
    sides = image_sides(loaded.config)
    logger.info(f"             sides: multiples of {sides.multiple} pixels, at least {sides.minimum}")


def write_program(
    loaded: LoadedGenerator, path: Path, dtype: Dtype, *, as_images: bool, takes_latents: bool = False
) -> Example:
    """Write the generator, without its encoder, as an ONNX program; return an example of its inputs.

    as_images: inputs and outputs are label ids, RGB images in uint8, or values in their unit; otherwise the generator's
        float32 tensors.
    takes_latents: as for `make_example`; otherwise noise is 0, and the style the mean or the one that is chosen.

    Raises:
        ExportError: the generator cannot be traced, its program translates otherwise, or is too large for its format.
        OSError: the file cannot be written.
    """
    sides = image_sides(loaded.config)
    tensors = TensorProgram(without_encoder(plain_copy(loaded).generator), sides, getattr(torch, dtype))
    n_bytes = sum(weight.nbytes for weight in tensors.state_dict().values())
    if n_bytes >= MAX_ONNX_BYTES:
        raise ExportError(
            f"{path}: {n_bytes:,} bytes of weights, an ONNX file holds 2 GiB. "
            "Use --dtype float16 or --format safetensors."
        )
    conditioning, pixel_dtype = loaded.conditioning, loaded.data_facts.target_dtype
    network = ImageProgram(tensors, conditioning, pixel_dtype) if as_images else tensors
    facts = loaded.facts() | ({"format_version": VALUES_VERSION} if as_images and not conditioning.is_8_bit else {})
    make = partial(make_example, loaded, as_images=as_images, takes_latents=takes_latents)
    examples = [make(*size) for size in _check_sizes(loaded)]

    def difference(file: Path) -> float:
        run = open_onnx(file)
        return max(example.difference(run(example.inputs)) for example in examples)

    try:
        program = trace(network, examples[0].inputs)
    except (RuntimeError, TypeError, ValueError) as error:
        first, *_ = str(error).splitlines() or [""]
        what = f"{type(tensors.generator).__name__} cannot be traced by torch.export ({first})"
        raise ExportError(f"{path}: {what}. Use --format safetensors.") from error
    _write_checked(path, lambda file: write_onnx(program, file, facts), difference, TOLERANCES[dtype])
    return examples[0]


def export_weights(loaded: LoadedGenerator, path: Path, dtype: Dtype) -> None:
    """Write the weights of the generator and its encoder, and the settings, as .safetensors for load_generator.

    Raises:
        ExportError: the generator of the file does not translate as this one does, or lacks its encoder.
        CheckpointError: the package safetensors is not installed.
        OSError: the file cannot be written.
    """
    if takes_style(loaded.generator) and not isinstance(loaded.generator, EncodedGenerator):
        raise ExportError(
            f"{loaded.file}: its style encoder is missing. Put {encoder_file(loaded.file).name} beside it, or use "
            "--format onnx."
        )
    plain = plain_copy(loaded)
    plain.generator.to(getattr(torch, dtype))
    batch = random_batch(loaded.conditioning, *_check_sizes(loaded)[0])
    inputs = loaded.conditioning.training_inputs(batch, loaded.conditioning(batch))  # the generator calls its encoder
    example = Example({}, evaluate(loaded.generator, *inputs))
    _write_checked(
        path,
        lambda file: write_safetensors(file, plain.generator.state_dict(), plain.facts()),
        lambda file: example.difference(evaluate(load_generator(file).generator, *inputs)),
        TOLERANCES[dtype],
    )
    report_file(path)


def plain_copy(loaded: LoadedGenerator) -> LoadedGenerator:
    """Return a copy of the generator in evaluation mode, without gradients and spectral norm, with its settings."""
    config = replace(loaded.config, generator=replace(loaded.config.generator, spectral_norm=False))
    generator = build.build_generator(config).eval().requires_grad_(False)
    if not isinstance(loaded.generator, EncodedGenerator):  # an original's file has no encoder
        generator = without_encoder(generator)
    original = loaded.generator.eval()  # in training mode each read of a weight is a step of the power iteration
    weights = {name: value for name, value in original.state_dict().items() if ".parametrizations." not in name}
    for name, module in original.named_modules():
        if is_parametrized(module, "weight"):  # spectral norm is folded into the weights
            weights[f"{name}.weight"] = cast(Tensor, module.weight).detach()
    generator.load_state_dict(weights)
    copy_chosen_style(original, generator)
    return replace(loaded, config=config, generator=generator)


def without_encoder(generator: nn.Module) -> nn.Module:
    """Return the generator that takes features as an input, or whose style is a constant: 0, unless one is chosen."""
    return generator.generator if isinstance(generator, EncodedGenerator) else generator


def _check_sizes(loaded: LoadedGenerator) -> list[tuple[int, int, int]]:
    """Return batch sizes, heights and widths of the comparison: small, since a CPU may only emulate float16.

    They are twice the smallest, at which norms of the lowest resolution divide by the standard deviation of a few
    pixels, so that torch itself is far off in a low dtype.
    """
    sides = image_sides(loaded.config)
    short, long = 2 * sides.minimum, 2 * sides.minimum + sides.multiple
    return [(1, short, long), (2, long, short)]


def _write_checked(
    path: Path, write: Callable[[Path], None], difference: Callable[[Path], float], tolerance: float
) -> None:
    """Write to a folder beside `path`, measure the difference in levels, and rename the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".exporting-") as folder:
        file = Path(folder) / path.name
        try:
            write(file)
        except OSError as error:
            free = shutil.disk_usage(folder).free
            what = f"{error.strerror or error} ({free:,} bytes are free)"
            raise OSError(error.errno or errno.EIO, what, str(path)) from error
        found = difference(file)
        logger.info(f"difference   {found:.4g} of {LEVELS} levels at most, {tolerance:g} allowed")
        if not found <= tolerance:
            raise ExportError(
                f"{path}: differs from the generator by {found:.4g} of {LEVELS} levels, {tolerance:g} allowed, and was "
                "removed; try --dtype float32 or another --format"
            )
        file.replace(path)


def report_file(path: Path) -> None:
    """Log that a file was written, and its size."""
    logger.info(f"wrote        {path}: {path.stat().st_size / 1e6:.1f} MB")
