"""The service answers with the bytes that test.py writes, for each kind of image."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import save_image, write_tiny_config
from tests.end_to_end.test_other_images import make_pairs, save_tiff
from tests.images import bands, save_npy
from tests.pairgan.conftest import photo_pairs
from tests.runs import run, translate, untrained_run
from tests.tools.serve.services import FORM, ask, draw, form, levels, serving
from tools import cluster_features
from utils.errors import ConfigError

EXACT = ("--opt-level", "O0")


def by_test_py(folder: Path, *options: object) -> bytes:
    """The file that test.py writes for photo.*, an image of a folder."""
    (source,) = folder.glob("photo.*")
    translate("--input", str(source), "--output", str(folder / "out"), *map(str, options))
    (written,) = (folder / "out").glob("photo.*")
    return written.read_bytes()


def test_label_maps_with_instances(tiny_run: Path, tmp_path: Path) -> None:
    with serving("--checkpoint", tiny_run) as server:
        for height in (19, 3):
            folder = tmp_path / str(height)
            source, instances = draw(folder, height)
            answer = ask(server, "/translate", form(source=source, instances=instances), FORM)
            assert (answer.status, answer.headers["Content-Type"]) == (200, "image/png")
            assert answer.body == by_test_py(folder, "--checkpoint", tiny_run, "--instances", folder / "instances")


def test_photographs(photo_run: Path, tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    with serving("--checkpoint", photo_run, *EXACT) as server:
        for suffix in ("png", "jpg", "tif"):
            file = tmp_path / suffix / f"photo.{suffix}"
            save_image(file, pixels)
            answer = ask(server, "/translate", file.read_bytes())
            options = ("--checkpoint", photo_run, *EXACT)
            assert answer.body == by_test_py(file.parent, *options), suffix


def test_tiles(photo_run: Path, tmp_path: Path) -> None:
    """test.py writes those row by row, compressed otherwise."""
    save_image(tmp_path / "photo.png", np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8))
    options = ("--checkpoint", photo_run, *EXACT, "--tile", "16")
    with serving(*options) as server:
        answer = ask(server, "/translate", (tmp_path / "photo.png").read_bytes())
    assert np.array_equal(levels(answer.body), levels(by_test_py(tmp_path, *options)))


@pytest.fixture(scope="module")
def photo_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    return untrained_run(write_tiny_config(folder), *photo_pairs(folder), "init.distribution=normal:0.3")


@pytest.mark.parametrize(
    ("suffix", "save", "media"), [(".npy", save_npy, "application/octet-stream"), (".tif", save_tiff, "image/tiff")]
)
def test_images_of_other_values(
    tmp_path: Path, suffix: str, save: Callable[[Path, np.ndarray], None], media: str
) -> None:
    config = make_pairs(tmp_path, suffix, save)
    run(config, "train.max_steps=1", "run.name=bands")
    save(tmp_path / f"photo{suffix}", bands(8))
    checkpoint = tmp_path / "runs" / "bands"
    with serving("--checkpoint", checkpoint) as server:
        answer = ask(server, "/translate", (tmp_path / f"photo{suffix}").read_bytes())
        refused = [ask(server, "/translate", body) for body in (b"II*\0 damaged", gzip.compress(bytes(99)))]
        model = json.loads(ask(server, "/model").body)
    assert (answer.status, answer.headers["Content-Type"]) == (200, media)
    assert answer.body == by_test_py(tmp_path, "--checkpoint", checkpoint)
    assert [(each.status, each.body.count(b"\n")) for each in refused] == [(400, 1), (415, 1)]
    assert (model["inputs"], model["source_channels"], model["output_channels"]) == ({"source": "values"}, 4, 1)
    assert model["output_dtype"] in ("uint8", "float32")
    assert len(model["source_range"]) == 8


FEATURES = ["features.n_channels=3", "features.n_downsamplings=2", "features.base_channels=2"]
UNET = ["generator.name=unet", "generator.n_downsamplings=6", "data.synthetic_size=[64,64]"]
DROPOUT = [*UNET, "generator.dropout=true"]


@pytest.mark.parametrize(("settings", "options"), [(FEATURES, EXACT), (DROPOUT, (*EXACT, "--noise"))])
def test_a_seed_is_that_of_test_py(
    tiny_config: Path, tmp_path: Path, settings: list[str], options: tuple[str, ...]
) -> None:
    checkpoint = untrained_run(tiny_config, *settings, "init.distribution=normal:0.3")
    if settings == FEATURES:
        with (
            pytest.raises(ConfigError, match=r"run python -m tools\.cluster_features"),
            serving("--checkpoint", checkpoint),
        ):
            pass
        cluster_features.main(["--checkpoint", str(checkpoint), "--clusters", "3"])
    source, instances = draw(tmp_path)
    with serving("--checkpoint", checkpoint, *options) as server:
        drawn = [ask(server, f"/translate?seed={n}", form(source=source, instances=instances), FORM) for n in (3, 4)]
    assert {answer.status for answer in drawn} == {200}
    by_program = ("--checkpoint", checkpoint, "--instances", tmp_path / "instances", "--seed", "3", *options)
    assert drawn[1].body != drawn[0].body == by_test_py(tmp_path, *by_program)
