"""The traced program of a network."""

from pathlib import Path

import torch
from torch import nn

from models.layers import AntialiasedDownsampling
from tools.export.onnx import trace, write_onnx


def test_a_file_names_no_folder_of_this_machine(tmp_path: Path) -> None:
    """A layer with a precision of its own is a module within the program, with stack traces of its own."""
    program = trace(nn.Sequential(AntialiasedDownsampling()), {"input": torch.zeros(1, 2, 8, 8)})
    write_onnx(program, tmp_path / "program.onnx", {"config": '{"generator": {"scale": 1}}'})
    assert str(Path.cwd()).encode() not in (tmp_path / "program.onnx").read_bytes()
