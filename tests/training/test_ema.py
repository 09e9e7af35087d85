import torch
from torch import nn

from training.ema import make_average


def test_the_average_follows_the_weights_by_its_decay() -> None:
    network = nn.Conv2d(1, 1, 1, bias=False)
    average = make_average(network, decay=0.9)
    expected, weights = None, torch.randn(5, generator=torch.Generator().manual_seed(0))
    for weight in weights:
        network.weight.data.fill_(weight)
        average.update_parameters(network)
        expected = weight if expected is None else 0.9 * expected + 0.1 * weight
    assert expected is not None
    torch.testing.assert_close(average.module.state_dict()["weight"].flatten()[0], expected)
    assert not any(parameter.requires_grad for parameter in average.parameters())


def test_statistics_are_taken_over() -> None:
    network = nn.BatchNorm2d(2)
    average = make_average(network, decay=0.9)
    network(torch.randn(4, 2, 3, 3))
    average.update_parameters(network)
    assert torch.equal(average.module.state_dict()["running_mean"], network.state_dict()["running_mean"])
