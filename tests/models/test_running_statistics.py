import torch
from torch import Tensor, nn

from models.running_statistics import batch_norms, estimating_statistics, untracked
from models.spade_generator import SpadeGenerator
from models.spectral_norm import add_spectral_norm
from tests.runs import assert_equal


def test_untracked_passes_leave_the_very_buffers() -> None:
    network = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2), nn.BatchNorm2d(2, track_running_stats=False))
    (norm,) = batch_norms(network)
    before = {name: (buffer, buffer.clone()) for name, buffer in network.named_buffers()}
    with untracked([norm]), untracked([norm]):
        network(torch.randn(3, 1, 4, 4))
    assert len(before) == 3
    for name, buffer in network.named_buffers():
        assert buffer is before[name][0], name
        assert torch.equal(buffer, before[name][1]), name
    network(torch.randn(3, 1, 4, 4))
    assert norm.num_batches_tracked == 1


def test_statistics_are_the_mean_over_the_passes_within() -> None:
    torch.manual_seed(0)
    network = SpadeGenerator(in_channels=3, base_channels=2, n_upsamplings=3, hidden_channels=8, norm="batch")
    add_spectral_norm(network)
    dropout = nn.Dropout(0.5)
    norms = batch_norms(network)
    before = {name: buffer.clone() for name, buffer in network.named_buffers()}
    inputs: list[Tensor] = []
    norms[0].register_forward_hook(lambda _module, args, _output: inputs.append(args[0]))
    batches = torch.randn(3, 2, 3, 16, 16)
    with estimating_statistics(nn.ModuleList([network, dropout])), torch.no_grad():
        assert not dropout.training
        for batch in batches:
            network(batch)
    means, variances = (torch.stack([f(x) for x in inputs]).mean(dim=0) for f in (channel_mean, channel_variance))
    torch.testing.assert_close(norms[0].running_mean, means)
    torch.testing.assert_close(norms[0].running_var, variances)
    assert all(module.training for module in (network, dropout, *norms))
    assert all(norm.momentum == 0.1 for norm in norms)
    for name, buffer in network.named_buffers():  # the vectors of spectral norm among them
        is_estimated = name.endswith(("running_mean", "running_var"))
        assert torch.equal(buffer, before[name]) != is_estimated, name


def channel_mean(x: Tensor) -> Tensor:
    return x.mean(dim=(0, 2, 3))


def channel_variance(x: Tensor) -> Tensor:
    return x.var(dim=(0, 2, 3))


def test_a_pass_that_overflows_does_not_count() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2))
    batches = list(torch.randn(3, 2, 1, 4, 4))
    estimates = []
    for passes in ([*batches], [batches[0] * torch.inf, *batches[:2], batches[2] * torch.nan, batches[2]]):
        with estimating_statistics(network):
            for batch in passes:
                network(batch)
        estimates.append({name: buffer.clone() for name, buffer in network.named_buffers()})
    assert_equal(estimates[0], estimates[1])
