import multiprocessing
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from data.facades.dataset import SyntheticFacades
from tests.conftest import save_image
from tests.reliability.command_line import CommandLine
from tests.reliability.faults import send, strike_reading
from tools.check_data import __main__ as check_data

RGB = np.full((32, 64, 3), 99, dtype=np.uint8)


def check(command_line: CommandLine, *arguments: object) -> tuple[int, list[str]]:
    """Exit code and lines of standard output."""
    code, out, _ = command_line.run(check_data.main, *map(str, arguments))
    return code, out.splitlines()


def test_a_good_data_set_has_no_problem(label_data_set: Path, command_line: CommandLine) -> None:
    expected = ["test: 1 sample", "train: 3 samples", "ids 0 to 4, of data.n_classes=5", "no problem in test, train"]
    assert check(command_line, label_data_set, "--n-classes", 5) == (0, expected)
    assert not multiprocessing.active_children()


def test_a_configuration_names_splits_and_sizes(tiny_config: Path, tmp_path: Path, command_line: CommandLine) -> None:
    root = tmp_path / "pairs"
    for split in ("train", "val", "test"):
        save_image(root / f"{split}_A" / "x.png", RGB)
        save_image(root / f"{split}_B" / "x.png", RGB)
    for side in "AB":
        save_image(root / f"train_{side}" / "y.png", RGB[:, :32])
    settings = ["data.layout=paired_folders", f"data.root={root}", "data.instance_edges=false"]
    code, lines = check(command_line, "--config", tiny_config, *settings, "train.batch_size=2")
    assert (code, lines[-1]) == (2, "1 problem in train, test, val")
    assert "images of different sizes (x 64x32, y 32x32)" in "\n".join(lines)


def test_images_that_hold_both_sides(tmp_path: Path, command_line: CommandLine) -> None:
    save_image(tmp_path / "x.png", RGB)
    save_image(tmp_path / "odd.png", RGB[:, :31])
    code, lines = check(command_line, tmp_path)
    assert code == 2
    assert f"{tmp_path / 'odd.png'}: is 31 pixels wide, expected two halves of equal width" in "\n".join(lines)
    assert lines[0].startswith("assuming that each image holds a source and a target. ")
    assert lines[-1] == f"1 problem in {tmp_path.name}"


REFUSED = {
    "": "nothing to check; name a configuration with --config FILE, or a folder",
    "{root}/labels --n-classes 3": "--n-classes 3",
    "{root}/train_A": "train_A: holds only one image of each pair. Name the data set: .*",
    "{root}/sides": "Name other folders with --config",
    "{root} --show 1000": "--show: '1000' is not a whole number from 1 to 200",
}


def test_what_cannot_be_checked_ends_in_one_line(tmp_path: Path, command_line: CommandLine) -> None:
    (tmp_path / "labels").mkdir()
    for folder in ("sides/images", "sides/masks", "train_A"):
        save_image(tmp_path / folder / "1.png", RGB)
    for arguments, message in REFUSED.items():
        (line,) = command_line.refusal(check_data.main, *arguments.format(root=tmp_path).split())
        assert re.fullmatch(rf"error: .*{message}.*", line)


FAULTS: dict[str, tuple[Callable[[], object], str]] = {
    "killed": (send(signal.SIGKILL), "a loader process ended by SIGKILL while it"),
    "hanging": (lambda: time.sleep(100), "for 1 s; waited for"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_file_that_ends_its_process_is_named_and_the_others_are_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command_line: CommandLine, name: str
) -> None:
    fault, words = FAULTS[name]
    for number in range(4):
        save_image(tmp_path / "train_A" / f"{number}.png", RGB)
        save_image(tmp_path / "train_B" / f"{number}.png", RGB)
    (tmp_path / "train_B" / "2.png").write_bytes(b"")
    strike_reading(monkeypatch, fault, ["1.png"])
    monkeypatch.setattr("data.worker_monitor.POLL_S", 0.1)
    code, lines = check(command_line, tmp_path, f"data.timeout_s={1 if name == 'hanging' else 60}")
    assert (code, lines[-1]) == (2, "2 problems in train")
    (lost,) = (line for line in lines if words in line)
    assert "sample 1 of " in lost
    assert [line for line in lines if line.startswith(f"{tmp_path}/train_B/2.png: ")]
    assert not multiprocessing.active_children()


def test_names_that_are_no_text_are_reported_in_a_line(tmp_path: Path, command_line: CommandLine) -> None:
    (tmp_path / os.fsdecode(b"odd\xff\nname.png")).write_bytes(b"")
    save_image(tmp_path / "x.png", RGB)
    (tmp_path / "y.gif").touch()
    code, out = check(command_line, tmp_path)
    assert code == 2
    assert len(out) == 5
    assert out[2] == f"{tmp_path.name}: left out files of other formats: 1 .gif"
    assert out[3].endswith(
        r"/odd\udcff name.png: cannot be read as an image: it is empty; copy it again, or leave it out"
    )


def test_channels_that_training_refuses_are_a_problem(tmp_path: Path, command_line: CommandLine) -> None:
    for folder in (tmp_path / "train_A", tmp_path / "train_B"):
        folder.mkdir()
        np.save(folder / "x.npy", np.zeros((2, 32, 64), np.float32))
    code, out = check(command_line, tmp_path)
    assert code == 2
    assert out[0].endswith("/train_A/x.npy: has 2 channels, data.source_channels is 3: set data.source_channels=2")


def test_settings_of_losses_do_not_prevent_a_check_of_the_data(tmp_path: Path, command_line: CommandLine) -> None:
    settings = ["data.target_channels=4", "data.target_range=[0,9]", "loss.gradient_penalty=1", "amp.opt_level=O2"]
    save_image(tmp_path / "train_A" / "x.png", np.zeros((8, 8, 3), np.uint8))
    save_image(tmp_path / "train_B" / "x.png", np.zeros((8, 8, 4), np.uint8))
    (tmp_path / "x.yaml").write_text(
        f"run: {{name: x}}\ndata: {{root: '{tmp_path}', layout: paired_folders, preprocess: none}}"
    )
    for data_set in ([tmp_path], ["--config", tmp_path / "x.yaml"]):
        code, out = check(command_line, *data_set, *settings)
        assert (code, out[-1]) == (0, "no problem in train")


def test_a_shifted_target_and_another_type_are_named(tmp_path: Path, command_line: CommandLine) -> None:
    facades = SyntheticFacades(split="train", seed=0, n_samples=5, height=128, width=128)
    for index in range(5):
        grey = facades.read(index).maps["target"][0].numpy().astype(np.uint16) * 257
        save_image(tmp_path / "train_A" / f"p{index}.png", 65535 - grey)
        save_image(tmp_path / "train_B" / f"p{index}.png", np.roll(grey, (7, -9), (0, 1)) if index == 3 else grey)
    save_image(tmp_path / "train_B" / "p2.png", np.zeros((128, 128), np.uint8))
    (tmp_path / "train_B" / "p4.png").write_bytes(b"")
    ranges = [f"data.{side}_{value}" for side in ("source", "target") for value in ("channels=1", "range=[0,65535]")]
    code, lines = check(command_line, tmp_path, *ranges)
    output = "\n".join(lines)
    assert code == 2
    assert "train_B/p4.png: cannot be read as an image: it is empty" in output
    assert "train: images of several types. " in output
    assert "uint8 target, such as p2" in output
    shift = "warning: train: targets seem to be shifted in 1 of 3 pairs: p3 by 9 pixels to the left and 7 pixels down"
    assert shift in output
