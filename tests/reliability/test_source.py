"""Row 9: nothing in this project's own source runs what a file says, or swallows what went wrong."""

import ast
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.row(9)

ROOT = Path(__file__).parents[2]
PACKAGES = ["bench", "configs", "data", "docs", "inference", "losses", "metrics", "models"]
PACKAGES += ["tools", "training", "utils"]
SOURCES = sorted([*ROOT.glob("*.py"), *(path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))])


@cache
def trees() -> dict[Path, ast.AST]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in SOURCES}


@cache
def nodes(tree: ast.AST) -> list[ast.AST]:
    """All nodes of a tree, through which each rule looks."""
    return list(ast.walk(tree))


def name_of(node: ast.expr) -> str:
    """`a.b.c` of an attribute or a name, otherwise the last part alone."""
    if isinstance(node, ast.Attribute):
        return f"{name_of(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def calls(tree: ast.AST) -> Iterator[tuple[ast.Call, str]]:
    yield from ((node, name_of(node.func)) for node in nodes(tree) if isinstance(node, ast.Call))


def option(call: ast.Call, name: str) -> object:
    """The constant that a call is given by keyword; None without it, ... where it is no constant."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value.value if isinstance(keyword.value, ast.Constant) else ...
    return None


def imports(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Modules, and what is taken from them, by their full names."""
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node, f"{node.module}.{alias.name}") for alias in node.names)


def unpickling(tree: ast.AST) -> Iterator[ast.AST]:
    """Weights are read by torch.load(weights_only=True) alone, and by that name."""
    others = ("jit.load", "torch.package.PackageImporter", "torch.hub.load", "load_state_dict_from_url")
    for call, name in calls(tree):
        weights_only, allow_pickle = option(call, "weights_only"), option(call, "allow_pickle")
        is_wrong = weights_only is not True if name == "torch.load" else weights_only not in (None, True)
        if is_wrong or allow_pickle not in (None, False) or name.endswith(others):
            yield call
    yield from (node for node, name in imports(tree) if name in ("torch.load", "numpy.load"))


def pickling(tree: ast.AST) -> Iterator[ast.AST]:
    """pickle may be named for its exceptions, not called."""
    modules = {"pickle", "cPickle", "_pickle", "dill", "joblib", "shelve", "marshal", "cloudpickle"}
    errors = {"pickle.UnpicklingError", "pickle.PickleError"}
    for node, name in imports(tree):
        if name.partition(".")[0] in modules and name != "pickle" and name not in errors:
            yield node
    for node in nodes(tree):
        used = name_of(node) if isinstance(node, ast.Attribute) else ""
        if used.partition(".")[0] in modules and used not in errors:
            yield node


def unsafe_yaml(tree: ast.AST) -> Iterator[ast.AST]:
    """Loaders are SafeLoader and what is derived from it."""
    unsafe = {"load", "load_all", "unsafe_load", "unsafe_load_all", "full_load", "full_load_all"}
    loaders = {"Loader", "UnsafeLoader", "FullLoader", "CLoader", "CUnsafeLoader", "CFullLoader"}
    for node in nodes(tree):
        if isinstance(node, ast.Attribute) and name_of(node.value) == "yaml" and node.attr in unsafe | loaders:
            yield node
    yield from (node for node, name in imports(tree) if name.startswith("yaml.") and name[5:] in unsafe | loaders)


def evaluation(tree: ast.AST) -> Iterator[ast.AST]:
    names = {"eval", "exec", "compile", "__import__", "importlib.import_module", "import_module", "runpy.run_path"}
    yield from (call for call, name in calls(tree) if name in names)


def shell(tree: ast.AST) -> Iterator[ast.AST]:
    names = {"os.system", "os.popen", "popen", "system", "subprocess.getoutput", "subprocess.getstatusoutput"}
    yield from (call for call, name in calls(tree) if name in names or option(call, "shell") not in (None, False))


