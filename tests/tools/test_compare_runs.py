"""Runs in one table, from what their folders hold: finished, killed, of earlier versions, and no runs at all."""

import csv
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from configs.load import config_to_yaml, load_config
from metrics import METRICS
from tests.conftest import CommandLine
from tests.docs.documents import code_lines
from tools.compare_runs import main
from utils.run_figures import HIGHER_IS_BETTER, Point, best

ROOT = Path(__file__).parents[2]


def write_run(
    folder: Path, *settings: str, l1: Mapping[int, float], split: str = "val", state: Mapping[str, Any] | None = None
) -> Path:
    """Write what a run writes, and the beginning of a line that a killed run leaves. Return its folder."""
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(config_to_yaml(load_config(ROOT / "configs/demo.yaml", settings)))
    rows: list[dict[str, Any]] = [{"step": 1, "loss/G/l1": 0.9}]
    rows += [{"step": n, "split": split, "validation/l1": x, "validation/psnr": -x} for n, x in l1.items()]
    rows += [{"step": n, "logits/D/validation": x} for n, x in l1.items()]  # no metric: neither end is the best
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows) + '{"step": 9, "loss/G')
    if state:
        (folder / "state.json").write_text(json.dumps(state))
    return folder


def compared(command_line: CommandLine, *arguments: Path | str) -> list[list[str]]:
    """The lines that the tool prints, as cells."""
    code, out, err = command_line.run(main, *map(str, arguments))
    assert (code, err) == (0, "")
    return [re.split("  +", line) for line in out.splitlines()]


def test_settings_that_differ_are_columns_and_the_best_row_of_each_metric_has_a_star(
    tmp_path: Path, command_line: CommandLine
) -> None:
    one = write_run(tmp_path / "one", l1={2: 0.5, 4: 0.25, 6: 0.375}, state={"state": "finished", "step": 6})
    two = write_run(tmp_path / "two", "loss.l1=7", "train.freeze=[generator.stem]", l1={2: 0.3125})
    table = [
        ["runs", "state", "validated on", "loss.l1", "train.freeze", "l1", "psnr"],
        [str(one), "finished at step 6", "val, 4", "12.0", "[]", "0.25 @4*", "-0.25 @4*"],
        [str(two), "unknown at step 2", "val, 4", "7.0", "['generator.stem']", "0.3125 @2", "-0.3125 @2"],
    ]
    assert compared(command_line, one / ".." / "one", two, one, "--csv", tmp_path / "c.csv") == table
    with (tmp_path / "c.csv").open(newline="") as file:
        assert [*csv.reader(file)] == table


def test_runs_that_differ_only_in_their_seed_share_a_row(tmp_path: Path, command_line: CommandLine) -> None:
    seeds = [write_run(tmp_path / f"s{n}", f"run.seed={n}", l1={2: 0.25 + n / 4}) for n in range(3)]
    other = write_run(tmp_path / "other", "loss.l1=7", l1={2: 0.75})
    head, group, single = compared(command_line, *seeds, other)
    assert head[-3:] == ["loss.l1", "l1", "psnr"]
    assert group == ["; ".join(map(str, seeds)), "unknown at step 2", "val, 4", "12.0", "0.5 ± 0.25*", "-0.5 ± 0.25*"]
    assert single[-2:] == ["0.75 @2", "-0.75 @2"]
    assert compared(command_line, *seeds)[1][-2:] == ["0.5 ± 0.25", "-0.5 ± 0.25"]  # no best within a group


def test_losses_that_one_program_registered_are_compared(tmp_path: Path, command_line: CommandLine) -> None:
    states: dict[str, dict[str, Any]] = {"a": {"step": 2}, "b": {"registered_losses": {"edges": 5.0}}}
    runs = [write_run(tmp_path / name, l1={2: 0.5}, state=state) for name, state in states.items()]
    head, *rows = compared(command_line, *runs)
    assert [row[head.index("registered_losses")] for row in rows] == ["-", "{'edges': 5.0}"]


def test_metrics_of_other_samples_are_not_compared(tmp_path: Path, command_line: CommandLine) -> None:
    splits = {"val": "loss.l1=7", "train": "loss.l1=8"}  # each has a row
    runs = [write_run(tmp_path / split, setting, l1={2: 0.5}, split=split) for split, setting in splits.items()]
    *table, warning = compared(command_line, *runs)
    assert warning == ["warning: the runs were validated on different samples. Their metrics are not comparable."]
    assert len(table) == 3
    assert not any(cell.endswith("*") for row in table for cell in row)


