"""train.py as a user runs it."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from models.originals.format import OriginalWeightsError
from models.originals.weights import import_original
from tests.reliability.faults import throw
from tests.runs import assert_equal, checkpoint, run
from training.optimizer_group import OptimizerGroup
from utils.checkpoint import load_checkpoint
from utils.cli import run_entry_point


def test_a_run_leaves_its_configuration_log_events_and_checkpoint(tiny_run: Path) -> None:
    names = {path.name.split(".")[0] for path in tiny_run.iterdir()}
    assert names == {"checkpoint-00000004", "config", "events", "log", "metrics", "state", "web"}
    state = load_checkpoint(tiny_run / "checkpoint-00000004.pt")
    assert state["step"] == 4
    assert state["config"]["generator"]["base_channels"] == 4


def test_a_dry_run_prints_the_plan_and_writes_nothing(tiny_config: Path, capfd: pytest.CaptureFixture[str]) -> None:
    without_effect = ["amp.opt_level=O1", "amp.dtype=float16", "data.load_width=99"]
    run(tiny_config, "--dry-run", "train.batch_size=2", *without_effect)
    out = capfd.readouterr().out
    assert "warning        float16 is slow on a CPU. Use amp.dtype=auto." in out
    assert "without effect data.load_width=99" in out
    assert re.search(r"stem\.1 +2x4x32x32 +2,548 +0\.010", out)  # 13 -> 4 channels, 7x7: 2 * 2 * 2548 * 1024
    assert re.search(r"in all +10,627 ", out)
    assert "for the backward passes of a batch" in out
    assert "checked        5 of 5 training samples" in out
    assert "5 samples, the first is facade_00000 32x32" in out
    assert "step 0 to 4, each of 2 samples (batch 2 on 1 process); 2 batches an epoch, 200 epochs" in out
    assert "generator " in out
    assert re.search(r"\ntime           about 0:00:\d\d \([\d.e-]+ s a step", out)
    assert not (tiny_config.parent / "runs").exists()


def test_a_dry_run_downloads_nothing(
    tiny_config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("torch.hub.get_dir", lambda: str(tmp_path / "hub"))
    monkeypatch.setattr("utils.pretrained.download", lambda *_: pytest.fail("a download"))
    settings = ["loss.perceptual=10", "metrics.extra=[lpips,fid]", "checkpoint.best=fid"]
    run(tiny_config, *settings, "--dry-run")
    out = capfd.readouterr().out
    cache = tmp_path / "hub" / "checkpoints"
    assert f"needs VGG19's weights (548 MB), which are not in {cache}. The run downloads them" in out
    assert "lpips of metrics.extra needs AlexNet's weights (233 MB)" in out
    assert "InceptionV3's weights (91 MB)" in out
    assert "losses: no errors" in out
    run(tiny_config)
    capfd.readouterr()
    run(tiny_config, *settings, "train.max_steps=6", "--dry-run")  # compared with the saved settings, not the reduced
    assert "loss.perceptual 0.0 -> 10.0" in capfd.readouterr().out
    assert not cache.exists()


def test_a_new_run_starts_from_weights_of_the_originals_and_of_other_runs(
    tiny_config: Path, reference: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    torch.save(reference["pix2pixhd_global_label_edge"]["state_dict"], tiny_config.with_name("latest_net_G.pth"))
    network = ["generator.base_channels=3", "generator.n_downsamplings=3", "generator.n_blocks=2"]
    init = f"init.generator={tiny_config.with_name('latest_net_G.pth')}"
    run(tiny_config, *network, init, "train.max_steps=1", "optimizer.learning_rate=0")
    # another number of classes: all but the first convolution is taken over
    report = capfd.readouterr().out
    assert "init.generator  12 tensors loaded from" in report
    assert "unused: stem.1.weight; newly initialized: stem.1.weight" in report
    theirs = import_original(reference["pix2pixhd_global_label_edge"]["state_dict"]).network.state_dict()
    ours = checkpoint(tiny_config, 1)["networks"]["generator"]
    assert torch.equal(ours["blocks.0.body.1.weight"], theirs["blocks.0.body.1.weight"])

    run_folder = tiny_config.parent / "runs" / "tiny"
    settings = [*network, f"init.generator={run_folder}", f"init.discriminator={run_folder}", "run.name=second"]
    run(tiny_config, *settings, "train.max_steps=1", "optimizer.learning_rate=0")
    second = checkpoint(tiny_config, 1, "second")
    for trainable in ("generator", "discriminator"):
        assert_equal(second["networks"][trainable], checkpoint(tiny_config, 1)["networks"][trainable])

    with pytest.raises(OriginalWeightsError, match=r"latest_net_G\.pth: holds a GlobalGenerator, expected a discrimin"):
        run(tiny_config, f"init.discriminator={tiny_config.with_name('latest_net_G.pth')}", "run.name=third")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize(("dtype", "retain_graph"), [("float16", "true"), ("bfloat16", "false")])
def test_it_trains_and_goes_on_on_a_gpu(tiny_config: Path, dtype: str, retain_graph: str) -> None:
    settings = ["run.device=cuda", "amp.opt_level=O1", f"amp.dtype={dtype}", f"train.retain_graph={retain_graph}"]
    run(tiny_config, *settings, "data.workers=1", "train.max_steps=30")
    run(tiny_config, *settings, "data.workers=1", "train.max_steps=60")
    state = checkpoint(tiny_config, 60)
    for trainable in ("generator", "discriminator"):
        assert all(weight.isfinite().all() for weight in state["networks"][trainable].values())
        assert state["optimizers"][trainable]["skipped_steps"] < 30


@pytest.mark.parametrize("script", ["train.py", "test.py"])
def test_help_needs_no_torch(script: str) -> None:
    code = f"import runpy, sys; sys.argv = ['{script}', '--help']; runpy.run_path('{script}', run_name='__main__')"
    check = f"import atexit, sys; atexit.register(lambda: print('torch' in sys.modules)); {code}"
    result = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert result.returncode == 0
    assert result.stdout.splitlines()[-1] == "False"


def test_a_smoke_test_trains_saves_goes_on_and_leaves_nothing(
    tiny_config: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run(tiny_config, "--smoke")
    out = capfd.readouterr().out
    assert f"resuming from {tiny_config.parent}" in out  # a folder that all machines see
    assert "smoke test passed" in out
    assert not (tiny_config.parent / "runs").exists()


OF_GPU = torch.OutOfMemoryError(
    "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 11.90 GiB of which 1.20 GiB is "
    "free. Of the allocated memory 9.10 GiB is allocated by PyTorch"
)


@pytest.mark.parametrize(
    ("work", "asked"),
    [
        (lambda _: torch.empty(2**60, dtype=torch.uint8), f"{2**60} bytes more"),
        (lambda _: throw(OF_GPU), "2.50 GiB more"),
        (lambda _: np.empty(2**50, dtype=np.uint8), "1.00 PiB more"),
    ],
)
def test_too_little_memory_is_reported_in_one_line(
    work: Callable[[object], None], asked: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_entry_point(work) == 2
    (line,) = capsys.readouterr().err.splitlines()
    expected = f"error: out of memory: could not allocate {asked}; train with train.activation_checkpointing"
    assert line.startswith(expected)


def test_too_little_memory_for_a_checkpoint_is_not_its_fault(
    trained_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OptimizerGroup, "load_state_dict", lambda *_: throw(OF_GPU))
    with pytest.raises(torch.OutOfMemoryError):
        run(trained_config, "train.max_steps=8")
