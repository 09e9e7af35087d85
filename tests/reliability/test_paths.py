"""Row 16: whatever files are called and links lead to, nothing is written outside, and no two results in one file."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import train
from tests.conftest import save_image
from tests.reliability.command_line import CommandLine
from tests.runs import run, translation_script

pytestmark = pytest.mark.row(16)

CONFIG = """
run: {{name: pairs, root: {root}/runs, device: cpu}}
data: {{layout: paired_folders, root: {root}/set, preprocess: none, workers: 0}}
generator: {{base_channels: 2, n_downsamplings: 1, n_blocks: 0}}
discriminator: {{base_channels: 2, n_layers: 1, n_scales: 1}}
loss: {{l1: 10, vgg: 0}}
amp: {{opt_level: O0}}
train: {{max_steps: 1}}
"""


def image(path: Path, level: int = 0) -> None:
    save_image(path, np.full((16, 16, 3), level, np.uint8))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that translates RGB images."""
    root = tmp_path_factory.mktemp("paths")
    for side in "AB":
        image(root / "set" / f"train_{side}" / "x.png")
        image(root / "set" / f"test_{side}" / "x.png")
    config = root / "c.yaml"
    config.write_text(CONFIG.format(root=root))
    run(config)
    return root / "runs" / "pairs"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory; beside it a file that must stay as it is, and nothing new."""
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


def refusal(command_line: CommandLine, trained: Path, *arguments: str) -> str:
    lines = command_line.refusal(translation_script().main, "--checkpoint", str(trained), *arguments)
    assert len(lines) == 1, lines
    return lines[0]


@pytest.mark.parametrize(
    "name",
    [
        "..",
        "../outside",
        "/tmp/outside",
        "a/b",
        "a\\b",
        "a\x1b[31m",
        "a\nb",
        "x" * 256,
        "\N{GREEK SMALL LETTER ALPHA}" * 128,
        "\udcff",
        "<b>x",
    ],
    ids=ascii,
)
def test_a_run_whose_name_cannot_be_a_folder_is_refused(name: str, home: Path, command_line: CommandLine) -> None:
    config = home / "c.yaml"
    config.write_text("{}")
    lines = command_line.refusal(train.main, "--config", str(config), f"run.name={name}")
    assert len(lines) == 1
    assert "expected a name that can be a folder, up to 200 bytes" in lines[0]
    assert sorted(path.name for path in home.iterdir()) == ["c.yaml"]


def test_two_inputs_with_one_output_name_are_refused(home: Path, trained: Path, command_line: CommandLine) -> None:
    image(home / "in" / "a.png")
    image(home / "in" / "a.jpg")
    assert "a.png and a.jpg have the same name: keep one" in refusal(command_line, trained, "--input", "in")


def test_an_input_in_the_place_of_a_folder_of_results_is_refused(
    home: Path, trained: Path, command_line: CommandLine
) -> None:
    image(home / "in" / "a.jpg")
    image(home / "in" / "a.png" / "b.jpg")
    message = refusal(command_line, trained, "--input", "in", "--output", "out")
    assert "out/a.png would be both a result and a folder of results" in message
    assert not (home / "out").exists()


@pytest.mark.parametrize("name", ["contact_sheet.png", "metrics.json/x.png"])
def test_an_input_in_the_place_of_a_report_is_refused(
    name: str, home: Path, trained: Path, command_line: CommandLine
) -> None:
    image(home / "in" / name)
    assert "Rename" in refusal(command_line, trained, "--input", "in", "--output", "out")
    assert not (home / "out").exists()


@pytest.mark.parametrize(
    ("output", "problem"), [("in", "in is the folder of the inputs"), ("in/below", "which holds inputs")]
)
def test_results_among_the_inputs_are_refused(
    output: str, problem: str, home: Path, trained: Path, command_line: CommandLine
) -> None:
    image(home / "in" / "a.png", level=7)
    before = (home / "in" / "a.png").read_bytes()
    assert f"{problem}. Choose another --output." in refusal(command_line, trained, "--input", "in", "--output", output)
    assert (home / "in" / "a.png").read_bytes() == before
    assert results(home / "in") == {"a.png"}


def test_results_over_inputs_by_way_of_a_link_are_refused(home: Path, trained: Path, command_line: CommandLine) -> None:
    image(home / "elsewhere" / "a.png", level=7)
    (home / "in").mkdir()
    (home / "in" / "a.png").symlink_to(home / "elsewhere" / "a.png")
    before = (home / "elsewhere" / "a.png").read_bytes()
    message = refusal(command_line, trained, "--input", "in", "--output", "elsewhere")
    assert "would overwrite" in message
    assert (home / "elsewhere" / "a.png").read_bytes() == before


@pytest.mark.parametrize("name", ["a.png", "contact_sheet.png", "metrics.json"])
def test_a_link_among_the_results_is_not_written_through(
    name: str, home: Path, trained: Path, command_line: CommandLine
) -> None:
    image(home / "in" / "a.png")
    (home / "out").mkdir()
    (home / "out" / name).symlink_to(home.parent / "kept.txt")
    message = refusal(command_line, trained, "--input", "in", "--targets", "in", "--output", "out")
    assert f"out/{name} is a link to {home.parent / 'kept.txt'}, outside the output folder. Remove" in message


def test_a_linked_folder_among_the_results_is_not_written_through(
    home: Path, trained: Path, command_line: CommandLine
) -> None:
    image(home / "in" / "deep" / "a.png")
    (home / "out").mkdir()
    (home / "out" / "deep").symlink_to(home.parent)
    assert "outside the output folder" in refusal(command_line, trained, "--input", "in", "--output", "out")


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
    translate(
        command_line, trained, "--split", "../../elsewhere/test", f"data.root={trained.parents[1] / 'set' / 'test_A'}"
    )
    folder = Path("results/pairs/.._.._elsewhere_test_step1")
    assert all(Path(path).is_relative_to(folder) for path in results(home))
    assert (home / folder / "x.png").is_file()


@pytest.mark.parametrize("suffix", [".png", ".bmp", ".jpeg"])
def test_a_name_as_long_as_the_file_system_takes_is_used(
    suffix: str, home: Path, trained: Path, command_line: CommandLine
) -> None:
    name = "x" * (255 - len(suffix))
    image(home / "in" / f"{name}{suffix}")
    translate(command_line, trained, "--input", "in", "--output", "out")
    assert f"{name}.png" in results(home / "out")


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "a\nb", "a\x1b[31mred", 'quo"te', "bad\udcff", "ü"])
def test_names_may_hold_anything_that_a_file_system_takes(
    name: str, home: Path, trained: Path, command_line: CommandLine
) -> None:
    image(home / "in" / f"{name}.png")
    translate(command_line, trained, "--input", "in", "--targets", "in", "--output", "out")
    assert f"{name}.png" in results(home / "out")
    assert list(json.loads((home / "out" / "metrics.json").read_text())["images"]) == [name]


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[31mred", "bad\udcff"])
def test_a_name_that_a_terminal_would_obey_is_told_in_one_line(
    name: str, home: Path, trained: Path, command_line: CommandLine
) -> None:
    (home / "in").mkdir()
    (home / "in" / f"{name}.png").write_bytes(b"no image")
    assert "cannot be read as an image" in refusal(command_line, trained, "--input", "in", "--output", "out")


@pytest.mark.parametrize("output", ["taken", "taken/below"])
def test_a_file_in_the_place_of_the_output_is_told(
    output: str, home: Path, trained: Path, command_line: CommandLine
) -> None:
    image(home / "in" / "a.png")
    (home / "taken").write_text("taken")
    message = refusal(command_line, trained, "--input", "in", "--output", output)
    assert "a file" in message
    assert "choose another" in message.lower()
    assert (home / "taken").read_text() == "taken"
