import pytest
import torch

from models.unet_generator import UnetGenerator


@pytest.mark.parametrize(("n_downsamplings", "n_parameters"), [(8, 54_413_955), (7, 41_828_995)])
def test_full_size_unets_have_the_originals_parameters(n_downsamplings: int, n_parameters: int) -> None:
    with torch.device("meta"):
        generator = UnetGenerator(in_channels=3, n_downsamplings=n_downsamplings)
    assert sum(parameter.numel() for parameter in generator.parameters()) == n_parameters


def test_a_unet_needs_five_levels() -> None:
    with pytest.raises(ValueError, match="at least 5 downsamplings, not 4"):
        UnetGenerator(in_channels=3, n_downsamplings=4)


def test_dropout_is_noise_in_training_and_none_in_evaluation() -> None:
    generator = UnetGenerator(in_channels=3, base_channels=2, n_downsamplings=6, norm="instance")
    source = torch.randn(1, 3, 128, 128)
    assert not torch.equal(generator(source), generator(source))
    generator.eval()
    assert torch.equal(generator(source), generator(source))
