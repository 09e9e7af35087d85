import torch

from models.unet_generator import UnetGenerator


def test_dropout_is_noise_in_training_and_none_in_evaluation() -> None:
    generator = UnetGenerator(in_channels=3, base_channels=2, n_downsamplings=6, norm="instance")
    source = torch.randn(1, 3, 128, 128)
    assert not torch.equal(generator(source), generator(source))
    generator.eval()
    assert torch.equal(generator(source), generator(source))
