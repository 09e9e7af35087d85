from functools import partial

import pytest
import torch

from models.patch_discriminator import MultiscalePatchDiscriminator, PixelDiscriminator


@pytest.mark.parametrize(
    "make",
    [
        partial(MultiscalePatchDiscriminator, n_scales=1),
        partial(MultiscalePatchDiscriminator, n_scales=2),
        PixelDiscriminator,
    ],
)
def test_without_source_channels_only_the_image_is_scored(make: partial[MultiscalePatchDiscriminator]) -> None:
    torch.manual_seed(0)
    alone = make(source_channels=0, image_channels=3, base_channels=4)
    of_both = make(source_channels=2, image_channels=1, base_channels=4)
    of_both.load_state_dict(alone.state_dict())
    image = torch.randn(2, 3, 32, 40)
    for found, expected in zip(alone(torch.randn(1, 5, 7, 9), image), of_both(image[:, :2], image[:, 2:]), strict=True):
        torch.testing.assert_close(found.logits, expected.logits)
        torch.testing.assert_close(found.features, expected.features)
