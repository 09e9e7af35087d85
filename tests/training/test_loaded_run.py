"""A run in memory: it translates as test.py does, and has networks and losses as they were trained."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tests.runs import assert_equal, checkpoint, run, translate
from training.loaded_run import load
from utils.errors import UserError

CYCLE = ["data.layout=synthetic_day_night", "method.name=cycle", "data.instance_edges=false", "loss.l1=0"]


@pytest.mark.parametrize(
    ("settings", "n_networks"),
    [
        (["train.ema_decay=0.5", "features.n_channels=2", "features.n_downsamplings=2"], 2),
        (CYCLE, 4),
    ],
)
def test_a_run_is_loaded(tiny_config: Path, tmp_path: Path, settings: list[str], n_networks: int) -> None:
    run(tiny_config, *settings, "train.max_steps=1")
    torch.manual_seed(3)
    before = torch.get_rng_state()
    loaded = load(tiny_config.parent / "runs" / "tiny", device="cpu")
    assert torch.equal(torch.get_rng_state(), before)
    assert (loaded.file.name, loaded.step) == ("checkpoint-00000001.pt", 1)
    trained = checkpoint(tiny_config, 1)["networks"]
    assert_equal({name: dict(network.state_dict()) for name, network in loaded.networks.items()}, trained)
    assert len(trained) == n_networks

    batch = loaded.batch("test", [0, 2])
    translate("--checkpoint", str(loaded.file), "--output", str(tmp_path / "out"))
    for name, image in zip(batch.names, loaded.predictor.translate(batch), strict=True):
        translated = np.asarray(Image.open(tmp_path / "out" / f"{name}.png"))
        assert np.array_equal(translated, image.permute(1, 2, 0).numpy())

    report = json.loads((tmp_path / "out" / "metrics.json").read_text())
    figures = loaded.evaluate("test")
    if settings is CYCLE:
        assert list(figures) == ["swd"]
    else:
        assert figures.keys() == {"l1", "psnr", "ssim", "ms_ssim", "sharpness"}
        assert figures == pytest.approx({name: report["mean"][name] for name in figures})
    with pytest.raises(UserError, match=r"^split held_back: no sample was held back"):
        loaded.evaluate("held_back")

    losses = loaded.losses(batch)
    for indices in ([99], [-1, 0], []):
        with pytest.raises(UserError, match=f"^split test: indices are {re.escape(str(indices))}, expected .* 0 to 2$"):
            loaded.batch("test", indices)

    assert any(tag.startswith("loss/G") for tag in losses.terms)
    losses.generator.backward(retain_graph=True)
    losses.discriminator.backward()
    for network in loaded.networks.values():
        assert any(weight.grad is not None and weight.grad.any() for weight in network.parameters())


def test_loading_another_file_is_an_error_of_one_line(tmp_path: Path) -> None:
    torch.save({"weight": torch.ones(1)}, tmp_path / "other.pth")
    for path in (tmp_path / "gone", tmp_path / "other.pth"):
        with pytest.raises(UserError, match=path.name) as error:
            load(path, device="cpu")
        assert "\n" not in str(error.value)
    with pytest.raises(UserError, match=r"^device=tpu: no such device\. Use device=auto, device=cpu or device=cuda\.$"):
        load(tmp_path, device="tpu")  # type: ignore[arg-type]
