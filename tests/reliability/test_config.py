"""Row 15: whatever the configuration is, each problem is reported in a line of its own, or there is none."""

import re
from functools import partial
from pathlib import Path

import pytest

import train
from tests.reliability.command_line import CommandLine
from tests.reliability.faults import struck, throw
from tests.reliability.images import fill
from tests.runs import translation_script
from tools import cluster_features
from tools.convert_data import __main__ as convert_data
from tools.export import __main__ as export

pytestmark = pytest.mark.row(15)

LAUGHS = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
MERGED_LAUGHS = "a0: &a0 {k: 1}\n" + "".join(
    f"a{n}: &a{n}\n  <<: [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)

FILES: dict[str, tuple[str | bytes, list[str]]] = {
    "key of another section": ("train: {learning_rate: 1}", [r"did you mean optimizer\.learning_rate\?"]),
    "several problems": (
        "run: {sede: 1}\ntrain: {batch_size: many, epochs: -1}\namp: {opt_level: 01}",
        [
            "run.sede; did you mean run.seed",
            "batch_size is many",
            "opt_level is 01, expected one of O0, O1, O2, O3",
            "epochs is -1",
        ],
    ),
    "text for a list": ("train: {freeze: stem}", [r"freeze is stem, expected a list"]),
    "text for a switch": ("data: {flip: maybe}", [r"data\.flip is maybe, expected true or false"]),
    "no such choice": ("data: {layout: paird_folders}", [r"one of .*; did you mean paired_folders\?"]),
    "negative": ("train: {batch_size: -3}", [r"train\.batch_size is -3, expected a number of at least 1"]),
    "nan": ("optimizer: {learning_rate: nan}", [r"optimizer\.learning_rate is nan, expected a number"]),
    "huge": ("train: {epochs: 99999999999}", [r"expected a number from 0 to 2147483647"]),
    "missing": ("data:\n  root: ???", [r"data\.root is missing; add data\.root=… to the command line"]),
    "interpolation": ('run: {name: "${oc.env:HOME}"}', [r"run\.name holds .*, which is not supported"]),
    "sexagesimal": ("train: {epochs: 1:30}", [r"train\.epochs is 1:30, expected a whole number"]),
    "tab": ("run:\n\tseed: 1", [r"c\.yaml, line 2: not valid YAML: .*; indent with spaces"]),
    "object tag": ("run: !!python/object/apply:os.getcwd []", [r"line 1: the tag !!python/object/apply:os\.getcwd"]),
    "alias of itself": ("run: &a [*a]", [r"line 1: a value contains itself; write it without"]),
    "alias bomb": (LAUGHS, [r"expands to more than 10000 values"]),
    "merge bomb": (MERGED_LAUGHS, [r"expands to more than 10000 values"]),
    "half a character": (
        'run: {root: "\\ud800"}',
        [r"run\.root is '\\ud800', with a character that is NUL or not UTF-8"],
    ),
    "escape of no character": ('run: {name: "\\Uffffffff"}', [r"c\.yaml: not valid YAML: "]),
    "nested too deeply": ("[" * 1_000, [r"c\.yaml: not valid YAML: "]),
    "list": ("- run", [r"expected sections such as `run:` and `data:`, found \['run'\]"]),
    "too large": (b"#" * 200_000, [r"larger than 128 KiB; name a configuration file"]),
    "empty": ("", [r"c\.yaml: has no settings. Write \{\} in it to use the defaults"]),
    "binary": (bytes(range(256)), [r"not UTF-8"]),
    "NUL": ('run: {root: "a\\0b"}', [r"run\.root is .*, with a character that is NUL"]),
    "home of nobody": ("data: {root: ~nobody-here/data}", [r"there is no such home folder; write the path in full"]),
}


SOUND: dict[str, tuple[str | bytes, str]] = {
    "empty mapping": ("{}", r"name: unnamed"),
    "byte order mark": (b"\xef\xbb\xbfrun: {seed: 3}", r"seed: 3\n"),
    "CRLF": ("run:\r\n  seed: 3\r\n  name: x\r\n", r"name: x\n.*seed: 3\n"),
    "exponent without a dot": ("optimizer: {learning_rate: 1e-4}", r"learning_rate: 0\.0001\n"),
    "Norway": ("run: {name: no}\ndata: {flip: no}", r"name: 'no'\n.*flip: false\n"),
    "name like a number": ("run: {name: 1e3}", r"name: '?1e3'?\n"),
    "anchors and merge keys": (
        "generator: &n {norm: batch, base_channels: 8}\ndiscriminator: {<<: *n, n_layers: 4}",
        r"discriminator:.*n_layers: 4\n.*norm: batch\n",
    ),
}


OVERRIDES: dict[str, tuple[list[str], list[str]]] = {
    "no equals sign": (["run.seed"], [r"'run\.seed' on the command line: write section\.key=value"]),
    "a recipe": (["configs/demo.yaml"], [r"write --config configs/demo\.yaml"]),
    "no key": (["=3"], [r"'=3' on the command line: write section\.key=value"]),
    "spaces around the sign": (["run.seed", "=", "3"], [r"'run\.seed'"]),
    "no value": (["run.seed="], [r"run\.seed is null, expected a whole number"]),
    "quotes that the shell left": (['run.name="x"'], [r"run\.name is \"x\", expected a name"]),
    "section alone": (["run=5"], [r"run is a section; write run\.key=value"]),
    "below a value": (["run.seed.x=5"], [r"unknown key run\.seed\.x; did you mean run\.seed\?"]),
    "another case": (["data.direction=btoa"], [r"is btoa, expected one of AtoB, BtoA; did you mean BtoA\?"]),
    "several": (["run.sed=1", "train.epochs=x", "train.batch_size=0"], ["run.sed", "epochs is x", "batch_size is 0"]),
}


SOUND_OVERRIDES = {
    "the last wins": (["run.seed=1", "run.seed=2"], r"seed: 2\n"),
    "equals sign in a value": (["run.name=a=b"], r"name: a=b\n"),
    "whole section": (["run={seed: 2, name: x}"], r"name: x\n.*seed: 2\n"),
    "a list": (["train.freeze=[generator.stem, generator.head]"], r"- generator\.stem\n *- generator\.head\n"),
}
# content of the file, overrides, and what is printed
REFUSED_CASES: dict[str, tuple[str | bytes, list[str], list[str]]] = {
    name: (content, [], problems) for name, (content, problems) in FILES.items()
}
REFUSED_CASES |= {f"override: {name}": ("{}", *case) for name, case in OVERRIDES.items()}
SOUND_CASES: dict[str, tuple[str | bytes, list[str], str]] = {
    name: (content, [], printed) for name, (content, printed) in SOUND.items()
}
SOUND_CASES |= {f"override: {name}": ("{}", *case) for name, case in SOUND_OVERRIDES.items()}


def arguments_of(folder: Path, content: str | bytes, overrides: list[str]) -> list[str]:
    path = folder / "c.yaml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return ["--config", str(path), "--print-config", *overrides]


def assert_lines(lines: list[str], problems: list[str]) -> None:
    assert len(lines) == len(problems), lines
    for line, problem in zip(lines, problems, strict=True):
        assert re.search(problem, line), line
        assert len(line) < 600


@pytest.mark.parametrize(("content", "overrides", "problems"), REFUSED_CASES.values(), ids=REFUSED_CASES.keys())
def test_each_problem_is_reported_in_a_line(
    content: str | bytes, overrides: list[str], problems: list[str], tmp_path: Path, command_line: CommandLine
) -> None:
    assert_lines(command_line.refusal(train.main, *arguments_of(tmp_path, content, overrides)), problems)


@pytest.mark.parametrize(("content", "overrides", "printed"), SOUND_CASES.values(), ids=SOUND_CASES.keys())
def test_what_is_unusual_but_sound_is_read_as_it_looks(
    content: str | bytes, overrides: list[str], printed: str, tmp_path: Path, command_line: CommandLine
) -> None:
    code, out, err = command_line.run(train.main, *arguments_of(tmp_path, content, overrides))
    assert (code, err) == (0, "")
    assert re.search(printed, out, re.DOTALL), out


@pytest.mark.parametrize(
    ("tool", "arguments", "problem"),
    [
        ("test", ["--run.seed=1"], r"--run\.seed=1; settings are written section\.key=value, without dashes"),
        ("train", ["--config", "demo", "--confg", "x"], r"unrecognized arguments: --confg; did you mean --config\?$"),
        ("test", ["--batch_size", "3"], r"--batch_size; did you mean --batch-size\?$"),
        ("convert", ["from-photo", "A", "B"], r"invalid choice: 'from-photo' .*; did you mean from-photos\?$"),
        ("test", ["--device", "gpu"], r"invalid choice: 'gpu' .*; did you mean cuda\?$"),
        ("test", ["--batch-size", "0"], r"argument --batch-size: '0' is not a whole number above 0; see .* --help"),
        ("test", ["--checkpoint", ""], r"argument --checkpoint: '' is not a path"),
        ("cluster", ["--clusters", "0"], r"argument --clusters: '0' is not a whole number above 0"),
        ("export", ["--format", "tflite"], r"argument --format: invalid choice: 'tflite'"),
    ],
)
def test_a_mistake_in_an_option_is_reported_in_a_line(
    tool: str, arguments: list[str], problem: str, command_line: CommandLine
) -> None:
    main = {
        "train": train.main,
        "test": translation_script().main,
        "cluster": cluster_features.main,
        "convert": convert_data.main,
        "export": export.main,
    }[tool]
    assert_lines(command_line.refusal(main, *arguments), [problem])


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("missing", r"dmeo\.yaml: no such configuration file; .*demo\.yaml"),
        ("folder", r"dmeo\.yaml: not a file; name a YAML file"),
        ("unreadable", r"c\.yaml: Permission denied: change its permissions"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    kind: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command_line: CommandLine
) -> None:
    fill(tmp_path, {"missing": "demo.yaml:", "folder": "dmeo.yaml/", "unreadable": "dmeo.yaml:"}[kind])
    if kind == "unreadable":  # simulated, since root may read everything
        denied = PermissionError(13, "Permission denied", "c.yaml")
        monkeypatch.setattr(Path, "open", struck(Path.open, range(1, 100), partial(throw, denied)))
    assert_lines(command_line.refusal(train.main, "--config", str(tmp_path / "dmeo.yaml"), "--print-config"), [problem])


def test_more_problems_than_a_reader_bears_are_counted(tmp_path: Path, command_line: CommandLine) -> None:
    content = "".join(f"key{number}: 1\n" for number in range(300))
    lines = command_line.refusal(train.main, *arguments_of(tmp_path, content, []))
    assert (len(lines), lines[-1]) == (11, "error: and 40 more")
