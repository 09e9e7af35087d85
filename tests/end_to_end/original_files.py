"""A check of the originals' weight files."""

from pathlib import Path

import torch

from inference.load import load_generator
from tools.export import __main__ as export


def assert_written_back(file: Path, output: Path, n_classes: int) -> None:
    """A generator's file that is read and written has the same tensors, and computes the same."""
    export.main(["--checkpoint", str(file), "--format", "original", "--output", str(output)])
    before, after = (torch.load(path, weights_only=True) for path in (file, output))
    assert before.keys() == after.keys()
    generators = [load_generator(path).generator.eval() for path in (file, output)]
    source = torch.randn(1, n_classes, 64, 64)
    assert torch.equal(generators[0](source), generators[1](source))
