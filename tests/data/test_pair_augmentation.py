from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch

from data.batch import Batch, Sample
from data.facades.dataset import SyntheticFacades
from data.layout import Layout, Origin
from data.loader import TrainingDataset, read_fixed, training_batches
from data.pair_augmentation import NO_CHANGE, PairAugmentation
from data.preprocessing import Preprocessing, place
from data.sampler import SampleKey, TrainingSampler
from tests.runs import assert_equal

ALL = PairAugmentation(
    rotation_degrees=[-20, 20],
    scale=[0.7, 1.4],
    shear_degrees=[-10, 10],
    elastic=[0, 0.1],
    vertical_flip=True,
    quarter_turns=True,
    color=[0.6, 1.5],
    hue=[-0.1, 0.1],
    noise=[0, 0.05],
    jpeg_quality=[30, 90],
)
PLAIN = Preprocessing(
    mode="crop", load_height=1, load_width=1, crop_height=48, crop_width=48, flip=True, size_multiple=8, min_size=16
)
AUGMENTED = replace(PLAIN, augmentation=ALL)


def facades(n_samples: int = 5) -> SyntheticFacades:
    return SyntheticFacades(split="train", seed=0, n_samples=n_samples, height=64, width=96)


class Pairs(Layout):
    """Photos of the facades as sources and as targets."""

    names = tuple(f"p{number}" for number in range(5))

    def origin(self, index: int) -> Origin:
        return Origin(f"photo {index}")

    def read(self, index: int) -> Sample:
        photo = facades().read(index).target
        assert photo is not None
        return Sample(self.names[index], photo, None, photo)


def batches(layout: Layout, n_batches: int, *, n_workers: int, rank: int = 0, world_size: int = 1) -> list[Batch]:
    size = 2 // world_size
    sampler = TrainingSampler(
        n_samples=len(layout), batch_size=size, seed=0, rank=rank, world_size=world_size, first_batch=0
    )
    dataset = TrainingDataset(layout, AUGMENTED, seed=0)
    return list(islice(training_batches(dataset, sampler, n_workers=n_workers, pin_memory=False), n_batches))


def test_off_the_draws_are_those_without_it() -> None:
    sample = facades().read(0)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        placement = PLAIN.draw(sample, rng).source
        assert placement.change == NO_CHANGE
        drawn = rng.random()
        other = np.random.default_rng(seed)
        flip = bool(other.random() < 0.5)
        window = int(other.integers(64 - 48 + 1)), int(other.integers(96 - 48 + 1))
        assert (placement.flip, placement.top, placement.left) == (flip, *window)
        assert other.random() == drawn  # nothing else has been drawn
        augmented = AUGMENTED.draw(sample, np.random.default_rng(seed)).source
        assert replace(augmented, change=NO_CHANGE) == placement  # crop and mirroring stay


