"""Formats of exported generators. A new format is a file with its `Format`, and a line here."""

from tools.export.format import Format
from tools.export.html import HTML
from tools.export.onnx import ONNX
from tools.export.original import ORIGINAL
from tools.export.safetensors import SAFETENSORS

FORMATS: dict[str, Format] = {"onnx": ONNX, "html": HTML, "safetensors": SAFETENSORS, "original": ORIGINAL}
