from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from inference.load import load_generator
from tests.runs import run
from training.ema import make_average
from utils.checkpoint_folder import checkpoint_path


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


def test_sigma_is_that_of_the_averaged_weights(tiny_config: Path) -> None:
    run(tiny_config, "generator.spectral_norm=true", "train.ema_decay=0.5", "optimizer.learning_rate=1e-3")
    file = checkpoint_path(tiny_config.parent / "runs" / "tiny", 4)
    deviations = []
    for raw_weights in (False, True):
        network = load_generator(file, raw_weights=raw_weights).generator.eval()
        convolutions = [module for module in network.modules() if is_parametrized(module, "weight")]
        sigmas = [
            torch.linalg.matrix_norm(
                cast(Tensor, part.weight).transpose(0, int(isinstance(part, nn.ConvTranspose2d))).flatten(1), 2
            )
            for part in convolutions
        ]
        deviations.append(max(abs(sigma.item() - 1) for sigma in sigmas))
    assert deviations[0] < 1e-3 < deviations[1]
