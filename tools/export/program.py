"""A network traced by torch.export, as a .pt2 or .onnx file, for any batch, height and width."""

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from utils.digest import sha256_of_file
from utils.torch_private import allow_sizes_of_one

FACTS_NAME = "pairgan.json"  # in a .pt2 file: the description of the model as JSON
OUTPUT_NAME = "translated"

Run = Callable[[Mapping[str, Tensor]], Tensor]


def trace(network: nn.Module, inputs: Mapping[str, Tensor]) -> ExportedProgram:
    """Return the network's program for any batch, height and width; its (N, C, H, W) inputs are named.

    inputs: examples; larger ones are traced, so that these can test the program in sizes that it has not seen.
    """
    traced = {name: tensor.repeat(2, 1, 2, 2) for name, tensor in inputs.items()}
    open_sizes = {0: Dim.DYNAMIC, 2: Dim.DYNAMIC, 3: Dim.DYNAMIC}
    with torch.no_grad(), allow_sizes_of_one():  # as the batch and a U-Net's innermost map often have
        program = torch.export.export(
            network, (), kwargs=traced, dynamic_shapes=dict.fromkeys(traced, open_sizes), strict=False
        )
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)  # paths of this machine, which the file would hold
    return program


def write_pt2(program: ExportedProgram, path: Path, facts: Mapping[str, str]) -> None:
    """Write a .pt2 file, with `facts` as the extra file FACTS_NAME."""
    content = io.BytesIO()  # torch's own writer aborts the process on a full disk
    torch.export.save(program, content, extra_files={FACTS_NAME: json.dumps(facts)})
    path.write_bytes(content.getbuffer())


def open_pt2(path: Path) -> Run:
    """Return the program of a .pt2 file."""
    network = torch.export.load(path).module()

    def run(inputs: Mapping[str, Tensor]) -> Tensor:
        with torch.inference_mode():
            translated: Tensor = network(**inputs)
        return translated

    return run


def write_onnx(program: ExportedProgram, path: Path, facts: Mapping[str, str]) -> None:
    """Write an .onnx file, with `facts` as its metadata."""
    import onnx_ir

    onnx_program = torch.onnx.export(program, (), dynamo=True, verbose=False, output_names=[OUTPUT_NAME])
    assert onnx_program is not None
    onnx_program.model.metadata_props.update(facts)
    graph = onnx_program.model.graph
    is_scaled = json.loads(facts["config"])["generator"]["scale"] != 1
    of_output = "translated_" if is_scaled else ""
    for values, prefix in ((graph.inputs, ""), (graph.outputs, of_output)):
        for value in values:
            assert value.shape is not None  # instead of s38, 4*s39 and the like
            value.shape = onnx_ir.Shape(["batch", value.shape[1], f"{prefix}height", f"{prefix}width"])
    onnx_program.save(path, external_data=False)
    _append_digest(path)


def _append_digest(path: Path) -> None:
    """Append the SHA-256 of an .onnx file to it, as one more entry of its metadata: protocol buffers add up."""
    import onnx

    entry = onnx.StringStringEntryProto(key="sha256", value=sha256_of_file(path))
    with path.open("ab") as file:
        file.write(onnx.ModelProto(metadata_props=[entry]).SerializeToString())


def open_onnx(path: Path) -> Run:
    """Return the program of an .onnx file, run by onnxruntime on the CPU."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def run(inputs: Mapping[str, Tensor]) -> Tensor:
        (translated,) = session.run([OUTPUT_NAME], {name: tensor.numpy() for name, tensor in inputs.items()})
        return torch.from_numpy(translated)

    return run
