"""Imports point one way between the packages, and never in a circle."""

import ast
import sys
from collections.abc import Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# A package imports only packages of lower levels, and none of its own level.
LEVELS = [
    {"utils", "pairgan"},
    {"data", "models", "losses", "metrics"},
    {"configs"},
    {"inference"},
    {"training"},
    {"tools", "bench", "train", "test"},
]
# These modules below the entry points read a `Config`. All others below take named, typed arguments.
READ_A_CONFIG = {
    "inference": {"load", "original_weights", "output_folder"},
    "training": {"launch", "run", "resume", "loaded_run", "report.plan"},
    "training.methods": {"__init__", "builder", "paired", "contrastive", "cycle"},
}
LEVEL = {package: level for level, packages in enumerate(LEVELS) for package in packages}


parsed = cache(ast.parse)


@cache
def imported_modules(source: str) -> list[str]:
    """Return the dotted names of what a file imports, at its top or within functions."""
    found = []
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports are not used"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def upward_imports(sources: Mapping[str, str]) -> list[str]:
    """Return every import that does not point down; `sources` are texts of files by path."""
    wrong = []
    for path, source in sources.items():
        own = path.removesuffix(".py").split("/")[0]
        for module in imported_modules(source):
            other = module.split(".")[0]
            if other in LEVEL and other != own and LEVEL[other] >= LEVEL[own]:
                wrong.append(f"{path} imports {module}")
    return wrong


@cache
def product_sources() -> dict[str, str]:
    files = [file for package in LEVEL for file in (*ROOT.glob(f"{package}.py"), *(ROOT / package).rglob("*.py"))]
    return {file.relative_to(ROOT).as_posix(): file.read_text() for file in files}


def module_graph(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Return the modules of the project that each module imports."""
    modules = {path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): path for path in sources}
    graph: dict[str, set[str]] = {}
    for module, path in modules.items():
        named = imported_modules(sources[path])
        known = {name if name in modules else name.rpartition(".")[0] for name in named}
        graph[module] = (known & modules.keys()) - {module}
    return graph


def test_imports_point_down() -> None:
    assert upward_imports(product_sources()) == []


def test_there_is_no_cycle_of_modules() -> None:
    try:
        TopologicalSorter(module_graph(product_sources())).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_below_the_entry_points_only_few_modules_read_a_config() -> None:
    levels = ("utils", "data", "models", "losses", "metrics", "inference", "training")
    reading = {
        path.removesuffix(".py").replace("/", ".")
        for path, source in product_sources().items()
        if path.startswith(levels) and "configs.schema.Config" in imported_modules(source)
    }
    assert reading == {f"{package}.{name}" for package, names in READ_A_CONFIG.items() for name in names}


def modules_at_the_root(source: str) -> set[str]:
    return {module.split(".")[0] for module in imported_modules(source)}


def test_only_the_command_lines_lie_at_the_root() -> None:
    assert sorted(file.name for file in ROOT.glob("*.py")) == ["pairgan.py", "test.py", "train.py"]


def test_the_installable_module_imports_nothing_of_the_tree() -> None:
    source = (ROOT / "pairgan.py").read_text()
    assert modules_at_the_root(source) - sys.stdlib_module_names == {"numpy", "PIL", "onnxruntime", "tifffile"}
    top = {node.lineno for node in ast.parse(source).body if isinstance(node, ast.Import | ast.ImportFrom)}
    lines = [line for number, line in enumerate(source.splitlines(), 1) if number in top]
    assert modules_at_the_root("\n".join(lines)) - sys.stdlib_module_names == {"numpy", "PIL"}
    importing = [path for path, text in product_sources().items() if "pairgan" in modules_at_the_root(text)]
    assert importing == []


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("utils/log.py", "from data.batch import Batch"),
        ("losses/l1.py", "def f():\n    import models.blocks"),
        ("data/loader.py", "from configs.schema import Config"),
        ("inference/load.py", "from training import loop"),
        ("train.py", "import tools"),
    ],
)
def test_an_import_that_points_up_or_sideways_is_found(path: str, line: str) -> None:
    assert len(upward_imports({path: line})) == 1


def test_a_cycle_is_found() -> None:
    graph = module_graph({"data/a.py": "from data.b import x", "data/b.py": "import data.a"})
    with pytest.raises(CycleError):
        TopologicalSorter(graph).prepare()


def test_files_and_classes_fit_the_readers_head() -> None:
    sources = product_sources()
    tests = {file.relative_to(ROOT).as_posix(): file.read_text() for file in (ROOT / "tests").rglob("*.py")}
    files = {path: len(text.splitlines()) for path, text in (sources | tests).items()}
    assert {path: n_lines for path, n_lines in files.items() if n_lines > 400} == {}
    classes = {
        f"{path}:{node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path, text in sources.items()
        for node in ast.walk(parsed(text))
        if isinstance(node, ast.ClassDef)
    }
    assert {name: n_lines for name, n_lines in classes.items() if n_lines > 200} == {}
    assert files["training/loop.py"] <= 150
