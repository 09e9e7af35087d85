"""Export formats. To add a format, declare its `Format` in a new module, and add the `Format` to FORMATS."""

from tools.export.format import Format
from tools.export.html import HTML
from tools.export.onnx import ONNX
from tools.export.original import ORIGINAL
from tools.export.safetensors import SAFETENSORS

FORMATS: dict[str, Format] = {"onnx": ONNX, "html": HTML, "safetensors": SAFETENSORS, "original": ORIGINAL}
