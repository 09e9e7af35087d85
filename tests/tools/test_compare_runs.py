"""Runs side by side, from what their folders hold: finished, killed, of earlier versions, and no runs at all."""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser

from configs.load import config_to_yaml, load_config
from metrics import METRICS
from tests.conftest import CommandLine, save_image
from tests.docs.documents import code_lines
from tests.tools.accessibility import barriers
from tools import compare_runs
from tools.compare_runs import differing_settings, main, read_runs
from utils.run_figures import HIGHER_IS_BETTER, Point, best

ROOT = Path(__file__).parents[2]
NASTY = "<script>alert(1)</script>"


def write_run(
    folder: Path,
    *settings: str,
    l1: Mapping[int, float],
    split: str = "val",
    shade: int = 0,
    side: int = 8,
    state: Mapping[str, Any] | None = None,
) -> Path:
    """Write what a run writes; shade: of its samples. Return its folder."""
    (folder / "web").mkdir(parents=True)
    (folder / "config.yaml").write_text(config_to_yaml(load_config(ROOT / "configs/demo.yaml", settings)))
    rows: list[dict[str, Any]] = [{"step": 1, "loss/G/l1": 0.9}]
    pictures = []
    for step, value in l1.items():
        rows.append({"step": step, "loss/G/l1": value / 2})
        rows.append({"step": step, "split": split, "validation/l1": value, "validation/psnr": -value})
        images = {"source": "images/source.png", "translated": f"images/translated_{step}.png"}
        pictures.append({"step": step, "name": NASTY, "images": images, "metrics": {"l1": value}})
        for number, file in enumerate(images.values()):
            noise = np.random.default_rng(shade + number * step).integers(0, 256, (side, side, 3), dtype=np.uint8)
            save_image(folder / "web" / file, noise)
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows) + '{"step": 9, "loss/G')
    (folder / "web" / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in pictures))
    if state:
        (folder / "state.json").write_text(json.dumps(state))
    return folder


def compared(command_line: CommandLine, *arguments: Path | str) -> list[str]:
    """The lines that the tool prints."""
    code, out, err = command_line.run(main, *map(str, arguments))
    assert (code, err) == (0, "")
    return out.splitlines()


def test_settings_that_differ_and_the_last_and_best_of_each_metric_are_printed(
    tmp_path: Path, command_line: CommandLine
) -> None:
    ended = {"state": "finished", "step": 6, "signal": None, "reason": "enough"}
    one = write_run(tmp_path / "one", l1={2: 0.5, 4: 0.25, 6: 0.375}, state=ended)
    two = write_run(tmp_path / "two", "loss.l1=7", "train.freeze=[generator.stem]", l1={2: 0.3125})
    lines = compared(command_line, one, two, one / ".." / "one", "--output", tmp_path / "c.html")
    assert lines == [
        "run  state                                    validated on",
        "one  finished at step 6: enough               val, metrics.n_samples=4",
        "two  without a readable state.json at step 2  val, metrics.n_samples=4",
        "",
        "setting       run  value",
        "loss.l1       one  12.0",
        "              two  7.0",
        "train.freeze  one  []",
        "              two  ['generator.stem']",
        "",
        "metric  run  last     at step  best     at step  best run",
        "l1      one  0.375    6        0.25     4        *",
        "        two  0.3125   2        0.3125   2",
        "psnr    one  -0.375   6        -0.25    4        *",
        "        two  -0.3125  2        -0.3125  2",
        "",
        f"wrote {tmp_path / 'c.html'}",
    ]


def test_losses_that_one_program_registered_are_compared(tmp_path: Path, command_line: CommandLine) -> None:
    state = {"state": "finished", "step": 2, "signal": None, "reason": None}
    registered: dict[str, dict[str, Any]] = {
        "a": {}, "b": {"registered_losses": {"edges": 5.0}}, "forged": {"registered_losses": [1]},
    }  # fmt: skip
    runs = [write_run(tmp_path / name, l1={2: 0.5}, state=state | more) for name, more in registered.items()]
    lines = [line.split() for line in compared(command_line, *runs, "--output", tmp_path / "c.html")]
    first = lines.index(["registered_losses.edges", "a", "0"])
    assert lines[first + 1 : first + 3] == [["b", "5"], ["forged", "0"]]


