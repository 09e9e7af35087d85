"""The server of the playground: translations as test.py's, and clear answers to everything else."""

import json
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.conftest import save_image
from tests.pairgan.conftest import photo_pairs
from tests.runs import STYLE, untrained_run
from tests.tools.playground.pages import N_CLASSES, STRONG, expected, post, serving
from tests.tools.serve.services import ask
from tools import cluster_features
from tools.playground.__main__ import parse_arguments
from tools.playground.server import Playground
from tools.serve import app
from tools.serve.web import WebServer
from utils.errors import ConfigError


@pytest.fixture(scope="module")
def server(tiny_run: Path) -> Iterator[WebServer]:
    with serving("--checkpoint", str(tiny_run)) as running:
        yield running


def drawing(
    rng: np.random.Generator, height: int, width: int, n_classes: int = N_CLASSES
) -> tuple[np.ndarray, np.ndarray]:
    labels = rng.integers(0, n_classes, (height, width), dtype=np.int32)
    return labels, rng.integers(0, 9, (height, width), dtype=np.int32)


def test_a_drawing_is_translated_as_its_files_are(server: WebServer, tiny_run: Path, tmp_path: Path) -> None:
    for size in ((19, 45), (3, 5)):
        labels, instances = drawing(np.random.default_rng(0), *size)
        status, answer = post(server, labels, instances)
        assert status == 200, answer
        wanted = expected(tmp_path / str(size), labels, instances, "--checkpoint", str(tiny_run))
        assert np.array_equal(np.frombuffer(answer, np.uint8).reshape(*size, 3), wanted)


def test_photographs_are_translated(tiny_config: Path) -> None:
    run_folder = untrained_run(tiny_config, *photo_pairs(tiny_config.parent))
    photo = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    with serving("--checkpoint", str(run_folder), "--tile", "16", "--opt-level", "O0", "--split", "train") as server:
        status, answer = post(server, photo)
        page = ask(server, "/")[1]
        names = json.loads(re.search(rb'id="model"[^>]*>(.*?)</script>', page)[1])["samples"]  # type: ignore[index]
    assert (status, names) == (200, ["1"])
    options = ("--checkpoint", str(run_folder), "--opt-level", "O0")
    wanted = expected(tiny_config.parent, photo, None, *options).astype(int)
    assert abs(np.frombuffer(answer, np.uint8).reshape(20, 30, 3) - wanted).max() <= 1


def test_samples_of_the_test_split(server: WebServer) -> None:
    status, body, headers = ask(server, "/samples/2")
    assert (status, headers["X-Width"], headers["X-Height"]) == (200, "32", "32")
    assert len(body) == 32 * 32 * 8
    assert np.frombuffer(body, "<i4", 32 * 32).max() < N_CLASSES
    status, body, _ = ask(server, "/samples/3")
    assert (status, body) == (400, b"sample 3: there are 3\n")


def test_the_page_requests_nothing_from_elsewhere(server: WebServer) -> None:
    status, page, headers = ask(server, "/")
    assert status == 200
    assert b"http" not in page
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    nonce = re.search(r"'nonce-([^']+)'", headers["Content-Security-Policy"])
    assert nonce is not None
    assert page.count(b"<script") == page.count(f'nonce="{nonce[1]}"'.encode()) - 1  # and the style


def test_a_link_from_another_page_leads_to_the_page(server: WebServer) -> None:
    assert ask(server, "/", None, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"})[0] == 200


def test_connections_wait_for_their_turn(tiny_run: Path) -> None:
    arguments = parse_arguments(["--checkpoint", str(tiny_run), "--no-browser"])
    with app.serving(Playground, arguments, None) as server, ExitStack() as connections:  # it answers none yet
        for _ in range(100):
            connections.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=5))


ODD = (37, 51)
FEATURES = ["features.n_channels=3", "features.n_downsamplings=2", "features.base_channels=2", STRONG]
DROPOUT = ["generator.name=unet", "generator.dropout=true", "generator.n_downsamplings=6", STRONG]
DROPOUT += ["data.synthetic_size=[64,64]"]


