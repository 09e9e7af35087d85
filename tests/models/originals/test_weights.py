"""Networks imported from recorded weights of pix2pixHD and pix2pix compute the recorded outputs.

Exported again, they have the originals' names and shapes.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from models.originals.format import OriginalWeightsError, norms_behind
from models.originals.weights import FORMATS, ImportedNetwork, export_original, import_original
from tests.models.originals.cases import assert_close, empty_weights, weights_of

REFERENCE = Path(__file__).parents[2] / "reference"
FULL_SIZE = {
    name: entry["keys"]
    for prefix in ("", "spade_", "oasis_")
    for name, entry in json.loads((REFERENCE / f"{prefix}state_dict_keys.json").read_text()).items()
    if "keys" in entry
}
FULL_SIZE |= json.loads((REFERENCE / "unpaired_state_dict_keys.json").read_text())
FULL_SIZE["SPADE_G_vae"] = FULL_SIZE["SPADE_G_coco"] | FULL_SIZE.pop("SPADE_G_vae_head_only")
SPADE_START = {
    "head_0.conv_0.weight_orig": torch.zeros(32, 32, 3, 3),
    "head_0.norm_0.mlp_shared.0.weight": torch.zeros(4, 5, 3, 3),
    "fc.weight": torch.zeros(32, 5, 3, 3),
    "conv_img.weight": torch.zeros(3, 2, 3, 3),
}
CASES = [
    "pix2pixhd_global_rgb",
    "pix2pixhd_global_label_edge",
    "pix2pixhd_global_batchnorm",
    "pix2pixhd_local_1",
    "pix2pix_unet_batch",
    "pix2pix_unet_instance",
    "pix2pix_resnet_batch_dropout",
    "pix2pix_resnet_instance",
    "pix2pixhd_encoder",
]
DISCRIMINATORS = [
    "pix2pixhd_discriminator_2",
    "pix2pixhd_discriminator_3",
    "pix2pixhd_discriminator_2_no_features",
    "pix2pix_patchgan_batch",
    "pix2pix_patchgan_instance",
]
UNPAIRED = [
    "cyclegan_generator",
    "cyclegan_generator_dropout",
    "cyclegan_discriminator",
    "cut_generator",
    "cut_generator_no_antialias",
    "cut_generator_mixed",
    "cut_discriminator",
    "patch_sample",
]
OF_SPADE = [
    "spade_generator_instance",
    "spade_generator_most",
    "spade_generator_vae",
    "spade_discriminator",
    "spade_encoder",
]


def imported(case: dict[str, Any]) -> ImportedNetwork:
    found = import_original({key: value.double() for key, value in case["state_dict"].items()})
    found.network.double().eval()
    return found


def exported(found: ImportedNetwork, network: nn.Module, original: Iterable[str]) -> dict[str, Tensor]:
    """The state dict of a network, with biases before norms where the names in the original's have some."""
    names = FORMATS[found.scheme].names(network)
    has_biases = any(f"{names[layer]}.bias" in original for layer in norms_behind(names))
    return export_original(network, found.scheme, biases_before_norms=has_biases)


@pytest.mark.parametrize("name", CASES)
def test_generators_and_the_encoder_compute_the_originals_outputs(reference: dict[str, Any], name: str) -> None:
    image, *instances = reference[name]["inputs"]
    assert_close(imported(reference[name]).network(image.double(), *instances), reference[name]["output"])


@pytest.mark.parametrize("name", DISCRIMINATORS)
def test_discriminators_compute_the_originals_outputs(reference: dict[str, Any], name: str) -> None:
    case = reference[name]
    pair = case["inputs"][0].double()
    outputs = imported(case).network(pair[:, :3], pair[:, 3:])
    expected_outputs = case["output"] if isinstance(case["output"], list) else [[case["output"]]]
    for scale, expected in zip(outputs, expected_outputs, strict=True):
        activations = expected if isinstance(expected, list) else [expected]
        assert_close(scale.logits, activations[-1])
        if len(activations) > 1:
            for feature, expected_feature in zip(scale.features, activations[:-1], strict=True):
                assert_close(feature, expected_feature)


@pytest.mark.parametrize("name", FULL_SIZE)
def test_full_size_networks_are_exported_with_the_originals_names_and_shapes(name: str) -> None:
    shapes = {key: tuple(shape) for key, shape in FULL_SIZE[name].items()}
    found = import_original(empty_weights(shapes))
    network: nn.Module = found.network.to_empty(device="cpu")
    back = exported(found, network, shapes)
    assert {key: tuple(value.shape) for key, value in back.items()} == shapes


@pytest.mark.parametrize("name", [*CASES, *DISCRIMINATORS, *OF_SPADE, *UNPAIRED])
def test_an_exported_network_is_imported_with_the_same_weights(reference: dict[str, Any], name: str) -> None:
    weights = weights_of(reference, name)
    found = import_original(weights)
    back = exported(found, found.network, weights)
    assert back.keys() == weights.keys()
    again = import_original(back).network.state_dict()
    torch.testing.assert_close(again, found.network.state_dict(), rtol=0, atol=0, check_dtype=False)


@pytest.mark.parametrize("name", ["pix2pix_resnet_instance", "cyclegan_generator", "cut_generator"])
def test_prefixes_and_old_statistics_of_instance_norm_do_no_harm(reference: dict[str, Any], name: str) -> None:
    case = reference[name]
    old = {f"module.{key}": value for key, value in case["state_dict"].items()}
    for number in (2, 5, 8):
        old[f"module.model.{number}.running_mean"] = torch.rand(3)
        old[f"module.model.{number}.running_var"] = torch.rand(3)
    network = import_original(old).network.double().eval()
    image = case["inputs"] if isinstance(case["inputs"], Tensor) else case["inputs"][0]
    assert_close(network(image.double()), case["output"])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({}, "found no tensors"),
        ({"conv1.weight": torch.zeros(64, 3, 7, 7)}, r"expected a network of .* found conv1\.weight \[64, 3, 7, 7\]"),
        ({"model.1.weight": torch.zeros(4, 3, 7, 7)}, "original's encoder network, but does not fit"),
        ({"layer_up_last.weight": torch.zeros(4, 8, 1, 1)}, "does not fit: body_down.0.conv1.0.weight is missing$"),
        (SPADE_START | {"fc.weight": torch.zeros(8, 32, 3, 3)}, "does not fit: fc.weight has 8 .* 32 channels$"),
        (SPADE_START, r"does not fit: Missing key\(s\) in state_dict: \"[a-z0-9.]*\", ...$"),
        ({"epoch": 3, "state_dict": {}}, "epoch: int, expected tensors by name"),
    ],
)
def test_weights_of_another_network_are_refused(weights: dict[str, Any], message: str) -> None:
    with pytest.raises(OriginalWeightsError, match=message):
        import_original(weights)
