"""test.py with files of the weights of pix2pixHD, pix2pix, CycleGAN and CUT."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from data.batch import Batch
from data.conditioning import Conditioning, images_to_uint8
from data.files.image_files import read_rgb
from data.map_reader import MapReader
from data.paired_folders import PairedFolders
from inference.load import load_generator
from tests.conftest import save_image
from tests.runs import translate, with_slow
from tools.export import __main__ as export
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

    # the original's own way: ids -> one-hot and edges, or RGB in [-1, 1]; its biases before norms kept
    folders = {"source": tmp_path / "in", "instances": tmp_path / "inst" if n_classes else None}
    layout = PairedFolders(folders, MapReader(n_classes))
    source = Conditioning(n_classes, instance_edges=n_classes > 0)(Batch.of([layout.read(0)]))
    expected = images_to_uint8(original_forward(case["state_dict"], source))[0]
    assert (read_rgb(tmp_path / "out" / "x.png").int() - expected.int()).abs().max() <= 1


def original_forward(weights: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """A ResNet of the originals with instance norm, layer by layer in its own numbers."""
    *numbers, last = sorted({int(key.split(".")[1]) for key in weights})
    is_behind_blocks = False

    def convolve(x: torch.Tensor, name: str, pad: int) -> torch.Tensor:
        padded = F.pad(x, (pad,) * 4, mode="reflect")
        return F.conv2d(padded, weights[f"{name}.weight"], weights[f"{name}.bias"])

    for number in numbers:
        name = f"model.{number}"
        if f"{name}.filt" in weights:
            x = filtered(x, weights[f"{name}.filt"])
        elif f"{name}.conv_block.1.weight" in weights:
            inner = F.instance_norm(convolve(x, f"{name}.conv_block.1", 1)).relu()
            x, is_behind_blocks = x + F.instance_norm(convolve(inner, f"{name}.conv_block.5", 1)), True
        elif number == 1:
            x = F.instance_norm(convolve(x, name, 3)).relu()
        else:
            weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
            if f"model.{number - 1 if is_behind_blocks else number + 3}.filt" in weights:
                x = F.conv2d(x, weight, bias, padding=1)
            elif is_behind_blocks:
                x = F.conv_transpose2d(x, weight, bias, stride=2, padding=1, output_padding=1)
            else:
                x = F.conv2d(x, weight, bias, stride=2, padding=1)
            x = F.instance_norm(x).relu()
    return convolve(x, f"model.{last}", 3).tanh()


def filtered(x: torch.Tensor, kernel: torch.Tensor) -> torch.Tensor:
    """CUT's down- or upsampling."""
    if kernel.shape[-1] == 3:
        return F.conv2d(F.pad(x, (1,) * 4, mode="reflect"), kernel, stride=2, groups=len(kernel))
    x = F.conv_transpose2d(F.pad(x, (1,) * 4, mode="replicate"), kernel, stride=2, padding=2, groups=len(kernel))
    return x[:, :, 1:-1, 1:-1]


@pytest.mark.parametrize(
    "name",
    with_slow(
        ["cut_generator_mixed", "pix2pix_unet_batch", "pix2pixhd_local_1"],
        ["pix2pix_resnet_batch_dropout", "pix2pixhd_global_label_edge"],
    ),
)
def test_generators_are_written_back_and_exported(reference: dict[str, Any], tmp_path: Path, name: str) -> None:
    file = tmp_path / "latest_net_G.pth"
    torch.save(reference[name]["state_dict"], file)
    weights = load_generator(file).generator.state_dict()
    for form, output in (("original", tmp_path / "back.pth"), ("safetensors", tmp_path / "g.safetensors")):
        export.main(["--checkpoint", str(file), "--format", form, "--output", str(output)])
        torch.testing.assert_close(load_generator(output).generator.state_dict(), weights, rtol=0, atol=0)
    assert torch.load(tmp_path / "back.pth", weights_only=True).keys() == reference[name]["state_dict"].keys()


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
        ("two_net_G", ["--input", "x"], r"net_G\.pth: translates 3 channels into 2\. Only label maps, RGB and"),
        ("latest_net_G", ["--input", "x", "data.n_classes=4"], r"n_classes is 0 by the shapes of its weights, not 4"),
        ("latest_net_G", ["--input", "x", "generator.scale=4"], r"scale is 1\.0 by the shapes of its weights, not 4"),
        ("latest_net_G", [], r"latest_net_G\.pth: names no data set\. Name a folder .*, or .* data\.root=DIR"),
    ):
        with pytest.raises(UserError, match=message):
            translate("--checkpoint", str(tmp_path / f"{name}.pth"), *arguments)


