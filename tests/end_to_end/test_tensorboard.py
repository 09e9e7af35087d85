"""A real TensorBoard server shows a run, over HTTP."""

import io
import json
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image

import train


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextmanager
def tensorboard(log_folder: Path) -> Iterator[str]:
    port = free_port()
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(log_folder), "--port", str(port)]
    process = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--load_fast", "false"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield f"http://127.0.0.1:{port}/data"
    finally:
        process.terminate()
        process.wait()


def fetch(url: str) -> bytes:
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=300) as response:
        return bytes(response.read())


def wait_for_tags(address: str, run: str) -> set[str]:
    """The scalar tags of a run, once the server has loaded it."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        try:
            tags = json.loads(fetch(f"{address}/plugin/scalars/tags")).get(run, {})
            if "validation/l1" in tags:
                return set(tags)
        except OSError:
            pass
        time.sleep(0.1)
    raise AssertionError("the server has not shown the run for 300 s")


def scalars(address: str, run: str, tag: str) -> list[tuple[int, float]]:
    query = urllib.parse.urlencode({"run": run, "tag": tag})
    points: list[Any] = json.loads(fetch(f"{address}/plugin/scalars/scalars?{query}"))
    return [(step, value) for _, step, value in points]


def test_curves_and_pictures_of_a_resumed_run_are_served(tiny_config: Path) -> None:
    settings = ["amp.opt_level=O1", "amp.dtype=float16", "log.every_steps=1", "log.images_every_steps=2"]
    train.main(["--config", str(tiny_config), *settings, "train.max_steps=4", "checkpoint.every_steps=2"])
    runs = tiny_config.parent / "runs"
    (runs / "tiny" / "checkpoint-00000004.pt").unlink()  # as if killed between its second and its fourth step
    train.main(["--config", str(tiny_config), *settings, "train.max_steps=6"])

    with tensorboard(runs) as address:
        tags = wait_for_tags(address, "tiny")
        for trainable in ("generator", "discriminator"):
            for prefix in ("learning_rate", "amp/scale", "amp/skipped_steps"):
                assert f"{prefix}/{trainable}" in tags
        losses = {"D/fake", "D/real", "D/total", "G/adversarial", "G/feature_matching", "G/l1", "G/total"}
        assert {f"loss/{name}" for name in losses} | {"progress/images_per_s"} <= tags

        points = scalars(address, "tiny", "loss/G/l1")
        assert [step for step, _ in points] == [1, 2, 3, 4, 5, 6]
        assert all(value > 0 for _, value in points)
        assert scalars(address, "tiny", "amp/scale/generator")[0][1] in (65536.0, 32768.0)

        query = urllib.parse.urlencode({"run": "tiny", "tag": "validation/source_translated_target"})
        images = json.loads(fetch(f"{address}/plugin/images/images?{query}"))
        assert [image["step"] for image in images] == [2, 4, 6]
        picture = Image.open(io.BytesIO(fetch(f"{address}/plugin/images/individualImage?{images[-1]['query']}")))
        assert picture.size == (3 * 32 + 2 * 4, 2 * 32 + 4)  # source | translated | target of two samples
        assert len(set(picture.convert("RGB").get_flattened_data())) > 10
