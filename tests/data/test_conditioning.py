from typing import Any

import torch

from data.batch import Batch
from data.conditioning import Conditioning, images_to_float, images_to_uint8, instance_edges, one_hot


def test_every_level_survives_the_way_to_floats_and_back() -> None:
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


def test_the_condition_of_an_rgb_source_is_the_image() -> None:
    image = torch.randint(0, 256, (1, 3, 4, 4), dtype=torch.uint8)
    conditioning = Conditioning(n_classes=0, instance_edges=False)
    assert torch.equal(conditioning(Batch(("x",), image, None, None)), images_to_float(image))
    assert conditioning.channels == 3
