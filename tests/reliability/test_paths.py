"""Row 16: whatever files are called and links lead to, nothing is written outside, and no two results in one file."""

import json
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import train
from tests.conftest import save_image, write_tiny_config
from tests.reliability.command_line import CommandLine
from tests.reliability.images import fill
from tests.runs import translation_script, untrained_run

pytestmark = pytest.mark.row(16)


def image(path: Path, level: int = 0) -> None:
    save_image(path, np.full((16, 16, 3), level, np.uint8))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that translates RGB images."""
    config = write_tiny_config(tmp_path_factory.mktemp("paths"))
    root = config.parent / "set"
    for split, side in product(("train", "test"), "AB"):
        image(root / f"{split}_{side}" / "x.png")
    return untrained_run(config, "data.layout=paired_folders", f"data.root={root}", "data.instance_edges=false")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory. A file next to it must stay unchanged, and nothing new may appear there."""
    (tmp_path / "kept.txt").write_text("kept")
    folder = tmp_path / "home"
    folder.mkdir()
    translation_script()  # is read from the working directory
    monkeypatch.chdir(folder)
    yield folder
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "kept.txt"]
    assert (tmp_path / "kept.txt").read_text() == "kept"


def results(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def translate(command_line: CommandLine, trained: Path, *arguments: str) -> None:
    code, _, err = command_line.run(translation_script().main, "--checkpoint", str(trained), *arguments)
    assert (code, err) == (0, "")


NO_FOLDERS = ["..", "../outside", "/tmp/outside", "a/b", "a\\b", "a\x1b[31m", "a\nb", "x" * 256]
NO_FOLDERS += ["\N{GREEK SMALL LETTER ALPHA}" * 128, "\udcff", "<b>x"]


@pytest.mark.parametrize("name", NO_FOLDERS, ids=ascii)
def test_a_run_whose_name_cannot_be_a_folder_is_refused(name: str, home: Path, command_line: CommandLine) -> None:
    config = home / "c.yaml"
    config.write_text("{}")
    (line,) = command_line.refusal(train.main, "--config", str(config), f"run.name={name}")
    problem = "not UTF-8" if name == "\udcff" else "expected a name that can be a folder, up to 200 bytes"
    assert problem in line
    assert sorted(path.name for path in home.iterdir()) == ["c.yaml"]


NAMES = ["<script>alert(1)</script>", "a\nb", "a\x1b[31mred", 'quo"te', "bad\udcff", "ü"]
OUTSIDE = " is a link to {kept}, outside the output folder. Remove"
FORGED = ["a\nb", "a\x1b[31mred", "bad\udcff"]  # names that a terminal would obey
REFUSED = {
    # what lies in the home folder (images, LINK->PLACE, TEXT:) | options, the reason
    "one name of two inputs": ("in/a.png in/a.jpg", "a.png and a.jpg have the same name: keep one"),
    "a result and a folder": ("in/a.jpg in/a.png/b.jpg", "out/a.png would be both a result and a folder of results"),
    "in the place of the sheet": ("in/contact_sheet.png", "Rename"),
    "in the place of the figures": ("in/metrics.json/x.png", "Rename"),
    "results among the inputs": ("in/a.png | in", "--output: in holds inputs. Choose an --output outside"),
    "results below the inputs": ("in/a.png | in/below", "--output: in holds inputs. Choose an --output outside"),
    "results over linked inputs": ("place/a.png in/a.png->place/a.png | place", "would overwrite"),
    "a link at a translation": ("in/a.png out/a.png->../kept.txt", f"out/a.png{OUTSIDE}"),
    "a link at the sheet": ("in/a.png out/contact_sheet.png->../kept.txt", f"out/contact_sheet.png{OUTSIDE}"),
    "a link at the figures": ("in/a.png out/metrics.json->../kept.txt | out --targets in", f"metrics.json{OUTSIDE}"),
    "a linked folder": ("in/deep/a.png out/deep->..", "outside the output folder"),
    "a file at the output": ("in/a.png taken: | taken", "a file"),
    "a file above the output": ("in/a.png taken: | taken/below", "a file"),
    **{f"no image {name!a}": (f"in/{name}.png:", "cannot be read as an image") for name in FORGED},
}


@pytest.mark.parametrize("name", REFUSED, ids=ascii)
def test_results_that_would_be_lost_or_lie_outside_are_refused(
    name: str, home: Path, trained: Path, command_line: CommandLine
) -> None:
    (entries, _, options), reason = REFUSED[name][0].partition(" | "), REFUSED[name][1]
    fill(home, entries, np.full((16, 16, 3), 7, np.uint8))
    before = {path: (home / path).read_bytes() for path in results(home)}
    arguments = ["--checkpoint", str(trained), "--input", "in", "--output", *(options or "out").split()]
    (line,) = command_line.refusal(translation_script().main, *arguments)
    assert reason.format(kept=home.parent / "kept.txt") in line
    after = {path: (home / path).read_bytes() for path in results(home)}
    assert before.items() <= after.items()
    assert after.keys() - before.keys() <= {"out/gallery/origin.json"}


def test_inputs_behind_links_are_translated_under_their_own_names(
    home: Path, trained: Path, command_line: CommandLine
) -> None:
    image(home / "elsewhere" / "secret.png")
    (home / "in").mkdir()
    (home / "in" / "a.png").symlink_to(home / "elsewhere" / "secret.png")
    (home / "in" / "b.png").symlink_to(Path("..") / "elsewhere" / "secret.png")
    translate(command_line, trained, "--input", "in", "--output", "out")
    pictures = {f"gallery/{kind}/{name}.png" for kind in ("source", "translated") for name in "ab"}
    reports = {"contact_sheet.png", "index.html", "gallery/origin.json"}
    assert results(home / "out") - pictures == {"a.png", "b.png"} | reports
    assert results(home / "elsewhere") == {"secret.png"}


def test_the_name_of_a_split_leads_nowhere(home: Path, trained: Path, command_line: CommandLine) -> None:
    for side in "AB":
        image(trained.parents[1] / "elsewhere" / f"test_{side}" / "x.png")
    root = trained.parents[1] / "set" / "test_A"
    translate(command_line, trained, "--split", "../../elsewhere/test", f"data.root={root}")
    folder = Path("results/tiny/.._.._elsewhere_test_step1")
    assert all(Path(path).is_relative_to(folder) for path in results(home))
    assert (home / folder / "x.png").is_file()


def test_names_may_hold_anything_that_a_file_system_takes(
    home: Path, trained: Path, command_line: CommandLine, record_property: Callable[[str, object], None]
) -> None:
    record_property("cases", len(NAMES))
    for name in NAMES:
        image(home / "in" / f"{name}.png")
    translate(command_line, trained, "--input", "in", "--targets", "in", "--output", "out")
    assert {f"{name}.png" for name in NAMES} <= results(home / "out")
    assert set(json.loads((home / "out" / "metrics.json").read_text())["images"]) == set(NAMES)