def test_kid_of_different_networks_is_not_compared(tmp_path: Path, command_line: CommandLine) -> None:
    packaged = "metrics.features=efficientnet_lite2"
    cases = [[packaged], [packaged, "loss.l1=7"], []]
    runs = [write_run(tmp_path / f"{n}", *of, l1={2: n}) for n, of in enumerate(cases)]
    for run in runs[:2]:
        (run / "metrics.jsonl").write_text((run / "metrics.jsonl").read_text().replace("psnr", "kid"))
    head, *rows = compared(command_line, *runs)
    assert head[-2:] == ["kid", "psnr"]
    assert [row[-2:] for row in rows] == [["0 @2", "-"], ["-1 @2*", "-"], ["-", "-2 @2"]]
    (runs[2] / "metrics.jsonl").write_text((runs[2] / "metrics.jsonl").read_text().replace("psnr", "kid"))
    head, *rows = compared(command_line, *runs)
    assert [row[-2:] for row in rows] == [["0 @2*", "0 @2"], ["1 @2", "-1 @2"], ["2 @2", "-2 @2"]]


@pytest.mark.parametrize(("settings", "problem"), [("not: {a: setting}", "unknown key not"), ("", "config.yaml")])
def test_settings_that_cannot_be_read_are_named(
    tmp_path: Path, command_line: CommandLine, settings: str, problem: str
) -> None:
    runs = [write_run(tmp_path / name, l1={2: 0.5}) for name in ("a", "b\x1b\n")]
    (runs[1] / "config.yaml").write_text(settings)
    (line,) = compared(command_line, *runs)[-1]
    assert line.startswith(f"warning: {tmp_path}/b\\x1b\\n: unreadable settings are not compared: ")
    assert problem in line


def test_a_real_run_is_compared_with_a_folder_of_damaged_files(
    tmp_path: Path, tiny_run: Path, command_line: CommandLine
) -> None:
    (tmp_path / "metrics.jsonl").write_bytes(
        b'\xff\n[]\n{"step": 1, "validation/swd": null, "validation_BtoA/swd": 0.5, "loss/D": 1e999}\n'
    )
    (tmp_path / "state.json").write_text("[" * 10**5)
    head, real, broken = compared(command_line, tiny_run, tmp_path)[:3]
    assert real[:3] == [str(tiny_run), "finished at step 4", "val, 2"]
    assert broken[:3] == [str(tmp_path), "unknown at step 1", "-"]
    assert broken[head.index("validation_BtoA/swd")] == "0.5 @1"


def test_what_is_no_run_is_named_in_one_line(tmp_path: Path, command_line: CommandLine) -> None:
    for folder in (tmp_path / "missing", tmp_path):
        assert command_line.refusal(main, str(folder))[0].startswith(f"error: {folder}: is not the folder of a run. ")


def test_a_figure_is_best_in_its_own_direction() -> None:
    assert {name for name, metric in METRICS.items() if metric.higher_is_better} == {*HIGHER_IS_BETTER}
    points = [Point(1, 0.5), Point(2, 1.25), Point(3, 0.5)]
    assert [best(f"validation/{name}", points).step for name in ("l1", "psnr", "sharpness")] == [1, 2, 2]


def test_the_documented_sweep_trains_one_run_after_the_other_and_compares_them(tmp_path: Path) -> None:
    (loop,) = (line for line in code_lines((ROOT / "docs/training.md").read_text()) if line.startswith("for "))
    program = tmp_path / "python"
    program.write_text('#!/bin/sh\necho "$@" >> calls; case "$*" in *rate_4e-4) exit 2;; esac\n')
    program.chmod(0o755)
    for rate in ("1e-4", "2e-4"):
        (tmp_path / "runs" / f"rate_{rate}").mkdir(parents=True)
    subprocess.run(["sh", "-c", loop], cwd=tmp_path, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=True)
    train = "train.py --config configs/demo.yaml optimizer.learning_rate={0} run.name=rate_{0}"
    trained = [train.format(rate) for rate in ("1e-4", "2e-4", "4e-4")]
    called = (tmp_path / "calls").read_text().splitlines()
    assert called == [*trained, "-m tools.compare_runs runs/rate_1e-4 runs/rate_2e-4"]


def test_it_starts_without_torch() -> None:
    code = "import sys, tools.compare_runs; print({'torch', 'numpy'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True, cwd=ROOT) == "set()\n"
