"""Row 9: nothing in this project's own source runs what a file says."""

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.row(9)

ROOT = Path(__file__).parents[2]
FOLDERS = [
    path for path in ROOT.iterdir() if path.is_dir() and path.name not in ("tests", "bench", "build", "runs", "results")
]
SOURCES = sorted(
    [*ROOT.glob("*.py"), *(file for path in FOLDERS if path.name[0] != "." for file in path.rglob("*.py"))]
)

# rule -> names that may not be imported, called or taken from a module, and sources that break it
FORBIDDEN: dict[str, tuple[str, list[str]]] = {
    "other loaders": (
        r"torch\.(jit\.load|package\.PackageImporter|hub\.load)|.*load_state_dict_from_url",
        ["torch.hub.load('a/b', 'c')", "torch.jit.load(path)"],
    ),
    "pickle": (
        r"(pickle|cPickle|_pickle|dill|joblib|shelve|marshal|cloudpickle)\.(?!UnpicklingError$|PickleError$).*"
        r"|cPickle|_pickle|dill|joblib|shelve|marshal|cloudpickle",
        ["from pickle import loads", "import shelve", "import pickle\nread = pickle.Unpickler"],
    ),
    "yaml": (
        r"yaml\.((unsafe_|full_)?load(_all)?|C?(Unsafe|Full)?Loader)",
        ["yaml.load(text)", "from yaml import full_load", "class A(yaml.Loader): pass"],
    ),
    "eval": (
        r"eval|exec|compile|__import__|(importlib\.)?import_module|runpy\.run_path",
        ["eval(text)", "importlib.import_module(name)"],
    ),
    "shell": (
        r"(os\.)?(system|popen)|subprocess\.get(status)?output",
        ["os.system(text)", "subprocess.getoutput(text)"],
    ),
    "mktemp": (r"(tempfile\.)?mktemp|os\.te?mpnam", ["tempfile.mktemp()"]),
}
# rule -> functions that are called by their full names only, the option that they need or may not have, and its value;
# and sources that break it
OPTIONS: dict[str, tuple[str, str, object, list[str]]] = {
    "weights_only": (
        r"torch\.load",
        "weights_only",
        True,
        ["torch.load(path)", "torch.load(path, weights_only=flag)", "from torch import load"],
    ),
    "image formats": (  # Pillow guesses among fifty formats unless it is given a list
        r"(PIL\.)?Image\.open",
        "formats",
        ...,
        ["PIL.Image.open(path)", "from PIL.Image import open"],
    ),
}
REFUSED = {"allow_pickle": "np.load(path, allow_pickle=True)", "shell": "subprocess.run(text, shell=True)"}


def name_of(node: ast.AST) -> str:
    """`a.b.c` of an attribute or a name, otherwise only the last part."""
    if isinstance(node, ast.Attribute):
        return f"{name_of(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def imports(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


@cache
def forbidding(name: str) -> list[str]:
    """The rules that forbid a full name."""
    return [rule for rule, (pattern, _) in FORBIDDEN.items() if re.fullmatch(pattern, name)]


def breaches(tree: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """The rules that a source breaks, each with its place."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            names = [called := name_of(node.func)]
            given = {word.arg: word.value for word in node.keywords if word.arg}
            values = {key: value.value if isinstance(value, ast.Constant) else ... for key, value in given.items()}
            for rule, (pattern, option, wanted, _) in OPTIONS.items():
                is_given = option in values if wanted is ... else values.get(option) is wanted
                if re.fullmatch(pattern, called) and not is_given:
                    yield rule, node
            yield from ((option, node) for option in REFUSED if values.get(option) not in (None, False))
        elif isinstance(node, ast.Attribute):
            names = [name_of(node)]
        else:
            names = imports(node)
            imported = [rule for rule, of in OPTIONS.items() if any(re.fullmatch(of[0], name) for name in names)]
            yield from ((rule, node) for rule in imported)
        yield from ((rule, node) for name in names for rule in forbidding(name))


def test_no_source_breaks_a_rule(record_property: Callable[[str, object], None]) -> None:
    record_property("cases", len(FORBIDDEN) + len(OPTIONS) + len(REFUSED))
    found = [
        f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}: {rule}: {ast.unparse(node)}"
        for path in SOURCES
        for rule, node in breaches(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []
    names = {str(path.relative_to(ROOT)) for path in SOURCES}
    assert {"train.py", "test.py", "utils/checkpoint.py", "configs/load.py", "data/files/image_files.py"} <= names


BREAKING = {**{rule: texts for rule, (_, texts) in FORBIDDEN.items()}, **{rule: of[-1] for rule, of in OPTIONS.items()}}
BREAKING |= {option: [text] for option, text in REFUSED.items()}


@pytest.mark.parametrize(("rule", "text"), [(rule, text) for rule, texts in BREAKING.items() for text in texts])
def test_a_rule_catches_what_it_is_there_for(rule: str, text: str) -> None:
    assert rule in [broken for broken, _ in breaches(ast.parse(text))]
