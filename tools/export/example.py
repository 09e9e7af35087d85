"""Random inputs of a generator, and its outputs in torch, with which exported files are compared."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from configs.stored_images import target_dtype
from data.batch import Batch
from data.conditioning import Conditioning, images_to_float
from data.value_range import ValueRange
from inference.load import LoadedGenerator
from tools.export.program import without_encoder
from training.model_inputs import translate

LEVELS = 255
N_INSTANCES = 50


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
    further = conditioning.source_image_channels
    return Batch(
        names=tuple(map(str, range(n))),
        source=source,
        instances=draw(1, N_INSTANCES, torch.int32) // 2,
        target=draw_image(*target),
        features=draw(3, 256, torch.uint8),
        source_images=draw_image(further, conditioning.source_range) if further else None,
    )


def generator_inputs(loaded: LoadedGenerator, n: int, height: int, width: int) -> tuple[Tensor, ...]:
    """Return random arguments of the generator, which calls its encoder itself if it has one."""
    conditioning = loaded.conditioning
    batch = random_batch(conditioning, n, height, width)
    return conditioning.training_inputs(batch, conditioning(batch))


def evaluate(generator: nn.Module, *inputs: Tensor) -> Tensor:
    """Return the generator's output in evaluation mode, which stays on."""
    with torch.inference_mode():
        return translate(generator.eval(), inputs).fake


def make_example(loaded: LoadedGenerator, n: int, height: int, width: int, *, as_images: bool) -> Example:
    """Return an example of images (`as_images`), or of the tensors that the generator takes and returns."""
    conditioning = loaded.conditioning
    batch = random_batch(conditioning, n, height, width)
    features = _features(conditioning, loaded.config.features.n_channels, batch)
    parts = [conditioning(batch)]
    if features is not None:
        parts.append(images_to_float(features) if features.dtype == torch.uint8 else features)
    tensor = torch.cat(parts, dim=1)
    translated = evaluate(without_encoder(loaded.generator), tensor)
    if not as_images:
        return Example({"source": tensor}, translated)
    inputs = {
        "source": batch.source,
        "instances": batch.instances if conditioning.takes_edges_of_instances else None,
        "features": features,
        "source_images": batch.source_images,
    }
    given = {name: tensor for name, tensor in inputs.items() if tensor is not None}
    expected = conditioning.pixels(translated, target_dtype(loaded.config.data))
    return Example(given, expected, _level(conditioning.target_range, expected.dtype))


def _level(values: ValueRange | None, dtype: torch.dtype) -> Tensor | float:
    if values is None:
        return 1.0
    level = (torch.tensor(values.high) - torch.tensor(values.low)).view(-1, 1, 1) / LEVELS
    return level if dtype.is_floating_point else level.clamp_min(1)


def _features(conditioning: Conditioning, n_channels: int, batch: Batch) -> Tensor | None:
    match conditioning.features:
        case "none":
            return None
        case "precomputed":
            return batch.features
        case "encoded":
            rng = torch.Generator().manual_seed(n_channels)
            return torch.rand((len(batch.names), n_channels, *batch.source.shape[2:]), generator=rng) * 2 - 1