def served(command: tuple[str, ...], *maps: np.ndarray, seeds: tuple[int, ...] = (0,)) -> list[bytes]:
    """The pictures that a server makes of a drawing."""
    with serving(*command) as server:
        answers = [post(server, *maps, seed=seed) for seed in seeds]
    assert {status for status, _ in answers} == {200}, answers
    return [picture for _, picture in answers]


@pytest.mark.parametrize(
    ("settings", "options"), [(DROPOUT, ["--noise"]), (FEATURES, ["--opt-level", "O0", "--tile", "32"])]
)
def test_a_seed_is_the_seed_of_test_py(tiny_config: Path, settings: list[str], options: list[str]) -> None:
    run_folder = untrained_run(tiny_config, *settings)
    command = ("--checkpoint", str(run_folder), *options)
    if settings == FEATURES:
        message = r"Create clusters to draw them from with python -m tools.cluster_features"
        with pytest.raises(ConfigError, match=message), serving(*command):
            pass
        cluster_features.main(["--checkpoint", str(run_folder), "--clusters", "3"])
    drawn = drawing(np.random.default_rng(0), *ODD)
    first, again, other = served(command, *drawn, seeds=(3, 3, 4))
    assert first == again != other
    assert first == expected(tiny_config.parent, *drawn, *command, "--seed", "3").tobytes()


def test_styles_are_of_seeds_or_photographs_and_between_two_of_them(tiny_config: Path) -> None:
    run_folder = untrained_run(tiny_config, *STYLE, "init.distribution=xavier:0.3")
    command = ("--checkpoint", str(run_folder), "--opt-level", "O0")
    drawn, folder = drawing(np.random.default_rng(0), *ODD), tiny_config.parent
    photos = [folder / f"{name}.png" for name in ("bright", "dark")]
    for photo, level in zip(photos, (250, 5), strict=True):
        save_image(photo, np.full((20, 30, 3), level, np.uint8))
    ways = {"seeds": ["--seed", "1"], "photographs": ["--style", str(photos[1])]}
    for way, options in ways.items():
        others = ["--style", str(photos[0]), "--style", str(photos[1])] if way == "photographs" else []
        with serving(*command, *others) as server:
            first, second, start, middle, end = (
                post(server, *drawn, seed=seed, then=then)[1]
                for seed, then in ((0, ""), (1, ""), *((0, f"&other=1&percent={n}") for n in (0, 50, 100)))
            )
        assert len({first, second, middle}) == 3, way
        assert (start, end) == (first, second), way
        assert second == expected(folder, *drawn, *command, *options).tobytes(), way


def test_ignored_pixels_and_many_classes(tiny_config: Path, label_data_set: Path) -> None:
    n_classes, ignore_id = 300, 999
    data = ["data.layout=paired_folders", f"data.root={label_data_set}", f"data.n_classes={n_classes}"]
    run_folder = untrained_run(tiny_config, *data, f"data.ignore_id={ignore_id}", "init.distribution=normal:0.3")
    command = ("--checkpoint", str(run_folder), "--opt-level", "O0")
    labels, instances = drawing(np.random.default_rng(0), *ODD, n_classes)
    labels[3:9, 4:20] = ignore_id
    assert served(command, labels, instances) == [expected(tiny_config.parent, labels, instances, *command).tobytes()]
    with serving(*command) as server:
        status, answer = post(server, np.full_like(labels, n_classes), instances)
    assert status == 400
    assert f"holds id {n_classes}, allowed are 0 to {n_classes - 1} and {ignore_id}".encode() in answer


def test_weights_of_the_originals(reference: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "latest_net_G.pth"
    torch.save(reference["pix2pixhd_global_label_edge"]["state_dict"], file)
    drawn = drawing(np.random.default_rng(0), *ODD, 5)
    wanted = expected(tmp_path, *drawn, "--checkpoint", str(file)).tobytes()
    assert served(("--checkpoint", str(file), "--instance-edges"), *drawn) == [wanted]
