import pytest
import torch
from torch import nn

from models.latent_inputs import (
    MixedSeed,
    NoiseChannels,
    Seed,
    StyleStem,
    choose_style,
    draw_latents,
    given_latents,
    latent_channels,
    takes_noise,
)
from models.spade_generator import SpadeGenerator


def test_training_draws_from_torchs_generator_and_evaluation_only_when_asked() -> None:
    layer, condition = NoiseChannels(2), torch.zeros(1, 1, 2, 2)
    torch.manual_seed(0)
    drawn = [layer(condition) for _ in range(2)]
    assert not torch.equal(*drawn)
    torch.manual_seed(0)
    assert torch.equal(layer(condition), drawn[0])
    state = torch.get_rng_state()
    layer.eval()
    assert not layer(condition).any()
    draw_latents(layer, [3])
    assert torch.equal(layer(condition), layer(condition))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("drawn", ["noise_channels", "style_channels"])
def test_draws_for_an_image_depend_only_on_its_seed(drawn: str) -> None:
    sizes = {"in_channels": 2, "base_channels": 2, "n_upsamplings": 2, "hidden_channels": 4, drawn: 3}
    network = SpadeGenerator(**sizes).double().eval()  # type: ignore[arg-type]
    assert takes_noise(network) == (drawn == "noise_channels")
    source = torch.randn(1, 2, 8, 8, dtype=torch.float64)
    draw_latents(network, [1, 2])
    both = network(source.expand(2, -1, -1, -1))
    assert not torch.allclose(both[0], both[1])
    for seed, expected in zip((1, 2), both, strict=True):
        draw_latents(network, [seed])
        torch.testing.assert_close(network(source)[0], expected)


def test_mixed_seeds_have_the_same_distribution() -> None:
    stem = StyleStem(4000, 1, height=1, width=1)
    noise = NoiseChannels(4000).eval()

    def drawn(seed: Seed) -> tuple[torch.Tensor, torch.Tensor]:
        draw_latents(nn.ModuleList([stem, noise]), [seed])
        assert stem.drawn is not None
        return stem.drawn[0], noise(torch.zeros(1, 1, 1, 1))[0, :4000, 0, 0]

    for first, last, start, end, middle in zip(
        drawn(3),
        drawn(5),
        drawn(MixedSeed(3, 5, 0)),
        drawn(MixedSeed(3, 5, 1)),
        drawn(MixedSeed(3, 5, 0.5)),
        strict=True,
    ):
        assert torch.equal(start, first)
        assert torch.allclose(end, last, atol=1e-6)
        assert abs(middle.std() - 1) < 0.05
        assert (middle - first).norm() == pytest.approx((middle - last).norm().item(), rel=0.05)


def test_given_latents_replace_draws_but_not_a_chosen_style() -> None:
    stem, noise = StyleStem(3, 1, height=1, width=1), NoiseChannels(2).eval()
    network, source = nn.ModuleList([noise, stem]), torch.zeros(2, 1, 1, 1)
    values = torch.randn(2, 5)
    assert latent_channels(network) == (2, 3)
    with given_latents(network, values):
        assert torch.equal(noise(source)[:, :2, 0, 0], values[:, :2])
        assert torch.equal(stem(source), stem(source, values[:, 2:]))
    assert not noise(source).any()
    style = torch.ones(1, 3)
    choose_style(stem, style)
    assert latent_channels(network) == (2, 0)
    with given_latents(network, values[:, :2]):
        assert torch.equal(stem(source), stem(source, style))
    assert torch.equal(stem(source), stem(source, style))
