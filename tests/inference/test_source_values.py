import logging
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from data.batch import Sample
from data.conditioning import ValueRange
from data.paired_folders import PairedFolders
from inference.reading import SourceValues, report_parts
from tests.images import tifffile
from utils.distributed import World

BRIGHT = torch.rand((2, 16, 16), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("kind", "factor", "is_reported"),
    [("source", 0.1, True), ("source", 0.3, False), ("source", 1.5, False), ("source_images", 10.0, True)],
)
def test_values_of_another_unit_are_reported(
    caplog: pytest.LogCaptureFixture, factor: float, is_reported: bool, kind: str
) -> None:
    """The channels have different ranges, and three quarters of the pixels are 0, like a background."""
    images = BRIGHT * torch.tensor([1000.0, 4.0]).view(2, 1, 1) * (BRIGHT > 0.75) * factor
    ids = torch.zeros((1, 16, 16), dtype=torch.int32)
    values = SourceValues(ValueRange((0.0, -4.0), (1000.0, 4.0)), kind)
    source, further = (images, None) if kind == "source" else (ids, images)
    values.add(Sample(name="x", source=source, source_images=further))
    values.warn(World(0, 1, torch.device("cpu")))
    assert ("1 of 1 sources" in caplog.text) == is_reported


def test_lower_levels_of_a_pyramid_are_no_further_images(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    for name, second, mark in (("pyramid", 16, 1), ("slide", 16, 0), ("pages", 32, 0)):
        with tifffile().TiffWriter(tmp_path / f"{name}.tif") as writer:
            for side in (32, second):
                pixels = np.zeros((side, side, 3), np.uint8)
                writer.write(pixels, photometric="rgb", tile=(16, 16), subfiletype=mark * (side < 32), metadata=None)
    report_parts(PairedFolders({"source": tmp_path}))
    warning, report = caplog.messages
    assert report.startswith("pyramids     2 files")
    assert warning.startswith("1 file with several images or bands")
    assert re.search(r"for example page 1 of 2 of .*pages\.tif", warning)
