import numpy as np
import torch
from numpy.typing import NDArray

from data.facades.dataset import SyntheticFacades
from data.facades.house_front import CLASS_COLORS, PLANT, ROOF, SKY, WALL, WINDOW, draw_house_front
from data.facades.painting import paint, paint_winter_night


def test_light_varies_and_the_geometry_does_not_depend_on_it() -> None:
    geometry_rng, light_rng, other_light_rng = np.random.default_rng([0, 0, 4]).spawn(3)
    front = draw_house_front(geometry_rng, 128, 128)
    photo, other = (paint(rng, front) for rng in (light_rng, other_light_rng))
    assert 3 < np.abs(photo.astype(np.float64) - other).mean() < 30
    sample = SyntheticFacades(split="train", seed=0, n_samples=5, height=128, width=128).read(4)
    assert torch.equal(sample.source[0], torch.from_numpy(front.labels))
    assert torch.equal(sample.maps["instances"][0], torch.from_numpy(front.instances))
    assert torch.equal(sample.maps["target"], torch.from_numpy(photo))


def test_the_colour_of_a_surface_follows_from_its_class() -> None:
    classes, colours = [], []
    for index in range(16):
        geometry_rng, light_rng = np.random.default_rng([9, index]).spawn(2)
        front = draw_house_front(geometry_rng, 128, 128)
        photo = paint(light_rng, front)
        for surface in np.unique(front.labels):
            classes.append(surface)
            colours.append(photo[:, front.labels == surface].mean(axis=1))
    class_of, colour_of = np.array(classes), np.stack(colours)
    centres = np.stack([colour_of[class_of == surface].mean(axis=0) for surface in range(len(CLASS_COLORS))])
    nearest = np.linalg.norm(colour_of[:, None] - centres, axis=2).argmin(axis=1)
    assert (nearest == class_of).mean() > 0.85
    assert centres[:, 2].argmax() == SKY
    assert (centres[:, 0] - centres[:, 2]).argmax() == WALL
    assert (2 * centres[:, 1] - centres[:, 0] - centres[:, 2]).argmax() == PLANT


def test_a_winter_night_has_dark_skies_lit_windows_and_snow_on_roofs() -> None:
    by_class: dict[int, list[NDArray[np.float64]]] = {SKY: [], WINDOW: [], ROOF: [], WALL: []}
    for index in range(10):
        front = draw_house_front(np.random.default_rng([3, index]), 64, 64)
        day, night = (
            make(np.random.default_rng(index), front).astype(np.float64) for make in (paint, paint_winter_night)
        )
        for surface, pairs in by_class.items():
            if (front.labels == surface).any():
                pairs.append(np.stack([image[:, front.labels == surface].mean(axis=1) for image in (day, night)]))
    sky, window, roof, wall = (np.mean(pairs, axis=0) for pairs in by_class.values())
    assert sky[1].mean() < 0.3 * sky[0].mean()
    assert wall[1].mean() < 0.5 * wall[0].mean()
    assert window[1][0] > 1.3 * window[1][2]
    assert window[0][2] > window[0][0]
    assert roof[1].mean() > 1.2 * roof[0].mean()
