from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from data.batch import Batch
from data.conditioning import (
    Conditioning,
    ValueRange,
    images_to_float,
    images_to_uint8,
    instance_edges,
    weights_of_classes,
)


def test_every_level_survives_the_conversion_to_floats_and_back_and_others_are_clamped() -> None:
    levels = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16).expand(1, 3, 16, 16)
    floats = images_to_float(levels)
    assert floats.min() == -1.0
    assert floats.max() == 1.0
    assert torch.equal(images_to_uint8(floats), levels)
    assert images_to_uint8(torch.tensor([[[-3.0, 3.0]]])).tolist() == [[[0, 255]]]


def test_edges_equal_the_originals(reference: dict[str, Any]) -> None:
    case = reference["pix2pixhd_instance_edges"]
    assert torch.equal(instance_edges(case["instance"].int()), case["edges"].float())


@pytest.mark.parametrize(
    ("n_images", "has_edges", "expected"),
    [(0, False, [[[1, 0, 0]], [[0, 1, 0]]]), (1, True, [[[1, 0, 0]], [[0, 1, 0]], [[-1, 1, 0]], [[1, 1, 1]]])],
)
def test_the_condition_is_labels_then_images_then_edges(
    n_images: int, has_edges: bool, expected: list[list[list[int]]]
) -> None:
    labels = torch.tensor([[[[0, 1, 2]]]], dtype=torch.uint8)  # 2: ignored
    images = torch.tensor([[[[0, 1000, 500]]]], dtype=torch.uint16)
    heights = ValueRange.of([0.0, 1000.0])
    conditioning = Conditioning(2, has_edges, source_range=heights, source_image_channels=n_images)
    batch = Batch(("x",), source=labels, instances=labels.int() + 5, source_images=images)
    assert conditioning(batch)[0].tolist() == expected
    assert conditioning.channels == len(expected)
    assert conditioning.is_8_bit == (n_images == 0)


def test_brightness_alone_is_one_channel_as_pillow_weighs_it() -> None:
    image = torch.randint(0, 256, (1, 3, 4, 4), dtype=torch.uint8)
    conditioning = Conditioning(n_classes=0, instance_edges=False, source_channels=1, target_channels=1)
    batch = Batch(("x",), source=image, target=image)
    assert conditioning.channels == 1
    grey = np.array(Image.fromarray(image[0].permute(1, 2, 0).numpy()).convert("L"))
    for seen in (conditioning(batch), conditioning.target(batch)):
        assert seen.shape == (1, 1, 4, 4)
        assert ((seen[0, 0] + 1) * 127.5 - torch.from_numpy(grey)).abs().max() < 1.01


def test_features_of_labels_share_the_regions_of_classes() -> None:
    labels = torch.randint(0, 3, (1, 1, 4, 4), dtype=torch.uint8)
    batch = Batch(("x",), source=labels, instances=labels.int() * 10, target=labels.expand(-1, 3, -1, -1))
    expected_regions: dict[Any, torch.Tensor] = {"labels": labels, "instances": labels.int() * 10}
    for regions, expected in expected_regions.items():
        conditioning = Conditioning(n_classes=3, instance_edges=False, features="encoded", regions=regions)
        assert torch.equal(conditioning.generator_inputs(batch, conditioning(batch))[2], expected)
        assert conditioning.needs_instances == (regions == "instances")


def test_a_condition_is_resized_by_what_its_channels_hold() -> None:
    image, labels = torch.tensor([[[[0.0, 1.0]]]]), torch.tensor([[[[1.0, 0.0]]]])
    both = torch.cat([image, labels], dim=1)
    image_and_edges = partial(Conditioning, n_classes=0, instance_edges=True, source_channels=1)
    larger = image_and_edges(target_scale=2.0).of_discriminator(both)
    assert larger[0, 0].tolist() == [[0.0, 0.25, 0.75, 1.0]] * 2
    assert larger[0, 1].tolist() == [[1.0, 1.0, 0.0, 0.0]] * 2
    smaller = image_and_edges(target_scale=0.5).of_discriminator(larger)
    assert smaller[0].tolist() == [[[0.125, 0.875]], [[1.0, 0.0]]]
    assert image_and_edges(target_scale=1.0).of_discriminator(both) is both
    for alone, n_classes in ((labels, 1), (image, 0)):
        conditioning = Conditioning(n_classes, instance_edges=False, source_channels=1, target_scale=4.0)
        assert conditioning.of_discriminator(alone).shape == (1, 1, 4, 8)


def test_the_weight_of_a_pixel_is_the_product_of_its_map_and_the_weight_of_its_class() -> None:
    labels = torch.tensor([[[[0, 1, 2], [2, 1, 0]]]], dtype=torch.uint8)
    stored = torch.tensor([[[[0, 51, 255], [255, 255, 0]]]], dtype=torch.uint8)
    plain = Batch(("x",), source=labels, target=labels.expand(-1, 3, -1, -1))
    conditioning = Conditioning(2, instance_edges=False, class_weights={0: 0.0, 2: 5.0})
    assert Conditioning(2, instance_edges=False).weights(plain).product is None
    for batch, expected in (
        (plain, [[0.0, 1.0, 5.0], [5.0, 1.0, 0.0]]),
        (replace(plain, weights=stored), [[0.0, 0.2, 5.0], [5.0, 1.0, 0.0]]),
    ):
        torch.testing.assert_close(conditioning.weights(batch).product, torch.tensor([[expected]]))


def test_classes_of_a_smaller_source_weigh_the_pixels_of_its_target() -> None:
    labels = torch.tensor([[[[0, 1]]]], dtype=torch.int32)
    assert weights_of_classes(labels, {1: 3.0}, 2, 4).tolist() == [[[[1, 1, 3, 3]] * 2]]


def test_the_range_becomes_minus_1_to_1_and_the_rest_is_clamped() -> None:
    values = torch.tensor([[[[-10.0, 0.0, 5.0, 10.0, 99.0]]]])
    assert ValueRange.of([0, 10]).outside(values[0]) == pytest.approx(0.4)
    assert ValueRange.of([0, 10]).to_float(values).tolist() == [[[[-1, -1, 0, 1, 1]]]]
    assert values[0, 0, 0, 0] == -10  # the batch stays
    assert ValueRange.of([0, 10]).to_float(values, clamps=False).tolist() == [[[[-3, -1, 0, 1, pytest.approx(18.8)]]]]


@pytest.mark.parametrize("dtype", [torch.uint16, torch.int16])
def test_integers_survive_there_and_back(dtype: torch.dtype) -> None:
    bounds = torch.iinfo(dtype)
    values = torch.arange(bounds.min, bounds.max + 1, 3).to(dtype).view(1, 1, 1, -1)
    range_of_type = ValueRange.of([bounds.min, bounds.max])
    floats = range_of_type.to_float(values)
    assert (floats.min(), floats.dtype) == (-1, torch.float32)
    assert torch.equal(range_of_type.from_float(floats, dtype), values)


def test_each_channel_has_its_range() -> None:
    values = ValueRange.of([0, 10, 100, 300])
    images = torch.tensor([5, 200], dtype=torch.int16).view(1, 2, 1, 1).expand(2, 2, 4, 5)
    assert torch.equal(values.to_float(images), torch.zeros(2, 2, 4, 5))
    assert values.from_float(torch.ones(1, 2, 1, 1), torch.float32).flatten().tolist() == [10, 300]
    assert values.from_float(torch.ones(1, 2, 1, 1), torch.uint8).flatten().tolist() == [10, 255]
