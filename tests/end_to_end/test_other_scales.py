"""The journey of pairs whose targets are larger, or smaller, than their sources."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from data.batch import DataError
from data.facades.dataset import SyntheticFacades
from data.files.image_files import StoredForm, read_rgb, read_stored
from data.files.tiff_tags import file_tags
from data.preprocessing import resize_image
from inference.output_folder import gallery_image
from tests.conftest import save_image, write_tiny_config
from tests.images import GEO_TAGS, bands, heights, tifffile
from tests.runs import run, translate

DATA = ["data.layout=paired_folders", "data.instance_edges=false", "data.preprocess=crop"]
DATA += ["data.crop_width=16", "data.crop_height=16", "train.batch_size=2"]
NETWORK = ["generator.scale=4", "generator.upsample=nearest", "init.distribution=normal:0.3"]


def write_pairs(root: Path) -> None:
    """Facades of 128 pixels as targets, and their reductions to 32."""
    for split, n in (("train", 4), ("val", 2), ("test", 2)):
        facades = SyntheticFacades(split=split, seed=0, n_samples=n, height=128, width=128)
        for index, name in enumerate(facades.names):
            target = facades.read(index).target
            assert target is not None
            for side, image in {"A": resize_image(target, 32, 32), "B": target}.items():
                save_image(root / f"{split}_{side}" / f"{name}.png", image.permute(1, 2, 0).numpy())


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration of a finished run of low-resolution images -> four times as large, `runs/tiny`."""
    folder = tmp_path_factory.mktemp("journey")
    write_pairs(folder / "pairs")
    config = write_tiny_config(folder)
    augment = ["data.rotation_degrees=[-5,5]", "augmentation.policy=[translation,cutout]"]
    run(config, *DATA, f"data.root={folder / 'pairs'}", *NETWORK, *augment)
    return config


def run_of(config: Path) -> Path:
    return config.parent / "runs" / "tiny"


def test_a_split_is_translated_and_measured(trained: Path, tmp_path: Path) -> None:
    translate("--checkpoint", str(run_of(trained)), "--output", str(tmp_path / "out"))
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert metrics["protocol"]["sizes"] == {"128x128": 2}
    assert read_rgb(tmp_path / "out" / "facade_00000.png").shape == (3, 128, 128)
    for kind in ("source", "target", "difference"):
        assert read_rgb(tmp_path / "out" / gallery_image(kind, "facade_00000")).shape == (3, 128, 128)
    assert read_rgb(tmp_path / "out" / "contact_sheet.png").shape[2] > 3 * 128
    kept = tmp_path / "out" / "facade_00001.png"
    before = kept.stat().st_mtime_ns
    translate("--checkpoint", str(run_of(trained)), "--output", str(tmp_path / "out"), "--existing", "keep")
    assert kept.stat().st_mtime_ns == before