def test_metrics_of_other_samples_are_not_compared(tmp_path: Path, command_line: CommandLine) -> None:
    runs = [write_run(tmp_path / name, l1={2: shade}, shade=shade) for name, shade in (("a", 1), ("b", 2))]
    lines = compared(command_line, *runs, "--output", tmp_path / "c.html")
    on_val = [f"{run.name} on val, metrics.n_samples=4" for run in runs]
    assert [line for line in lines if line.startswith("warning")] == [
        "warning: metrics cannot be compared, since the validation samples are not the same: "
        f"{'; '.join(on_val)}; names or pixels differ, by run.seed, a setting of data, or files that have changed"
    ]
    assert not any(line.endswith("*") for line in lines)
    assert (tmp_path / "c.html").read_text().count("metrics cannot be compared") == 1
    other_split = write_run(tmp_path / "c", l1={2: 1}, split="train", shade=1)
    assert "c on train" in compared(command_line, runs[0], other_split, "--output", tmp_path / "c.html")[-3]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ("not: {a: setting}", "{}/config.yaml: unknown key not"),
        ("", "{}/config.yaml"),
        (None, "{}/config.yaml: not a file"),
    ],
    ids=["of a later version", "empty", "missing"],
)
def test_settings_that_cannot_be_read_are_named_and_the_same_samples_stay_comparable(
    tmp_path: Path, command_line: CommandLine, settings: str | None, problem: str
) -> None:
    runs = [write_run(tmp_path / name, l1={2: 0.5}) for name in ("a", "b\x1b\n")]
    (runs[1] / "config.yaml").unlink()
    if settings is not None:
        (runs[1] / "config.yaml").write_text(settings)
    lines = compared(command_line, *runs, "--output", tmp_path / "c.html")
    (warning,) = (line for line in lines if line.startswith("warning"))
    shown = f"{tmp_path}/b\\x1b\\n"
    assert warning.startswith(f"warning: settings of b\\x1b\\n are not compared: {problem.format(shown)}")
    assert sum(line.endswith("*") for line in lines) == 4


def test_a_real_run_is_compared_with_folders_that_lack_files(
    tmp_path: Path, tiny_run: Path, command_line: CommandLine
) -> None:
    old, broken, other = tmp_path / "old", tmp_path / "broken", tmp_path / "elsewhere" / "old"
    for folder, file in ((old, "config.yaml"), (other, "metrics.jsonl")):
        folder.mkdir(parents=True)
        shutil.copy(tiny_run / file, folder)
    broken.mkdir()
    (broken / "config.yaml").write_text("not: {a: setting}")
    (broken / "metrics.jsonl").write_bytes(
        b'\xff\n[]\n{"step": 1, "validation/swd": null, "validation_BtoA/swd": 0.5, "loss/D": 1e999}\n'
    )
    (broken / "state.json").write_text("[" * 10**5)
    lines = compared(command_line, tiny_run, old, broken, other, "--output", tmp_path / "c.html")
    states = [re.split("  +", line) for line in lines[1:5]]
    assert states == [
        ["tiny", "finished at step 4", "val, metrics.n_samples=2"],
        [str(old), "without a readable state.json at step 0", "-"],
        ["broken", "without a readable state.json at step 1", "-"],
        [str(other), "without a readable state.json at step 4", "val, metrics.n_samples=?"],
    ]
    assert not any(line.startswith("setting") for line in lines)
    assert any(line.startswith("BtoA/swd") for line in lines)
    assert "Infinity" not in (tmp_path / "c.html").read_text()


@pytest.mark.parametrize("name", ["runs", "a/config.yaml"])
def test_what_is_no_page_is_not_written(tmp_path: Path, command_line: CommandLine, name: str) -> None:
    run = write_run(tmp_path / "a", l1={2: 0.5})
    (line,) = command_line.refusal(main, str(run), "--output", str(tmp_path / name))
    assert line.endswith(": is no name of a page; it ends in .html, as comparison.html")


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (None, "no run, no such folder; name folders of runs, as runs/demo"),
        (Path.mkdir, "no run, neither config.yaml nor metrics.jsonl is in it; name folders of runs, as runs/demo"),
        (Path.touch, "no run, no such folder; name folders of runs"),
    ],
)
def test_what_is_no_run_is_named_in_one_line(
    tmp_path: Path, command_line: CommandLine, make: Any, problem: str
) -> None:
    if make:
        make(tmp_path / "x")
    (line,) = command_line.refusal(main, str(tmp_path / "x"))
    assert line.startswith(f"error: {tmp_path / 'x'}: {problem}")


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["a folder", "as a device"])
def test_what_is_no_file_is_not_replaced(tmp_path: Path, command_line: CommandLine, make: Any) -> None:
    run, place = write_run(tmp_path / "a", l1={2: 0.5}), tmp_path / "runs.html"
    make(place)
    (line,) = command_line.refusal(main, str(run), "--output", str(place))
    assert line == f"error: --output {place}: is no file that could be replaced; name a file, as comparison.html"


