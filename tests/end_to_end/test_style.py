"""SPADE's generator with a style encoder, or with noise channels: trained, and translated with what is drawn or chosen.

Styles are exported too.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

import pairgan
from data.batch import DataError
from data.files.image_files import read_rgb
from inference.load import load_generator
from inference.output_folder import RECORD
from inference.requested_predictor import encode_style
from models.latent_inputs import draw_latents
from tests.conftest import save_image, write_tiny_config
from tests.runs import STYLE, program_main, records, run, translate, untrained_run, with_slow
from tests.tools.playground.pages import post, serving
from tests.videos import images_of, write_video
from utils.checkpoint import load_checkpoint
from utils.checkpoint_folder import checkpoint_path
from utils.errors import ConfigError

LIVELY = [*STYLE, "init.distribution=kaiming", "train.max_steps=2"]


@pytest.fixture(scope="module")
def styled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The finished run of LIVELY, with the checkpoints of both steps; only to be read."""
    config = write_tiny_config(tmp_path_factory.mktemp("styled"))
    run(config, *LIVELY, "checkpoint.every_steps=1")
    return config.parent / "runs" / "tiny"


def pictures(folder: Path) -> list[torch.Tensor]:
    found = [read_rgb(path).int() for path in sorted(folder.glob("facade_*.png"))]
    assert len(found) == 3
    return found


