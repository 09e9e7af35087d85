from typing import Any

import numpy as np
import torch
from PIL import Image

from data.batch import Batch
from data.conditioning import Conditioning, images_to_float, images_to_uint8, instance_edges, one_hot
from data.value_range import ValueRange


def test_every_level_survives_the_conversion_to_floats_and_back() -> None:
    levels = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16).expand(1, 3, 16, 16)
    floats = images_to_float(levels)
    assert floats.min() == -1.0
    assert floats.max() == 1.0
    assert torch.equal(images_to_uint8(floats), levels)


def test_floats_out_of_range_are_clamped() -> None:
    assert images_to_uint8(torch.tensor([[[-3.0, 3.0]]])).tolist() == [[[0, 255]]]


def test_one_hot_has_one_channel_per_class_and_zeros_for_ignored_pixels() -> None:
    hot = one_hot(torch.tensor([[[[0, 2, 3]]]], dtype=torch.uint8), n_classes=3)
    assert hot[0, :, 0].T.tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 0]]


def test_edges_equal_the_originals(reference: dict[str, Any]) -> None:
    case = reference["pix2pixhd_instance_edges"]
    assert torch.equal(instance_edges(case["instance"].int()), case["edges"].float())


def test_the_condition_is_labels_then_edges() -> None:
    labels = torch.tensor([[[[0, 1]]]], dtype=torch.uint8)
    instances = torch.tensor([[[[5, 6]]]], dtype=torch.int32)
    batch = Batch(("x",), labels, instances, None)
    conditioning = Conditioning(n_classes=2, instance_edges=True)
    assert conditioning(batch).tolist() == [[[[1, 0]], [[0, 1]], [[1, 1]]]]
    assert conditioning.channels == 3
    without_edges = Conditioning(n_classes=2, instance_edges=False)
    assert without_edges(batch).tolist() == [[[[1, 0]], [[0, 1]]]]
    assert without_edges.channels == 2


def test_images_come_between_labels_and_edges() -> None:
    labels = torch.tensor([[[[0, 1]]]], dtype=torch.uint8)
    images = torch.tensor([[[[0, 1000]]]], dtype=torch.uint16)
    batch = Batch(("x",), labels, labels.int(), None, source_images=images)
    heights = ValueRange.of([0.0, 1000.0])
    conditioning = Conditioning(n_classes=2, instance_edges=True, source_range=heights, source_image_channels=1)
    assert conditioning(batch).tolist() == [[[[1, 0]], [[0, 1]], [[-1, 1]], [[1, 1]]]]
    assert conditioning.channels == 4
    assert not conditioning.is_8_bit


def test_the_condition_of_an_rgb_source_is_the_image() -> None:
    image = torch.randint(0, 256, (1, 3, 4, 4), dtype=torch.uint8)
    conditioning = Conditioning(n_classes=0, instance_edges=False)
    assert torch.equal(conditioning(Batch(("x",), image, None, None)), images_to_float(image))
    assert conditioning.channels == 3


def test_brightness_alone_is_one_channel_as_pillow_weighs_it() -> None:
    image = torch.randint(0, 256, (1, 3, 4, 4), dtype=torch.uint8)
    conditioning = Conditioning(n_classes=0, instance_edges=False, source_channels=1, target_channels=1)
    batch = Batch(("x",), image, None, image)
    assert conditioning.channels == 1
    grey = np.array(Image.fromarray(image[0].permute(1, 2, 0).numpy()).convert("L"))
    for seen in (conditioning(batch), conditioning.target(batch)):
        assert seen.shape == (1, 1, 4, 4)
        assert ((seen[0, 0] + 1) * 127.5 - torch.from_numpy(grey)).abs().max() < 1.01


def test_features_of_labels_share_the_regions_of_classes() -> None:
    labels = torch.randint(0, 3, (1, 1, 4, 4), dtype=torch.uint8)
    batch = Batch(("x",), labels, labels.int() * 10, labels.expand(-1, 3, -1, -1))
    by_label = Conditioning(n_classes=3, instance_edges=False, features="encoded", regions="labels")
    by_instance = Conditioning(n_classes=3, instance_edges=False, features="encoded", regions="instances")
    assert torch.equal(by_label.generator_inputs(batch, by_label(batch))[2], labels)
    assert torch.equal(by_instance.generator_inputs(batch, by_instance(batch))[2], labels.int() * 10)
    assert by_instance.needs_instances
    assert not by_label.needs_instances
