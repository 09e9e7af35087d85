"""A predictor translates batches, keeps the generator's mode, and draws features and noise by names."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from data.batch import Batch, Sample
from data.conditioning import Conditioning
from inference.predictor import Predictor
from models.instance_features import FeatureClusters
from models.latent_inputs import NoiseChannels
from utils.device import Precision

CPU = torch.device("cpu")
RGB = Conditioning(0, instance_edges=False)
LABELS = Conditioning(3, instance_edges=True)
PICTURE = torch.arange(3 * 4 * 6, dtype=torch.uint8).view(1, 3, 4, 6) * 3
NAMES = ("a", "b")


class Seen(nn.Module):
    """Returns the first three channels of its input, and records its input and mode."""

    def forward(self, source: Tensor) -> Tensor:
        self.source, self.mode = source, self.training
        return source[:, :3]


class Drawn(nn.Module):
    """Returns its noise, which comes before the source."""

    def __init__(self) -> None:
        super().__init__()
        self.noise = NoiseChannels(3)

    def forward(self, source: Tensor) -> Tensor:
        made: Tensor = self.noise(source)
        return made[:, :3]


def predictor(generator: nn.Module, conditioning: Conditioning = RGB, **options: Any) -> Predictor:
    precision = Precision("cpu", torch.float32, "O0")
    return Predictor(generator, conditioning, precision, CPU, torch.eye(3, dtype=torch.uint8) * 200, **options)


def pictures(*names: str) -> Batch:
    return Batch(names, source=PICTURE.expand(len(names), -1, -1, -1))


@pytest.mark.parametrize("noise", [False, True])
@pytest.mark.parametrize("was_training", [False, True])
def test_the_mode_is_that_of_the_noise_and_comes_back(noise: bool, was_training: bool) -> None:
    generator = Seen().train(was_training)
    predictor(generator, noise=noise).translate(pictures("a"))
    assert generator.mode == noise
    assert generator.training == was_training


class Failing(nn.Module):
    def forward(self, source: Tensor) -> Tensor:
        raise RuntimeError


@pytest.mark.parametrize("was_training", [False, True])
def test_the_mode_comes_back_after_an_error(was_training: bool) -> None:
    generator = nn.Sequential(nn.Dropout(0.5), Failing()).train(was_training)
    with pytest.raises(RuntimeError):
        predictor(generator, noise=not was_training).translate(pictures("a"))
    assert {module.training for module in generator.modules()} == {was_training}


def test_dropout_depends_only_on_seed_and_name() -> None:
    by_seed = predictor(nn.Dropout(0.5), seed=3, noise=True)
    first, other, again = (by_seed.translate(pictures(name)) for name in ("a", "b", "a"))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert not torch.equal(first, replace(by_seed, seed=4).translate(pictures("a")))


def test_noise_channels_do_not_depend_on_the_other_images_of_a_batch() -> None:
    by_seed = predictor(Drawn(), seed=1)
    assert by_seed.takes_seed
    together = by_seed.translate(pictures(*NAMES))
    assert torch.equal(together[1:], by_seed.translate(pictures("b")))
    assert not torch.equal(together[0], together[1])
    assert not torch.equal(together, replace(by_seed, seed=2).translate(pictures(*NAMES)))
    assert not predictor(Seen(), seed=1).takes_seed


def test_sampled_features_are_channels_behind_the_condition() -> None:
    ids = torch.tensor([[0, 1, 1, 2]] * 4, dtype=torch.uint8)[None, None]
    batch = Batch(("a",), source=ids, instances=ids.int())
    clusters = FeatureClusters({number: torch.tensor([[float(number), -1.0]]) for number in range(3)})
    generator = Seen()
    predictor(generator, replace(LABELS, features="encoded"), clusters=clusters).translate(batch)
    assert generator.source.shape == (1, 4 + 2, 4, 4)
    assert torch.equal(generator.source[:, 4], ids[:, 0].float())
    assert (generator.source[:, 5] == -1).all()


def test_sources_are_shown_as_images_of_the_size_of_their_translation() -> None:
    labels = Sample("a", source=torch.tensor([[[0, 1], [2, 0]]], dtype=torch.uint8))
    shown = predictor(Seen(), LABELS).show_source(labels)
    assert shown[:, 0, 0].tolist() == [200, 0, 0]
    assert shown[:, 0, 1].tolist() == [0, 200, 0]
    assert predictor(Seen(), replace(LABELS, target_scale=2)).show_source(labels).shape == (3, 4, 4)
    picture = Sample("a", source=PICTURE[0])
    assert torch.equal(predictor(Seen()).show_source(picture), PICTURE[0])
