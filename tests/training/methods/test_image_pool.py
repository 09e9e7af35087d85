"""The pool of earlier translations."""

import pytest
import torch

from training.methods.image_pool import ImagePool

CPU = torch.device("cpu")


@pytest.mark.parametrize("n_images", [1, 2])
def test_translations_with_other_channels_are_dropped(n_images: int) -> None:
    pool = ImagePool(1)
    source, fake = torch.ones(n_images, 1, 4, 4), torch.ones(n_images, 3, 4, 4)
    for _ in range(16):
        pool.load_state_dict([(torch.zeros(1, 2, 4, 4), torch.zeros(1, 5, 4, 4))], CPU)
        conditions, shown = pool.exchange(source, fake)
        assert (conditions.shape, shown.shape) == (source.shape, fake.shape)


@pytest.mark.parametrize("shape", [(3, 4, 4), (2, 3, 4, 4)])
def test_a_state_that_holds_no_single_images_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="pairs of images"):
        ImagePool(2).load_state_dict([(torch.zeros(shape), torch.zeros(shape))], CPU)