def test_the_page_is_one_file_whose_names_are_escaped_and_pictures_small(
    tmp_path: Path, command_line: CommandLine
) -> None:
    runs = [write_run(tmp_path / f"{NASTY[:8]}{n}", l1={2: 0.5, 4: 0.25}, side=300) for n in range(2)]
    secret = tmp_path / "secret.png"
    save_image(secret, np.zeros((8, 8, 3), np.uint8))
    forged = {"step": 4, "name": "forged", "images": {"translated": "../../secret.png"}}
    damaged: list[object] = [["translated"], {"translated": 5}, {"translated": "\0"}, {"source": "a"}, None]
    with (runs[1] / "web/rows.jsonl").open("a") as file:
        for row in (forged, *({**forged, "images": images} for images in damaged), {**forged, "name": []}):
            file.write(json.dumps(row) + "\n")
    compared(command_line, *runs, "--output", tmp_path / "c.html")
    text = (tmp_path / "c.html").read_text()
    assert text.count("<script") == 1
    assert (
        text.count('<img src="data:image/webp;base64,') == text.count("<img") == 3
    )  # the source, a translation of each
    assert text.count("missing</p>") == 1  # the one outside of the page's folder
    assert (tmp_path / "c.html").stat().st_size < 400_000


def test_small_pictures_stay_as_they_are_and_damaged_ones_are_missing() -> None:
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (9, 7, 3), dtype=np.uint8))
    noise.save(buffer := BytesIO(), "PNG")
    content = buffer.getvalue()
    kept = Image.open(BytesIO(base64.b64decode(compare_runs.embedded(content).partition(",")[2])))
    assert np.array_equal(np.asarray(kept), np.asarray(noise))
    assert compare_runs.embedded(content[:20]) == compare_runs.embedded(b"") == ""


@pytest.mark.parametrize("n_points", [0, 1, 399, 400, 401, 100_000])
def test_a_curve_has_few_points_and_its_last(n_points: int) -> None:
    points = list(range(n_points))
    thinned = compare_runs.thinned(points)
    assert len(thinned) <= compare_runs.MAX_POINTS + 1
    assert thinned[-1:] == points[-1:]
    assert thinned == sorted({*thinned})


def test_a_figure_is_best_in_its_own_direction() -> None:
    assert {name for name, metric in METRICS.items() if metric.lower_is_better is False} == {*HIGHER_IS_BETTER}
    points = [Point(1, 0.5), Point(2, 1.25), Point(3, 0.5)]
    assert [best(f"validation/{name}", points).step for name in ("l1", "psnr", "sharpness")] == [1, 2, 2]


def test_settings_that_earlier_versions_lacked_have_their_defaults(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, l1={}) for name in ("a", "b")]
    path = runs[0] / "config.yaml"
    path.write_text(path.read_text().replace("  best: auto\n", ""))
    assert [*differing_settings(read_runs(runs))] == []


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


@pytest.mark.browser
def test_a_browser_shows_curves_and_pictures_also_in_dark_and_narrow(
    tmp_path: Path, command_line: CommandLine, browser: Browser
) -> None:
    runs = [
        write_run(tmp_path / f"run_{n}_{'x' * 60}", f"run.seed={n}", l1={2: 0.5, 4: 0.25 + n}, side=64)
        for n in range(3)
    ]
    compared(command_line, *runs, "--output", tmp_path / "c.html")
    shown = browser.new_page(viewport={"width": 360, "height": 640}, color_scheme="dark")
    problems = list[str]()
    shown.on("console", lambda message: problems.append(message.text))
    shown.goto((tmp_path / "c.html").as_uri())
    assert shown.evaluate("document.documentElement.scrollWidth") == 360
    assert shown.evaluate("[...document.images].map(image => image.naturalWidth)") == [64] * 4
    lines = shown.locator("svg.chart").first.locator("polyline")
    assert [lines.nth(n).get_attribute("points") for n in range(3)] == [
        "150.0,122.5 300.0,140.0",  # 0.5 and 0.25, of a chart of 300x140 that ends at 2.25
        "150.0,122.5 300.0,70.0",
        "150.0,122.5 300.0,0.0",
    ]
    assert len({lines.nth(n).evaluate("line => getComputedStyle(line).stroke") for n in range(3)}) == 3
    shown.locator("svg.chart").first.hover()
    assert shown.locator(".reading").first.locator("span").count() == 3
    assert barriers(shown) == []
    background = shown.evaluate("getComputedStyle(document.querySelector('header')).backgroundColor")
    assert background == "rgb(18, 18, 18)"
    shown.close()
    assert problems == []
