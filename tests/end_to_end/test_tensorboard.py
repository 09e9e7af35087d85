"""TensorBoard's own reader finds the curves and pictures of a run."""

import io
from pathlib import Path

from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.runs import run


def test_curves_and_pictures_of_a_resumed_run_are_read(tiny_config: Path) -> None:
    settings = ["amp.opt_level=O1", "amp.dtype=float16", "log.every_steps=1", "log.images_every_steps=2"]
    run(tiny_config, *settings, "train.max_steps=4", "checkpoint.every_steps=2")
    folder = tiny_config.parent / "runs" / "tiny"
    (folder / "checkpoint-00000004.pt").unlink()  # as if killed between its second and its fourth step
    run(tiny_config, *settings, "train.max_steps=6")

    board = EventAccumulator(str(folder), size_guidance={"scalars": 0, "images": 0})
    board.Reload()
    prefixes = ("learning_rate", "amp/scale", "amp/skipped_steps")
    expected = {f"{prefix}/{network}" for prefix in prefixes for network in ("generator", "discriminator")}
    losses = ("D/fake", "D/real", "D/total", "G/adversarial", "G/feature_matching", "G/l1", "G/total")
    expected |= {f"loss/{name}" for name in losses} | {"progress/images_per_s", "validation/l1"}
    assert expected <= set(board.Tags()["scalars"])

    points = board.Scalars("loss/G/l1")
    assert [point.step for point in points] == [1, 2, 3, 4, 5, 6]
    assert all(point.value > 0 for point in points)
    assert board.Scalars("amp/scale/generator")[0].value in (65536.0, 32768.0)

    images = board.Images("validation/source_translated_target")
    assert [image.step for image in images] == [2, 4, 6]
    picture = Image.open(io.BytesIO(images[-1].encoded_image_string))
    assert picture.size == (3 * 32 + 2 * 4, 2 * 32 + 4)  # source | translated | target of two samples
    assert len(set(picture.convert("RGB").get_flattened_data())) > 10
