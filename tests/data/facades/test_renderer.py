import numpy as np
import pytest

from data.facades.canvas import FacadeClass
from data.facades.renderer import CLASS_COLORS, CLASS_NAMES, Facade, render_facade


@pytest.fixture(scope="module")
def facades() -> list[Facade]:
    return [render_facade(np.random.default_rng([9, index]), 128, 128) for index in range(40)]


def test_every_class_has_a_name_a_colour_and_pixels(facades: list[Facade]) -> None:
    assert len(CLASS_NAMES) == len(set(CLASS_NAMES)) == len(np.unique(CLASS_COLORS, axis=0)) >= 8
    assert CLASS_COLORS.dtype == np.uint8
    seen = np.unique(np.concatenate([np.unique(facade.labels) for facade in facades]))
    assert seen.tolist() == list(range(len(CLASS_NAMES)))


def test_an_instance_lies_within_one_class(facades: list[Facade]) -> None:
    for facade in facades:
        pairs = np.unique(np.stack([facade.instances.ravel(), facade.labels.ravel()]), axis=1)
        assert len(np.unique(pairs[0])) == pairs.shape[1]


def test_windows_are_instances_apart_from_one_another(facades: list[Facade]) -> None:
    for facade in facades:
        is_window = facade.labels == FacadeClass.WINDOW
        assert len(np.unique(facade.instances[is_window])) >= 2
        for axis in (0, 1):
            both = is_window & np.roll(is_window, 1, axis)
            np.testing.assert_array_equal(
                facade.instances[both], np.roll(facade.instances, 1, axis)[both], err_msg="two windows touch"
            )


def test_layouts_vary(facades: list[Facade]) -> None:
    windows = {len(np.unique(facade.instances[facade.labels == FacadeClass.WINDOW])) for facade in facades}
    assert len(windows) >= 8
    fills_width = [bool((facade.labels[64] != FacadeClass.SKY).all()) for facade in facades]
    assert 5 < sum(fills_width) < 35


def test_the_colour_of_a_surface_follows_from_its_class(facades: list[Facade]) -> None:
    kinds, colours = zip(
        *[
            (kind, facade.photo[facade.labels == kind].mean(axis=0))
            for facade in facades
            for kind in np.unique(facade.labels)
        ],
        strict=True,
    )
    kind_of, colour_of = np.array(kinds), np.stack(colours)
    centres = np.stack([colour_of[kind_of == kind].mean(axis=0) for kind in range(len(CLASS_NAMES))])
    nearest = np.linalg.norm(colour_of[:, None] - centres, axis=2).argmin(axis=1)
    assert (nearest == kind_of).mean() > 0.85
    assert centres[:, 2].argmax() == FacadeClass.SKY
    assert (centres[:, 0] - centres[:, 2]).argmax() == FacadeClass.WALL
    assert (2 * centres[:, 1] - centres[:, 0] - centres[:, 2]).argmax() == FacadeClass.PLANT
