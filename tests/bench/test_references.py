"""The bench's plain loaders and updates compute what this project's do, so that only time and memory differ."""

from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from bench.cases import CUT, CYCLE, SMALL, Case
from bench.data import rows_of, samples_per_s, sides_of
from bench.references import OF_UNPAIRED, LabelMapFolders, Maps, ReferenceUpdate, as_in_the_originals, reference_batches
from bench.train_step import make_reference
from configs import build
from configs.load import config_from_dict, config_to_dict
from configs.schema import Config
from configs.splits import open_split
from data.batch import Sample
from data.conditioning import images_to_float
from data.loader import read_fixed
from losses.objective import LossInputs
from losses.perceptual import VGG19Loss
from tests.training.methods.test_paired_update import make_pair, make_update, update_of
from training.methods import METHODS
from training.methods.builder import unpaired_layout_on_cpu
from training.methods.contrastive import Contrastive
from training.methods.cycle import Cycle
from training.methods.method import Pair
from utils.distributed import World

TWO_LEVELS = 2 / 127.5


def read_ours(*settings: str) -> Sample:
    config = config_from_dict(config_to_dict(Config()), "bench", settings)
    layout = open_split(config, "train", needs_targets=True)
    return read_fixed(layout, build.build_preprocessing(config), 0)


def both_ways(read: Callable[[], Maps], name: str) -> tuple[Maps, Maps]:
    """Return a sample unchanged and mirrored, as drawn at random, in either order; `name` is a map that differs."""
    first = read()
    for _ in range(50):
        other = read()
        if not torch.equal(first[name], other[name]):
            return first, other
    pytest.fail("never mirrored")


def assert_one_is_close(found: tuple[Tensor, Tensor], expected: Tensor) -> None:
    torch.testing.assert_close(found[0], found[1].flip(-1), rtol=0, atol=TWO_LEVELS)
    assert min((image - expected).abs().max().item() for image in found) <= TWO_LEVELS


def test_label_maps_are_read_as_by_this_project(label_data_set: Path) -> None:
    settings = ["data.layout=paired_folders", "data.n_classes=5", "data.instance_edges=true", "data.load_width=32"]
    ours = read_ours(f"data.root={label_data_set}", *settings, "generator.n_downsamplings=2")
    dataset = LabelMapFolders(label_data_set, width=32)
    assert len([*islice(reference_batches(dataset, n_workers=0), 7)]) == 7  # it goes on after an epoch of 3
    samples = both_ways(lambda: dataset[0], "label")
    as_is = min(samples, key=lambda sample: (sample["label"] - ours.source).abs().sum().item())
    assert as_is["label"].shape == (1, 16, 32)
    torch.testing.assert_close(as_is["label"], ours.source.float())
    assert torch.equal(as_is["inst"].int(), ours.maps["instances"])
    assert_one_is_close((samples[0]["image"], samples[1]["image"]), images_to_float(ours.maps["target"]))


@pytest.mark.usefixtures("cached_vgg19")
def test_the_loss_of_vgg19_is_that_of_this_project() -> None:
    settings = [*SMALL, "loss.perceptual=10"]
    reference = make_reference(config_from_dict(config_to_dict(Config()), "bench", settings), torch.device("cpu"))
    fake, target = torch.rand(2, 1, 3, 32, 32) * 2 - 1
    loss = VGG19Loss(activation_checkpointing=False)
    expected = 10 * loss(LossInputs(fake, target, target, discriminate_fake=list, discriminate_target=list))
    assert isinstance(reference, ReferenceUpdate)
    torch.testing.assert_close(reference.vgg_losses(fake, target), {"VGG": expected})


def test_every_side_of_a_layout_is_opened(label_data_set: Path, tmp_path: Path) -> None:
    with sides_of(label_data_set, tmp_path) as sides:
        assert list(sides) == ["reference", "decoded", "cache memory", "cache disk"]
        assert len({path.stat().st_ino for path in (tmp_path / "cache").rglob("*.pt")}) == 3
        assert all(samples_per_s(open_loader, 0, turn_s=0.0) > 0 for open_loader in sides.values())
    assert not list(tmp_path.rglob("*.pt"))


def test_loaders_are_compared_with_the_reference_of_as_many_workers() -> None:
    speeds = {"reference": [1.0, 2.0, 1.0], "decoded": [3.0, 4.0, 3.0]}
    reference, decoded = rows_of(2, speeds)
    assert decoded == {"side": "decoded", "workers": 2, "samples/s": 3.0, "times as fast": 3.0}
    assert list(reference.values()) == ["reference", 2, 1.0, 1.0]


@pytest.mark.parametrize("settings", [CUT, CYCLE])
def test_unpaired_updates_of_the_bench_are_those_of_the_originals(settings: list[str]) -> None:
    small = ("generator.base_channels=2", "generator.n_blocks=5", "discriminator.base_channels=2")
    case = Case("tiny", 32, 32, batch_size=2, settings=(*settings, *small))
    config, world = case.config("amp.opt_level=O0"), World(0, 1, torch.device("cpu"))
    method, plain = (METHODS[config.method.name](config, world) for _ in range(2))
    networks: list[Any] = [as_in_the_originals(network.module.double()) for network in plain.networks.values()]
    reference = OF_UNPAIRED[config.method.name](*networks)
    assert isinstance(method, Contrastive | Cycle)
    for network in method.networks.values():
        network.module.double()
    for seed in range(2):
        torch.manual_seed(seed)
        pair = Pair(*(torch.rand(2, 2, 3, 32, 32).double() * 2 - 1))
        for step in (partial(reference.step, pair.source, pair.target), partial(method.update, [[pair]])):
            torch.manual_seed(seed)
            step()
    for network, expected in zip(method.networks.values(), networks, strict=True):
        found, wanted = network.module.state_dict(), expected.state_dict()
        for state in (found, wanted):
            state.pop("stem.1.bias", None)  # a norm cancels it, so that its gradient is rounding noise
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
        kernels = [weight for weight in network.module.parameters() if weight.ndim == 4]
        assert all(kernel.is_contiguous(memory_format=unpaired_layout_on_cpu()) for kernel in kernels)


def test_both_sides_of_the_bench_make_the_same_update() -> None:
    weights = {"adversarial": 1.0, "feature_matching": 10.0, "l1": 5.0}
    ours, plain = make_update(weights=weights), make_update(weights=weights)
    reference = ReferenceUpdate(plain.generator.module, plain.discriminator.trained.module, vgg=None, l1=5.0)
    for _ in range(3):
        source, target = make_pair()
        reference.step(source, target)
        ours.joint_update(update_of([(source, target)]))
    for found, expected in zip(ours.networks.values(), plain.networks.values(), strict=True):
        torch.testing.assert_close(found.module.state_dict(), expected.module.state_dict(), rtol=1e-7, atol=1e-9)