def bare_except(tree: ast.AST) -> Iterator[ast.AST]:
    """Nothing catches all, Ctrl-C among it; nothing that is caught in general passes without a word."""
    for node in nodes(tree):
        if isinstance(node, ast.ExceptHandler):
            caught = name_of(node.type) if node.type else None
            is_silent = all(isinstance(statement, ast.Pass) for statement in node.body)
            raises = any(isinstance(inner, ast.Raise) for inner in ast.walk(node))
            if caught is None or (caught == "BaseException" and not raises) or (caught == "Exception" and is_silent):
                yield node


def any_image_format(tree: ast.AST) -> Iterator[ast.AST]:
    """Pillow guesses among fifty formats unless it is given a list."""
    for call, name in calls(tree):
        if name.endswith("Image.open") and not any(keyword.arg == "formats" for keyword in call.keywords):
            yield call
    yield from (node for node, name in imports(tree) if name == "PIL.Image.open")


def guessable_temporary(tree: ast.AST) -> Iterator[ast.AST]:
    yield from (call for call, name in calls(tree) if name in ("tempfile.mktemp", "mktemp", "os.tempnam", "os.tmpnam"))


RULES: dict[str, tuple[Callable[[ast.AST], Iterator[ast.AST]], list[str]]] = {
    "weights_only": (
        unpickling,
        [
            *("torch.load(path)", "torch.load(path, weights_only=False)", "torch.load(path, weights_only=flag)"),
            *("np.load(path, allow_pickle=True)", "from torch import load"),
            *("torch.hub.load('a/b', 'c')", "torch.jit.load(path)"),
        ],
    ),
    "pickle": (
        pickling,
        [
            *("import dill", "from pickle import loads", "import pickle\npickle.load(file)", "import shelve"),
            *("from joblib import load", "import marshal", "import pickle\nread = pickle.Unpickler"),
        ],
    ),
    "yaml": (
        unsafe_yaml,
        ["yaml.load(text)", "yaml.unsafe_load(text)", "from yaml import full_load", "class A(yaml.Loader): pass"],
    ),
    "eval": (evaluation, ["eval(text)", "exec(text)", "__import__(name)", "importlib.import_module(name)"]),
    "shell": (shell, ["subprocess.run(text, shell=True)", "os.system(text)", "subprocess.getoutput(text)"]),
    "bare except": (
        bare_except,
        [f"try: f()\nexcept{caught}" for caught in (": pass", " Exception: pass", " BaseException:\n    g()")],
    ),
    "image formats": (any_image_format, ["Image.open(path)", "PIL.Image.open(path)", "from PIL.Image import open"]),
    "mktemp": (guessable_temporary, ["tempfile.mktemp()"]),
}


@pytest.mark.parametrize("rule", [rule for rule, _ in RULES.values()], ids=RULES.keys())
def test_no_source_breaks_a_rule(rule: Callable[[ast.AST], Iterator[ast.AST]]) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}: {ast.unparse(node)}"
        for path, tree in trees().items()
        for node in rule(tree)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("rule", "text"),
    [(rule, text) for rule, texts in RULES.values() for text in texts],
    ids=[f"{name}: {number}" for name, (_, texts) in RULES.items() for number, _ in enumerate(texts)],
)
def test_a_rule_catches_what_it_is_there_for(rule: Callable[[ast.AST], Iterator[ast.AST]], text: str) -> None:
    assert list(rule(ast.parse(text)))


def test_all_of_the_source_is_looked_at() -> None:
    names = {str(path.relative_to(ROOT)) for path in SOURCES}
    assert {"train.py", "test.py", "utils/checkpoint.py", "configs/load.py", "data/files/image_files.py"} <= names
    folders = [path for path in ROOT.iterdir() if path.is_dir() and path.name not in ("tests", "build")]
    found = {path for folder in folders if not folder.name.startswith(".") for path in folder.rglob("*.py")}
    tracked = {str(path.relative_to(ROOT)) for path in found if "site-packages" not in path.parts}
    assert tracked - names == set()
