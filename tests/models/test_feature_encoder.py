import torch

from models.feature_encoder import FeatureEncoder, average_in_instances


def test_features_are_averaged_in_each_instance_of_each_image() -> None:
    features = torch.randn(2, 3, 6, 8)
    instances = torch.randint(0, 4, (2, 1, 6, 8), generator=torch.Generator().manual_seed(0)) * 1000
    averaged = average_in_instances(features, instances)
    for n in range(2):
        for instance in instances[n].unique():
            region = instances[n, 0] == instance
            expected = features[n, :, region].mean(dim=1, keepdim=True).expand(-1, int(region.sum()))
            torch.testing.assert_close(averaged[n, :, region], expected)


def test_the_encoder_learns_through_the_averages() -> None:
    encoder = FeatureEncoder(base_channels=2, n_downsamplings=2)
    instances = torch.zeros(1, 1, 16, 16, dtype=torch.int64)
    instances[..., 8:] = 26001
    features = encoder(torch.randn(1, 3, 16, 16), instances)
    assert features[0, 0].unique().numel() == 2
    features[:, :, :, 0].sum().backward()
    assert all(parameter.grad is not None for parameter in encoder.parameters())
