import numpy as np
import pytest

from data.facades.house_front import CLASS_COLORS, SKY, WINDOW, HouseFront, draw_house_front


@pytest.fixture(scope="module")
def fronts() -> list[HouseFront]:
    return [draw_house_front(np.random.default_rng([9, index]), 128, 128) for index in range(40)]


def test_every_class_has_a_colour_and_pixels(fronts: list[HouseFront]) -> None:
    assert len(set(CLASS_COLORS.values())) == len(CLASS_COLORS)
    seen = np.unique(np.concatenate([np.unique(front.labels) for front in fronts]))
    assert seen.tolist() == list(range(len(CLASS_COLORS)))


def test_an_instance_lies_within_one_class(fronts: list[HouseFront]) -> None:
    for front in fronts[:8]:
        pairs = np.unique(np.stack([front.instances.ravel(), front.labels.ravel()]), axis=1)
        assert len(np.unique(pairs[0])) == pairs.shape[1]


def test_windows_are_instances_apart_from_one_another(fronts: list[HouseFront]) -> None:
    for front in fronts:
        is_window = front.labels == WINDOW
        assert len(np.unique(front.instances[is_window])) >= 2
        for axis in (0, 1):
            both = is_window & np.roll(is_window, 1, axis)
            np.testing.assert_array_equal(
                front.instances[both], np.roll(front.instances, 1, axis)[both], err_msg="two windows touch"
            )


def test_layouts_vary(fronts: list[HouseFront]) -> None:
    windows = {len(np.unique(front.instances[front.labels == WINDOW])) for front in fronts}
    assert len(windows) >= 8
    fills_width = [bool((front.labels[64] != SKY).all()) for front in fronts]
    assert 5 < sum(fills_width) < 35
