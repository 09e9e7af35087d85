from pathlib import Path
from typing import Any

import pytest
import torch

from configs.load import load_config
from models.contract import check_discriminator
from models.originals.format import OriginalWeightsError
from models.originals.weights import scheme_of
from models.projected_discriminator import TAPS, ProjectedDiscriminator
from utils.device import choose_precision
from utils.errors import ConfigError

PAIRS = ["data.layout=paired_folders", "loss.l1=1"]


def make(seed: int = 0, **settings: Any) -> ProjectedDiscriminator:
    torch.manual_seed(seed)
    return ProjectedDiscriminator(**{"source_channels": 2, **settings})


@pytest.mark.parametrize("image_channels", [1, 3])
def test_it_judges_four_depths_of_the_features(image_channels: int) -> None:
    network = make()
    source, image = torch.randn(1, 2, 64, 96), torch.rand(2, image_channels, 64, 96, requires_grad=True)
    depths = network(source, image)
    sides = (14, 21), (7, 10), (7, 10), (3, 5)
    assert [output.logits.shape for output in depths] == [(2, 1, *pair) for pair in sides]
    depths[-1].logits.sum().backward()
    assert image.grad is not None
    assert image.grad.abs().min() > 0
    check_discriminator(network, "projected", 2, image_channels, network.least_side(), needs_features=True)


def test_images_below_the_least_side_are_too_small() -> None:
    with pytest.raises(RuntimeError, match="Kernel size can't be greater"):
        make()(torch.zeros(1, 2, 18, 18), torch.zeros(1, 3, 18, 18))
    assert ProjectedDiscriminator.least_side() == 19


def test_without_a_source_only_the_image_is_judged() -> None:
    network, image = make(source_channels=0), torch.rand(1, 3, 64, 64)
    one, other = (network(source, image)[-1].logits for source in (torch.zeros(1, 0, 64, 64), torch.ones(1, 2, 9, 9)))
    assert torch.equal(one, other)


def test_the_pretrained_network_is_neither_trained_nor_saved_and_all_runs_have_the_same_projections() -> None:
    network, other = make(0), make(1)
    names = {name for name, _ in network.named_parameters()}
    assert {name.partition(".")[0] for name in names} == {"heads"}
    mixed = {name: value for name, value in network.state_dict().items() if name not in names}
    kinds = ("channels", "depths")
    assert mixed.keys() == {f"projection.{kind}_{number}" for kind in kinds for number in range(len(TAPS))}
    assert all(torch.equal(value, other.state_dict()[name]) for name, value in mixed.items())
    low = network.bfloat16().state_dict()
    assert all(torch.equal(value, low[name]) for name, value in mixed.items())


def test_the_features_of_photographs_and_their_mixtures_have_a_similar_magnitude() -> None:
    columns = torch.linspace(-1, 1, 128)
    stripes = (columns * 20).sin() * (columns[:, None] * 9).cos()
    image = torch.stack([stripes, stripes.roll(9, 0), columns.expand(128, 128)])[None]
    sizes = [features.square().mean().sqrt() for features in make().projection(image)]
    assert all(0.3 < size < 3 for size in sizes)


@torch.no_grad()
def test_with_16_bit_weights_the_logits_stay_close() -> None:
    network, source, image = make().eval(), torch.rand(1, 2, 64, 64), torch.rand(1, 3, 64, 64)
    expected = network(source, image)
    low = choose_precision("O2", "bfloat16", torch.device("cpu")).compute_copy(network)
    for found, exact in zip(low(source.bfloat16(), image.bfloat16()), expected, strict=True):
        assert found.logits.dtype == torch.bfloat16
        torch.testing.assert_close(found.logits.float(), exact.logits, atol=0.1 * float(exact.logits.std()), rtol=0.1)


def test_no_original_program_has_it_but_other_runs_can_load_it() -> None:
    with pytest.raises(
        OriginalWeightsError, match=r"\(ProjectedDiscriminator\)\. Other runs .* init\.discriminator=RUN"
    ):
        scheme_of(make())


@pytest.mark.parametrize(
    "settings",
    [
        [*PAIRS, "data.target_channels=4"],
        [
            "method.name=cycle",
            "data.layout=unpaired_folders",
            "data.source_channels=4",
            "cycle.identity=0",
            "loss.l1=0",
        ],
    ],
)
def test_images_with_other_than_1_or_3_channels_are_refused(tiny_config: Path, settings: list[str]) -> None:
    settings = [
        *settings,
        "data.root=.",
        "discriminator.name=projected",
        "loss.feature_matching=0",
        "loss.perceptual=0",
    ]
    with pytest.raises(ConfigError, match=r"discriminator\.name .* needs images of 1 or 3 channels, .* have 4"):
        load_config(tiny_config, [*settings, "data.n_classes=0", "data.instance_edges=false"])
