"""--format safetensors: the weights and settings of a generator, for test.py and train.py."""

from pathlib import Path

import torch

from inference.load import LoadedGenerator, load_generator
from inference.original_weights import encoder_file
from models.generator import EncodedGenerator
from models.latent_inputs import takes_style
from tools.export.example import Example, evaluate, example_sizes, plain_copy, random_batch
from tools.export.format import CARD, DTYPE, Dtype, ExportError, Format, Run, report_file, write_checked
from utils.safetensors_file import SUFFIX, write_safetensors


def export_weights(loaded: LoadedGenerator, path: Path, dtype: Dtype) -> None:
    """Write the weights of the generator and its encoder, with the settings, to a .safetensors file.

    Raises:
        ExportError: The file translates differently from `loaded`, or the style encoder is missing.
        CheckpointError: The package safetensors is not installed.
        OSError: The file cannot be written.
    """
    if takes_style(loaded.generator) and not isinstance(loaded.generator, EncodedGenerator):
        raise ExportError(
            f"{loaded.file}: its style encoder is missing. Put {encoder_file(loaded.file).name} next to it, or use "
            "--format onnx."
        )
    plain, conditioning = plain_copy(loaded), loaded.conditioning
    plain.generator.to(getattr(torch, dtype))
    batch = random_batch(conditioning, *example_sizes(loaded)[0])
    inputs = conditioning.training_inputs(batch, conditioning(batch))  # includes inputs of the encoder
    expected = Example({str(place): tensor for place, tensor in enumerate(inputs)}, evaluate(loaded.generator, *inputs))
    weights, facts = plain.generator.state_dict(), plain.facts()
    write_checked(path, lambda file: write_safetensors(file, weights, facts), open_weights, [expected], dtype)
    report_file(path)


def open_weights(path: Path) -> Run:
    """Load a file. Return a function that runs the file's generator on inputs in the given order."""
    generator = load_generator(path).generator
    return lambda inputs: evaluate(generator, *inputs.values())


SAFETENSORS = Format(
    content="weights for test.py and train.py",
    suffix=SUFFIX,
    write=export_weights,
    packages=("safetensors",),
    options={**DTYPE, **CARD},
)
