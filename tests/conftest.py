"""Fixtures of all tests: a tiny configuration, folders of small images, and figures of the original networks.

Functions import torch, because the process of pytest-xdist that only distributes the tests loads this file too.
"""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from filelock import FileLock
from PIL import Image

import train
from tests.reliability.command_line import CommandLine

if TYPE_CHECKING:
    import torch

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # each further one is a process that imports torch

# A shell ignores SIGINT for what runs in the background, nohup ignores SIGHUP; both are inherited, by processes that
# the tests start too. A handler of this process's own is not, and leaves this one alive when a terminal goes.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)

TINY_CONFIG = """
run: {{name: tiny, root: {root}, device: cpu}}
data:
  layout: synthetic_facades
  preprocess: none
  instance_edges: true
  workers: 0
  synthetic_samples: [5, 2, 3]
  synthetic_size: [32, 32]
generator: {{base_channels: 4, n_downsamplings: 2, n_blocks: 1}}
discriminator: {{base_channels: 4, n_layers: 2}}
loss: {{l1: 10, perceptual: 0}}
amp: {{opt_level: O0}}
train: {{max_steps: 4}}
checkpoint: {{best: none}}
log: {{every_steps: 2, images_every_steps: 4}}
metrics: {{n_samples: 2}}
"""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Escape captured bytes that are no text, such as file names, because pytest-xdist sends only text."""
    report = yield
    report.sections = [(name, said.encode(errors="backslashreplace").decode()) for name, said in report.sections]
    return report


def pytest_collection_finish() -> None:
    """Limit threads and processes, and exclude the imported modules from garbage collections: 0.2 s each."""
    import torch

    from tools.check_data import report

    report.usable_cores = lambda: 1  # of a few samples, a second process checks none in less time
    torch.set_num_threads(1)  # tiny networks: more threads only wait for each other
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # Python frees the modules at its end, because some libraries print what is left


@pytest.fixture(autouse=True)
def _garbage_is_this_tests() -> Iterator[None]:
    """Collect what a test leaves, so that a file that it did not close fails this test, not an innocent one.

    Objects that survive, such as new modules, are excluded from later collections.
    """
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture
def tiny_config(tmp_path: Path) -> Path:
    """A configuration that trains in milliseconds; its runs go to tmp_path/runs."""
    return write_tiny_config(tmp_path)


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run of `tiny_config`, made once; only to be read."""
    config = write_tiny_config(tmp_path_factory.mktemp("tiny_run"))
    train.main(["--config", str(config)])
    return config.parent / "runs" / "tiny"


@pytest.fixture
def trained_config(tiny_config: Path, tiny_run: Path) -> Path:
    """`tiny_config` with a finished run of it, `runs/tiny`, that is the test's own."""
    shutil.copytree(tiny_run, tiny_config.parent / "runs" / "tiny")
    return tiny_config


@pytest.fixture(scope="session")
def of_labels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an untrained run of label maps and instance edges, with its generator.onnx; only to be read."""
    return exported_once(tmp_path_factory, "labels")


@pytest.fixture(scope="session")
def of_photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an untrained run of RGB images, with its generator.onnx; only to be read."""
    return exported_once(tmp_path_factory, "photos")


@pytest.fixture
def command_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """Calls an entry point as the shell would."""
    return CommandLine(monkeypatch, capsys)


@pytest.fixture(scope="session")
def reference() -> dict[str, Any]:
    """Inputs, weights and outputs of the original networks; see tests/reference/README.md."""
    import torch

    folder = Path(__file__).parent / "reference"
    return {name: case for file in folder.glob("*.pt") for name, case in torch.load(file, weights_only=True).items()}


@pytest.fixture
def label_data_set(tmp_path: Path) -> Path:
    """pix2pixHD's folders: 3 training and 1 test sample of 64x32 with labels 0..4, instances, photos."""
    root = tmp_path / "labels"
    rng = np.random.default_rng(0)
    for split, names in (("train", ("a", "b", "c")), ("test", ("d",))):
        for name in names:
            labels = rng.integers(0, 5, (4, 8), dtype=np.uint8).repeat(8, 0).repeat(8, 1)
            photo = (labels[..., None] * [40, 20, 10] + 20).astype(np.uint8)
            save_image(root / f"{split}_label" / f"{name}.png", labels)
            save_image(root / f"{split}_inst" / f"{name}.png", (labels.astype(np.uint16) * 1000 + 7))
            save_image(root / f"{split}_img" / f"{name}.jpg", photo)
    return root


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Torch's cache of published weights; empty."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    folder = tmp_path / "torch" / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture(scope="session")
def vgg19_file(vgg19_weights: dict[str, torch.Tensor], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The random weights as a file of 80 MB."""
    import torch

    torch.save(vgg19_weights, path := tmp_path_factory.mktemp("vgg19") / "vgg19-dcbb9e9d.pth")
    return path


@pytest.fixture
def cached_vgg19(hub: Path, vgg19_file: Path) -> None:
    """Let torch's cache hold VGG19 with random weights."""
    (hub / vgg19_file.name).symlink_to(vgg19_file)


@pytest.fixture(scope="session")
def vgg19_weights() -> dict[str, torch.Tensor]:
    """VGG19's convolutions in torchvision's names, random: its layers are right, its values mean nothing."""
    import torch
    from torchvision.models import vgg19

    with torch.device("meta"):
        shapes = {key: value.shape for key, value in vgg19().features.state_dict().items()}
    generator = torch.Generator().manual_seed(0)
    return {
        f"features.{key}": torch.randn(shape, generator=generator) * (2 / shape[1:].numel()) ** 0.5
        if len(shape) == 4
        else torch.zeros(shape)
        for key, shape in shapes.items()
    }


def exported_once(folders: pytest.TempPathFactory, kind: str) -> Path:
    """Return the folder of an exported run, which one of pytest-xdist's processes makes for all."""
    from tests.pairgan.conftest import photo_pairs, trained  # it imports this module

    shared = folders.getbasetemp().parent if "PYTEST_XDIST_WORKER" in os.environ else folders.getbasetemp()
    folder = shared / kind
    with FileLock(f"{folder}.lock"):
        if not (folder / "runs" / "tiny" / "generator.onnx").exists():
            folder.mkdir()
            trained(folder, *(photo_pairs(folder) if kind == "photos" else ()))
    return folder / "runs" / "tiny"


def save_image(path: Path, pixels: np.ndarray) -> None:
    """Write an array as an image file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def write_tiny_config(folder: Path) -> Path:
    """Write `tiny.yaml`. Its runs go to the folder `runs` next to it."""
    path = folder / "tiny.yaml"
    path.write_text(TINY_CONFIG.format(root=folder / "runs"))
    return path
