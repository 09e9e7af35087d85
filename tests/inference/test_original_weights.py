"""The files of CUT's networks, which keep biases before norms."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from inference.load import load_from, load_network
from models.originals.format import OriginalWeightsError


@pytest.mark.parametrize("name", ["cut_generator", "cut_generator_no_antialias"])
def test_biases_before_norms_are_kept_where_features_are_compared(
    reference: dict[str, Any], tmp_path: Path, name: str
) -> None:
    weights, file = reference[name]["state_dict"], tmp_path / "latest_net_G.pth"
    torch.save(weights, file)
    found = load_network(file, "generator", keeps_biases=True).state_dict()
    second = "model.8.bias" if "model.8.bias" in weights else "model.7.bias"
    assert torch.equal(found["downs.0.0.bias"], weights["model.4.bias"])
    assert torch.equal(found["downs.1.0.bias"], weights[second])
    assert ("downs.0.0.bias" in load_network(file, "generator").state_dict()) == (name == "cut_generator")


def test_cuts_projection_is_read(reference: dict[str, Any], tmp_path: Path) -> None:
    torch.save(reference["patch_sample"]["state_dict"], tmp_path / "latest_net_F.pth")
    file, projection = load_from(tmp_path, partial(load_network, role="projection"), "projection")
    assert projection.state_dict().keys() >= {"taps.0.0.weight", "taps.2.2.bias"}
    with pytest.raises(OriginalWeightsError, match=r"holds a PatchProjection, expected a generator"):
        load_network(file, "generator")
