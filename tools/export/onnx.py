"""--format onnx: the generator as an ONNX program that takes and returns images."""

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from configs.build import image_sides
from data.batch import Batch
from data.conditioning import images_to_float
from inference.load import LoadedGenerator
from models.latent_inputs import given_latents
from tools.export.example import example_sizes, make_example, plain_copy, without_encoder
from tools.export.format import CARD, DTYPE, STYLE, Dtype, ExportError, Format, Run, report_file, write_checked
from utils.files import sha256_of_file
from utils.log import logger
from utils.torch_private import allow_sizes_of_one

OUTPUT_NAME = "translated"
MAX_ONNX_BYTES = 2**31  # size limit of protocol buffers
VALUES_VERSION = "3"  # version for images other than 8-bit RGB; readers of versions 1 and 2 reject it
PACKAGES = ("onnx", "onnxscript", "onnxruntime")


class ImageProgram(nn.Module):
    """A generator whose inputs and outputs have the values of image files, such as uint8 RGB.

    dtype: Type of the weights and the arithmetic.
    target_dtype: Type of the output if targets are not 8-bit RGB.
    """

    def __init__(self, loaded: LoadedGenerator, dtype: torch.dtype) -> None:
        super().__init__()
        self.generator = without_encoder(plain_copy(loaded).generator).to(dtype)
        self.sides, self.conditioning = image_sides(loaded.config), loaded.conditioning
        self.dtype, self.target_dtype = dtype, loaded.data_facts.target_dtype

    def forward(
        self,
        source: Tensor,
        instances: Tensor | None = None,
        features: Tensor | None = None,
        source_images: Tensor | None = None,
        latents: Tensor | None = None,
    ) -> Tensor:
        """Return (N, 3, H, W) uint8 RGB images, or (N, C, H, W) values in the unit and type of the targets.

        source: (N, 3, H, W) uint8 RGB images, or (N, 1, H, W) class ids: uint8 for at most 255 classes, int32 for more.
            Unknown class ids give zeros in all channels. Images other than 8-bit RGB are (N, C, H, W): float32 in the
            unit of their files if the settings give a value range, otherwise uint8.
        instances: (N, 1, H, W) int32 ids, if the generator uses instance edges.
        features: Precomputed features, (N, 3, H, W) uint8, or encoded features, (N, C, H, W) float32 in [-1, 1].
        source_images: Images in addition to class ids, (N, C, H, W), float32 or uint8 as explained above.
        latents: (N, C) noise and style. See `given_latents`.
        """
        self.sides.check(source)
        parts = [self.conditioning(Batch((), source=source, instances=instances, source_images=source_images))]
        if features is not None:
            parts.append(images_to_float(features) if features.dtype == torch.uint8 else features)
        with given_latents(self.generator, latents):
            translated = self.generator(torch.cat(parts, dim=1).to(self.dtype)).float()
        return self.conditioning.pixels(translated, self.target_dtype)


def export_program(loaded: LoadedGenerator, path: Path, dtype: Dtype, *, is_for_page: bool = False) -> None:
    """Write the generator, without its encoder, as an ONNX program.

    is_for_page: Whether noise and style are inputs of the program. If false, noise is 0, and the style is the chosen
        or mean style. The function then also logs the file and its inputs.

    Raises:
        ExportError: torch cannot trace the generator, the program is too large, or its output differs too much.
        OSError: The file cannot be written.
    """
    network = ImageProgram(loaded, getattr(torch, dtype))
    n_bytes = sum(weight.nbytes for weight in network.state_dict().values())
    if n_bytes >= MAX_ONNX_BYTES:
        raise ExportError(
            f"{path}: {n_bytes:,} bytes of weights, but an ONNX file holds at most 2 GiB. "
            "Use --dtype float16 or --format safetensors."
        )
    examples = [make_example(loaded, *size, takes_latents=is_for_page) for size in example_sizes(loaded)]
    try:
        program = trace(network, examples[0].inputs)
    except (RuntimeError, TypeError, ValueError) as error:
        first, *_ = str(error).splitlines() or [""]
        what = f"{type(network.generator).__name__} cannot be traced by torch.export ({first})"
        raise ExportError(f"{path}: {what}. Use --format safetensors.") from error
    facts = loaded.facts() | ({} if loaded.conditioning.is_8_bit else {"format_version": VALUES_VERSION})
    write_checked(path, lambda file: write_onnx(program, file, facts), open_onnx, examples, dtype)
    if not is_for_page:
        report_file(path)
        for name, tensor in examples[0].inputs.items():
            dtype_name = str(tensor.dtype).removeprefix("torch.")
            logger.info(f"input        {name}: (batch, {tensor.shape[1]}, height, width) {dtype_name}")
        sides = network.sides
        logger.info(f"             sides: multiples of {sides.multiple}, at least {sides.minimum} pixels")


def trace(network: nn.Module, inputs: Mapping[str, Tensor]) -> ExportedProgram:
    """Return the network as a program for any batch size, height and width.

    inputs: Example inputs, (N, C, H, W) or (N, C), by name. The trace uses larger inputs, so that these
        examples can later test another size.
    """
    traced = {name: tensor.repeat((2, 1, 2, 2)[: tensor.ndim]) for name, tensor in inputs.items()}
    sizes = {name: dict.fromkeys({0, 2, 3} & {*range(tensor.ndim)}, Dim.DYNAMIC) for name, tensor in inputs.items()}
    with torch.no_grad(), allow_sizes_of_one():  # a batch of one image, or a U-Net bottleneck of one pixel
        program = torch.export.export(network, (), kwargs=traced, dynamic_shapes=sizes, strict=False)
    for graph_module in program.graph_module.modules():  # an autocast region is a separate module
        for node in graph_module.graph.nodes:
            node.meta.pop("stack_trace", None)  # contains paths of the exporting machine
    return program


def write_onnx(program: ExportedProgram, path: Path, facts: Mapping[str, str]) -> None:
    """Write an .onnx file with `facts` as metadata. Then append the SHA-256 of the file so far."""
    import onnx
    import onnx_ir

    onnx_program = torch.onnx.export(program, (), dynamo=True, verbose=False, output_names=[OUTPUT_NAME])
    assert onnx_program is not None
    onnx_program.model.metadata_props.update(facts)
    graph = onnx_program.model.graph
    is_scaled = json.loads(facts["config"])["generator"]["scale"] != 1
    for values, prefix in ((graph.inputs, ""), (graph.outputs, "translated_" if is_scaled else "")):
        for value in values:
            assert value.shape is not None  # replace names such as s38 and 4*s39
            sides = [f"{prefix}height", f"{prefix}width"] if value.shape.rank() == 4 else []
            value.shape = onnx_ir.Shape(["batch", value.shape[1], *sides])
    onnx_program.save(path, external_data=False)
    digest = onnx.StringStringEntryProto(key="sha256", value=sha256_of_file(path))
    with path.open("ab") as file:  # protobuf merges appended metadata entries with the existing ones
        file.write(onnx.ModelProto(metadata_props=[digest]).SerializeToString())


def open_onnx(path: Path) -> Run:
    """Load an .onnx file. Return a function that runs its program with onnxruntime on the CPU."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def run(inputs: Mapping[str, Tensor]) -> Tensor:
        (translated,) = session.run([OUTPUT_NAME], {name: tensor.numpy() for name, tensor in inputs.items()})
        return torch.from_numpy(translated)

    return run


ONNX = Format(
    content="ONNX program",
    suffix=".onnx",
    write=export_program,
    packages=PACKAGES,
    options={**DTYPE, **CARD, **STYLE},
)
