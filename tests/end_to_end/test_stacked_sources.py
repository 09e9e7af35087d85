"""Journeys with sources of several folders: colours with depth, and label maps with heights."""

from pathlib import Path

import numpy as np
import pytest
import torch

from data.files.image_files import StoredForm, read_rgb
from tests.conftest import save_image, write_tiny_config
from tests.runs import run, translate
from utils.errors import UserError

CONFIG = """
base: tiny.yaml
data: {{layout: paired_folders, root: {root}/pairs, target_folder: "{{split}}_img", instance_edges: false}}
checkpoint: {{every_steps: 2, keep: 0}}
log: {{images_every_steps: 2}}
"""
COLORS_AND_DEPTH = ["data.source_folder=[{split}_rgb,{split}_depth]", "data.source_channels=4"]
COLORS_AND_DEPTH += ["data.source_range=[0,255,0,255,0,255,2000,6000]"]
LABELS_AND_HEIGHT = ["data.source_folder=[{split}_label,{split}_depth]", "data.source_channels=1", "data.n_classes=3"]
LABELS_AND_HEIGHT += ["data.source_range=[2000,6000]"]
DEPTH = StoredForm(1, "", is_8_bit=False)
STACKS = [pytest.param(COLORS_AND_DEPTH, id="colors and depth"), pytest.param(LABELS_AND_HEIGHT, id="labels, height")]


def write_config(folder: Path) -> Path:
    """Write a configuration without sources, and colours, 16-bit depth, labels and photographs of 32x40 pixels."""
    for split, seeds in {"train": range(4), "val": range(4, 6), "test": range(6, 8)}.items():
        for seed in seeds:
            rng = np.random.default_rng(seed)
            levels = rng.integers(0, 256, (4, 5, 3), dtype=np.uint8).repeat(8, 0).repeat(8, 1)
            depth = (np.mgrid[:32, :40].sum(0) * 100 + 5000 * rng.random()).astype(np.uint16)
            maps = {"rgb": levels, "depth": depth, "label": levels[..., 0] // 86, "img": 255 - levels}
            for kind, pixels in maps.items():
                save_image(folder / "pairs" / f"{split}_{kind}" / f"{seed}.png", pixels)
    write_tiny_config(folder)
    path = folder / "stack.yaml"
    path.write_text(CONFIG.format(root=folder))
    return path


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return write_config(tmp_path)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration with a finished run, `colors`. Only to be read."""
    config = write_config(tmp_path_factory.mktemp("trained"))
    run(config, *COLORS_AND_DEPTH, "run.name=colors")
    return config


@pytest.mark.parametrize("stack", STACKS)
def test_stacked_sources_train_and_translate(config: Path, stack: list[str]) -> None:
    run(config, *stack, "train.max_steps=1")
    pairs, runs = config.parent / "pairs", config.parent / "runs" / "tiny"
    given = [str(pairs / name.format(split="test")) for name in stack[0].partition("=")[2][1:-1].split(",")]
    requests = {
        "out": [],
        "tiled": ["--tile", "16"],
        "given": ["--input", *given, "--targets", str(pairs / "test_img")],
    }
    for name, request in requests.items():
        translate("--checkpoint", str(runs), "--output", str(config.parent / name), "--opt-level", "O0", *request)
    for seed in (6, 7):
        whole, tiled, named = (read_rgb(config.parent / name / f"{seed}.png").int() for name in requests)
        assert whole.shape == (3, 32, 40)
        assert (whole - tiled).abs().max() <= 2
        assert torch.equal(whole, named)
        for kind in ("source", "target", "difference"):
            assert (config.parent / "out" / "gallery" / kind / f"{seed}.png").exists()


def test_input_names_a_folder_for_each_source_folder(trained: Path, tmp_path: Path) -> None:
    pairs, command = trained.parent / "pairs", ["--checkpoint", str(trained.parent / "runs" / "colors"), "--input"]
    colors, depth, out = pairs / "test_rgb", pairs / "test_depth", tmp_path / "out"
    save_image(tmp_path / "grey" / "6.png", np.zeros((32, 40), np.uint8))
    for given, message in {
        (
            colors,
        ): r"--input: .*test_rgb do not fit the 2 sources .*each of \{split\}_rgb, \{split\}_depth, in this order",
        (colors, colors): r"--input: .* do not fit the 2 sources",
        (colors, depth / "6.png"): r"--input: .*depth/6\.png do not fit the 2 sources",
        (colors / "6.png", depth / "none.png"): r"test_depth/none\.png: no such file",
        (colors / "none.png", depth / "6.png"): r"--input: .*test_rgb/none\.png: no such file",
        (colors, pairs / "none"): r"pairs/none: no such folder",
        (colors / "6.png", tmp_path / "grey" / "6.png"): r"grey/6\.png: holds 8 bits, .* 6000",
        (depth / "6.png", colors / "7.png"): r"test_rgb/7\.png: holds 8 bits, .* 6000",
    }.items():
        with pytest.raises(UserError, match=message):
            translate(*command, *map(str, given), "--output", str(out))
    output = ["--opt-level", "O0", "--output", str(out)]
    translate(*command, str(colors), str(depth), *output)
    whole = read_rgb(out / "6.png")
    translate(*command, str(colors / "6.png"), str(depth / "7.png"), *output, "--existing", "replace")
    assert not torch.equal(read_rgb(out / "6.png"), whole)
    translate(*command, str(colors / "6.png"), str(depth / "6.png"), *output, "--existing", "replace")
    assert torch.equal(read_rgb(out / "6.png"), whole)
