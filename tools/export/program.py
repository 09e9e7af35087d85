"""Programs in .onnx files: a generator in one dtype, either bare or between conversions from and to images."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from data.batch import Batch
from data.conditioning import Conditioning, images_to_float
from models.generator import ImageSides
from models.latent_inputs import given_latents
from utils.digest import sha256_of_file
from utils.torch_private import allow_sizes_of_one

OUTPUT_NAME = "translated"

Run = Callable[[Mapping[str, Tensor]], Tensor]


class TensorProgram(nn.Module):
    """A generator that computes in one dtype, with inputs and outputs in float32."""

    def __init__(self, generator: nn.Module, sides: ImageSides, dtype: torch.dtype) -> None:
        super().__init__()
        self.generator = generator.to(dtype)
        self.sides = sides
        self.dtype = dtype

    def forward(self, source: Tensor) -> Tensor:
        """Return (N, out_channels, H, W) float32 in [-1, 1] for (N, in_channels, H, W) float32.

        source: channels of one-hot labels or an image in [-1, 1], then of instance edges, then of features.
        """
        self.sides.check(source)
        return self.generator(source.to(self.dtype)).float()


class ImageProgram(nn.Module):
    """A generator whose inputs and outputs are images as they lie in files.

    dtype: of its output, where targets are not 8-bit RGB.
    """

    def __init__(self, tensors: TensorProgram, conditioning: Conditioning, dtype: torch.dtype) -> None:
        super().__init__()
        self.tensors = tensors
        self.conditioning = conditioning
        self.dtype = dtype

    def forward(
        self,
        source: Tensor,
        instances: Tensor | None = None,
        features: Tensor | None = None,
        source_images: Tensor | None = None,
        latents: Tensor | None = None,
    ) -> Tensor:
        """Return (N, 3, H, W) uint8 RGB images, or (N, C, H, W) values in the targets' unit and type.

        source: (N, 3, H, W) uint8 RGB images, or (N, 1, H, W) class ids: uint8 for at most 255 classes, int32 for more;
            an id that is no class is zero in every channel. Or images that are not 8-bit RGB: (N, C, H, W) float32 in
            their unit if they have a range, otherwise uint8.
        instances: (N, 1, H, W) int32 ids, if the generator takes their edges.
        features: (N, 3, H, W) uint8 if they are precomputed, (N, C, H, W) float32 in [-1, 1] if an encoder made them.
        source_images: images beside class ids, in the forms of a source that is not 8-bit RGB.
        latents: see `given_latents`.
        """
        self.tensors.sides.check(source)
        parts = [self.conditioning(Batch((), source=source, instances=instances, source_images=source_images))]
        if features is not None:
            parts.append(images_to_float(features) if features.dtype == torch.uint8 else features)
        with given_latents(self.tensors.generator, latents):
            translated = self.tensors(torch.cat(parts, dim=1))
        return self.conditioning.pixels(translated, self.dtype)


def trace(network: nn.Module, inputs: Mapping[str, Tensor]) -> ExportedProgram:
    """Return the network's program for any batch, height and width; its (N, C, H, W) and (N, C) inputs are named.

    inputs: examples; larger ones are traced, so that these can test the program in sizes that it has not seen.
    """
    traced = {name: tensor.repeat((2, 1, 2, 2)[: tensor.ndim]) for name, tensor in inputs.items()}
    sizes = {name: dict.fromkeys({0, 2, 3} & {*range(tensor.ndim)}, Dim.DYNAMIC) for name, tensor in inputs.items()}
    with torch.no_grad(), allow_sizes_of_one():  # as the batch and a U-Net's innermost map often have
        program = torch.export.export(network, (), kwargs=traced, dynamic_shapes=sizes, strict=False)
    for graph_module in program.graph_module.modules():  # a region of another precision is a module of its own
        for node in graph_module.graph.nodes:
            node.meta.pop("stack_trace", None)  # paths of this machine, which the file would hold
    return program


def write_onnx(program: ExportedProgram, path: Path, facts: Mapping[str, str]) -> None:
    """Write an .onnx file, with `facts` and the SHA-256 of all that is before it as metadata."""
    import onnx
    import onnx_ir

    onnx_program = torch.onnx.export(program, (), dynamo=True, verbose=False, output_names=[OUTPUT_NAME])
    assert onnx_program is not None
    onnx_program.model.metadata_props.update(facts)
    graph = onnx_program.model.graph
    is_scaled = json.loads(facts["config"])["generator"]["scale"] != 1
    for values, prefix in ((graph.inputs, ""), (graph.outputs, "translated_" if is_scaled else "")):
        for value in values:
            assert value.shape is not None  # instead of s38, 4*s39 and the like
            sides = [f"{prefix}height", f"{prefix}width"] if value.shape.rank() == 4 else []
            value.shape = onnx_ir.Shape(["batch", value.shape[1], *sides])
    onnx_program.save(path, external_data=False)
    digest = onnx.StringStringEntryProto(key="sha256", value=sha256_of_file(path))
    with path.open("ab") as file:  # one more entry of the metadata, for protocol buffers add up
        file.write(onnx.ModelProto(metadata_props=[digest]).SerializeToString())


def open_onnx(path: Path) -> Run:
    """Return the program of an .onnx file, run by onnxruntime on the CPU."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def run(inputs: Mapping[str, Tensor]) -> Tensor:
        (translated,) = session.run([OUTPUT_NAME], {name: tensor.numpy() for name, tensor in inputs.items()})
        return torch.from_numpy(translated)

    return run
