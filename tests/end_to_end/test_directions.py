"""A run with a generator for each direction, translated with and exported."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from data.batch import Batch, Sample
from inference.load import LoadedGenerator, load_from, load_generator, load_network
from tests.conftest import save_image
from tests.runs import assert_equal, translate, untrained_run
from tools.export.__main__ import main as export
from utils.checkpoint import load_checkpoint
from utils.checkpoint_folder import checkpoint_path
from utils.errors import UserError

CYCLE = ["method.name=cycle", "cycle.identity=0", "data.layout=unpaired_folders", "data.instance_edges=false"]
CYCLE += [
    "loss.feature_matching=0",
    "loss.perceptual=0",
    "loss.l1=0",
    "init.distribution=normal:0.3",
    "data.preprocess=none",
]
DEPTH = ["data.target_channels=1", "data.target_range=[0,4095]", "data.target_files=uint16.png"]


@pytest.fixture
def run(tiny_config: Path) -> Path:
    """A run from photographs, side A, to depths of 12 bits, side B, and back; two of A to test with, and three of B."""
    rng, root = np.random.default_rng(0), tiny_config.parent / "heaps"
    for name in ("a", "b"):
        save_image(root / "testA" / f"{name}.png", rng.integers(0, 256, (32, 48, 3), dtype=np.uint8))
    for name in ("x", "y", "z"):
        save_image(root / "testB" / f"{name}.png", rng.integers(0, 4096, (40, 32), dtype=np.uint16))
    return untrained_run(tiny_config, *CYCLE, *DEPTH, f"data.root={root}", averaged=True)


def translated(loaded: LoadedGenerator, source: np.ndarray) -> torch.Tensor:
    """The translation of an image by the network itself, in [-1, 1]."""
    image = torch.from_numpy(source.astype(np.int32)).view(*source.shape[:2], -1).permute(2, 0, 1)
    image = image.to(torch.uint8) if image.shape[0] == 3 else image.to(torch.uint16)
    batch = Batch.of([Sample("x", source=image)])
    with torch.inference_mode():
        output: torch.Tensor = loaded.generator.eval()(loaded.conditioning(batch))[0]
    return output.permute(1, 2, 0)


def test_each_direction_translates_its_side_alone(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run.parent)
    heaps, results = run.parents[1] / "heaps", Path("results/tiny")
    for direction, side, names in (("AtoB", "A", "ab"), ("BtoA", "B", "xyz")):
        (heaps / f"test{side}").rename(run.parent / "here")
        other_way = "BtoA" if direction == "AtoB" else "AtoB"
        with pytest.raises(UserError, match=rf"has no split 'test'\. Choose --direction {other_way} or --input FOLDER"):
            translate("--checkpoint", str(run), "--direction", direction)
        (run.parent / "here").rename(heaps / f"test{side}")
        other = heaps / ("testB" if side == "A" else "testA")
        other.rename(run.parent / "there")
        translate("--checkpoint", str(run), "--direction", direction, "--opt-level", "O0")
        (run.parent / "there").rename(other)
        output = results / f"test_{direction}_step1"
        assert sorted(path.name for path in output.glob("[!c]*.png")) == [f"{name}.png" for name in names]
        record = json.loads((output / "gallery" / "origin.json").read_text())
        assert (record["direction"], record["weights"]) == (direction, "average")
        assert not {"target", "difference"} & {path.name for path in (output / "gallery").iterdir()}
        source = np.asarray(Image.open(heaps / f"test{side}" / f"{names[1]}.png"))
        expected = translated(load_generator(checkpoint_path(run, 1), direction=direction), source)
        found = np.asarray(Image.open(output / f"{names[1]}.png")).astype(np.float32)
        highest = 4095 if side == "A" else 255
        expected = ((expected + 1) / 2 * highest).squeeze()
        assert np.abs(found - expected.numpy()).max() <= 1
        assert found.std() > 1
    again = ["--input", str(heaps / "testB"), "--output", str(results / "test_BtoA_step1"), "--existing", "keep"]
    for options in (again, again[:-2]):
        with pytest.raises(UserError, match=r"holds translations made with other settings \(direction, .*data\."):
            translate("--checkpoint", str(run), *options)


def test_exported_files_hold_a_direction_and_name_it(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    state, originals = load_checkpoint(checkpoint_path(run, 1)), run / "originals"
    originals.mkdir()
    export(["--checkpoint", str(run), "--format", "original", "--network", "discriminator"])
    assert caplog.messages[-2] == "direction    AtoB"
    (run / "latest_net_D_A.pth").unlink()
    for direction in ("AtoB", "BtoA"):
        export(["--checkpoint", str(run), "--direction", direction, "--format", "safetensors"])
        assert f"direction    {direction}" in caplog.text
        file = run / f"generator_{direction}.safetensors"
        with pytest.raises(UserError, match=r"has no split 'held_back'\. Choose [^,]*, or --input FOLDER\.$"):
            translate("--checkpoint", str(file), "--split", "held_back", f"data.root={run.parents[1] / 'heaps'}")
        again, loaded = load_generator(file), load_generator(checkpoint_path(run, 1), direction=direction)
        assert (again.direction, again.named_direction, again.conditioning) == (
            direction,
            direction,
            loaded.conditioning,
        )
        assert_equal(again.generator.state_dict(), loaded.generator.state_dict())
        export(["--checkpoint", str(run), "--direction", direction, "--format", "original"])
        assert caplog.messages[-1].endswith("in the format of CycleGAN")
        original = load_generator(run / f"latest_net_G_{direction[0]}.pth")
        assert original.direction == direction
        options = ["--direction", direction, "--format", "original", "--network", "discriminator"]
        export(["--checkpoint", str(run), *options])
        (run / f"latest_net_D_{direction[0]}.pth").rename(originals / f"latest_net_D_{direction[0]}.pth")
        load = partial(load_network, role="discriminator")
        file, judge = load_from(originals, load, "discriminator", direction)
        assert file.name == f"latest_net_D_{direction[0]}.pth"
        assert_equal(judge.state_dict(), state["networks"][f"discriminator_{direction[-1]}"])