@pytest.mark.parametrize(("letter", "names", "n_real"), [("G_A", ["0", "1", "2"], 2), ("G_B", ["0", "1"], 3)])
def test_cyclegans_files_are_measured_on_their_data_set(
    reference: dict[str, Any], tmp_path: Path, letter: str, names: list[str], n_real: int
) -> None:
    rng, file = np.random.default_rng(0), tmp_path / f"latest_net_{letter}.pth"
    for side, n_images in (("A", 3), ("B", 2)):
        for number in range(n_images):
            image = rng.integers(0, 256, (32, 40, 3), dtype=np.uint8)
            save_image(tmp_path / "set" / f"test{side}" / f"{number}.png", image)
    torch.save(reference["cyclegan_generator"]["state_dict"], file)
    settings = ["data.layout=unpaired_folders", f"data.root={tmp_path / 'set'}"]
    common = ["--checkpoint", str(file), "--output", str(tmp_path / "out"), *settings]
    with pytest.raises(UserError, match=r"or method\.name=contrastive or cycle"):
        translate(*common)
    translate(*common, "method.name=cycle")
    assert sorted(path.stem for path in (tmp_path / "out").glob("?.png")) == names
    report = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert (report["n_images"], report["n_real"], report["whole"].keys()) == (len(names), n_real, {"swd"})


def test_a_folder_of_cyclegan_translates_in_both_directions(
    reference: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Side B is grey here."""
    weights = reference["pix2pixhd_global_rgb"]["state_dict"]
    to_grey = {key: value[:1] if key.startswith("model.19.") else value for key, value in weights.items()}
    from_grey = weights | {"model.1.weight": weights["model.1.weight"].sum(dim=1, keepdim=True)}
    torch.save(to_grey, tmp_path / "latest_net_G_A.pth")
    torch.save(from_grey, tmp_path / "latest_net_G_B.pth")
    pixels = np.random.default_rng(0).integers(0, 255, (32, 48, 3), np.uint8)
    save_image(tmp_path / "in" / "x.png", pixels)
    monkeypatch.chdir(tmp_path)
    found = {}
    for direction, name in (("AtoB", "latest_net_G_A"), ("BtoA", "latest_net_G_B")):
        translate("--checkpoint", str(tmp_path), "--direction", direction, "--input", str(tmp_path / "in"))
        found[direction] = read_rgb(Path(f"results/{name}/in_{direction}/x.png"))
        record = json.loads(Path(f"results/{name}/in_{direction}/gallery/origin.json").read_text())
        assert record["direction"] == direction
        assert f"direction    {direction}" in caplog.text
    source = torch.from_numpy(pixels).permute(2, 0, 1)[None].float() / 127.5 - 1
    grey = (source * torch.tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1)).sum(dim=1, keepdim=True)
    for direction, state, given in (("AtoB", to_grey, source), ("BtoA", from_grey, grey)):
        expected = images_to_uint8(original_forward(state, given))[0].int()
        assert (found[direction].int() - expected).abs().max() <= 1
    with pytest.raises(
        UserError, match=r"G_B\.pth: its generator translates BtoA, not AtoB\. Leave --direction out, or"
    ):
        translate("--checkpoint", str(tmp_path / "latest_net_G_B.pth"), "--direction", "AtoB", "--input", "in")