@pytest.mark.parametrize("height", [48, 32])
def test_all_maps_are_warped_and_turned_alike(height: int) -> None:
    """The maps hold smooth functions of the place: from the source follow the others."""
    row, column = torch.meshgrid(torch.arange(64), torch.arange(96), indexing="ij")
    ids = (row // 8 * 12 + column // 8)[None]
    rgb = torch.stack([row * 3, column * 2, row + column]).to(torch.uint8)
    sample = Sample("s", ids.to(torch.uint8), ids.to(torch.int32) + 2**24, rgb, ids.expand(3, -1, -1).to(torch.uint8))
    settings = replace(AUGMENTED, crop_height=height)
    seen = set()
    for seed in range(12):
        placements = settings.draw(sample, np.random.default_rng(seed))
        placed = place(sample, placements, source_is_ids=True)
        assert placed.instances is not None
        assert placed.target is not None
        assert placed.features is not None
        assert placed.source.shape == (1, height, 48)
        assert placed.target.shape == placed.features.shape == (3, height, 48)
        assert torch.equal(placed.source.int() + 2**24, placed.instances)
        assert torch.equal(placed.features, placed.source.expand(3, -1, -1))
        of_target = placed.target[0] // 3 // 8 * 12 + placed.target[1] // 2 // 8
        assert float((of_target == placed.source[0]).float().mean()) > 0.85  # but at the borders of squares
        change = placements.target.change
        seen.add((change.n_quarter_turns, change.vertical_flip))
    assert {turns for turns, _ in seen} == ({0, 1, 2, 3} if height == 48 else {0, 2})
    assert {is_flipped for _, is_flipped in seen} == {False, True}


def test_only_the_source_changes_its_colors() -> None:
    colors = replace(PLAIN, augmentation=PairAugmentation(color=[0.5, 0.6], noise=[0.1, 0.1], jpeg_quality=[20, 20]))
    dataset, plain = TrainingDataset(Pairs(), colors, 0), TrainingDataset(Pairs(), PLAIN, 0)
    changed, expected = dataset[SampleKey(0, 1)], plain[SampleKey(0, 1)]
    assert isinstance(changed, Sample)
    assert isinstance(expected, Sample)
    assert changed.target is not None
    assert expected.target is not None
    assert torch.equal(changed.target, expected.target)
    assert changed.source.float().mean() < 0.8 * expected.source.float().mean()


def test_a_sample_without_augmentation_for_validation() -> None:
    layouts: list[Layout] = [facades(), Pairs()]
    for layout in layouts:
        assert_equal(vars(read_fixed(layout, AUGMENTED, 1)), vars(read_fixed(layout, PLAIN, 1)))


@pytest.mark.parametrize("layout", [facades(), Pairs()], ids=["labels", "images"])
def test_a_draw_depends_on_seed_epoch_and_index_alone(layout: Layout) -> None:
    here, in_processes = (batches(layout, 4, n_workers=n) for n in (0, 2))
    for first, second in zip(here, in_processes, strict=True):
        assert_equal(vars(first), vars(second))
    of_ranks = [batches(layout, 4, n_workers=0, rank=rank, world_size=2) for rank in (0, 1)]
    for number, batch in enumerate(here):
        for name, source in zip(batch.names, batch.source, strict=True):
            (found,) = [b.source[0] for b in (ranks[number] for ranks in of_ranks) if b.names == (name,)]
            assert torch.equal(found, source)
    keys = [(0, 0), (0, 0), (0, 1), (1, 0)]  # seeds and epochs
    drawn = [TrainingDataset(layout, AUGMENTED, seed)[SampleKey(epoch, 2)] for seed, epoch in keys]
    first_draw, again, *others = (sample for sample in drawn if isinstance(sample, Sample))
    assert_equal(vars(first_draw), vars(again))
    assert [torch.equal(first_draw.source, other.source) for other in others] == [False, False]


@pytest.mark.parametrize("layout", [facades(), Pairs()], ids=["labels", "images"])
def test_the_number_of_threads_changes_nothing(layout: Layout) -> None:
    large = replace(AUGMENTED, mode="resize_and_crop", load_height=512, load_width=512, crop_height=384, crop_width=384)
    dataset = TrainingDataset(layout, large, 0)
    n_threads = torch.get_num_threads()
    try:
        torch.set_num_threads(4)
        several = [vars(dataset[SampleKey(0, index)]) for index in range(3)]
    finally:
        torch.set_num_threads(n_threads)
    assert_equal([vars(dataset[SampleKey(0, index)]) for index in range(3)], several)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"scale": [0.5, 2]}, 0.5),
        ({"scale": [1.5, 1.5]}, 1.0),
        ({"scale": [0.5, 1]}, 0.0),
    ],
)
def test_enlarging_is_as_likely_as_its_inverse(settings: dict[str, list[float]], expected: float) -> None:
    rng, augmentation = np.random.default_rng(0), PairAugmentation(scale=settings["scale"])
    warps = [augmentation.draw(8, 8, rng).warp for _ in range(400)]
    assert all(warp is not None for warp in warps)
    larger = [warp.inverse[0][0] < 1 for warp in warps if warp]
    assert np.mean(larger) == pytest.approx(expected, abs=0.08)
