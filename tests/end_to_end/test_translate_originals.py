"""test.py with files of the weights of pix2pixHD, pix2pix, CycleGAN and CUT."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from data.batch import Batch
from data.conditioning import Conditioning, images_to_uint8
from data.files.image_files import read_rgb
from data.map_reader import MapReader
from data.paired_folders import PairedFolders
from models.originals.weights import import_original
from tests.conftest import save_image
from tests.runs import translate
from utils.errors import UserError


@pytest.mark.parametrize(
    ("name", "n_classes"),
    [
        ("pix2pixhd_global_rgb", 0),
        ("pix2pixhd_global_label_edge", 5),
        ("cyclegan_generator", 0),
        ("cut_generator_mixed", 0),
    ],
)
def test_a_file_of_the_originals_gives_the_originals_pictures(
    reference: dict[str, Any], tmp_path: Path, name: str, n_classes: int
) -> None:
    case = reference[name]
    torch.save(case["state_dict"], tmp_path / "latest_net_G.pth")
    rng = np.random.default_rng(0)
    shape = (32, 48) if n_classes else (32, 48, 3)
    save_image(tmp_path / "in" / "x.png", rng.integers(0, n_classes or 256, shape, dtype=np.uint8))
    checkpoint = tmp_path if n_classes else tmp_path / "latest_net_G.pth"
    arguments = ["--checkpoint", str(checkpoint), "--input", str(tmp_path / "in")]
    if n_classes:
        save_image(tmp_path / "inst" / "x.png", rng.integers(0, 9, shape, dtype=np.uint16))
        arguments += ["--instances", str(tmp_path / "inst")]
    translate(*arguments, "--output", str(tmp_path / "out"))

    # ids become one-hot channels and edges, RGB becomes [-1, 1]
    folders = {"source": tmp_path / "in", "instances": tmp_path / "inst" if n_classes else None}
    layout = PairedFolders(folders, MapReader(n_classes))
    source = Conditioning(n_classes, instance_edges=n_classes > 0)(Batch.of([layout.read(0)]))
    with torch.no_grad():
        expected = images_to_uint8(import_original(case["state_dict"]).network.eval()(source))[0]
    assert (read_rgb(tmp_path / "out" / "x.png").int() - expected.int()).abs().max() <= 1


def test_other_weight_files_are_told(reference: dict[str, Any], tmp_path: Path) -> None:
    generator = reference["pix2pixhd_global_rgb"]["state_dict"]
    two = {key: value[:2] if key.startswith("model.19.") else value for key, value in generator.items()}
    files = {
        "latest_net_D": reference["pix2pixhd_discriminator_2"]["state_dict"],
        "other": {"conv.weight": torch.zeros(2, 3, 3, 3)},
        "latest_net_G": generator,
        "two_net_G": two,
    }
    for name, weights in files.items():
        torch.save(weights, tmp_path / f"{name}.pth")
    for name, arguments, message in (
        ("latest_net_D", ["--input", "x"], r"net_D\.pth: holds a MultiscalePatchDiscriminator"),
        ("other", ["--input", "x"], r"other\.pth: expected .* found conv\.weight \[2, 3, 3, 3\]"),
        ("two_net_G", ["--input", "x"], r"net_G\.pth: translates 3 channels into 2\."),
        ("latest_net_G", ["--input", "x", "data.n_classes=4"], r"n_classes=0, not 4"),
        ("latest_net_G", ["--input", "x", "generator.scale=4"], r"scale=1\.0, not 4"),
        ("latest_net_G", [], r"latest_net_G\.pth: names no data set\. Name a folder .*, or .* data\.root=DIR"),
    ):
        with pytest.raises(UserError, match=message):
            translate("--checkpoint", str(tmp_path / f"{name}.pth"), *arguments)
