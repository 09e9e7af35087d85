"""train.py as a user runs it: in this process where that is enough, killed in one of its own where it matters."""

import contextlib
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import build
import train
from configs.schema import ConfigError
from data.batch import DataError
from models.original_names import OriginalWeightsError
from models.original_weights import import_original
from tests.conftest import save_image
from utils.checkpoint import checkpoint_path, list_checkpoints, load_checkpoint
from utils.entry_point import run_entry_point

# Sums come out differently, in their last bits, on another number of threads than this process's.
ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1"}


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, path
        time.sleep(0.001)


def run(config: Path, *arguments: str) -> None:
    train.main(["--config", str(config), *arguments])


def checkpoint(config: Path, step: int, name: str = "tiny") -> dict[str, Any]:
    return load_checkpoint(checkpoint_path(config.parent / "runs" / name, step))


def assert_equal(first: object, second: object, where: str = "state") -> None:
    """Exact equality of nested dicts, lists and tensors."""
    if isinstance(first, torch.Tensor):
        assert isinstance(second, torch.Tensor)
        assert torch.equal(first, second), where
    elif isinstance(first, dict):
        assert isinstance(second, dict)
        assert first.keys() == second.keys(), where
        for key in first:
            assert_equal(first[key], second[key], f"{where}.{key}")
    elif isinstance(first, list | tuple):
        assert isinstance(second, list | tuple)
        assert len(first) == len(second), where
        for number, (a, b) in enumerate(zip(first, second, strict=True)):
            assert_equal(a, b, f"{where}[{number}]")
    else:
        assert first == second, where


def without_config(state: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in state.items() if key != "config"}


@pytest.mark.parametrize("retain_graph", ["true", "false"])
def test_a_run_leaves_its_configuration_log_events_and_checkpoint(tiny_config: Path, retain_graph: str) -> None:
    run(tiny_config, f"train.retain_graph={retain_graph}")
    names = sorted(path.name.split(".")[0] for path in (tiny_config.parent / "runs" / "tiny").iterdir())
    assert names == ["checkpoint-00000004", "config", "events", "log"]
    state = checkpoint(tiny_config, 4)
    assert state["step"] == 4
    assert state["config"]["generator"]["base_channels"] == 4


def test_six_steps_kill_and_six_more_equal_twelve(tiny_config: Path) -> None:
    settings = ["checkpoint.every_steps=6", "checkpoint.keep=0", "train.epochs=1"]
    settings += ["data.synthetic.train_samples=4", "train.decay_epochs=1000"]
    run(tiny_config, *settings, "train.max_steps=12", "run.name=whole")

    command = [sys.executable, "train.py", "--config", str(tiny_config), *settings, "train.max_steps=1000"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=ONE_THREAD)
    saved = checkpoint_path(tiny_config.parent / "runs" / "tiny", 6)
    wait_for(saved)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    for later in list_checkpoints(saved.parent)[1:]:  # however late the signal came
        later.unlink()

    run(tiny_config, *settings, "train.max_steps=12")
    assert_equal(without_config(checkpoint(tiny_config, 12)), without_config(checkpoint(tiny_config, 12, "whole")))


@pytest.mark.parametrize(
    "settings",
    [
        ["amp.opt_level=O1", "amp.dtype=float16"],
        ["amp.opt_level=O1", "amp.dtype=bfloat16"],
        ["train.accumulation_steps=2", "train.retain_graph=false"],
        ["data.workers=2", "generator.norm=batch", "discriminator.norm=batch"],
        ["train.ema_decay=0.5", "generator.norm=batch", "generator.spectral_norm=true"],
    ],
    ids=lambda settings: settings[-1],
)
def test_resume_is_exact(tiny_config: Path, settings: list[str]) -> None:
    run(tiny_config, *settings, "train.max_steps=7", "run.name=whole")
    run(tiny_config, *settings, "train.max_steps=3")
    run(tiny_config, *settings, "train.max_steps=7")
    assert_equal(without_config(checkpoint(tiny_config, 7)), without_config(checkpoint(tiny_config, 7, "whole")))