def test_images_of_any_size_become_four_times_as_large_in_tiles_too(trained: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name, size in (("odd", (37, 50)), ("small", (3, 5))):
        save_image(tmp_path / "in" / f"{name}.png", rng.integers(0, 256, (*size, 3), dtype=np.uint8))
    command = ["--checkpoint", str(run_of(trained)), "--input", str(tmp_path / "in"), "--opt-level", "O0"]
    translate(*command, "--output", str(tmp_path / "whole"))
    translate(*command, "--output", str(tmp_path / "tiles"), "--tile", "64")
    odd, tiled = (read_rgb(tmp_path / name / "odd.png").int() for name in ("whole", "tiles"))
    assert odd.shape == (3, 148, 200)
    assert odd.float().std() > 5
    assert (odd - tiled).abs().max() <= 1
    assert read_rgb(tmp_path / "whole" / "small.png").shape == (3, 12, 20)
    save_image(tmp_path / "whole" / "odd.png", np.zeros((37, 50, 3), np.uint8))
    with pytest.raises(DataError, match=r"odd\.png: is 50x37, expected 200x148\. Remove it, or choose"):
        translate(*command, "--output", str(tmp_path / "whole"), "--existing", "keep")


@pytest.mark.parametrize(
    "settings",
    [
        ["generator.scale=0.25", "generator.n_downsamplings=3", "generator.upsample=residual"],
        [
            *("generator.scale=2", "discriminator.name=segmentation", "discriminator.n_downsamplings=3"),
            *("loss.gan_mode=segmentation", "loss.feature_matching=0", "loss.labelmix=5"),
        ],
    ],
)
def test_label_maps_are_translated_at_every_scale(tiny_config: Path, tmp_path: Path, settings: list[str]) -> None:
    scale, root = float(re.findall(r"generator\.scale=([\d.]+)", " ".join(settings))[0]), tmp_path / "pairs"
    for split in ("train", "val", "test"):
        facades = SyntheticFacades(split=split, seed=0, n_samples=3, height=64, width=64)
        for name, (source, instances, target) in ((s.name, s.maps.values()) for s in map(facades.read, range(3))):
            save_image(root / f"{split}_label" / f"{name}.png", source[0].numpy())
            save_image(root / f"{split}_inst" / f"{name}.png", instances[0].numpy().astype(np.uint8))
            resized = resize_image(target, round(64 * scale), round(64 * scale))
            save_image(root / f"{split}_img" / f"{name}.png", resized.permute(1, 2, 0).numpy())
    data = ["data.layout=paired_folders", f"data.root={root}", f"data.n_classes={SyntheticFacades.n_classes}"]
    run(tiny_config, *data, "train.max_steps=2", "log.images_every_steps=2", *settings)
    translate("--checkpoint", str(run_of(tiny_config)), "--output", str(tmp_path / "out"))
    sizes = json.loads((tmp_path / "out" / "metrics.json").read_text())["protocol"]["sizes"]
    assert sizes == {f"{64 * scale:g}x{64 * scale:g}": 3}
    assert read_rgb(tmp_path / "out" / gallery_image("source", "facade_00000")).shape[1] == 64 * scale


def test_bands_become_a_larger_float_tiff_at_its_place(tiny_config: Path) -> None:
    root, folder = tiny_config.parent / "bands", tiny_config.parent / "out"
    options = {"photometric": "minisblack", "planarconfig": "contig", "extratags": GEO_TAGS}
    for number, split in enumerate(("train", "train", "val", "test")):
        for side in "AB":
            (root / f"{split}_{side}").mkdir(parents=True, exist_ok=True)
        tifffile().imwrite(root / f"{split}_A" / f"{number}.tif", bands(number).transpose(1, 2, 0), **options)
        tifffile().imwrite(root / f"{split}_B" / f"{number}.tif", heights(number, 64, 80))
    data = ["data.layout=paired_folders", f"data.root={root}", "data.instance_edges=false", "generator.scale=2"]
    data += ["data.source_channels=4", "data.target_channels=1", "data.target_range=[0,0.5]"]
    data += ["data.source_range=[0,4041,0,9032,0,66,0,59953]", "data.target_files=float32.tif"]
    run(tiny_config, *data, "generator.output=linear", "init.distribution=normal:0.5")
    translate("--checkpoint", str(run_of(tiny_config)), "--output", str(folder), "--opt-level", "O0")
    form = StoredForm(1, "data.target_channels", is_8_bit=False)
    made = read_stored(folder / "3.tif", form)
    assert made.dtype == torch.float32
    assert made.shape == (1, 64, 80)
    assert made.min() < 0  # beyond the range, which is not closed
    assert made.max() > 0.5
    tags = {tag[0]: tag[3] for tag in file_tags(folder / "3.tif").georeferencing}
    sizes = {code: value for code, _, _, value, _ in GEO_TAGS}
    assert tags[33550][:2] == tuple(size / 2 for size in sizes[33550][:2])
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["mean"]["mae"] == pytest.approx(metrics["mean"]["l1"] * 0.5, rel=0.01)
    assert metrics["mean"]["l1"] > 1  # heights are far beyond half a metre