def photo(path: Path, size: tuple[int, int] = (40, 60), seed: int = 0) -> str:
    rng = np.random.default_rng(seed)
    save_image(path, rng.integers(0, 256, (*size, 3), dtype=np.uint8) // (1 + 3 * seed))
    return str(path)


def test_the_seed_or_an_image_decides(styled: Path, tmp_path: Path) -> None:
    arguments = ["--checkpoint", str(styled), "--opt-level", "O0", "--output"]
    bright, dark = photo(tmp_path / "bright.png"), photo(tmp_path / "dark.png", seed=1)
    ways = {
        "zero": [],
        "one": ["--seed", "1", "--batch-size", "3"],
        "bright": ["--style", bright],
        "dark": ["--style", dark, "--batch-size", "2"],
    }
    made = {}
    for name, options in ways.items():
        translate(*arguments, str(tmp_path / name), *options)
        made[name] = pictures(tmp_path / name)
    for number in range(3):
        image = {name: images[number] for name, images in made.items()}
        for first, second in (("zero", "one"), ("zero", "dark"), ("bright", "dark")):
            assert (image[first] - image[second]).abs().max() > 1, (first, second)


def test_what_is_kept_has_one_style(styled: Path, tmp_path: Path) -> None:
    arguments = ["--checkpoint", str(styled), "--output", str(tmp_path / "out")]
    translate(*arguments, "--seed", "1")
    translate(*arguments, "--seed", "1", "--existing", "keep")
    assert json.loads((tmp_path / "out" / RECORD).read_text())["seed"] == 1
    style = photo(tmp_path / "style.png")
    with pytest.raises(DataError, match=r"translations of another origin \(.*style_"):
        translate(*arguments, "--style", style, "--existing", "keep")
    translate(*arguments, "--style", style)
    photo(tmp_path / "style.png", seed=1)
    with pytest.raises(DataError, match=r"another origin \(style_sha256\)"):
        translate(*arguments, "--style", style, "--existing", "keep")


def test_a_style_that_cannot_be_used_is_refused(tiny_run: Path, styled: Path, tmp_path: Path) -> None:
    without = ["--checkpoint", str(tiny_run), "--output", str(tmp_path / "out")]
    with pytest.raises(ConfigError, match=r"was trained without a style \(style.channels=0\)\. Remove the option"):
        translate(*without, "--style", photo(tmp_path / "photo.png"))
    arguments = ["--checkpoint", str(styled), "--output", str(tmp_path / "out")]
    with pytest.raises(DataError, match=r"^--style: .*none\.png: no such file"):
        translate(*arguments, "--style", str(tmp_path / "none.png"))
    (tmp_path / "text.png").write_text("text")
    with pytest.raises(DataError, match=r"^--style: .*text\.png: cannot be read as an image"):
        translate(*arguments, "--style", str(tmp_path / "text.png"))
    assert not (tmp_path / "out").exists()


def test_a_large_image_is_reduced_without_aliasing(styled: Path, tmp_path: Path) -> None:
    """Alternating lines of one pixel, which are grey from afar, do not change the style."""
    loaded = load_generator(checkpoint_path(styled, 2))
    plain = np.random.default_rng(0).integers(60, 196, (8, 8, 3)).repeat(128, 0).repeat(128, 1)
    lined = plain + np.where(np.arange(1024) % 2, 60, -60)[None, :, None]
    images = {"plain": plain, "lined": lined, "other": plain[::-1]}
    styles = {}
    for name, image in images.items():
        save_image(tmp_path / f"{name}.png", image.astype(np.uint8))
        encoded = encode_style(loaded, tmp_path / f"{name}.png")
        styles[name] = encoded
    assert (styles["lined"] - styles["plain"]).norm() < 0.05 * (styles["other"] - styles["plain"]).norm()


def test_both_parts_are_trained_by_the_generators_optimizer(styled: Path) -> None:
    states = [load_checkpoint(checkpoint_path(styled, step)) for step in (1, 2)]
    first, second = (state["networks"]["generator"] for state in states)
    moved = {name for name, weight in first.items() if not torch.equal(weight, second[name])}
    assert {"encoder.mean.bias", "encoder.log_variance.weight", "generator.stem.weight"} <= moved
    assert (
        "encoder.layers.0.0.parametrizations.weight.original"
        in states[1]["optimizers"]["generator"]["moments"]["generator"]
    )
    assert records(styled.parents[1] / "tiny.yaml", "loss/G/kl_divergence")


@pytest.mark.parametrize("kind", with_slow(["safetensors"], ["onnx"]))
def test_an_export_has_the_style_of_an_image(tiny_config: Path, tmp_path: Path, kind: str) -> None:
    """A program holds one style; weights hold the encoder."""
    folder = untrained_run(tiny_config, *LIVELY, "init.distribution=kaiming:0.3")
    style = photo(tmp_path / "style.png", seed=1)
    labels = np.arange(32 * 32).reshape(32, 32) % 12
    save_image(tmp_path / "in" / "a.png", labels.astype(np.uint8))
    save_image(tmp_path / "instances" / "a.png", np.zeros((32, 32), np.uint16))
    inputs = ["--input", str(tmp_path / "in"), "--instances", str(tmp_path / "instances"), "--style", style]

    def translated(file: Path, name: str) -> torch.Tensor:
        translate("--checkpoint", str(file), *inputs, "--opt-level", "O0", "--output", str(tmp_path / name))
        return read_rgb(tmp_path / name / "a.png").int()

    wanted, export = translated(folder, "run"), program_main("tools.export")
    arguments = ["--checkpoint", str(folder), "--format", kind, "--output", str(tmp_path / f"a.{kind}")]
    if kind == "safetensors":
        export(arguments)
        found = translated(tmp_path / "a.safetensors", "file")
        with pytest.raises(SystemExit):
            export([*arguments, "--existing", "replace", "--style", style])
    else:
        export([*arguments, "--style", style])
        picture = pairgan.load(tmp_path / "a.onnx")(labels, instances=np.zeros((32, 32), np.int32))
        found = torch.from_numpy(np.asarray(picture).astype(int)).permute(2, 0, 1)
    assert (found - wanted).abs().max() <= 1


@contextmanager
def drawn(run_folder: Path, labels: np.ndarray, *options: str) -> Iterator[list[bytes]]:
    """The pictures of a playground for two seeds."""
    with serving("--checkpoint", str(run_folder), "--opt-level", "O0", *options) as server:
        yield [post(server, labels, np.zeros_like(labels), seed=seed)[1] for seed in (5, 6)]


def test_the_playground_draws_styles_by_its_seed(styled: Path, tmp_path: Path) -> None:
    labels = np.random.default_rng(0).integers(0, 12, (32, 32), dtype=np.int32)
    with drawn(styled, labels) as (five, six):
        assert five != six
    with drawn(styled, labels, "--style", photo(tmp_path / "style.png")) as (first, second):
        assert first == second
        assert first != five


def test_all_frames_of_a_video_have_one_style(
    tiny_config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_image(tmp_path / "set" / "train" / "x.png", np.zeros((32, 64, 3), np.uint8))
    data = ["data.layout=side_by_side", f"data.root={tmp_path / 'set'}", "data.instance_edges=false"]
    run_folder = untrained_run(tiny_config, *LIVELY, *data)
    clip = write_video(tmp_path / "clip.mp4", n_frames=5)
    chosen: list[Sequence[int]] = []

    def draw(network: torch.nn.Module, seeds: Sequence[int]) -> None:
        chosen.append(seeds)
        draw_latents(network, seeds)

    monkeypatch.setattr("inference.predictor.draw_latents", draw)
    arguments = ["--checkpoint", str(run_folder), "--input", str(clip), "--opt-level", "O0"]
    frames = {}
    for name, options in {"drawn": ["--batch-size", "2"], "style": ["--style", photo(tmp_path / "a.png")]}.items():
        translate(*arguments, "--output", str(tmp_path / f"{name}.mp4"), *options)
        frames[name] = images_of(tmp_path / f"{name}.mp4")[2]
    assert len({seed for seeds in chosen for seed in seeds}) == 1
    assert (frames["drawn"] != frames["style"]).any()
