import pytest
import torch
from torch import nn

from models.layers import PairConv2d
from models.spectral_norm import add_spectral_norm
from training.model_summary import Layer, table, watched_layers


def test_each_call_of_a_layer_has_its_output_parameters_and_arithmetic() -> None:
    network = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1, stride=2),
        nn.InstanceNorm2d(4),
        nn.ConvTranspose2d(4, 2, 3, stride=2, padding=1, output_padding=1, bias=False),
    )
    with watched_layers(network) as layers:
        network(torch.zeros(2, 3, 8, 6))
    network(torch.zeros(2, 3, 8, 6))  # is not counted any more
    assert layers == [
        Layer("0", (2, 4, 4, 3), 3 * 4 * 9 + 4, 2 * 3 * 4 * 9 * 2 * 4 * 3),
        Layer("2", (2, 2, 8, 6), 4 * 2 * 9, 2 * 4 * 2 * 9 * 2 * 4 * 3),  # its weights meet each position of the input
    ]
    assert table("net", layers)[-1].split() == ["in", "all", "184", "0.000"]


def test_a_source_that_is_convolved_once_counts_once() -> None:
    convolution = PairConv2d(5, 4, kernel_size=3, padding=1)
    with watched_layers(convolution) as layers:
        convolution(torch.zeros(1, 3, 8, 8), torch.zeros(2, 2, 8, 8))
    assert layers[0].flop == 2 * 4 * 9 * 64 * (3 + 2 * 2)


def test_weights_under_spectral_norm_belong_to_their_convolution() -> None:
    network = add_spectral_norm(nn.Sequential(nn.Conv2d(3, 4, 3, bias=False)))
    with watched_layers(network) as layers:
        network(torch.zeros(1, 3, 8, 8))
    assert layers == [Layer("0", (1, 4, 6, 6), 3 * 4 * 9, 2 * 3 * 4 * 9 * 36)]


def test_networks_are_watched_side_by_side_and_compiled_ones_run_as_they_are() -> None:
    first, second = nn.Conv2d(1, 1, 1), nn.Conv2d(1, 2, 1)
    with watched_layers(first) as firsts, watched_layers(second) as seconds:
        torch.compile(nn.Sequential(first, second))(torch.zeros(1, 1, 4, 4))
    assert [layer.flop for layer in firsts + seconds] == [2 * 16, 2 * 2 * 16]


def test_after_an_error_nothing_is_watched() -> None:
    network = nn.Conv2d(1, 1, 1)
    with pytest.raises(RuntimeError), watched_layers(network) as layers:
        network(torch.zeros(1, 2, 4, 4))
    network(torch.zeros(1, 1, 4, 4))
    assert layers == []
