"""Examples that test an exported file: random inputs, and the generator's outputs for them."""

from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from configs import build
from configs.build import image_sides
from data.batch import Batch
from data.conditioning import Conditioning, ValueRange, images_to_float
from inference.load import LoadedGenerator
from models.generator import EncodedGenerator
from models.latent_inputs import copy_chosen_style, given_latents, latent_channels
from training.methods.paired import translate

LEVELS = 255
N_INSTANCES = 50


@dataclass(frozen=True)
class Example:
    """Inputs of an exported file, and the generator's output, computed in float32.

    inputs: Images in the units of image files, or tensors in [-1, 1], by input name.
    level: 1/255 of the output's range, as one number or per channel (C, 1, 1). At least 1 for integer outputs.
    """

    inputs: dict[str, Tensor]
    expected: Tensor
    level: Tensor | float = 2 / LEVELS

    def difference(self, found: Tensor) -> float:
        """Return the largest difference in levels, or infinity for NaN, another shape or another dtype."""
        if found.shape != self.expected.shape or found.dtype != self.expected.dtype:
            return float("inf")
        difference = (found.double() - self.expected.double()).abs() / self.level
        return difference.max().nan_to_num(float("inf")).item()


def random_batch(conditioning: Conditioning, n: int, height: int, width: int) -> Batch:
    """Return n random samples with every input that a generator can take. Equal arguments give equal samples."""
    rng = torch.Generator().manual_seed(n * height * width)

    def draw(n_channels: int, end: int, dtype: torch.dtype) -> Tensor:
        return torch.randint(end, (n, n_channels, height, width), generator=rng).to(dtype)

    def draw_image(n_channels: int, values: ValueRange | None) -> Tensor:
        levels = draw(3 if n_channels == 1 and values is None else n_channels, 256, torch.uint8)
        return levels if values is None else values.from_float(images_to_float(levels), torch.float32)

    n_classes, target = conditioning.n_classes, (conditioning.target_channels, conditioning.target_range)
    labels = draw(1, n_classes, torch.uint8 if n_classes <= LEVELS else torch.int32) if n_classes else None
    source = draw_image(conditioning.source_channels, conditioning.source_range) if labels is None else labels
    n_images = conditioning.source_image_channels
    return Batch(
        names=tuple(map(str, range(n))),
        source=source,
        instances=draw(1, N_INSTANCES, torch.int32) // 2,
        target=draw_image(*target),
        features=draw(3, 256, torch.uint8),
        source_images=draw_image(n_images, conditioning.source_range) if n_images else None,
    )


def evaluate(generator: nn.Module, *inputs: Tensor) -> Tensor:
    """Switch the generator to evaluation mode and return its output."""
    with torch.inference_mode():
        return translate(generator.eval(), inputs)[0]


def make_example(loaded: LoadedGenerator, n: int, height: int, width: int, *, takes_latents: bool = False) -> Example:
    """Return an example of (n, C, height, width) images for an exported program.

    takes_latents: Whether the noise and style of the generator, if any, are inputs of the program.
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
    inputs = {
        "source": batch.source,
        "instances": batch.instances if conditioning.takes_edges_of_instances else None,
        "features": None if conditioning.features == "none" else features,
        "source_images": batch.source_images,
        "latents": latents,
    }
    given = {name: tensor for name, tensor in inputs.items() if tensor is not None}
    expected, values = conditioning.pixels(translated, loaded.data_facts.target_dtype), conditioning.target_range
    if values is None:
        return Example(given, expected, level=1.0)
    level = (torch.tensor(values.high) - torch.tensor(values.low)).view(-1, 1, 1) / LEVELS
    return Example(given, expected, level if expected.dtype.is_floating_point else level.clamp_min(1))


def example_sizes(loaded: LoadedGenerator) -> list[tuple[int, int, int]]:
    """Return (batch size, height, width) of the examples. They are small, because many CPUs only emulate float16.

    The sides are at least twice the minimum. At the minimum, the lowest resolution has only a few pixels. Norm layers
    would compute the standard deviation of these few pixels, which is inaccurate in float16.
    """
    sides = image_sides(loaded.config)
    short, long = 2 * sides.minimum, 2 * sides.minimum + sides.multiple
    return [(1, short, long), (2, long, short)]


def plain_copy(loaded: LoadedGenerator) -> LoadedGenerator:
    """Return a copy with a generator in evaluation mode, without gradients and spectral norm."""
    config = replace(loaded.config, generator=replace(loaded.config.generator, spectral_norm=False))
    generator = build.build_generator(config).eval().requires_grad_(False)
    if not isinstance(loaded.generator, EncodedGenerator):  # weights files of original projects have no encoder
        generator = without_encoder(generator)
    original = loaded.generator.eval()  # training mode would update the power iteration at each read
    weights = {name: value for name, value in original.state_dict().items() if ".parametrizations." not in name}
    for name, module in original.named_modules():
        if is_parametrized(module, "weight"):  # module.weight is the normalized weight
            weights[f"{name}.weight"] = cast(Tensor, module.weight).detach()
    generator.load_state_dict(weights)
    copy_chosen_style(original, generator)
    return replace(loaded, config=config, generator=generator)


def without_encoder(generator: nn.Module) -> nn.Module:
    """Return the generator without its encoder. The result has features as an input, and uses the chosen style or 0."""
    return generator.generator if isinstance(generator, EncodedGenerator) else generator