def test_an_average_can_begin_in_the_middle_of_a_run(tiny_config: Path) -> None:
    run(tiny_config, "train.max_steps=2")
    run(tiny_config, "train.max_steps=3", "train.ema_decay=0.5")
    state = checkpoint(tiny_config, 3)
    assert state["generator_average"]["n_averaged"] == 1
    name = "stem.1.weight"
    assert torch.equal(state["generator_average"][f"module.{name}"], state["generator"]["network"][name])


def test_another_seed_gives_another_run(tiny_config: Path) -> None:
    """The negative control of the tests above."""
    run(tiny_config)
    run(tiny_config, "run.seed=1", "run.name=other")
    first, second = checkpoint(tiny_config, 4), checkpoint(tiny_config, 4, "other")
    with pytest.raises(AssertionError, match="stem"):
        assert_equal(first["generator"]["network"], second["generator"]["network"])


def test_only_the_newest_checkpoints_are_kept(tiny_config: Path) -> None:
    run(tiny_config, "train.max_steps=5", "checkpoint.every_steps=1", "checkpoint.keep=2")
    names = [path.stem for path in list_checkpoints(tiny_config.parent / "runs" / "tiny")]
    assert names == ["checkpoint-00000004", "checkpoint-00000005"]


def test_a_finished_run_says_so_and_can_be_extended(tiny_config: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run(tiny_config)
    run(tiny_config)
    assert "finished at step 4" in capfd.readouterr().out
    run(tiny_config, "train.max_steps=6")
    assert "changed since: train.max_steps 4 -> 6" in capfd.readouterr().out
    assert checkpoint(tiny_config, 6)["step"] == 6


def test_never_starts_anew_and_keeps_the_old_run(tiny_config: Path) -> None:
    run(tiny_config)
    run(tiny_config, "--resume", "never", "train.max_steps=2")
    runs = tiny_config.parent / "runs"
    assert [path.name for path in list_checkpoints(runs / "tiny")] == ["checkpoint-00000002.pt"]
    assert [path.name for path in list_checkpoints(runs / "tiny.1")] == ["checkpoint-00000004.pt"]


def test_going_back_to_an_earlier_checkpoint_keeps_the_later_ones_elsewhere(tiny_config: Path) -> None:
    run(tiny_config, "train.max_steps=6", "checkpoint.every_steps=2")
    runs = tiny_config.parent / "runs"
    run(tiny_config, "train.max_steps=3", "--resume", str(checkpoint_path(runs / "tiny", 2)))
    assert [path.stem[-1] for path in list_checkpoints(runs / "tiny")] == ["3"]
    assert [path.stem[-1] for path in list_checkpoints(runs / "tiny.1")] == ["2", "4", "6"]


@pytest.mark.parametrize("mistake", ["discriminator.n_scales=6", "train.max_steps=4"])
def test_a_run_is_set_aside_only_for_one_that_can_start(tiny_config: Path, mistake: str) -> None:
    run(tiny_config, "train.max_steps=4", "checkpoint.every_steps=2")
    folder = tiny_config.parent / "runs" / "tiny"
    resume = ["--resume", str(checkpoint_path(folder, 4))] if "max_steps" in mistake else ["--resume", "never"]
    with contextlib.suppress(ConfigError):
        run(tiny_config, mistake, *resume)
    assert len(list_checkpoints(folder)) == 2
    assert not folder.with_name("tiny.1").exists()


def test_the_runs_own_newest_checkpoint_is_known_by_any_spelling(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tiny_config)
    config = tiny_config.resolve()
    monkeypatch.chdir(tiny_config.parent)
    run(config, "--resume", "runs/../runs/tiny", "train.max_steps=5")
    assert len(list_checkpoints(tiny_config.parent / "runs" / "tiny")) == 2


def test_a_folder_of_other_files_is_not_moved(tiny_config: Path) -> None:
    photos = tiny_config.parent / "runs" / "tiny"
    photos.mkdir(parents=True)
    (photos / "holiday.jpg").touch()
    with pytest.raises(ConfigError, match="it holds files that are not of a run"):
        run(tiny_config, "--resume", "never")
    assert (photos / "holiday.jpg").exists()


def test_a_smaller_data_set_is_gone_on_with_in_the_next_epoch(tiny_config: Path) -> None:
    run(tiny_config, "data.synthetic.train_samples=50", "train.max_steps=40")
    run(tiny_config, "data.synthetic.train_samples=5", "train.max_steps=41")
    state = checkpoint(tiny_config, 41)
    assert (state["epoch"], state["samples_into_epoch"]) == (1, 1)


def test_images_too_small_for_vgg_are_told(tiny_config: Path, vgg19_weights: dict[str, torch.Tensor]) -> None:
    torch.save(vgg19_weights, tiny_config.with_name("vgg19.pth"))
    settings = ["loss.vgg=1", f"loss.vgg_weights={tiny_config.with_name('vgg19.pth')}", "data.preprocess=crop"]
    sizes = ["data.crop_width=8", "data.crop_height=32"]
    with pytest.raises(ConfigError, match="shorter side of facade_00000 has 8 pixels, and VGG19 needs 16"):
        run(tiny_config, *settings, *sizes, "--dry-run")


def test_a_run_can_start_from_another(tiny_config: Path) -> None:
    run(tiny_config)
    run(tiny_config, "run.name=more", "--resume", str(tiny_config.parent / "runs" / "tiny"), "train.max_steps=5")
    assert [path.name for path in list_checkpoints(tiny_config.parent / "runs" / "more")] == ["checkpoint-00000005.pt"]


def test_a_changed_batch_size_goes_on_at_the_same_place_of_the_epoch(tiny_config: Path) -> None:
    run(tiny_config, "train.max_steps=7")  # 5 samples make an epoch: 2 into the second
    run(tiny_config, "train.max_steps=8", "train.batch_size=2")
    state = checkpoint(tiny_config, 8)
    assert (state["epoch"], state["samples_into_epoch"]) == (2, 0)


def test_adam_settings_come_from_the_configuration_not_from_the_checkpoint(tiny_config: Path) -> None:
    run(tiny_config)
    run(tiny_config, "train.max_steps=5", "optimizer.beta1=0.25")
    assert checkpoint(tiny_config, 5)["generator"]["optimizer"]["param_groups"][0]["betas"] == (0.25, 0.999)


def test_a_dry_run_prints_the_plan_and_writes_nothing(tiny_config: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run(tiny_config, "--dry-run", "train.batch_size=2")
    out = capfd.readouterr().out
    assert "checked        5 of 5 training samples, networks and losses on a batch of them: good" in out
    assert "5 samples, the first is facade_00000 32x32" in out
    assert "step 0 to 4, each of 2 x 1 samples; 2 batches an epoch, 200 epochs" in out
    assert "generator " in out
    assert not (tiny_config.parent / "runs").exists()


def test_a_dry_run_finds_a_bad_sample(tiny_config: Path, label_data_set: Path) -> None:
    save_image(label_data_set / "train_label" / "c.png", np.full((32, 64), 9, dtype=np.uint8))
    settings = ["data.layout=paired_folders", f"data.root={label_data_set}", "data.n_classes=5"]
    with pytest.raises(DataError, match=r"c\.png: pixel \(row 0, column 0\) holds id 9"):
        run(tiny_config, *settings, "--dry-run")


def test_the_printed_configuration_is_a_configuration(tiny_config: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run(tiny_config, "--print-config", "run.seed=9")
    printed = tiny_config.with_name("printed.yaml")
    printed.write_text(capfd.readouterr().out)
    run(printed, "--print-config")
    assert capfd.readouterr().out == printed.read_text()
    assert "seed: 9" in printed.read_text()


@pytest.mark.parametrize(
    "settings",
    [
        ["generator.name=local", "generator.n_enhancer_blocks=1", "data.synthetic.width=64"],
        ["generator.name=unet", "generator.n_downsamplings=5", "generator.dropout=true", "generator.norm=batch"],
        ["generator.upsample=residual", "generator.padding=reflect", "generator.spectral_norm=true"],
        ["discriminator.name=pixel", "discriminator.norm=batch", "discriminator.spectral_norm=true"],
        ["discriminator.n_scales=1", "discriminator.padding=1", "train.retain_graph=false", "loss.gan_mode=vanilla"],
        ["loss.gan_mode=wgan", "loss.gradient_penalty=10", "train.discriminator_steps=2"],
        ["loss.gan_mode=hinge", "loss.r1=1", "optimizer.discriminator_learning_rate=4e-4", "optimizer.decay=cosine"],
    ],
    ids=lambda settings: settings[0],
)
def test_every_network_and_loss_trains_and_resumes_exactly(tiny_config: Path, settings: list[str]) -> None:
    run(tiny_config, *settings, "--dry-run")
    run(tiny_config, *settings, "train.max_steps=4", "run.name=whole")
    run(tiny_config, *settings, "train.max_steps=2")
    run(tiny_config, *settings, "train.max_steps=4")
    assert_equal(without_config(checkpoint(tiny_config, 4)), without_config(checkpoint(tiny_config, 4, "whole")))


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
    assert "left: stem.1.weight; new: stem.1.weight" in report
    theirs = import_original(reference["pix2pixhd_global_label_edge"]["state_dict"]).network.state_dict()
    ours = checkpoint(tiny_config, 1)["generator"]["network"]
    assert torch.equal(ours["blocks.0.body.1.weight"], theirs["blocks.0.body.1.weight"])

    run_folder = tiny_config.parent / "runs" / "tiny"
    settings = [*network, f"init.generator={run_folder}", f"init.discriminator={run_folder}", "run.name=second"]
    run(tiny_config, *settings, "train.max_steps=1", "optimizer.learning_rate=0")
    second = checkpoint(tiny_config, 1, "second")
    for player in ("generator", "discriminator"):
        assert_equal(second[player]["network"], checkpoint(tiny_config, 1)[player]["network"])

    with pytest.raises(OriginalWeightsError, match=r"latest_net_G\.pth: holds a GlobalGenerator, expected a discrimin"):
        run(tiny_config, f"init.discriminator={tiny_config.with_name('latest_net_G.pth')}", "run.name=third")


def test_it_trains_without_instance_edges(tiny_config: Path) -> None:
    run(tiny_config, "data.instance_edges=false", "--dry-run")
    run(tiny_config, "data.instance_edges=false")
    assert checkpoint(tiny_config, 4)["generator"]["network"]["stem.1.weight"].shape[1] == 12


def test_the_defaults_train(tiny_config: Path) -> None:
    sizes = ["generator.base_channels=2", "generator.n_downsamplings=2", "generator.n_blocks=1"]
    sizes += ["discriminator.base_channels=2", "train.max_steps=1", "loss.vgg=0", "data.workers=0"]
    run(Path("configs/reference.yaml"), *sizes, f"run.root={tiny_config.parent / 'runs'}", "run.name=defaults")
    assert checkpoint(tiny_config, 1, "defaults")["step"] == 1


def test_it_trains_with_the_perceptual_loss_from_a_local_file(
    tiny_config: Path, vgg19_weights: dict[str, torch.Tensor], capfd: pytest.CaptureFixture[str]
) -> None:
    torch.save(vgg19_weights, tiny_config.with_name("vgg19.pth"))
    run(tiny_config, "loss.vgg=10", f"loss.vgg_weights={tiny_config.with_name('vgg19.pth')}", "train.max_steps=2")
    assert " G/vgg " in capfd.readouterr().out


def test_settings_without_effect_are_told(tiny_config: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run(tiny_config, "--dry-run", "amp.dtype=float16", "data.direction=BtoA")
    assert "without effect data.direction=BtoA, amp.dtype=float16" in capfd.readouterr().out


def test_a_full_disk_is_told_with_the_path(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run(tiny_config, "train.max_steps=2")
    size = checkpoint_path(tiny_config.parent / "runs" / "tiny", 2).stat().st_size
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    monkeypatch.setattr(sys, "argv", ["train.py", "--config", str(tiny_config)])
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # so that a write beyond the limit is a mere error
    resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, limit[1]))
    try:
        assert run_entry_point(train.main, build.USER_ERRORS) == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, before)
    error = capfd.readouterr().err
    assert "checkpoint-00000004.pt" in error
    assert error.count("\n") == 1
    assert checkpoint(tiny_config, 2)["step"] == 2


def test_it_trains_on_pix2pixhds_folders(tiny_config: Path, label_data_set: Path) -> None:
    run(
        tiny_config,
        "data.layout=paired_folders",
        f"data.root={label_data_set}",
        "data.n_classes=5",
        "data.preprocess=scale_width_and_crop",
        "data.load_width=48",
        "data.crop_width=32",
        "data.crop_height=16",
    )
    assert checkpoint(tiny_config, 4)["step"] == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run.sed=1"], "unknown key run.sed; did you mean 'seed'?"),
        (["data.layout=paired_folders", "data.root=nowhere"], "data.root: nowhere: no such folder"),
        (["data.n_classes=3"], "data.n_classes is 3, synthetic_facades has 12: leave it out"),
        (["train.batch_size=6"], "the train split has 5 samples, fewer than train.batch_size x processes = 6"),
        (["data.validation_split=valid"], "synthetic_facades has no split 'valid', only train, val, test"),
        (
            ["loss.vgg=1", "loss.vgg_weights=nowhere.pth"],
            "nowhere.pth: no such file; expected torchvision's vgg19-dcbb9e9d.pth in loss.vgg_weights",
        ),
        (["--resume", "nowhere"], "--resume nowhere: neither a checkpoint nor a run folder that holds one"),
        (["run.root=/proc/none"], "/proc/none"),
        (
            ["discriminator.n_scales=6"],
            "the shorter side of facade_00000 has 32 pixels, enough for 5 scales: lower it",
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_mistake_ends_in_one_line_and_exit_code_2(
    tiny_config: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", "--config", str(tiny_config), *arguments])
    assert run_entry_point(train.main, build.USER_ERRORS) == 2
    error = capfd.readouterr().err
    assert error.startswith("error: ")
    assert message in error
    assert error.count("\n") == 1


def test_other_networks_than_the_checkpoints_are_refused_and_nothing_is_lost(
    tiny_config: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run(tiny_config)
    arguments = ["train.py", "--config", str(tiny_config), "generator.n_blocks=3"]
    monkeypatch.setattr(sys, "argv", arguments)
    assert run_entry_point(train.main, build.USER_ERRORS) == 2
    assert "was trained with generator.n_blocks=1, now it is 3: set it back" in capfd.readouterr().err
    assert checkpoint(tiny_config, 4)["step"] == 4


def test_the_command_needs_no_traceback_to_tell_a_mistake(tiny_config: Path) -> None:
    command = [sys.executable, "train.py", "--config", str(tiny_config), "train.epochs=-1"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert "train.epochs is -1" in result.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_saves_itself_and_goes_on_exactly(tiny_config: Path, number: signal.Signals) -> None:
    command = [sys.executable, "train.py", "--config", str(tiny_config), "train.max_steps=100000", "data.workers=2"]
    process = subprocess.Popen(
        [*command, "log.every_steps=1", "log.images_every_steps=1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=ONE_THREAD,
    )
    assert process.stdout is not None
    while not process.stdout.readline().startswith("step"):
        assert process.poll() is None
    os.killpg(process.pid, number)  # as Ctrl-C in a terminal: to the workers too
    _, error = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    (saved,) = list_checkpoints(tiny_config.parent / "runs" / "tiny")
    step = load_checkpoint(saved)["step"]
    told = f"stopped by {number.name} and saved at step {step}; the same command, without --resume, goes on from there"
    assert error == f"{told}\n"

    run(tiny_config, f"train.max_steps={step + 3}")
    run(tiny_config, f"train.max_steps={step + 3}", "run.name=whole")
    resumed, whole = checkpoint(tiny_config, step + 3), checkpoint(tiny_config, step + 3, "whole")
    assert_equal(without_config(resumed), without_config(whole))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("retain_graph", ["true", "false"])
def test_it_trains_and_goes_on_on_a_gpu(tiny_config: Path, dtype: str, retain_graph: str) -> None:
    settings = ["run.device=cuda", "amp.opt_level=O1", f"amp.dtype={dtype}", f"train.retain_graph={retain_graph}"]
    run(tiny_config, *settings, "data.workers=1", "train.max_steps=30")
    run(tiny_config, *settings, "data.workers=1", "train.max_steps=60")
    state = checkpoint(tiny_config, 60)
    for player in ("generator", "discriminator"):
        assert all(weight.isfinite().all() for weight in state[player]["network"].values())
        assert state[player]["skipped_steps"] < 30
