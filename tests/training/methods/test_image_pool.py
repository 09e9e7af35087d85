"""The pool of earlier translations."""

import pytest
import torch
from torch import Tensor

from training.methods.image_pool import ImagePool

CPU = torch.device("cpu")


def pair(value: int, n: int = 1) -> tuple[Tensor, Tensor]:
    """A source and a translation that belong together."""
    return torch.full((n, 2, 4, 4), float(value)), torch.full((n, 3, 4, 4), -float(value))


def test_full_pool_shows_earlier_images_with_their_sources_half_of_the_time() -> None:
    torch.manual_seed(0)
    pool = ImagePool(5)
    n_earlier, seen = 0, []
    for value in range(400):
        source, fake = pool.exchange(*pair(value))
        assert torch.equal(source[:, :1], -fake[:, :1])
        judged = int(source.mean())
        assert judged <= value if value >= 5 else judged == value
        n_earlier += judged < value
        seen += [judged] if value >= 5 else []
    assert 150 < n_earlier < 245
    assert len(set(seen)) == len(seen)  # what was judged once the pool was full has left it


def test_a_batch_is_exchanged_image_by_image_and_without_graph() -> None:
    torch.manual_seed(0)
    pool = ImagePool(2)
    pool.exchange(*pair(1, n=2))
    source, fake = pair(2, n=16)
    exchanged, images = pool.exchange(source, fake.bfloat16().requires_grad_())
    assert exchanged.shape == source.shape
    assert {1.0, 2.0} == set(exchanged.flatten().tolist())
    assert (images.requires_grad, images.dtype) == (False, torch.float32)


def test_a_batch_keeps_its_size_and_another_size_leaves_the_pool() -> None:
    torch.manual_seed(0)
    pool = ImagePool(2)
    pool.exchange(*pair(1, n=2))
    for _ in range(20):
        source, _ = pool.exchange(torch.zeros(2, 2, 8, 8), torch.zeros(2, 3, 8, 8))
        assert source.shape == (2, 2, 8, 8)
    assert all(source.shape[-1] == 8 for source, _ in pool.state_dict())


def test_one_image_may_be_exchanged_for_one_of_another_size() -> None:
    torch.manual_seed(0)
    pool = ImagePool(1)
    pool.exchange(*pair(1))
    sizes = {pool.exchange(torch.zeros(1, 2, 8, 8), torch.zeros(1, 3, 8, 8))[0].shape[-1] for _ in range(20)}
    assert sizes == {4, 8}


def test_pool_continues_from_its_state() -> None:
    pool, other = ImagePool(4), ImagePool(4)
    pool.exchange(*pair(7, n=4))
    other.load_state_dict(pool.state_dict(), CPU)
    for one in (pool, other):
        torch.manual_seed(1)
        assert 7 in one.exchange(*pair(8, n=8))[0].flatten().tolist()
    smaller = ImagePool(2)
    smaller.load_state_dict(pool.state_dict(), CPU)
    assert len(smaller.state_dict()) == 2


def test_pool_copies_the_state_that_it_loads() -> None:
    pool, saved = ImagePool(1), [pair(1)]
    pool.load_state_dict(saved, CPU)
    saved[0][0].zero_()
    assert (pool.state_dict()[0][0] == 1).all()


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
