import pytest
import torch

from models.patch_discriminator import MultiscalePatchDiscriminator

ORIGINAL_PARAMETERS = {2: 5_603_202, 3: 8_404_803}  # by number of scales, 39 channels
BIASES_BEFORE_NORMS = 128 + 256 + 512  # of each scale


@pytest.mark.parametrize("n_scales", ORIGINAL_PARAMETERS)
def test_the_full_size_has_the_originals_parameters(n_scales: int) -> None:
    discriminator = MultiscalePatchDiscriminator(source_channels=36, n_scales=n_scales)
    count = sum(parameter.numel() for parameter in discriminator.parameters())
    assert count == ORIGINAL_PARAMETERS[n_scales] - n_scales * BIASES_BEFORE_NORMS


def test_patches_of_a_1024x512_image_are_the_originals() -> None:
    discriminator = MultiscalePatchDiscriminator(source_channels=3, base_channels=2)
    full, half = discriminator(torch.zeros(1, 3, 512, 1024), torch.zeros(1, 3, 512, 1024))
    assert full.logits.shape == (1, 1, 67, 131)
    assert half.logits.shape == (1, 1, 35, 67)
    assert len(full.features) == 4


def test_chunks_are_the_outputs_of_the_first_and_the_last_images() -> None:
    discriminator = MultiscalePatchDiscriminator(source_channels=1, base_channels=2).double()
    source, image = torch.randn(4, 1, 32, 32).double(), torch.randn(4, 3, 32, 32).double()
    first = discriminator(source[:2], image[:2])
    last = discriminator(source[2:], image[2:])
    for joint, alone_first, alone_last in zip(discriminator(source, image), first, last, strict=True):
        for half, alone in zip(joint.chunk(2), (alone_first, alone_last), strict=True):
            torch.testing.assert_close(half.logits, alone.logits)
            torch.testing.assert_close(half.features, alone.features)
