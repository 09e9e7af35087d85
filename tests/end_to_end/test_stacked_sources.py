"""Journeys with sources of several folders: colours with depth, and label maps with heights."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from data.files.image_files import read_ids, read_rgb
from data.files.pixels import StoredForm, read_stored
from tests.conftest import save_image, write_tiny_config
from tests.images import save_npy
from tests.runs import (
    OASIS,
    SPADE,
    assert_equal,
    assert_resumes_exactly,
    checkpoint,
    program_main,
    run,
    translate,
    untrained_run,
    with_slow,
)
from tests.tools.serve.services import model_of
from utils.errors import ConfigError, UserError

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
    """A configuration with a finished run of either stack, `colors` and `labels`; only to be read."""
    config = write_config(tmp_path_factory.mktemp("trained"))
    run(config, *COLORS_AND_DEPTH, "run.name=colors")
    run(config, *LABELS_AND_HEIGHT, "run.name=labels")
    return config


@pytest.mark.parametrize("stack", STACKS)
def test_stacked_sources_train_resume_and_translate(config: Path, stack: list[str]) -> None:
    assert_resumes_exactly(config, *stack, stop=2, end=4)
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


def test_ranges_are_per_channel_and_printed(trained: Path) -> None:
    of_colors, of_labels = ((trained.parent / "runs" / name / "log.txt").read_text() for name in ("colors", "labels"))
    assert "sources        4 channels of {split}_rgb, {split}_depth, values 0 to 255," in of_colors
    model = model_of("--checkpoint", trained.parent / "runs" / "labels")
    assert (model["inputs"], model["source_channels"]) == ({"source": "class ids", "source_2": "values"}, 1)
    assert model["source_range"] == [2000, 6000]
    assert "source images  1 channel of {split}_depth, values" in of_labels


@pytest.mark.parametrize(
    "generator", with_slow([[*OASIS, "generator.n_upsamplings=2"]], [SPADE]), ids=["oasis", "spade"]
)
def test_spade_generators_take_labels_with_images(config: Path, generator: list[str]) -> None:
    small = ["generator.n_upsamplings=2", "discriminator.n_downsamplings=2"]
    run(config, *LABELS_AND_HEIGHT, *generator, *small, "generator.base_channels=8", "train.max_steps=2")
    translate("--checkpoint", str(config.parent / "runs" / "tiny"), "--output", str(config.parent / "out"))


@pytest.mark.parametrize("name", with_slow(["labels"], ["colors"]))
def test_weights_are_exported_pages_are_not(trained: Path, tmp_path: Path, name: str) -> None:
    folder, root = tmp_path / "run", f"data.root={trained.parent / 'pairs'}"
    shutil.copytree(trained.parent / "runs" / name, folder)
    export = program_main("tools.export")
    export(["--checkpoint", str(folder), "--format", "safetensors"])
    results = []
    for file in (folder, folder / "generator.safetensors"):
        output = tmp_path / f"of_{file.name}"
        translate("--checkpoint", str(file), "--output", str(output), "--opt-level", "O0", root)
        results.append(read_rgb(output / "6.png"))
    assert torch.equal(*results)
    with pytest.raises(UserError, match=r"takes sources of several folders, which a page cannot show"):
        export(["--checkpoint", str(folder), "--format", "html"])
    if name == "labels":
        with pytest.raises(UserError, match=r"which a page cannot draw"):
            program_main("tools.playground")(["--checkpoint", str(folder)])


@pytest.mark.parametrize("direction", ["AtoB", "BtoA"])
def test_translations_from_and_into_a_stack_are_measured_against_the_other_side(config: Path, direction: str) -> None:
    unpaired = ["data.layout=unpaired_folders", "method.name=cycle", "cycle.identity=0", "loss.l1=0"]
    folder = untrained_run(config, *COLORS_AND_DEPTH, *unpaired, "data.source_range=[0,255,0,255,0,255,0,20000]")
    output = config.parent / "out"
    translate("--checkpoint", str(folder), "--direction", direction, "--output", str(output))
    report = json.loads((output / "metrics.json").read_text())
    assert (report["n_images"], report["n_real"], report["whole"].keys()) == (2, 2, {"swd"})


def test_videos_are_refused(trained: Path, tmp_path: Path) -> None:
    pytest.importorskip("av")
    from tests.videos import write_video

    clip = write_video(tmp_path / "clip.mp4", n_frames=2, sound=None)
    with pytest.raises(UserError, match=r"clip\.mp4: .* does not translate RGB images only\. Name a folder"):
        translate("--checkpoint", str(trained.parent / "runs" / "colors"), "--input", str(clip))


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
        (colors / "6.png", tmp_path / "grey" / "6.png"): r"grey/6\.png: holds 8 bits, the training images values up to",
        (depth / "6.png", colors / "7.png"): r"test_rgb/7\.png: holds 8 bits, the training images values up to",
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


def test_label_maps_in_colors_are_stacked_with_images(
    trained: Path, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    palette = np.array([[10, 20, 30], [200, 0, 0], [0, 0, 250]], np.uint8)
    for path in (config.parent / "pairs").glob("*_label/*.png"):
        save_image(path, palette[read_ids(path)[0].numpy()])
    colors = config.with_name("colors.yaml")
    colors.write_text("floor: [10, 20, 30]\nwall: [200, 0, 0]\nsky: [0, 0, 250]\n")
    run(config, *LABELS_AND_HEIGHT[:2], LABELS_AND_HEIGHT[3], f"data.label_colors={colors}")
    first, second = checkpoint(trained, 4, "labels"), checkpoint(config, 4)
    assert_equal(first["networks"], second["networks"])
    assert "3 by colours: floor, wall, sky" in capsys.readouterr().out


def test_types_and_formats_are_mixed_and_bad_samples_skipped(config: Path) -> None:
    for path in (config.parent / "pairs").glob("*_depth/*.png"):
        save_npy(path.with_suffix(".npy"), read_stored(path, DEPTH).numpy().astype(np.float32) / 10)
        path.unlink()
    save_npy(config.parent / "pairs" / "train_depth" / "0.npy", np.full((32, 40), np.nan, np.float32))
    with pytest.raises(UserError, match=r"train_depth/0\.npy: channel 1, row 0, column 0 holds nan"):
        run(config, *COLORS_AND_DEPTH)
    with pytest.raises(UserError, match=r"Add data\.source_range=\[0,255,0,255,0,255,[\d.]+,\d+\.\d\]$"):
        run(config, *COLORS_AND_DEPTH[:2], "data.on_bad_sample=skip")
    run(config, *COLORS_AND_DEPTH, "data.on_bad_sample=skip", "train.max_steps=2")
    translate("--checkpoint", str(config.parent / "runs" / "tiny"), "--output", str(config.parent / "out"))


def test_weights_of_the_originals_take_one_folder(config: Path) -> None:
    run(config, "data.source_folder={split}_rgb", "train.max_steps=2", "generator.upsample=transposed")
    file = config.with_name("latest_net_G.pth")
    folder = str(config.parent / "runs" / "tiny")
    program_main("tools.export")(["--checkpoint", folder, "--format", "original", "--output", str(file)])
    with pytest.raises(ConfigError, match=r"takes sources of one folder"):
        translate(
            "--checkpoint", str(file), "--input", str(config.parent / "pairs" / "test_rgb"), "data.source_folder=[a,b]"
        )
